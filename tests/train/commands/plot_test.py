"""heed plot, and the picture at the end of a run and of a sweep.

Usage: plot_test.py PATH_OF_HEED
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

from command_line import HEED, TINY, CommandLine

SVG = "{http://www.w3.org/2000/svg}"
SWEEP = """
config = "tiny.toml"
seeds = 2
[grid]
model.num_heads = [1, 2]
"""


class Picture:
    """The texts of an SVG, and its curves by their ids."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        root = ElementTree.fromstring(self.bytes)
        self.texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
        self.curves = {group.get("id"): list(group.iter(f"{SVG}path")) for group in root.iter(f"{SVG}g")}

    def points(self, curve):
        """How many corners the line of a curve has."""
        return sum(path.get("d", "").count("L") + 1 for path in self.curves[curve][:1])


class Plots(CommandLine):
    CONFIG = TINY.replace("plot = false\n", "eval_interval = 2\n")

    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "runs" / "tiny"
        self.plot = self.run_dir / "plot.svg"

    def heed(self, *arguments, code=0, **environment):
        result = self.run_heed(*arguments, **environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def train(self, *arguments, **more):
        return self.heed("train", self.config, *arguments, **more)

    def path_with(self, python=None):
        """A PATH where python3 is this script; where there is none, without one."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        if python is not None:
            (folder / "python3").write_text(python)
            (folder / "python3").chmod(0o755)
        return str(folder)

    def without_matplotlib(self):
        return self.path_with(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')


class OfARun(Plots):
    def test_is_drawn_at_the_end(self):
        result = self.train()
        self.assertTrue(result.stdout.endswith(f"\nplot          {self.plot}\n"), result.stdout)
        picture = Picture(self.plot)
        for text in ("tiny", "Loss (nats)", "Learning rate", "Gradient norm", "step", "train", "validation"):
            self.assertIn(text, picture.texts)
        subtitle = next(text for text in picture.texts if text.startswith("ngram"))
        self.assertIn("order 2, vocabulary 6 · 1 layer, d_model 16, 2 heads", subtitle)
        self.assertTrue(any(text.startswith("completed after step 5, val loss ") for text in picture.texts))
        for name in ("unigram ", "bigram "):
            self.assertEqual(len([text for text in picture.texts if text.startswith(name)]), 1, picture.texts)
        for curve in ("train_loss", "train_loss_smoothed", "learning_rate", "grad_norm", "grad_norm_smoothed"):
            self.assertEqual(picture.points(f"{curve}-0"), 5, curve)
        self.assertEqual(picture.points("val_loss-0"), 3)
        self.assertIn(b"<dc:title>heed</dc:title>", picture.bytes)

    def test_the_same_data_gives_the_same_bytes(self):
        self.train()
        before = self.plot.read_bytes()
        self.assertEqual(self.heed("plot", self.run_dir).stdout, f"{self.plot}\n")
        self.assertEqual(self.plot.read_bytes(), before)

    def test_can_be_switched_off(self):
        result = self.train("train.plot=false")
        self.assertNotIn("plot ", result.stdout)
        self.assertFalse(self.plot.exists())
        self.heed("plot", self.run_dir)
        self.assertTrue(self.plot.exists())

    def test_goes_with_a_run_that_is_moved_aside(self):
        self.train()
        self.train()
        self.assertTrue((self.folder / "runs" / "tiny.1" / "plot.svg").exists())
        self.train("train.steps=6", "--resume")
        self.assertIn("completed after step 6", self.plot.read_text())

    def test_of_a_run_that_diverged(self):
        result = self.train("learning_rate=1e30", "warmup_steps=0", "clip_norm=0", "steps=50", "eval_interval=1000", code=6)
        self.assertIn("\nplot          ", result.stdout)
        self.assertTrue(any("diverged after step" in text for text in Picture(self.plot).texts))

    def test_of_one_step_and_without_validation(self):
        (self.folder / "abcd.txt").write_text("abcd" * 50)
        ngram = 'source = "ngram"\nvocab_size = 6\norder = 2\n'
        self.config.write_text(self.CONFIG.replace(ngram, 'source = "text"\npath = "abcd.txt"\nval_fraction = 0\n'))
        self.train("train.steps=1")
        picture = Picture(self.plot)
        self.assertIn("train_loss-0", picture.curves)
        self.assertNotIn("validation", picture.texts)
        self.assertTrue(any(text.startswith("abcd.txt, char tokens · 1 layer") for text in picture.texts))

    def test_of_a_run_that_goes_on_and_was_stopped(self):
        process = subprocess.Popen([HEED, "train", self.config, "steps=1000000", "log_interval=1", "eval_interval=1000"],
                                   cwd=self.folder, stdout=subprocess.PIPE, text=True)
        try:
            while not process.stdout.readline().startswith("step"):
                pass
            while len((self.run_dir / "metrics.csv").read_text().splitlines()) < 3:
                time.sleep(0.01)
            self.heed("plot", self.run_dir)
            self.assertTrue(any("running or killed" in text for text in Picture(self.plot).texts))
            self.plot.unlink()
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
        self.assertNotIn("plot ", out)
        self.assertFalse(self.plot.exists())
        (self.run_dir / "summary.json").unlink()
        self.heed("plot", self.run_dir, "--output", "a.svg")
        self.assertTrue(any("running or killed" in text for text in Picture(self.folder / "a.svg").texts))

    def test_of_many_steps_is_a_small_file(self):
        self.train("train.plot=false")
        header = (self.run_dir / "metrics.csv").read_text().splitlines()[0]
        noisy = (f"{step},{step * 32},{2 + step % 97 / 97 + step % 89 / 89},{'2.5' if step % 100 == 0 else ''},0.001,"
                 f"{1 + step % 83 / 7},{1e5 + step % 71},{step / 10},\n" for step in range(1, 100_001))  # fmt: skip
        (self.run_dir / "metrics.csv").write_text(header + "\n" + "".join(noisy))
        self.heed("plot", self.run_dir)
        self.assertLess(len(self.plot.read_bytes()), 200_000)

    def test_of_extreme_numbers(self):
        self.train("train.plot=false")
        header = (self.run_dir / "metrics.csv").read_text().splitlines()[0]
        for values in (["1e308"], ["0", "0", "0"], ["nan"], ["2", "inf", "1e300", "-nan"], ["1e-300", "1e-30"],
                       ["1", "1.0000001"]):  # fmt: skip
            rows = (f"{i + 1},{i},{v},{v},{v},{v},{v},{i},\n" for i, v in enumerate(values))
            (self.run_dir / "metrics.csv").write_text(header + "\n" + "".join(rows))
            with self.subTest(values=values):
                self.heed("plot", self.run_dir)
                Picture(self.plot)

    def test_png(self):
        self.train("train.plot=false")
        for _ in range(2):  # its own picture is replaced
            self.heed("plot", self.run_dir, "--output", "a.png")
        self.assertTrue((self.folder / "a.png").read_bytes().startswith(b"\x89PNG"))


class OfSeveral(Plots):
    CONFIG = TINY

    def test_runs_have_a_legend(self):
        for name in ("first", "_second", "a $5 run"):
            self.train(f"train.run_dir=runs/{name}", "steps=3")
        self.assertEqual(self.heed("plot", "runs/first", "runs/_second", "runs/a $5 run").stdout, "plot.svg\n")
        picture = Picture(self.folder / "plot.svg")
        for name in ("first", "_second", "a $5 run"):
            self.assertEqual(len([text for text in picture.texts if text.strip() == name]), 1, picture.texts)
        for i in range(3):
            self.assertEqual(picture.points(f"train_loss_smoothed-{i}"), 3)
        self.assertNotIn("train_loss-0", picture.curves)

    def test_runs_of_the_same_name_are_told_by_their_paths(self):
        for name in ("a/run", "b/run"):
            self.train(f"train.run_dir={name}", "steps=2")
        self.heed("plot", "a/run", "b/run", "--output", "two.svg")
        self.assertTrue({"a/run", "b/run"} <= set(Picture(self.folder / "two.svg").texts))


class OfASweep(Plots):
    CONFIG = TINY.replace("plot = false\n", "")

    def setUp(self):
        super().setUp()
        (self.folder / "heads.toml").write_text(SWEEP)
        self.out = self.folder / "runs" / "heads"

    def test_is_drawn_once_at_the_end(self):
        result = self.heed("ablate", "heads.toml")
        self.assertIn(f"\nplot          {self.out}/plot.svg\n", result.stdout)
        self.assertEqual(list(self.folder.rglob("plot.svg")), [self.out / "plot.svg"])
        config = next(self.out.glob("runs/*/*/config.toml")).read_text()
        self.assertIn("\nplot = true\n", config)
        picture = Picture(self.out / "plot.svg")
        for name in ("num_heads=1", "num_heads=2"):
            self.assertEqual(picture.texts.count(name), 2, picture.texts)  # at its final losses and in the legend
        self.assertIn("Final excess (nats), mean ± sd", picture.texts)
        self.assertTrue(any(text.startswith("2 arms, 4 runs · ngram") for text in picture.texts))
        for i in range(2):
            self.assertEqual(picture.points(f"grad_norm_smoothed-{i}"), 5)
            self.assertIn(f"val_loss-{i}", picture.curves)
            self.assertIn(f"val_loss-band-{i}", picture.curves)
        before = picture.bytes
        self.heed("plot", self.out)
        self.assertEqual((self.out / "plot.svg").read_bytes(), before)

    def test_can_be_switched_off(self):
        result = self.heed("ablate", "heads.toml", "train.plot=false")
        self.assertNotIn("plot ", result.stdout)
        self.assertEqual(list(self.folder.rglob("plot.svg")), [])

    def test_beside_a_run(self):
        self.heed("ablate", "heads.toml", "seeds=1")
        self.train("train.run_dir=alone")
        self.heed("plot", "alone", self.out)
        names = {"alone", "heads: num_heads=1", "heads: num_heads=2"}
        self.assertTrue(names <= set(Picture(self.folder / "plot.svg").texts))

    def test_arms_that_diverge_are_named(self):
        (self.folder / "heads.toml").write_text("""
config = "tiny.toml"
seeds = 2
[base]
optim.clip_norm = 0
train.steps = 30
[grid]
optim.learning_rate = [1e-3, 1e30]
""")
        self.heed("ablate", "heads.toml")
        self.assertTrue(any("(0 of 2 complete, 2 diverged)" in text for text in Picture(self.out / "plot.svg").texts))


class Refused(Plots):
    def test_files_of_others_stay(self):
        self.train("train.plot=false")
        for name in ("plot.svg", "a.svg", "a.png"):
            file = self.run_dir / name
            file.write_text("<?xml version='1.0'?><svg>mine</svg>")
            self.assert_error(self.run_heed("plot", self.run_dir, "--output", file), 2, str(file), "move it away")
            self.assertIn("mine", file.read_text())
        (self.run_dir / "b.svg").symlink_to("a.svg")
        self.assert_error(self.run_heed("plot", self.run_dir, "--output", self.run_dir / "b.svg"), 2, "move it away")
        result = self.train("train.steps=6", "--resume")
        self.assertIn("\nplot          none: ", result.stdout)
        self.assertIn("mine", self.plot.read_text())

    def test_mistakes(self):
        self.train("train.plot=false")
        (self.folder / "empty").mkdir()
        for arguments, code, parts in (
                ([], 2, ["run is required"]),
                ([""], 2, ['run is ""']),
                (["nothing"], 2, ["/nothing", "is neither a run folder", "metrics.csv"]),
                (["empty"], 2, ["/empty", "is neither a run folder"]),
                ([self.config], 2, ["tiny.toml", "is neither a run folder"]),
                ([self.run_dir, "--output", "a.pdf"], 2, ["a.pdf", ".svg or .png"]),
                ([self.run_dir, "--output", "a"], 2, [".svg or .png"]),
                ([self.run_dir, "--output", "no/folder/a.svg"], 1, ["no/folder/a.svg", "No such file"])):
            with self.subTest(arguments=arguments):
                self.assert_error(self.run_heed("plot", *arguments), code, *parts)
        metrics = self.run_dir / "metrics.csv"
        rows = metrics.read_text().splitlines(keepends=True)
        metrics.write_text(rows[0])
        self.assert_error(self.run_heed("plot", self.run_dir), 2, "tiny", "before the first step")
        metrics.write_text("".join(rows[:2]) + "mine\n")
        self.assert_error(self.run_heed("plot", self.run_dir), 3, "metrics.csv", "line 3")
        (self.run_dir / "summary.json").write_text("{}")
        metrics.write_text("".join(rows))
        self.assert_error(self.run_heed("plot", self.run_dir), 3, "summary.json")
        self.assertFalse(self.plot.exists())


class WithoutMatplotlib(Plots):
    REASON = "python3 has no matplotlib (apt install python3-matplotlib, or pip install matplotlib)"

    def test_a_run_and_a_sweep_still_succeed(self):
        result = self.train(PATH=self.without_matplotlib())
        self.assertTrue(result.stdout.endswith(f"\nplot          none: {self.REASON}\n"), result.stdout)
        self.assertEqual(result.stderr, "")
        (self.folder / "heads.toml").write_text(SWEEP)
        result = self.heed("ablate", "heads.toml", PATH=self.without_matplotlib())
        self.assertEqual(result.stdout.count(self.REASON), 1)
        self.assertEqual(list(self.folder.rglob("plot.svg")), [])

    def test_the_command_fails(self):
        self.train("train.plot=false")
        for script, reason in (("exit 1", "python3 failed: without a message"),
                               ("echo first >&2; echo last >&2; exit 1", "python3 failed: last"),
                               ("kill -9 $$", "python3 was ended by signal 9")):
            path = self.path_with(f"#!/bin/sh\n{script}\n")
            self.assert_error(self.run_heed("plot", self.run_dir, PATH=path), 5, reason)
        self.assert_error(self.run_heed("plot", self.run_dir, PATH=self.without_matplotlib()), 5, self.REASON)
        (self.folder / "bin" / "python3").unlink()
        self.assert_error(self.run_heed("plot", self.run_dir, PATH=self.path_with()), 5, "python3 is not on PATH")
        self.assertFalse(self.plot.exists())

    def test_the_next_python_on_the_path_is_tried(self):
        path = f"{self.without_matplotlib()}:{os.environ['PATH']}"
        self.train(PATH=path)
        self.assertIn("Loss (nats)", Picture(self.plot).texts)

    def test_modules_in_the_current_folder_are_not_imported(self):
        for name in ("json", "matplotlib", "io", "random"):
            (self.folder / f"{name}.py").write_text("raise SystemExit('the file of the user was run')")
        self.train()
        self.assertTrue(self.plot.exists())


if __name__ == "__main__":
    unittest.main()
