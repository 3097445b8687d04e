"""The ends of a run: what it leaves, what it says and with which exit code.

Usage: run_end_test.py PATH_OF_HEED
"""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import time
import unittest

from command_line import HEED, InFolder


TINY = """
[model]
num_layers = 1
num_heads = 2
d_model = 16
seq_len = 8
[data]
source = "text"
path = "text.txt"
val_fraction = 0.5
[optim]
learning_rate = 0.01
[train]
steps = 20
batch_size = 4
device = "cpu"
eval_interval = 10
log_interval = 5
plot = false
"""

# A step takes long enough for a signal to find the run in the middle.
LONG = ("steps=1000000", "eval_interval=1000000", "log_interval=1", "save_interval=0")


class Runs(InFolder):
    CONFIG = TINY

    def setUp(self):
        super().setUp()
        (self.folder / "text.txt").write_text("abcd" * 500)
        self.run_dir = self.folder / "runs" / "tiny"

    def heed(self, *arguments, code=0, **more):
        result = subprocess.run([HEED, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                                timeout=120, **more)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        if code not in (0, -signal.SIGINT, -signal.SIGTERM):
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result

    def train(self, *arguments, **more):
        return self.heed("train", self.config, *arguments, **more)

    def start(self, *arguments, **more):
        process = subprocess.Popen([HEED, "train", self.config, *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step"):
                return process
        self.fail(process.communicate()[1])

    def rows(self, run_dir=None):
        return list(csv.DictReader(((run_dir or self.run_dir) / "metrics.csv").read_text().splitlines()))

    def summary(self, run_dir=None):
        return json.loads(((run_dir or self.run_dir) / "summary.json").read_text())


class Signals(Runs):
    def stop_by(self, number, **more):
        process = self.start(*LONG, **more)
        process.send_signal(number)
        out, error = process.communicate(timeout=60)
        return process.returncode, out, error

    def test_each_signal_saves_and_is_the_status(self):
        expected = {signal.SIGINT: -signal.SIGINT, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP,
                    signal.SIGUSR1: 128 + signal.SIGUSR1, signal.SIGUSR2: 128 + signal.SIGUSR2,
                    signal.SIGXCPU: 128 + signal.SIGXCPU}
        for number, code in expected.items():
            with self.subTest(number.name):
                returned, out, error = self.stop_by(number)
                self.assertEqual(returned, code, error)
                self.assertIn(f"stopped       by {number.name} at step", out)
                summary = self.summary()
                self.assertEqual((summary["status"], summary["reason"]), ("stopped", number.name))
                self.assertEqual(int(self.rows()[-1]["step"]), summary["steps"])
                evaluated = self.heed("eval", self.run_dir / "checkpoints" / "last.h5")
                self.assertIn(f"step {summary['steps']}\n", evaluated.stdout)

    def test_a_loop_of_the_shell_stops(self):
        loop = f"for seed in 1 2 3; do {HEED} train {self.config} model.seed=$seed run_dir=runs/$seed " \
               f"{' '.join(LONG)}; done"
        process = subprocess.Popen(["bash", "-c", loop], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.addCleanup(process.wait)
        for line in process.stdout:
            if line.startswith("step"):
                break
        os.killpg(process.pid, signal.SIGINT)  # what the terminal sends for Ctrl-C
        process.communicate(timeout=60)
        self.assertEqual(sorted(path.name for path in (self.folder / "runs").iterdir()), ["1"])
        self.assertEqual(self.summary(self.folder / "runs" / "1")["status"], "stopped")

    def test_an_ignored_signal_stays_ignored(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start(*LONG, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
            process.send_signal(number)
            time.sleep(0.2)
            self.assertIsNone(process.poll(), number.name)
            process.kill()
            process.communicate()

    def test_a_terminal_that_goes_away(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execv(HEED, [HEED, "train", str(self.config), *LONG])
        shown = b""
        while not re.search(rb"step +\d", shown):
            shown += os.read(terminal, 65536)
        os.close(terminal)
        status = os.waitpid(pid, 0)[1]
        self.assertTrue(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP, status)
        self.assertEqual(self.summary()["status"], "stopped")
        self.assertTrue((self.run_dir / "checkpoints" / "last.h5").exists())

    def test_a_signal_stops_an_evaluation_which_is_made_up_for(self):
        """The stopped run, resumed, is the run that was not stopped."""
        long_evaluation = ("val_fraction=0.98", "steps=3", "eval_interval=1", "seq_len=32")
        (self.folder / "text.txt").write_text("abcd" * 30000)
        self.train(*long_evaluation, "run_dir=whole")
        process = self.start(*long_evaluation)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertLess(self.summary()["steps"], 3)
        self.train(*long_evaluation, "--resume")
        columns = ("step", "tokens", "train_loss", "val_loss", "final_val_loss")
        whole = [[row[name] for name in columns] for row in self.rows(self.folder / "whole")]
        self.assertEqual([[row[name] for name in columns] for row in self.rows()], whole)


class Numbers(Runs):
    def test_the_final_loss_is_that_of_the_last_step(self):
        self.train("steps=200", "eval_interval=100", "stop_after=150")
        final = float(self.rows()[-1]["final_val_loss"])
        self.assertEqual(self.summary()["val_loss"], final)
        self.assertIn(f"loss {final:.6f}", self.heed("eval", self.run_dir / "checkpoints" / "last.h5").stdout)
        self.assertNotEqual(final, float(self.rows()[99]["val_loss"]))

    def test_the_summary_says_all(self):
        self.train("eval_batches=1")
        s = self.summary()
        self.assertEqual(s["status"], "completed")
        self.assertIsNone(s["reason"])
        self.assertEqual(s["config"]["model"]["d_model"], 16)
        self.assertEqual((s["val_targets"], s["best_val_targets"]), (999, 32))
        self.assertAlmostEqual(s["bits_per_byte"], s["val_loss"] / 0.6931471805599453, places=6)

    def test_final_evaluation_by_key(self):
        self.train("eval_batches=1", "train.final_eval=subset")
        self.assertEqual(self.summary()["val_targets"], 32)
        self.train("eval_batches=1", "train.final_eval=none", "run_dir=none")
        self.assertEqual(self.rows(self.folder / "none")[-1]["final_val_loss"], "")

    def test_a_best_of_other_targets_is_no_best(self):
        self.train("eval_batches=1", "stop_after=10")
        out = self.train("--resume", "eval_batches=0").stdout
        self.assertIn("best_val_loss is reset", out)
        self.assertEqual(self.summary()["best_val_targets"], 999)
        self.assertEqual(self.summary()["best_val_loss"], self.summary()["val_loss"])

    def test_what_changes_on_resume_is_said(self):
        self.train()
        out = self.train("--resume", "steps=40").stdout
        self.assertIn("train.steps 20 -> 40", out)
        self.assertRegex(out, r"the learning rate jumps from 6.16e-05 to 0\.005")
        self.assertNotIn("notice", self.train("--resume", "steps=40").stdout)


class Errors(Runs):
    def test_a_loss_that_is_not_finite(self):
        error = self.train("learning_rate=1e30", "steps=1", code=6).stderr
        self.assertIn("diverged after step 1 (validation loss nan)", error)
        self.assertIn("anomaly: the result of operation 'linear' in blocks.0", error)
        self.assertEqual(list((self.run_dir / "checkpoints").iterdir()), [])
        self.assertEqual(self.summary()["status"], "diverged")

    def test_a_loss_that_diverges_in_training(self):
        error = self.train("learning_rate=1e30", "steps=9", "eval_interval=100", code=6).stderr
        self.assertIn("diverged at step 2", error)
        self.assertEqual(self.summary()["status"], "diverged")

    def test_data_that_changes_during_the_run(self):
        # More tokens than are read at the start, so that a later step meets a block that it has not seen.
        (self.folder / "text.txt").write_text("abcd" * 200000)
        self.heed("data", "prepare", "text.txt", "a.h5", "--tokenizer", "byte")
        process = self.start("data.source=tokens", "data.path=a.h5", "steps=1000000", "eval_interval=1000000",
                             "log_interval=1", "eval_batches=1")
        with open(self.folder / "a.h5", "r+b") as file:
            file.seek(300000)
            file.write(b"\0\1" * 100000)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, error)
        self.assertEqual(error.count("\n"), 1, error)
        summary = self.summary()
        self.assertEqual(summary["status"], "failed")
        self.assertIn(f"saved         at step {summary['steps']}", out)
        self.assertEqual(int(self.rows()[-1]["step"]), summary["steps"])

    def test_a_kept_checkpoint_that_is_gone(self):
        process = self.start(*LONG[:3], "save_interval=1", "keep_checkpoints=2")
        last = self.run_dir / "checkpoints" / "last.h5"
        noticed = False
        while not noticed:
            if last.exists():
                try:
                    last.rename(self.folder / "moved.h5")
                except FileNotFoundError:
                    pass
            line = process.stdout.readline()
            self.assertNotEqual(line, "", "the run ended")
            noticed = "cannot be kept" in line
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertTrue(last.exists())

    def test_a_disk_that_is_too_small_is_known_before_the_first_step(self):
        limited = subprocess.run(["bash", "-c", 'ulimit -f 40; exec "$0" "$@"', HEED, "train", self.config],
                                 cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(limited.returncode, 4, limited.stderr)
        self.assertEqual(limited.stderr.count("\n"), 1)
        self.assertRegex(limited.stderr, r"not enough disk space in .*: \d checkpoint files of")
        self.assertNotIn("step", limited.stdout)
        self.assertEqual(list((self.run_dir / "checkpoints").iterdir()), [])
        self.train()
        self.assertFalse((self.folder / "runs" / "tiny.1").exists(), "a run without a step is no earlier run")

    def test_paths_are_fixed_at_the_start(self):
        """With run_dir = "." an earlier version moved the folder and wrote on into the moved one."""
        inner = self.folder / "inner"
        inner.mkdir()
        for code in (0, 2):
            result = subprocess.run([HEED, "train", self.config, "run_dir=.", "data.path=../text.txt"], cwd=inner,
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(self.summary(inner)["config"]["data"]["path"], str((self.folder / "text.txt").resolve()))
        self.heed("eval", inner / "checkpoints" / "last.h5")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
