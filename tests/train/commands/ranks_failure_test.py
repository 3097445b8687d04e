"""Ranks that die, fail, stop or never come: all others end soon, say who is missing, and leave a checkpoint that loads.
And signals, after which all of them save together and end.

Usage: ranks_failure_test.py PATH_OF_HEED [--trials N]   (N random moments for each kind)
"""

import argparse
import os
import random
import re
import shutil
import signal
import statistics
import sys
import time
import unittest

from mpi_run import Ranks, rows_of, skip_without_mpi

TRIALS = 1
LIMIT_S = 15  # from what happens to the end of mpirun
TIMEOUT_S = 3  # train.comm_timeout_s

# More tokens than HDF5 keeps in memory.
TEXT = b"".join(b"%d bottles of beer on the wall, " % (i * i) for i in range(40_000))


class RandomMoments(Ranks):
    """Long runs, in which something happens at a random moment."""

    times = {}  # seconds from what happened to the end of mpirun, by kind

    def setUp(self):
        super().setUp()
        self.write_text_config(steps=1000000, eval_interval=50)

    def repeat(self, kind, once):
        for trial in range(TRIALS):
            self.run_dir = self.folder / f"run{trial}"
            with self.subTest(kind, trial=trial):
                once(trial)
                shutil.rmtree(self.run_dir, ignore_errors=True)

    def long_run(self, *more):
        interval = random.choice((1, 5))
        return self.train(f"save_interval={interval}", f"comm_timeout_s={TIMEOUT_S}", f"run_dir={self.run_dir}", *more)

    def reach_a_moment(self, job, ranks, trial):
        """In every second trial, beginning with the first, while it trains; else at any time from the start on."""
        if trial % 2 == 0:
            job.wait_for_step(random.randint(1, 50))
        members = job.wait_for_ranks(ranks)
        time.sleep(random.uniform(0, 0.5))
        return members

    def end_of(self, job, kind, began):
        code = job.wait(LIMIT_S)
        self.times.setdefault(kind, []).append(time.monotonic() - began)
        return code

    def assert_failed(self, job, kind, began):
        self.assertNotEqual(self.end_of(job, kind, began), 0, job.words)

    def assert_checkpoint_loads(self, trial):
        if trial % 2 == 0 or (self.run_dir / "checkpoints" / "last.h5").exists():
            self.assertGreaterEqual(self.step_of(self.run_dir), 1)

    def assert_names(self, job, rank, trial):
        """One line, by a rank that waits, with the one that is missing, and the step once there is one."""
        found = [line for line in job.stderr.splitlines() if line.startswith("heed: ")]
        self.assertEqual(len(found), 1, job.stderr)
        self.assertIn(f"waited {TIMEOUT_S} s (train.comm_timeout_s) for ", found[0])
        self.assertRegex(found[0], rf"missing: (.*, )?rank {rank} \(")
        if trial % 2 == 0:
            self.assertRegex(found[0], rf"^heed: rank \d, step \d+: .*rank {rank} \(last seen in step \d+, process ")


class Failures(RandomMoments):
    def test_a_rank_is_killed(self):
        def once(trial):
            job = self.mpirun((2, self.long_run()))
            members = self.reach_a_moment(job, 2, trial)
            began = time.monotonic()
            os.kill(members[random.randrange(2)], signal.SIGKILL)
            self.assert_failed(job, "killed", began)
            self.assert_checkpoint_loads(trial)

        self.repeat("killed", once)

    @staticmethod
    def spoil(path):
        """Tokens that no vocabulary of bytes has, in all places behind the first."""
        with open(path, "r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))

    def test_a_rank_cannot_read_its_data(self):
        (self.folder / "text").write_bytes(TEXT)
        self.run_heed("data", "prepare", "text", "tokens.h5", "--tokenizer", "byte")
        self.write_config('source = "tokens"\npath = "tokens.h5"', steps=1000000, eval_interval=1000000)
        places = [self.folder / name for name in ("a", "b")]

        def once(_):
            for place in places:
                place.mkdir(exist_ok=True)
                shutil.copyfile(self.folder / "tokens.h5", place / "tokens.h5")
            command = self.long_run()
            job = self.mpirun(*((1, command, place) for place in places))
            job.wait_for_step(random.randint(5, 50))
            time.sleep(random.uniform(0, 0.2))
            rank = random.randrange(2)
            began = time.monotonic()
            self.spoil(places[rank] / "tokens.h5")
            self.assert_failed(job, "fails alone", began)
            found = [line for line in job.stderr.splitlines() if line.startswith("heed: ")]
            self.assertEqual(len(found), 1, job.stderr)
            self.assertRegex(found[0], rf"^heed: rank {rank}: .*{places[rank] / 'tokens.h5'}")
            self.run_heed("generate", self.run_dir / "checkpoints" / "last.h5", "--tokens", 1)

        self.repeat("fails alone", once)

    def check_stop(self, kind, ranks):
        def once(trial):
            job = self.mpirun((ranks, self.long_run()))
            members = self.reach_a_moment(job, ranks, trial)
            rank = random.randrange(ranks)
            began = time.monotonic()
            os.kill(members[rank], signal.SIGSTOP)
            self.assert_failed(job, kind, began)
            self.assert_names(job, rank, trial)
            self.assert_checkpoint_loads(trial)

        self.repeat(kind, once)

    def test_a_rank_is_stopped(self):
        self.check_stop("stopped", 2)

    def test_one_of_four_ranks_is_stopped(self):
        self.check_stop("stopped, of 4", 4)

    def test_a_rank_never_comes(self):
        def once(_):
            absent = random.randrange(2)
            commands = [self.long_run(), ["sleep", "60"]]
            job = self.mpirun(*((1, commands[rank == absent]) for rank in range(2)))
            job.wait_for_ranks(1)
            self.assert_failed(job, "never comes", time.monotonic())
            self.assert_names(job, absent, 1)
            self.assertFalse(self.run_dir.exists())

        self.repeat("never comes", once)

    def test_no_checkpoint_is_made_after_a_death(self):
        last = self.folder / "kept" / "checkpoints" / "last.h5"
        self.run_ranks(2, "stop_after=5", "run_dir=kept")
        before = last.read_bytes(), last.stat().st_mtime_ns

        def once(_):
            job = self.mpirun((2, self.train("--resume", "save_interval=0", "run_dir=kept", f"comm_timeout_s={TIMEOUT_S}")))
            job.wait_for_step(random.randint(10, 50))
            members = job.wait_for_ranks(2)
            time.sleep(random.uniform(0, 0.1))
            rank = random.randrange(2)
            began = time.monotonic()
            os.kill(members[rank], signal.SIGKILL)
            os.kill(members[1 - rank], signal.SIGTERM)
            self.assert_failed(job, "killed, then a signal", began)
            self.assertEqual((last.read_bytes(), last.stat().st_mtime_ns), before)

        self.repeat("killed, then a signal", once)


class Signals(RandomMoments):
    """All ranks end after the same step, with 128 and the number of the signal, and the run goes on as if nothing had
    been. mpirun passes the code on, and says that a process returned it."""

    reference = []

    def reference_rows(self, count):
        if len(Signals.reference) < count:
            self.run_ranks(2, f"stop_after={2 * count}", "run_dir=whole")
            Signals.reference = rows_of(self.folder / "whole")
        return Signals.reference[:count]

    def check(self, kind, send, name, number):
        def once(_):
            job = self.mpirun((2, self.long_run()))
            job.wait_for_step(random.randint(1, 100))
            members = job.wait_for_ranks(2)
            time.sleep(random.uniform(0, 0.02))
            began = time.monotonic()
            send(job, members)
            self.assertEqual(self.end_of(job, kind, began), 128 + number, job.words)
            self.assertNotIn("heed: ", job.stderr)
            said = re.findall(rf"^stopped +by {name} at step (\d+), checkpoint saved; continue with --resume$", job.stdout, re.M)
            self.assertEqual(len(said), 1, job.words)
            step = int(said[0])
            self.assertEqual(self.step_of(self.run_dir), step)
            self.assertEqual(rows_of(self.run_dir)[-1]["step"], str(step))
            self.run_ranks(2, "--resume", f"stop_after={step + 10}", f"run_dir={self.run_dir}")
            self.assertEqual(rows_of(self.run_dir), self.reference_rows(step + 10))

        self.repeat(kind, once)

    def test_to_mpirun(self):
        self.check("SIGUSR1 to mpirun", lambda job, _: os.kill(job.process.pid, signal.SIGUSR1), "SIGUSR1",
                   signal.SIGUSR1)

    def test_to_all_ranks(self):
        def send(_, members):
            for number in members.values():
                os.kill(number, signal.SIGTERM)
        self.check("SIGTERM to all ranks", send, "SIGTERM", signal.SIGTERM)

    def test_to_one_rank(self):
        self.check("SIGTERM to one rank", lambda _, members: os.kill(members[random.randrange(2)], signal.SIGTERM),
                   "SIGTERM", signal.SIGTERM)

    def test_an_interrupt_to_one_rank(self):
        self.check("SIGINT to one rank", lambda _, members: os.kill(members[random.randrange(2)], signal.SIGINT),
                   "SIGINT", signal.SIGINT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("heed")
    parser.add_argument("--trials", type=int, default=TRIALS)
    chosen, rest = parser.parse_known_args()
    TRIALS = chosen.trials
    Ranks.heed = os.path.abspath(chosen.heed)
    skip_without_mpi(Ranks.heed)
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    print(f"{'seconds until the end':<30} {'trials':>6} {'min':>6} {'median':>6} {'max':>6}")
    for one, seconds in RandomMoments.times.items():
        print(f"{one:<30} {len(seconds):6} {min(seconds):6.2f} {statistics.median(seconds):6.2f} {max(seconds):6.2f}")
    sys.exit(not result.wasSuccessful())
