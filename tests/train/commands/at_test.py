"""RUN@STEP: `heed at`, and the commands that read a step of a run as they read a checkpoint.

Usage: at_test.py PATH_OF_HEED
"""

import csv
import fcntl
import shutil
import unittest

import command_line


class PastStep(command_line.CommandLine):
    def setUp(self):
        super().setUp()
        self.run_ok("train", self.config, "steps=20", "save_interval=5", "keep_checkpoints=2", "train.run_dir=run")
        self.run_dir = self.folder / "run"
        self.checkpoints = self.run_dir / "checkpoints"

    def run_ok(self, *arguments):
        result = self.run_heed(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def names(self):
        return sorted(file.name for file in self.checkpoints.iterdir())

    def test_a_rebuilt_step_is_saved_as_a_checkpoint_and_found_again(self):
        first = self.run_ok("at", "run", 13)
        self.assertIn("origin      step-000010.h5 and 3 repeated steps in ", first)
        self.assertIn("checkpoints/step-000013.h5\"\n", first)
        again = self.run_ok("at", "run", 13)
        self.assertIn("origin      step-000013.h5\n", again)
        self.assertEqual(*(text[text.index("train loss"):] for text in (first, again)))
        self.assertIn("origin      step-000013.h5 and 1 repeated step in ", self.run_ok("at", "run", "14"))
        self.assertIn("origin      last.h5\n", self.run_ok("at", "run", 20))
        self.assertIn("the initial weights", self.run_ok("at", "run", 0))
        self.assertEqual(self.names(), ["best.h5", "last.h5", *(f"step-{n:06}.h5" for n in (0, 10, 13, 14, 15))])

    def test_other_commands_read_it_and_save_nothing(self):
        before = self.names()
        evaluated = self.run_ok("eval", "run@13").splitlines()
        inspected = self.run_ok("inspect", "run@13", "--output", "heads").splitlines()
        generated = self.run_heed("generate", "run@13", "--prompt", "1 2", "--tokens", 5)
        self.run_ok("export", "run@13", "exported")
        self.run_ok("train", self.config, "init_from=run@13", "steps=1", "train.run_dir=other")
        self.assertEqual(self.names(), before)
        self.run_ok("at", "run", 13, "--export", "exported_by_at")
        file = "run/checkpoints/step-000013.h5"
        self.assertEqual(evaluated[0], '"run@13", step 13')
        self.assertEqual(evaluated[1:], self.run_ok("eval", file).splitlines()[1:])
        again = self.run_ok("inspect", file, "--output", "heads").splitlines()
        self.assertEqual(inspected[1:], again[1:])
        self.assertEqual(generated.stdout, self.run_heed("generate", file, "--prompt", "1 2", "--tokens", 5).stdout)
        weights = "model.safetensors"
        self.assertEqual((self.folder / "exported" / weights).read_bytes(),
                         (self.folder / "exported_by_at" / weights).read_bytes())

    def test_the_cost_is_stated(self):
        self.assertRegex(self.run_ok("at", "run"), r"^checkpoints after the steps .*10, 15, 20\n"
                                                   r"rebuild     any of the 20 steps: \d repeated steps at most, about \S+ s\n$")
        self.assertEqual(self.names(), ["best.h5", "last.h5", "step-000010.h5", "step-000015.h5"])

    def test_a_picture_up_to_a_step(self):
        result = self.run_heed("plot", "run@13")
        if result.returncode == 5:
            self.skipTest("no matplotlib")
        self.assertEqual((result.returncode, result.stdout), (0, "plot.svg\n"), result.stderr)
        picture = (self.folder / "plot.svg").read_text()
        self.assertIn("run@13", picture)
        self.assertIn("up to step 13", picture)
        self.assertFalse((self.run_dir / "plot.svg").exists())

    def test_a_moved_run(self):
        expected = self.run_ok("eval", "run@7").splitlines()[1:]
        (self.folder / "elsewhere").mkdir()
        shutil.move(self.run_dir, self.folder / "elsewhere" / "moved")
        self.assertEqual(self.run_ok("eval", "elsewhere/moved@7").splitlines()[1:], expected)

    def test_steps_that_cannot_be_rebuilt(self):
        for step in ("21", "99999"):
            self.assert_error(self.run_heed("eval", f"run@{step}"), 2, "has done 20 steps; STEP must be 0 to 20")
            self.assert_error(self.run_heed("at", "run", step), 2, "has done 20 steps; STEP must be 0 to 20")
        self.assert_error(self.run_heed("at", "run", "x"), 2, 'step is "x"')
        self.assert_error(self.run_heed("at", "none", 3), 2, 'none" is not a run folder')
        self.assert_error(self.run_heed("at", "none"), 2, 'none" is not a run folder')
        self.assert_error(self.run_heed("eval", "none@3"), 2, 'none" is not a run folder')
        with (self.run_dir / "metrics.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        rows[12][5] = "7.5"
        with (self.run_dir / "metrics.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        self.run_ok("eval", "run@10")
        self.assert_error(self.run_heed("eval", "run@11"), 4, "run@11 cannot be rebuilt exactly: step 12 now gives")
        before = self.names()
        self.assert_error(self.run_heed("at", "run", 13), 4, "run@13 cannot be rebuilt exactly: step 12 now gives",
                          "gradient norm 7.5", "another machine")
        self.assertEqual(self.names(), before)

    def test_a_run_that_trains_is_read_but_not_written_to(self):
        with (self.run_dir / ".heed" / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assert_error(self.run_heed("at", "run", 13), 2, "already training", "eval, inspect, generate and export "
                              "read run@13")
            self.run_ok("eval", "run@13")

    def test_a_folder_whose_name_looks_like_a_step(self):
        shutil.copytree(self.run_dir, self.folder / "run@13")
        self.assertIn("repeated steps", self.run_ok("at", "run", 13))
        self.assertIn("step-000013.h5", self.names())

    def test_a_run_does_not_start_from_a_step_of_the_run_that_it_moves_aside(self):
        result = self.run_heed("train", self.config, "init_from=run@13", "steps=1", "train.run_dir=run")
        self.assert_error(result, 2, "not moved aside, since train.init_from is in it")

    def test_a_file_in_the_place_of_the_checkpoint_stays(self):
        file = self.checkpoints / "step-000013.h5"
        file.write_text("mine")
        self.assert_error(self.run_heed("at", "run", 13), 4, "step-000013.h5 exists")
        self.assertEqual(file.read_text(), "mine")


if __name__ == "__main__":
    unittest.main()
