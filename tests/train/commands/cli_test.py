"""The command line as a user meets it: exit codes, one line per error, files of a run.

Usage: cli_test.py PATH_OF_HEED
"""

import csv
import json
import os
import random
import signal
import subprocess
import time
import unittest

from command_line import ALPHABET, HEED, CommandLine, timeless


class Commands(CommandLine):
    def test_a_run_leaves_its_files(self):
        result = self.run_heed("train", self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        run = self.folder / "runs" / "tiny"
        rows = list(csv.DictReader((run / "metrics.csv").read_text().splitlines()))
        self.assertEqual([row["step"] for row in rows], ["1", "2", "3", "4", "5"])
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["steps"], 5)
        self.assertGreater(summary["excess"], 0)
        self.assertTrue((run / "config.toml").exists())
        self.assertNotIn("\r", result.stdout, "no progress bar outside a terminal")

    def test_the_same_seed_gives_the_same_file(self):
        files = []
        for name, threads in (("a", "1"), ("b", "2")):
            result = self.run_heed("train", self.config, "model.dropout=0.1", f"run_dir={name}", OMP_NUM_THREADS=threads)
            self.assertEqual(result.returncode, 0, result.stderr)
            files.append(timeless(self.folder / name))
        self.assertEqual(files[0], files[1])

    def test_config_errors(self):
        self.assert_error(self.run_heed("train", "no.toml"), 2, str(self.folder / "no.toml"))
        self.assert_error(self.run_heed("train", self.config, "learing_rate=1"), 2, "learning_rate")
        self.assert_error(self.run_heed("train", self.config, "d_model=10", "num_heads=3"), 2, "10", "3")
        self.assert_error(self.run_heed("train", self.config, "steps"), 2, "steps")
        self.assert_error(self.run_heed("train", self.config, "batch_size=10", "micro_batch_size=4"), 2, "10", "4")
        self.assertFalse((self.folder / "runs").exists(), "a wrong config leaves nothing behind")

    def test_usage_errors(self):
        for arguments in ([], ["tarin", "x.toml"], ["train"], ["train", "--no-such-flag", "x.toml"]):
            result = self.run_heed(*arguments)
            self.assert_error(result, 2)

    def test_divergence_is_named(self):
        result = self.run_heed("train", self.config, "learning_rate=1e30", "warmup_steps=0", "clip_norm=0", "steps=50")
        self.assert_error(result, 6, "step", "learning_rate")
        self.assertTrue((self.folder / "runs" / "tiny" / "metrics.csv").exists())

    def test_devices(self):
        """Where no CUDA device is visible the CPU stands in for auto, with a notice where the build has CUDA."""
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        info = self.run_heed("info", **hidden).stdout
        result = self.run_heed("train", self.config, "train.device=cuda", **hidden)
        self.assert_error(result, 5, "train.device", "cuda", "cpu")
        self.assertFalse((self.folder / "runs").exists())
        result = self.run_heed("train", self.config, "train.device=auto", **hidden)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual("notice        running on the CPU, no usable CUDA device" in result.stdout, "CUDA          code for" in info)
        self.assert_error(self.run_heed("train", self.config, "train.device=gpu"), 2, "device", "gpu", "cuda")

    def test_unknown_operation(self):
        self.assert_error(self.run_heed("gradcheck", "layernorm"), 2, "layer_norm")
        self.assert_error(self.run_heed("bench", "layernorm"), 2, "layernorm", "layer_norm")

    def test_gradcheck_of_one_operation(self):
        result = self.run_heed("gradcheck", "layer_norm")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("1 of 1 passed", result.stdout)

    def test_config_prints_values_and_origins(self):
        result = self.run_heed("config", self.config, "d_model=32")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"d_model\s+=?\s*32\s.*command line")
        for what in ("parameters", "FLOPs/token", "KV cache", "memory (estimate)"):
            self.assertIn(what, result.stdout)
        elsewhere = self.run_heed("config", self.config, "device=cuda")
        self.assertEqual(elsewhere.returncode, 0, "the config of another machine")
        reference = self.run_heed("config")
        self.assertEqual(reference.returncode, 0)
        self.assertIn("learning_rate", reference.stdout)

    def test_info_and_help(self):
        self.assertIn("GEMM by", self.run_heed("info").stdout)
        help_text = self.run_heed("--help").stdout
        for command in ("train", "config", "gradcheck", "bench", "info"):
            self.assertIn(command, help_text)

    def test_bench_of_a_config(self):
        result = self.run_heed("bench", "--config", self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("MFU", result.stdout)
        self.assertIn("attention_packed (4, 8, 48) backward", result.stdout)
        self.assertFalse((self.folder / "runs").exists())

    def test_bench_as_json(self):
        result = self.run_heed("bench", "--config", self.config, "d_model=32", "--steps", 4, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual(len(found["seconds"]), 4)
        self.assertEqual(found["tokens"], 4 * 8)
        self.assertGreater(found["peak_bytes"]["resident"], found["peak_bytes"]["total"])
        self.assertIn("linear_cross_entropy", [row["operation"] for row in found["operations"]])
        resolved = self.folder / "resolved.toml"
        resolved.write_text(found["config"])
        self.assertIn("d_model = 32", found["config"])
        self.assertEqual(self.run_heed("config", resolved).returncode, 0)

        operations = json.loads(self.run_heed("bench", "scale", "--json").stdout)["operations"]
        self.assertEqual({row["operation"] for row in operations}, {"scale"})
        self.assertEqual({row["direction"] for row in operations}, {"forward", "backward"})

    def test_bench_by_device_and_dtype(self):
        result = self.run_heed("bench", "scale", "copy", "--device", "cpu", "--dtype", "bf16", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual((found["dtype"], found["device"].split()[1]), ("bf16", "threads"))
        self.assertEqual({row["operation"] for row in found["operations"]}, {"scale", "copy"})
        self.assertEqual(len(found["operations"]), 4, "only the sizes for a CPU")
        for row in found["operations"]:
            moved = row["gb_per_s"] * 1e9 * row["seconds"]
            self.assertAlmostEqual(moved / (2 * 2 * 768 * 512), 1, places=6)
        self.assert_error(self.run_heed("bench", "--device", "gpu"), 2, "--device", "gpu", "cpu", "cuda")
        self.assert_error(self.run_heed("bench", "--dtype", "f64"), 2, "--dtype", "f64", "bf16")
        if "(sm_" not in self.run_heed("info").stdout:
            self.assert_error(self.run_heed("bench", "scale", "--device", "cuda"), 5, "--device cuda", "CUDA")

    def test_bench_takes_no_option_without_effect(self):
        self.assert_error(self.run_heed("bench", "--steps", 3), 2, "--config")
        for option in (("--device", "cpu"), ("--dtype", "f32")):
            self.assert_error(self.run_heed("bench", *option, "--config", self.config), 2, option[0], "--config")


class Text(CommandLine):
    """A text of 'abcd' over and over: what follows each letter is certain."""

    def setUp(self):
        super().setUp()
        (self.folder / "abcd.txt").write_text("abcd" * 500)
        self.config.write_text(ALPHABET)
        self.last = self.folder / "runs" / "tiny" / "checkpoints" / "last.h5"

    def train(self, *arguments):
        result = self.run_heed("train", self.config, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def rows(self, run):
        return timeless(self.folder / "runs" / run)

    def test_generates_what_it_learnt(self):
        self.train()
        out = self.run_heed("generate", self.last, "--prompt", "a", "--tokens", 7, "--temperature", 0)
        self.assertEqual(out.stdout, "abcdabcd\n", "a double shift would give acacacac, none aaaaaaaa")
        (self.folder / "abcd.txt").unlink()
        again = self.run_heed("generate", self.last, "--prompt", "a", "--tokens", 7, "--top-k", 1)
        self.assertEqual(again.stdout, out.stdout, "the checkpoint holds its tokenizer")
        tiny = self.run_heed("generate", self.last, "--prompt", "a", "--tokens", 7, "--temperature", "1e-30")
        self.assertEqual(tiny.stdout, out.stdout)
        empty = self.run_heed("generate", self.last, "--tokens", 3)
        self.assertEqual(empty.returncode, 0, empty.stderr)

    def test_generate_errors(self):
        self.train("steps=2")
        self.assert_error(self.run_heed("generate", self.last, "--prompt", "a?b"), 3, "'?'", "position 1", "--skip-unknown")
        self.assertEqual(self.run_heed("generate", self.last, "--prompt", "a?b", "--skip-unknown").returncode, 0)
        self.assert_error(self.run_heed("generate", self.last, "--temperature", "-1"), 2, "--temperature")
        self.assert_error(self.run_heed("generate", self.last, "--temperature", "nan"), 2, "--temperature")
        self.assert_error(self.run_heed("generate", self.folder / "no.h5"), 4, "no.h5")
        self.assert_error(self.run_heed("generate", self.config), 4, "tiny.toml")

    def test_samples_differ_and_repeat(self):
        self.train("steps=2")
        arguments = ("generate", self.last, "--prompt", "a", "--tokens", 40, "--num-samples", 2)
        first = self.run_heed(*arguments).stdout
        self.assertEqual(first, self.run_heed(*arguments).stdout)
        _, one, _, two = first.splitlines()
        self.assertNotEqual(one, two)
        self.assertNotEqual(first, self.run_heed(*arguments, "--seed", 2).stdout)

    def test_eval_covers_the_split(self):
        self.train("steps=2", "val_fraction=0.5")
        result = self.run_heed("eval", self.last)
        self.assertIn("(999 targets, each once)", result.stdout)
        self.assertIn("bits per byte", result.stdout)
        (self.folder / "abcd.txt").write_text("abcde" * 500)
        self.assert_error(self.run_heed("eval", self.last), 3, "not that of the run", "2000 tokens", "'e'")

    def test_texts_that_are_too_short(self):
        for text in ("", "a", "abcdabcd"):
            (self.folder / "abcd.txt").write_text(text)
            result = self.run_heed("train", self.config)
            self.assert_error(result, 3, str(self.folder / "abcd.txt"))
            self.assertFalse((self.folder / "runs").exists())
        (self.folder / "abcd.txt").write_bytes(b"ab\x92cd" * 100)
        self.assert_error(self.run_heed("train", self.config), 3, "2")

    def test_resume_refuses_other_data(self):
        for split in ("position", "lines"):
            (self.folder / "abcd.txt").write_text("abcd\n" * 500)
            self.train("stop_after=2", "tokenizer=byte", f"split={split}", f"run_dir={split}")
            (self.folder / "abcd.txt").write_text("abcd\n" * 501)
            result = self.run_heed("train", self.config, "tokenizer=byte", f"split={split}", f"run_dir={split}", "--resume")
            self.assert_error(result, 3, "data is not that of the run", "2500", "2505") if split == "position" else \
                self.assert_error(result, 3, "data is not that of the run")

    def test_a_second_signal_ends_at_once(self):
        read_end, write_end = os.pipe()
        process = subprocess.Popen([HEED, "train", self.config, "steps=100000", "eval_interval=100000",
                                    "log_interval=1"], cwd=self.folder, stdout=write_end, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout = os.fdopen(read_end)
        self.addCleanup(process.stdout.close)
        with open(f"/proc/self/fd/{write_end}", "wb", buffering=0, opener=lambda path, flags: os.open(
                path, flags | os.O_NONBLOCK)) as pipe:
            os.close(write_end)
            self.wait_for_first_step(process)
            # With its output full the run waits to write the next line and cannot end by itself, however slow all is.
            while pipe.write(b"-"):
                pass
            process.send_signal(signal.SIGTERM)
            # Signals that wait together come in no certain order: SIGINT again, until it was not the first.
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                process.send_signal(signal.SIGINT)
                time.sleep(0.01)
        self.assertEqual(process.returncode, -signal.SIGINT)

    def test_a_signal_saves_and_ends(self):
        self.train("run_dir=runs/whole", "steps=1000")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            run = f"runs/{number.name}"
            process = subprocess.Popen([HEED, "train", self.config, "steps=1000", f"run_dir={run}"], cwd=self.folder,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.wait_for_first_step(process)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 138 if number == signal.SIGUSR1 else -number, err)
            self.assertIn(number.name, out)
            self.train("steps=1000", f"run_dir={run}", "--resume")
            self.assertEqual(self.rows(number.name), self.rows("whole"))

    def wait_for_first_step(self, process):
        for line in process.stdout:
            if line.startswith("step"):
                return
        self.fail("no step was made")

    def test_kill_leaves_a_checkpoint_that_loads(self):
        random.seed(1)
        previous = 0
        for trial in range(KILLS):
            resume = ["--resume"] if self.last.exists() else []
            process = subprocess.Popen([HEED, "train", self.config, "steps=1000000", "save_interval=1", *resume],
                                       cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            # Not before there is something to lose, then at any moment.
            while not self.last.exists():
                time.sleep(0.002)
            time.sleep(random.uniform(0.02, 0.15))
            process.kill()
            process.communicate()
            result = self.run_heed("generate", self.last, "--tokens", 1, "--temperature", 0)
            self.assertEqual(result.returncode, 0, f"trial {trial}: {result.stderr}")
            step = int(self.run_heed("eval", self.last).stdout.splitlines()[0].rsplit(" ", 1)[1])
            self.assertGreaterEqual(step, previous)
            previous = step
        self.assertGreater(previous, 0)

    def test_a_full_disk_keeps_the_old_checkpoint(self):
        self.train("stop_after=2")
        before = self.last.read_bytes()
        limited = subprocess.run(
            ["bash", "-c", 'ulimit -f 8; exec "$0" "$@"', HEED, "train", self.config, "stop_after=4", "--resume"], cwd=self.folder,
            capture_output=True, text=True, timeout=60)
        self.assert_error(limited, 4, "not enough disk space", "ulimit -f")
        self.assertEqual(self.last.read_bytes(), before)


class StandardOutput(CommandLine):
    """A result that could not be written is an error, not silence."""

    def setUp(self):
        super().setUp()
        (self.folder / "abcd.txt").write_text("abcd" * 500)
        self.config.write_text(ALPHABET)
        self.assertEqual(self.run_heed("train", self.config, "steps=2").returncode, 0)
        self.last = self.folder / "runs" / "tiny" / "checkpoints" / "last.h5"

    def start(self, *arguments, **more):
        process = subprocess.Popen([HEED, *map(str, arguments)], cwd=self.folder, stderr=subprocess.PIPE, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_one_line(self, process, *parts):
        error = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 1, error)
        self.assertEqual(error.count("\n"), 1, error)
        for part in ("heed: cannot write to standard output: ", *parts):
            self.assertIn(part, error)

    def commands(self):
        token_file = self.folder / "abcd.h5"
        return [
            ["--help"], ["--version"], ["train", "--help"], ["info"], ["config"], ["config", self.config],
            ["generate", self.last], ["eval", self.last], ["data", "prepare", "abcd.txt", token_file],
            ["data", "info", token_file], ["gradcheck", "copy"], ["bench", "copy"], ["bench", "--config", self.config],
            ["train", self.config, "--resume"], ["train", self.config]]

    def test_a_full_disk_is_one_line(self):
        for command in self.commands():
            with self.subTest(command), open("/dev/full", "wb") as full:
                self.assert_one_line(self.start(*command, stdout=full), "No space left on device")

    def test_a_closed_stdout_is_one_line(self):
        for command in (["info"], ["train", self.config]):
            with self.subTest(command):
                process = self.start(*command, preexec_fn=lambda: os.close(1))
                self.assert_one_line(process, "Bad file descriptor")
        self.assertTrue((self.folder / "runs" / "tiny" / "metrics.csv").read_text().startswith("step,"))

    def test_a_closed_pipe_ends_quietly(self):
        # Python's children have SIGPIPE as it was; those of some supervisors have it ignored.
        for ignored in (False, True):
            process = self.start("generate", self.last, "--tokens", 1000000, stdout=subprocess.PIPE,
                                 restore_signals=not ignored)
            self.assertEqual(len(process.stdout.read(10)), 10)
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), -signal.SIGPIPE)
            self.assertEqual(process.stderr.read(), b"")

    def test_training_into_a_closed_pipe_saves(self):
        process = self.start("train", self.config, "steps=100000", "log_interval=1", stdout=subprocess.PIPE)
        for line in process.stdout:
            if line.startswith(b"step      3"):
                break
        process.stdout.close()
        process.stdout = None
        self.assert_one_line(process, "Broken pipe", "saved at step")
        after = int(self.run_heed("eval", self.last).stdout.splitlines()[0].rsplit(" ", 1)[1])
        self.assertGreaterEqual(after, 3)
        rows = timeless(self.folder / "runs" / "tiny")
        self.assertEqual([row[0] for row in rows[1:]], [str(step) for step in range(1, after + 1)])

    def test_a_full_stderr_changes_no_exit_code(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([HEED, "train", "no.toml"], cwd=self.folder, stderr=full, timeout=60)
            self.assertEqual(result.returncode, 2)
            result = subprocess.run([HEED, "tarin"], cwd=self.folder, stderr=full, timeout=60)
            self.assertEqual(result.returncode, 2)


class RunFolders(CommandLine):
    def files(self):
        return {path: path.stat().st_mtime_ns for path in self.folder.rglob("*")}

    def start_training(self, *arguments):
        process = subprocess.Popen([HEED, "train", self.config, "steps=1000000", "eval_interval=1000000", *arguments],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("step"):
                return process
        self.fail(process.communicate()[1])

    def end(self, process):
        process.kill()
        process.communicate()

    def test_two_processes_are_kept_apart(self):
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        (self.folder / "link").symlink_to(self.folder / "runs" / "tiny")
        first = self.start_training("save_interval=1", "keep_checkpoints=0")
        while not (self.folder / "runs" / "tiny" / "checkpoints" / "last.h5").exists():
            time.sleep(0.002)
        first.send_signal(signal.SIGSTOP)  # so that all that changes is the second one's doing
        before = self.files()
        for arguments in ([], ["--resume"], ["run_dir=link"], ["run_dir=link", "--resume"]):
            second = self.run_heed("train", self.config, *arguments)
            self.assert_error(second, 2, "train.run_dir", f"process {first.pid} is already training in")
            self.assertEqual(self.files(), before)
        self.end(first)
        again = self.run_heed("train", self.config, "steps=1000000", "stop_after=2000", "eval_interval=1000000", "--resume")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_metrics_that_cannot_be_read(self):
        self.assertEqual(self.run_heed("train", self.config, "stop_after=2").returncode, 0)
        metrics = self.folder / "runs" / "tiny" / "metrics.csv"
        metrics.write_text("something else\n")
        self.assert_error(self.run_heed("train", self.config, "--resume"), 4, str(metrics), "does not begin with")
        self.assertEqual(metrics.read_text(), "something else\n")
        metrics.unlink()
        result = self.run_heed("train", self.config, "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("metrics.csv has no rows of the steps 1 to 2", result.stdout)
        self.assertEqual([row[0] for row in timeless(metrics.parent)], ["step", "3", "4", "5"])

    def test_training_without_validation(self):
        (self.folder / "abcd.txt").write_text("abcd" * 500)
        self.config.write_text(ALPHABET)
        result = self.run_heed("train", self.config, "steps=2", "val_fraction=0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("validation    none", result.stdout)
        run = self.folder / "runs" / "tiny"
        self.assertIsNone(json.loads((run / "summary.json").read_text())["val_loss"])
        self.assertEqual([path.name for path in (run / "checkpoints").iterdir()], ["last.h5"])
        self.assert_error(self.run_heed("eval", run / "checkpoints" / "last.h5"), 3, "without validation")


KILLS = int(os.environ.get("HEED_KILLS", "10"))

if __name__ == "__main__":
    unittest.main()
