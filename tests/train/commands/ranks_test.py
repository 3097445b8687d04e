"""Training on several ranks is training on one: the same numbers, the same files, one voice.

Usage: ranks_test.py PATH_OF_HEED [--all]   (--all: every combination of ranks, micro-batches and shards)
"""

import os
import shutil
import signal
import sys
import unittest

from checkpoint_values import checkpoint_values
from mpi_run import Ranks, free_port, rows_of, skip_without_mpi

# Relative differences of losses and norms between runs that add the same numbers in another order. The columns of
# metrics.csv have nine digits, so f64 is seen there to a unit of the last one, and exactly in the checkpoint. In bf16 a
# weight that differs in its last bits of f32 may be rounded to the next bf16.
BOUNDS = {"f32": 1e-5, "f64": 1e-8, "bf16": 1e-3}
F64_BOUND = 1e-11
# A parameter may be this far from its fellow, as a share of the largest one of its tensor.
PARAMETER_BOUNDS = {"f32": 1e-3, "f64": F64_BOUND, "bf16": 1e-2}

ALL = "--all" in sys.argv

# Lines of different lengths, so that windows end in targets that do not count.
LINES = "".join("abcdefgh"[i % 5 : i % 5 + 1 + i * i % 7] + "\n" for i in range(400))


def sharded(shards):
    return f"shard_optimizer={str(shards).lower()}"


def difference(a, b):
    """Relative; of two texts of a csv, which may be empty."""
    if a == b:
        return 0.0
    return abs(float(a) - float(b)) / abs(float(a))


def parameter_difference(one, other):
    """The largest over all parameters, and its name.

    Keys that all shift by the same change no softmax: what arrives as the gradient of their bias is rounding, which
    Adam makes as large as any other step. They are left out.
    """
    largest = (0.0, "")
    for name, values in one.items():
        if not name.startswith("tensors/parameters/"):
            continue
        others = other[name]
        if name.endswith("qkv.bias"):
            third = len(values) // 3
            values, others = ([*v[:third], *v[2 * third :]] for v in (values, others))
        scale = max(map(abs, values)) or 1.0
        largest = max(largest, (max(abs(a - b) for a, b in zip(values, others)) / scale, name))
    return largest


class Comparison(Ranks):
    table = []

    def assert_same_training(self, name, precision, run):
        """The rows of metrics.csv, the last losses and the weights of this run and of the one called whole."""
        whole_rows, rows = rows_of(self.folder / "whole"), rows_of(self.folder / run)
        self.assertEqual([(row["step"], row["tokens"]) for row in rows],
                         [(row["step"], row["tokens"]) for row in whole_rows])
        columns = ("train_loss", "grad_norm", "val_loss")
        found = [max(difference(a[c], b[c]) for a, b in zip(whole_rows, rows)) for c in columns]
        ends = [checkpoint_values(self.folder / one / "checkpoints" / "last.h5") for one in ("whole", run)]
        if ends[0] is None:
            texts = [self.run_heed("eval", f"{one}/checkpoints/last.h5") for one in ("whole", run)]
            parameters, where = difference(*(text.split("loss ")[1].split()[0] for text in texts)), "eval"
        else:
            parameters, where = parameter_difference(*ends)
            exact = [difference(*(end[f"reals/{n}"][0] for end in ends)) for n in ("train_loss", "best_val_loss")]
            self.assertLessEqual(max(exact), F64_BOUND if precision == "f64" else BOUNDS[precision], name)
        self.table.append((name, [*found, parameters]))
        for column, value in zip(columns, found):
            self.assertLessEqual(value, BOUNDS[precision], f"{name}: {column}")
        self.assertLessEqual(parameters, PARAMETER_BOUNDS[precision], f"{name}: {where}")


class Equality(Comparison):
    """Ranks, micro-batches and shards only change the order of sums."""

    def check(self, what, precision, cases, *arguments):
        arguments = (*arguments, f"precision={precision}")
        self.run_together([(0, *arguments, "run_dir=whole")] + [
            (ranks, *arguments, f"micro_batch_size={rows}", sharded(shards), f"run_dir={run}")
            for run, (ranks, rows, shards) in enumerate(cases)])
        for run, (ranks, rows, shards) in enumerate(cases):
            name = f"{what}, {ranks} ranks, micro-batches of {rows or 'all'}" + (", sharded" if shards else "")
            with self.subTest(name):
                self.assert_same_training(name, precision, str(run))

    def test_all_worlds(self):
        cases = [(1, 3, True), (2, 0, False), (2, 0, True), (2, 3, False), (2, 3, True), (4, 0, False), (4, 3, True)]
        if ALL:
            cases = [(ranks, rows, shards) for ranks in (1, 2, 4) for rows in (0, 3) for shards in (False, True)]
        self.check("tied", "f32", cases)

    def test_f64(self):
        self.check("f64", "f64", [(2, 3, False), (4, 0, True)])

    def test_bf16(self):
        self.check("bf16", "bf16", [(2, 3, True), (4, 0, False)])

    def test_windows_with_ignored_targets(self):
        (self.folder / "lines.txt").write_text(LINES)
        self.write_config('source = "text"\nsplit = "lines"\npath = "lines.txt"')
        self.check("lines", "f32", [(2, 3, False), (4, 0, True)])
        tokens = int(rows_of(self.folder / "whole")[-1]["tokens"])
        self.assertLess(tokens, 20 * 12 * 8, "no target was ignored, so the test shows nothing")

    def test_recomputed_and_untied(self):
        self.check("untied", "f32", [(2, 3, True), (4, 0, False)], "tie_embeddings=false", "recompute=true")

    def test_one_rank_of_mpirun_is_no_rank(self):
        self.run_ranks(0, "run_dir=alone")
        self.run_ranks(1, "run_dir=mpirun")
        self.assertEqual(rows_of(self.folder / "mpirun"), rows_of(self.folder / "alone"))


class Resume(Comparison):
    """A checkpoint belongs to no number of ranks."""

    def setUp(self):
        super().setUp()
        self.write_text_config()
        self.run_ranks(0, "run_dir=whole")

    def test_in_another_world(self):
        worlds = [((2, True), (1, False)), ((2, False), (4, True)), ((1, False), (2, True)), ((4, True), (2, False))]
        if ALL:
            worlds = [((first, first_shards), (then, then_shards))
                      for first, then in ((2, 1), (2, 4), (1, 2), (4, 2), (2, 2))
                      for first_shards in (False, True) for then_shards in (False, True)]
        for turn, more in enumerate(("stop_after=10", "--resume")):
            self.run_together([(world[turn][0], sharded(world[turn][1]), f"run_dir={run}", more)
                               for run, world in enumerate(worlds)])
        for run, world in enumerate(worlds):
            name = "resumed, " + " then ".join(f"{ranks} ranks{' sharded' * shards}" for ranks, shards in world)
            with self.subTest(name):
                self.assert_same_training(name, "f32", str(run))

    def test_in_the_same_world_is_bit_equal(self):
        for shards in (False, True) if ALL else (True,):
            with self.subTest(sharded=shards):
                for run in (["through"], ["stopped", "stop_after=10"], ["stopped", "--resume"]):
                    self.run_ranks(2, sharded(shards), f"run_dir={run[0]}{shards}", *run[1:])
                self.assertEqual(rows_of(self.folder / f"stopped{shards}"), rows_of(self.folder / f"through{shards}"))
                ends = [checkpoint_values(self.folder / f"{one}{shards}" / "checkpoints" / "last.h5")
                        for one in ("through", "stopped")]
                for name in ends[0] or {}:
                    if not name.endswith("seconds") and not name.startswith("texts/"):
                        self.assertEqual(*(end[name] for end in ends), name)


class Refusals(Ranks):
    """One clear line, the exit code of the fault, and nothing of a run is made."""

    def setUp(self):
        super().setUp()
        self.places = [self.folder / name for name in ("a", "b")]
        for place in self.places:
            place.mkdir()
        self.run_dir = self.folder / "run"

    def mpirun(self, *segments, **environment):
        # All ranks know that they must end, so mpirun need not give them a second for it.
        return super().mpirun(*segments, OMPI_MCA_odls_base_sigkill_timeout="0", **environment)

    def two(self, *arguments, **environment):
        """A rank in each of the two folders."""
        return self.mpirun(*((1, self.train(*arguments), place) for place in self.places), **environment)

    def lines_of(self, job):
        return [line for line in job.stderr.splitlines() if line.startswith("heed: ")]

    def assert_refused(self, job, code, *parts, lines=1):
        self.assertEqual(job.wait(), code, job.stderr)
        found = self.lines_of(job)
        self.assertEqual(len(found), lines, job.stderr)
        for part in parts:
            self.assertIn(part, found[0])
        self.assertFalse(self.run_dir.exists(), "a run that is refused leaves nothing")
        self.assertNotIn("step ", job.stdout)

    def text(self, *texts):
        for place, text in zip(self.places, texts):
            (place / "text.txt").write_bytes(text)
        self.write_config('source = "text"\npath = "text.txt"')
        return f"run_dir={self.run_dir}"

    def test_batches_that_cannot_be_shared(self):
        job = self.mpirun((2, self.train("micro_batch_size=4", f"run_dir={self.run_dir}")))
        self.assert_refused(job, 2, "batch_size = 12", "ranks (2)", "micro_batch_size = 4")
        job = self.mpirun((2, self.train("batch_size=11", f"run_dir={self.run_dir}")))
        self.assert_refused(job, 2, "batch_size = 11 is not a multiple of the number of ranks, 2: change train.batch_size "
                            "or the number of ranks")

    def test_no_config(self):
        self.assert_refused(self.mpirun((4, [self.heed, "train", "no.toml"])), 2, str(self.folder / "no.toml"))
        job = self.mpirun((1, self.train(f"run_dir={self.run_dir}")), (1, [self.heed, "train", "no.toml"]))
        self.assert_refused(job, 2, "rank 1: ", str(self.folder / "no.toml"))

    def test_different_configs(self):
        other = self.folder / "other.toml"
        other.write_text(self.config.read_text().replace("d_model = 16", "d_model = 32"))
        job = self.mpirun(*((1, [self.heed, "train", config, f"run_dir={self.run_dir}"]) for config in (self.config, other)))
        self.assert_refused(job, 7, "config", "rank 0 has `d_model = 16`", "rank 1 has `d_model = 32`")

    def test_different_data(self):
        job = self.two(self.text(b"abcd" * 500, b"abdc" * 500))
        self.assert_refused(job, 7, "the same data", "rank 0", "rank 1")

    def test_data_that_only_one_rank_cannot_read(self):
        run = self.text(b"abcd" * 500, b"abcd" * 400 + b"\x92" + b"abcd" * 99)
        self.assert_refused(self.two(run), 3, "rank 1: ", str(self.places[1] / "text.txt"))
        run = self.text(b"ab", b"abcd" * 500)
        self.assert_refused(self.two(run), 3, "rank 0: ", str(self.places[0] / "text.txt"))

    def test_no_checkpoint_where_one_rank_looks(self):
        for place in self.places:
            self.run_dir = place / "run"
        self.assertEqual(self.two("run_dir=run").wait(), 0)
        self.assertEqual(list(self.places[1].iterdir()), [], "only rank 0 writes")
        self.assert_refused(self.two("run_dir=run", "--resume"), 4, "rank 1: ", "there is no checkpoint in")

    def test_an_environment_that_disagrees(self):
        # Nobody can be told: each rank says it.
        job = self.mpirun((2, self.train(f"run_dir={self.run_dir}")), RANK="0", WORLD_SIZE="3")
        self.assertEqual(job.wait(), 7, job.stderr)
        found = self.lines_of(job)
        self.assertIn(len(found), (1, 2), job.stderr)
        for line in found:
            self.assertRegex(line, "OMPI_COMM_WORLD_RANK=., OMPI_COMM_WORLD_SIZE=2, but RANK=0, WORLD_SIZE=3")
        self.assertFalse(self.run_dir.exists())

    def test_ranks_without_mpi(self):
        command = self.train(f"run_dir={self.run_dir}")
        self.assert_refused(self.start(command, RANK="0", WORLD_SIZE="2"), 7, "MASTER_ADDR", "torchrun", "mpirun")
        world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        root, other = (self.start(command, RANK=rank, **world) for rank in ("0", "1"))
        for job in (root, other):
            self.assert_refused(job, 7, "2 ranks on the CPU need MPI", "mpirun")

    def test_a_full_disk_of_the_root(self):
        # Not by the memory that ranks share, which the limit would cut too.
        tcp = {"OMPI_MCA_btl": "self,tcp"}
        run = f"run_dir={self.run_dir}"
        self.assertEqual(self.two(run, "stop_after=2").wait(), 0)
        last = self.run_dir / "checkpoints" / "last.h5"
        before = last.read_bytes()
        limited = ["bash", "-c", 'ulimit -f 8; exec "$0" "$@"', *self.train(run, "--resume", "stop_after=4")]
        job = self.mpirun((1, limited), (1, self.train(run, "--resume", "stop_after=4")), **tcp)
        self.assertEqual(job.wait(), 4, job.stderr)
        found = self.lines_of(job)
        self.assertEqual(len(found), 1, job.stderr)
        self.assertIn("heed: rank 0: not enough disk space in ", found[0])
        self.assertIn("files may have 8192 bytes here", found[0])
        self.assertEqual(last.read_bytes(), before)

    def test_a_save_that_only_the_root_cannot_do(self):
        job = self.two(f"run_dir={self.run_dir}", "steps=1000000", "eval_interval=1000000")
        job.wait_for_step(3)
        shutil.rmtree(self.run_dir / "checkpoints")
        os.kill(job.process.pid, signal.SIGUSR1)
        self.assertEqual(job.wait(), 4, job.stderr)
        found = self.lines_of(job)
        self.assertEqual(len(found), 1, job.stderr)
        self.assertRegex(found[0], rf"^heed: rank 0, step \d+: .*{self.run_dir}/checkpoints")


class OneVoice(Ranks):
    def test_each_line_once(self):
        alone = self.run_ranks(0, "run_dir=alone").stdout
        job = self.run_ranks(4, "run_dir=ranks")
        lines = job.stdout.splitlines()
        self.assertEqual(len(lines), len(set(lines)), job.stdout)
        self.assertNotIn("\r", job.stdout, "mpirun's output is no terminal, though each rank sees one")
        own = [line for line in lines if line.startswith(("ranks ", "gradients "))]
        self.assertEqual(own[:2], ["ranks         4 with 3 sequences each", "gradients     in 8 buckets"])
        self.assertEqual(len(lines) - len(own), len(alone.splitlines()), job.stdout)
        self.assertEqual(job.stderr, "")
        rows = [row["step"] for row in rows_of(self.folder / "ranks")]
        self.assertEqual(rows, [str(step) for step in range(1, 21)])

    def test_a_variable_that_only_one_rank_has(self):
        # As mpirun leaves it on the nodes to which it comes by ssh.
        train = self.train("steps=2")
        job = self.mpirun((1, ["env", "-u", "OMP_NUM_THREADS", *train]), (1, ["env", "OMP_NUM_THREADS=1", *train]))
        self.assert_success(job)


if __name__ == "__main__":
    sys.argv = [word for word in sys.argv if word != "--all"]
    Ranks.heed = os.path.abspath(sys.argv.pop(1))
    skip_without_mpi(Ranks.heed)
    result = unittest.main(exit=False).result
    print(f"{'largest differences from one rank':<60} {'loss':>8} {'norm':>8} {'val':>8} {'weights':>8}")
    for case, differences in Comparison.table:
        print(f"{case:<60} " + " ".join(f"{value:8.1e}" for value in differences))
    sys.exit(not result.wasSuccessful())
