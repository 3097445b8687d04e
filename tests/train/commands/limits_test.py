"""What the system limits: threads by OMP_NUM_THREADS and CPU quota, memory by ulimit -v and control groups.

Usage: limits_test.py PATH_OF_HEED

Every refusal must be one line with exit code 5, come before the first step, and leave nothing behind that stops a
second try.
"""

import os
import pathlib
import resource
import shutil
import subprocess
import unittest

from command_line import HEED, InFolder

MIB = 1 << 20

TINY = """
[model]
num_layers = 1
num_heads = 2
d_model = 16
seq_len = 8
[data]
source = "text"
path = "abcd.txt"
val_fraction = 0
[train]
steps = 3
batch_size = 4
device = "cpu"
plot = false
"""

# 6.3 million parameters: 96 MiB with gradients and moments, 72 MiB a checkpoint.
LARGE = ["model.d_model=512", "model.num_layers=2"]
# Learning rates that differ divide the moments, 48 MiB, into parts, which a save copies.
LARGE_IN_PARTS = [*LARGE, "embedding_lr_scale=2"]


class Limits(InFolder):
    CONFIG = TINY

    def setUp(self):
        super().setUp()
        (self.folder / "abcd.txt").write_text("abcd" * 500)
        self.run_dir = self.folder / "runs" / "tiny"
        self.last = self.run_dir / "checkpoints" / "last.h5"

    def run_heed(self, *arguments, address_space=None, group=None, threads="1"):
        def limit():
            if address_space is not None:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        if threads is not None:
            environment["OMP_NUM_THREADS"] = threads
        return subprocess.run([HEED, *map(str, arguments)], cwd=self.folder, env=environment, preexec_fn=limit,
                              capture_output=True, text=True, timeout=120)

    def train(self, *arguments, **limits):
        return self.run_heed("train", "tiny.toml", *arguments, **limits)

    def assert_no_step(self, result):
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertNotIn("step ", result.stdout)
        lines = [line for line in result.stderr.splitlines() if not line.startswith("heed: notice: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("heed: out of memory"), result.stderr)

    def assert_refused(self, result, *parts):
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("heed: out of memory"), result.stderr)
        self.assertNotIn("step ", result.stdout)
        for part in parts:
            self.assertIn(part, result.stderr)


class Threads(Limits):
    def cpu(self, **how):
        result = self.run_heed("info", **how)
        self.assertEqual(result.returncode, 0, result.stderr)
        line = next(line for line in result.stdout.splitlines() if line.startswith("CPU "))
        return line[len("CPU "):].split(" by ")[0].strip()

    def test_values_that_say_nothing(self):
        unset = self.cpu(threads=None)
        for value in ("", " ", "0", "-1", "abc", "1.5", "500m"):
            self.assertEqual(self.cpu(threads=value), unset, value)

    def test_values_that_count(self):
        self.assertEqual(self.cpu(threads="1"), "1 thread (OMP_NUM_THREADS)")
        self.assertEqual(self.cpu(threads="2,3"), "2 threads (OMP_NUM_THREADS)")
        cpus = len(os.sched_getaffinity(0))
        self.assertEqual(self.cpu(threads=str(2 * cpus)), f"{2 * cpus} threads (OMP_NUM_THREADS)")

    def test_absurd_values_train_with_fewer(self):
        most = 4 * len(os.sched_getaffinity(0))
        for value in ("100000", "2147483648"):
            self.assertEqual(self.cpu(threads=value).split(",")[0], f"{most} threads (OMP_NUM_THREADS = {value}")
            result = self.train("run_dir=" + value, threads=value)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_quota_of_one_cpu(self):
        group = Group.make(self, "cpu", {"cpu.cfs_quota_us": "100000"}, {"cpu.max": "100000 100000"})
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("there is one CPU anyway")
        self.assertRegex(self.cpu(threads=None, group=group), r"^1 thread \(CPU quota 1\.0 of \d+ CPUs\)$")
        self.assertRegex(self.cpu(threads="0", group=group), r"^1 thread \(CPU quota")
        self.assertEqual(self.cpu(threads="2", group=group), "2 threads (OMP_NUM_THREADS)")


    def test_ranks_share_the_processors(self):
        if shutil.which("mpirun") is None or "no MPI" in self.run_heed("info").stdout:
            self.skipTest("no MPI")
        cpus = len(os.sched_getaffinity(0))
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", HEED, "train", "tiny.toml"]
        for value, expected in (("", max(1, cpus // 2)), ("0", max(1, cpus // 2)), ("2", 2)):
            result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120,
                                    env={**os.environ, **allowed, "OMP_NUM_THREADS": value})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, rf"\b{expected} threads?\b", f"OMP_NUM_THREADS={value}")


class Group:
    """A control group of this test's own, where the machine lets it make one."""

    @staticmethod
    def make(test, controller, version_1, version_2):
        top = pathlib.Path("/sys/fs/cgroup")
        old = (top / controller).is_dir()
        folder = (top / controller if old else top) / f"heed-test-{os.getpid()}"
        try:
            folder.mkdir()
            test.addCleanup(folder.rmdir)
            for name, value in (version_1 if old else version_2).items():
                (folder / name).write_text(value)
        except OSError as error:
            test.skipTest(f"no control group can be made here: {error}")
        return folder


class Memory(Limits):
    base = None  # address space of a run of nearly nothing

    def setUp(self):
        super().setUp()
        if self.run_heed("info", address_space=1 << 36).returncode != 0:
            self.skipTest("no program of this build runs with little address space: it has a sanitizer")
        if Memory.base is None:
            Memory.base = self.peak_address_space()

    def peak_address_space(self):
        process = subprocess.Popen([HEED, "train", "tiny.toml", "steps=1000000", "log_interval=1", "run_dir=base"],
                                   cwd=self.folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in process.stdout:
            if line.startswith("step"):
                break
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        process.kill()
        process.communicate()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmPeak:"))

    def train_with(self, mebibytes, *arguments):
        return self.train(*arguments, address_space=self.base + mebibytes * MIB)

    def test_the_checkpoint_counts_before_the_first_step(self):
        result = self.train_with(130, *LARGE_IN_PARTS)
        self.assert_refused(result, "before the first step", "checkpoint", "ulimit -v", "model.d_model", "MiB free of")
        self.assertFalse(self.run_dir.exists())
        # From too little to enough: never a step that is lost.
        codes = []
        for mebibytes in range(150, 210, 4):
            result = self.train_with(mebibytes, *LARGE_IN_PARTS)
            codes.append(result.returncode)
            if result.returncode == 0:
                break
            self.assert_no_step(result)
            self.assertFalse(self.run_dir.exists())
        self.assertEqual(codes[-1], 0, codes)
        self.assertTrue(self.last.exists())

    def test_a_resume_that_does_not_fit_loses_nothing(self):
        self.assertEqual(self.train(*LARGE, "stop_after=2").returncode, 0)
        before = self.last.read_bytes()
        self.assert_refused(self.train_with(225, *LARGE, "--resume"), "last.h5", "ulimit -v")
        self.assertEqual(self.last.read_bytes(), before)
        result = self.train_with(320, *LARGE, "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_save_takes_the_memory_of_the_activations(self):
        # Weights, gradients and moments have 104 MiB as the pool cuts them, activations 148; with the copies of a save,
        # 48 MiB, in addition they would not fit.
        result = self.train_with(320, *LARGE_IN_PARTS, "batch_size=256", "steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_never_a_crash(self):
        # oneDNN without memory for its machine code ended the program with SIGSEGV.
        for mebibytes in range(250, 310, 10):
            result = self.train_with(mebibytes, *LARGE, "batch_size=256", "steps=1", "optimizer=muon")
            self.assertIn(result.returncode, (0, 5), f"{mebibytes} MiB: {result.stderr}")

    def test_a_text_that_does_not_fit(self):
        text = self.folder / "text.txt"
        with open(text, "w") as file:
            for number in range(20 * MIB // 64):
                file.write(f"{number:063x}\n")
        for arguments in (["tokenizer=char"], ["tokenizer=byte"], ["tokenizer=char", "split=lines"]):
            with self.subTest(arguments):
                result = self.train_with(60, "data.path=text.txt", *arguments)
                self.assert_refused(result, str(text) if "byte" not in arguments[0] else "data", "MiB", "heed data prepare")
                self.assertFalse(self.run_dir.exists())
                self.assertNotIn("bad_alloc", result.stderr)
        # 80 MiB of tokens, and not twice as many while they are read.
        self.assertEqual(self.train_with(124, "data.path=text.txt", "steps=1").returncode, 0)
        self.assertEqual(self.train_with(160, "data.path=text.txt", "split=lines", "steps=1").returncode, 0)

    def test_a_source_that_does_not_fit(self):
        source = ["data.source=ngram", "data.vocab_size=2000", "data.order=2"]
        (self.folder / "tiny.toml").write_text(TINY.replace('path = "abcd.txt"', "").replace("val_fraction = 0", ""))
        result = self.train_with(20, *source)
        self.assert_refused(result, "data.vocab_size", "MiB")
        self.assertNotIn("bad_alloc", result.stderr)

    def test_a_batch_that_does_not_fit(self):
        result = self.train_with(1000, "train.batch_size=1000000")
        self.assert_refused(result, "GiB of memory (largest part of the run: activations", "train.batch_size", "MiB free of", "ulimit -v")
        self.assertFalse(self.run_dir.exists())
        result = self.train_with(100, "train.batch_size=1000000", "train.micro_batch_size=1", "model.seq_len=64")
        self.assert_refused(result, "batch", "train.batch_size")

    def test_an_estimate_of_terabytes(self):
        # Under a limit, so that a heed that did not refuse would not take all memory of the machine.
        (self.folder / "tiny.toml").write_text(TINY.replace('source = "text"', 'source = "ngram"')
                                               .replace('path = "abcd.txt"', "").replace("val_fraction = 0", ""))
        result = self.train_with(4096, "model.seq_len=1048576", "train.batch_size=4096")
        self.assert_refused(result, " TiB", "activations", "train.batch_size", "free of")
        self.assertFalse(self.run_dir.exists())

    def test_generate_and_eval_advise_no_keys_of_training(self):
        self.assertEqual(self.train(*LARGE, "val_fraction=0.1").returncode, 0)
        for command in ("generate", "eval"):
            for mebibytes in (60, 165):  # the checkpoint does not fit; its model does not, beside it
                result = self.run_heed(command, self.last, address_space=self.base + mebibytes * MIB)
                self.assert_refused(result, "iB free of", "ulimit -v")
                self.assertNotIn("train.", result.stderr)
                self.assertNotIn("model.", result.stderr)

    def test_a_container_that_is_too_small(self):
        group = Group.make(self, "memory", {"memory.limit_in_bytes": str(150 * MIB)}, {"memory.max": str(150 * MIB)})
        result = self.train(*LARGE_IN_PARTS, group=group)
        self.assert_refused(result, "of 150.0 MiB (memory limit of the container)", "checkpoint")
        self.assertFalse(self.run_dir.exists())
        self.assertEqual(self.train(group=group).returncode, 0)


if __name__ == "__main__":
    unittest.main()
