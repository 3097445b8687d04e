"""heed ablate: what a sweep leaves, that a killed one goes on where it was, and what it refuses.

Usage: ablate_test.py PATH_OF_HEED
"""

import csv
import os
import random
import signal
import subprocess
import time
import unittest

from command_line import HEED, CommandLine

SWEEP = """
config = "tiny.toml"
seeds = 3
[grid]
model.num_heads = [1, 2]
"""


class Ablate(CommandLine):
    def setUp(self):
        super().setUp()
        self.sweep = self.folder / "heads.toml"
        self.sweep.write_text(SWEEP)
        self.out = self.folder / "runs" / "heads"

    def ablate(self, *arguments):
        return self.run_heed("ablate", self.sweep, *arguments)

    def rows(self, name):
        return list(csv.DictReader((self.out / name).read_text().splitlines()))

    def test_leaves_results(self):
        result = self.ablate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 arms × 3 seeds = 6 runs", result.stdout)
        arms, runs = self.rows("ablation.csv"), self.rows("runs.csv")
        self.assertEqual([row["arm"] for row in arms], ["num_heads=1", "num_heads=2"])
        self.assertEqual([row["verdict"] for row in arms][0], "baseline")
        self.assertEqual([row["head_size"] for row in arms], ["16", "8"])
        self.assertEqual([row["status"] for row in runs], ["completed"] * 6)
        losses = [float(row["val_loss"]) for row in runs]
        self.assertAlmostEqual(float(arms[0]["val_loss"]), sum(losses[:3]) / 3, places=7)
        difference = sum(b - a for a, b in zip(losses[:3], losses[3:])) / 3
        self.assertAlmostEqual(float(arms[1]["difference"]), difference, places=7)
        for line in (self.out / "table.txt").read_text().splitlines():
            self.assertLessEqual(len(line), 80)

    def test_is_what_train_does_with_the_seed(self):
        self.ablate()
        self.run_heed("train", self.config, "model.num_heads=2", "seed=3", "run_dir=alone")
        alone = (self.folder / "alone" / "metrics.csv").read_text().splitlines()
        swept = (self.out / "runs" / "2-num_heads=2" / "seed-3" / "metrics.csv").read_text().splitlines()
        self.assertEqual([row.split(",")[:6] for row in alone], [row.split(",")[:6] for row in swept])

    def test_goes_on_after_kills(self):
        whole = self.folder / "whole"
        keys = ("train.steps=60", "train.save_interval=7")
        self.ablate(*keys, f"run_dir={whole}")
        chance = random.Random(1)
        for _ in range(8):
            process = subprocess.Popen([HEED, "ablate", self.sweep, *keys], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.02, 0.5))
            process.kill()
            process.wait()
        result = self.ablate(*keys)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("ablation.csv", "runs.csv", "ablation.h5"):
            self.assertEqual((self.out / name).read_bytes(), (whole / name).read_bytes(), name)

    def test_kept_runs_are_not_run_again(self):
        self.ablate()
        before = {path: path.stat().st_mtime_ns for path in self.out.glob("runs/*/*/metrics.csv")}
        result = self.ablate("seeds=4")
        self.assertIn("done before   6 runs", result.stdout)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in before})
        self.assertEqual(len(self.rows("runs.csv")), 8)

    def test_two_processes_share_the_runs(self):
        processes = [subprocess.Popen([HEED, "ablate", self.sweep, "--jobs", "1", "train.steps=40"], cwd=self.folder,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        for process in processes:
            out, error = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, out + error)
        self.assertEqual([row["status"] for row in self.rows("runs.csv")], ["completed"] * 6)

    def test_divergence_is_a_result(self):
        self.sweep.write_text("""
config = "tiny.toml"
seeds = 2
[base]
optim.clip_norm = 0
train.steps = 30
[grid]
optim.learning_rate = [1e-3, 1e30]
""")
        result = self.ablate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("diverged", result.stdout)
        self.assertEqual([row["diverged"] for row in self.rows("ablation.csv")], ["0", "2"])
        self.assertEqual(self.rows("ablation.csv")[1]["verdict"], "no test")

    def test_an_arm_of_which_one_run_diverged_is_not_tested(self):
        self.ablate()
        self.assertIn(self.rows("ablation.csv")[1]["verdict"], ("lower", "higher", "within noise"))
        summary = self.out / "runs" / "2-num_heads=2" / "seed-3" / "summary.json"
        summary.write_text(summary.read_text().replace('"status": "completed"', '"status": "diverged"'))
        self.assertEqual(self.ablate().returncode, 0)
        arm = self.rows("ablation.csv")[1]
        self.assertEqual((arm["complete"], arm["diverged"], arm["verdict"], arm["difference"]), ("2", "1", "no test", ""))

    def test_failed_runs_do_not_stop_the_others(self):
        self.sweep.write_text("""
config = "tiny.toml"
seeds = 2
[[arm]]
name = "fails"
data = {source = "text", path = "missing.txt"}
[[arm]]
name = "works"
""")
        result = self.ablate()
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing.txt", result.stdout)
        self.assertIn("2 of 4 runs failed", result.stderr)
        self.assertEqual([row["complete"] for row in self.rows("ablation.csv")], ["0", "2"])
        self.assertEqual([row["status"] for row in self.rows("runs.csv")], ["failed"] * 2 + ["completed"] * 2)

    def test_a_run_folder_with_files_of_others_fails_alone(self):
        self.ablate("seeds=1")
        mine = self.out / "runs" / "1-num_heads=1" / "seed-2" / "config.toml"
        mine.parent.mkdir()
        mine.write_text("mine")
        result = self.ablate("seeds=2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 of 4 runs failed", result.stderr)
        self.assertEqual([row["status"] for row in self.rows("runs.csv")], ["completed", "failed"] + ["completed"] * 2)
        self.assertEqual(mine.read_text(), "mine")

    def test_a_signal_stops_with_checkpoints(self):
        process = subprocess.Popen([HEED, "ablate", self.sweep, "train.steps=1000000"], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(list(self.out.glob("runs/*/*/metrics.csv"))) < 1:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn("the same command goes on from here", out)
        self.assertTrue(list(self.out.glob("runs/*/*/checkpoints/last.h5")))

    def test_children_end_with_a_killed_parent(self):
        process = subprocess.Popen([HEED, "ablate", self.sweep, "train.steps=1000000"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (locks := list(self.out.glob("runs/*/*/.heed/lock"))):
            time.sleep(0.05)
        time.sleep(0.2)
        children = [int(lock.read_text()) for lock in locks if lock.read_text()]
        process.kill()
        process.wait()
        time.sleep(0.5)
        for child in children:
            self.assertFalse(os.path.exists(f"/proc/{child}/exe") and os.readlink(f"/proc/{child}/exe") == HEED)

    def test_refuses_folders_of_others(self):
        self.out.mkdir(parents=True)
        (self.out / "thesis.txt").write_text("mine")
        self.assert_error(self.ablate(), 2, "not empty", "run_dir=")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["thesis.txt"])

    def test_refuses_another_sweep(self):
        self.ablate()
        before = (self.out / "ablation.csv").read_bytes()
        self.assert_error(self.ablate("train.steps=6"), 2, "holds another sweep", "steps = 5, now steps = 6")
        self.sweep.write_text(SWEEP.replace("[1, 2]", "[1]"))
        self.assert_error(self.ablate(), 2, "holds another sweep")
        self.assertEqual((self.out / "ablation.csv").read_bytes(), before)

    def test_mistakes_end_before_the_first_run(self):
        self.sweep.write_text(SWEEP.replace("num_heads", "num_head"))
        self.assert_error(self.ablate(), 2, "heads.toml:5", "did you mean model.num_heads?")
        self.assertFalse((self.folder / "runs").exists())


if __name__ == "__main__":
    unittest.main()
