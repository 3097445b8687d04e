"""heed report: the page of a run and of a sweep, that no name breaks it, and that it replaces only its own.

Usage: report_test.py PATH_OF_HEED
"""

import csv
import json
import sys
import unittest

from command_line import TINY, CommandLine
from report_page import Page

SWEEP = """
config = "tiny.toml"
seeds = 2
[grid]
model.num_heads = [1, 2]
"""
HOSTILE = "a</b>&amp;\"c\"'<script>alert(1)<!--"


class Reports(CommandLine):
    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "runs" / "tiny"

    def heed(self, *arguments, code=0, **environment):
        result = self.run_heed(*arguments, **environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def report(self, folder, *arguments, **environment):
        result = self.heed("report", folder, *arguments, **environment)
        self.assertEqual(result.stderr, "")
        return Page(self.folder / result.stdout.splitlines()[0].split(" (")[0]).check(self)

    def without_matplotlib(self):
        folder = self.folder / "bin"
        folder.mkdir()
        (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        (folder / "python3").chmod(0o755)
        return str(folder)


class OfARun(Reports):
    def test_has_the_run(self):
        self.heed("train", self.config)
        self.assertEqual(self.heed("report", self.run_dir).stdout, f"{self.run_dir}/report.html\n")
        page = Page(self.run_dir / "report.html").check(self)
        self.assertEqual(page.texts["title"], ["tiny"])
        self.assertEqual(page.texts["h1"], ["tiny"])
        self.assertEqual(page.texts["h2"], ["Results", "Curves", "Config"])
        facts = dict(zip(page.texts["dt"], page.texts["dd"], strict=True))
        self.assertEqual(facts["Dataset"], "ngram, order 2, vocabulary 6")
        self.assertEqual(facts["Model"], "1 layer, d_model 16, 2 heads")
        self.assertEqual(facts["Steps"], "5 of 5")
        self.assertEqual(facts["Status"], "completed")
        summary = json.loads((self.run_dir / "summary.json").read_text())
        self.assertEqual(facts["Parameters"], str(summary["parameters"]))
        values = {row["quantity"]: row["value"] for row in page.rows("quantity")}
        for name, key in (("training loss, last step", "train_loss"), ("validation loss", "val_loss"),
                          ("test loss", "test_loss"), ("excess", "excess")):  # fmt: skip
            self.assertEqual(values[name], f"{summary[key]:.4f}", name)
        for one in summary["entropies"]:
            self.assertEqual(values["entropy, " + one["name"]], f"{one['nats']:.4f}")
        self.assertTrue({"training speed", "time", "peak memory"} <= values.keys())
        self.assertEqual(page.names().count("svg"), 1)
        self.assertIn("Loss (nats)", page.texts["text"])
        self.assertEqual(page.texts["pre"], [(self.run_dir / "config.toml").read_text()])
        self.assertLess(len(page.bytes), 200_000)
        self.assertEqual(self.report(self.run_dir).bytes, page.bytes, "the same bytes again")

    def test_has_the_inspection(self):
        self.heed("train", self.config)
        self.heed("inspect", self.run_dir)
        page = self.report(self.run_dir)
        self.assertIn("Attention heads", page.texts["h2"])
        rows = page.rows("head")
        self.assertEqual([row["head"] for row in rows], ["0.0", "0.1"])
        heads = list(csv.DictReader((self.run_dir / "inspect" / "heads.csv").read_text().splitlines()))
        self.assertEqual([row["entropy"] for row in rows], [f"{float(head['entropy']):.2f}" for head in heads])
        self.assertEqual(page.names().count("img"), 1)
        (self.run_dir / "inspect" / "attention.svg").write_text("<svg onload='alert(1)'>mine</svg>")
        self.assertNotIn("img", self.report(self.run_dir).names(), "a picture that is not of heed")

    def test_of_runs_that_did_not_complete(self):
        self.heed("train", self.config, "learning_rate=1e30", "warmup_steps=0", "clip_norm=0", "steps=50", code=6)
        page = self.report(self.run_dir)
        self.assertTrue(any(text.startswith("diverged: ") for text in page.texts["dd"]), page.texts["dd"])
        summary = json.loads((self.run_dir / "summary.json").read_text())
        empty = {key: None for key in ("val_loss", "train_loss", "reason", "best_val_loss", "test_loss", "excess")}
        zero = {key: 0 for key in ("steps", "parameters", "tokens_per_s", "seconds", "peak_memory_bytes")}
        changed = {**summary, **empty, **zero, "status": "running", "entropies": []}
        (self.run_dir / "summary.json").write_text(json.dumps(changed, indent=2))
        (self.run_dir / "metrics.csv").write_text((self.run_dir / "metrics.csv").read_text().splitlines()[0] + "\n")
        page = self.report(self.run_dir)
        self.assertIn("running, or killed", page.texts["dd"])
        self.assertTrue(any("before the first step" in text for text in page.texts["p"]), page.texts["p"])
        self.assertTrue(any("There are no results yet" in text for text in page.texts["p"]), page.texts["p"])

    def test_goes_with_a_run_that_is_moved_aside(self):
        self.heed("train", self.config)
        self.report(self.run_dir)
        self.heed("train", self.config)
        self.assertTrue((self.folder / "runs" / "tiny.1" / "report.html").exists())
        self.assertFalse((self.run_dir / "report.html").exists())

    def test_without_matplotlib(self):
        self.heed("train", self.config)
        result = self.heed("report", self.run_dir, PATH=self.without_matplotlib())
        lines = result.stdout.splitlines()
        self.assertTrue(lines[0].startswith(f"{self.run_dir}/report.html (without curves: python3 has no matplotlib"), lines)
        self.assertEqual(len(lines), 1)
        page = Page(self.run_dir / "report.html").check(self)
        self.assertNotIn("svg", page.names())
        self.assertTrue(any("python3 has no matplotlib" in text for text in page.texts["p"]), page.texts["p"])

    def test_names_are_escaped(self):
        name = HOSTILE.replace("/", "")
        (self.folder / name).write_text("abcd" * 50)
        ngram = 'source = "ngram"\nvocab_size = 6\norder = 2\n'
        self.config.write_text(TINY.replace(ngram, f'source = "text"\npath = \'\'\'{name}\'\'\'\n'))
        self.heed("train", self.config, f"train.run_dir=runs/{name}")
        page = self.report(f"runs/{name}")
        self.assertEqual(page.texts["h1"], [name])
        self.assertEqual(page.texts["title"], [name])
        self.assertIn(f"{name}, char tokens", page.texts["dd"])
        self.assertIn(name.replace('"', '\\"'), page.texts["pre"][0])
        self.assertIn(name, page.texts["text"])
        label = next(attributes["aria-label"] for tag, attributes in page.elements if tag == "svg")
        self.assertTrue(label.endswith(name), label)


class OfASweep(Reports):
    def setUp(self):
        super().setUp()
        self.sweep = self.folder / "heads.toml"
        self.sweep.write_text(SWEEP)
        self.out = self.folder / "runs" / "heads"

    def rows(self, name):
        return list(csv.DictReader((self.out / name).read_text().splitlines()))

    def test_has_the_sweep(self):
        self.heed("ablate", self.sweep, "train.plot=true")
        page = self.report(self.out)
        self.assertEqual(page.texts["h1"], ["heads"])
        self.assertEqual(page.texts["h2"], ["Results", "Curves", "Arms", "Config of the baseline"])
        self.assertEqual(page.texts["h3"], ["num_heads=1", "num_heads=2"])
        self.assertTrue({"arm-1", "arm-2"} <= set(page.ids))
        self.assertIn("#arm-2", page.addresses)
        self.assertIn("4, of which 4 complete", page.texts["dd"])
        self.assertEqual([row["model.num_heads"] for row in page.rows("model.num_heads")], ["1", "2"])
        arms = self.rows("ablation.csv")
        results = page.rows("verdict")
        for arm, row in zip(arms, results, strict=True):
            self.assertEqual(row["validation loss"], f"{float(arm['val_loss']):.4f} ± {float(arm['val_loss_sd']):.4f}")
            self.assertEqual(row["verdict"], arm["verdict"])
        self.assertTrue(any("t-test" in text for text in page.texts["p"]), page.texts["p"])
        self.assertEqual(results[1]["difference"], f"{float(arms[1]['difference']):+.4f}")
        self.assertEqual([row["head size"] for row in page.rows("head size")], ["16", "8"])
        self.assertEqual([row["arm"] for row in page.rows("unigram")], ["num_heads=1", "num_heads=2"])
        self.assertEqual(page.rows("this arm"), [{"key": "model.num_heads", "this arm": "2", "baseline": "1"}])
        runs, speed = self.rows("runs.csv"), self.rows("speed.csv")
        shown = page.rows("seed")
        self.assertEqual([row["seed"] for row in shown], [run["seed"] for run in runs])
        self.assertEqual([row["validation loss"] for row in shown], [f"{float(run['val_loss']):.4f}" for run in runs])
        self.assertTrue(all(row["time"] and row["tokens/s"] for row in shown))
        self.assertEqual(len(speed), 4)
        self.assertEqual(page.names().count("svg"), 1)
        self.assertIn((self.out / "table.txt").read_text(), page.texts["pre"])
        self.assertEqual(self.report(self.out).bytes, page.bytes)
        self.assertIn("4 runs", self.heed("ablate", self.sweep, "train.plot=true").stdout, "still the folder of the sweep")

    def test_names_are_escaped_and_incomplete_runs_named(self):
        self.sweep.write_text(f"""
config = "tiny.toml"
seeds = 2
[[arm]]
name = '''{HOSTILE}'''
[[arm]]
name = "large, steps"
optim = {{learning_rate = 1e30, clip_norm = 0}}
train = {{steps = 30}}
""")
        self.heed("ablate", self.sweep)
        page = self.report(self.out)
        self.assertEqual(page.texts["h3"], [HOSTILE, "large, steps"])
        self.assertEqual([row["arm"] for row in page.rows("verdict")], [HOSTILE, "large, steps"])
        self.assertEqual([row["complete"] for row in page.rows("verdict")], ["2 of 2", "0 of 2"])
        self.assertTrue(any("No arm is tested" in text for text in page.texts["p"]), page.texts["p"])
        self.assertEqual([row["status"] for row in page.rows("seed")], ["completed"] * 2 + ["diverged"] * 2)

    def test_without_results(self):
        self.heed("ablate", self.sweep)
        table = (self.out / "ablation.csv").read_text()
        (self.out / "ablation.csv").write_text(table.replace("num_heads=2", "num_heads=3"))
        self.assert_error(self.run_heed("report", self.out), 3, "does not list the arm", "num_heads=3")
        (self.out / "ablation.csv").write_text(table.replace(",2,", ",", 1))
        self.assert_error(self.run_heed("report", self.out), 3, "ablation.csv", "row 1 has")
        (self.out / "ablation.csv").write_text(table.replace("val_loss,", "val_los,", 1))
        self.assert_error(self.run_heed("report", self.out), 3, "ablation.csv", "no column val_loss")
        (self.out / "ablation.csv").unlink()
        self.assert_error(self.run_heed("report", self.out), 2, "no results yet", "heed ablate")
        self.assertFalse((self.out / "report.html").exists())


class Refused(Reports):
    def test_files_of_others_stay(self):
        self.heed("train", self.config)
        for name in ("report.html", "a.html"):
            file = self.run_dir / name
            file.write_text("<!doctype html>\n<title>mine</title>")
            self.assert_error(self.run_heed("report", self.run_dir, "--output", file), 2, str(file), "move it away")
            self.assertIn("mine", file.read_text())
        self.assert_error(self.run_heed("report", self.run_dir), 2, "report.html", "move it away")
        (self.folder / "b.html").symlink_to("nowhere.html")
        self.assert_error(self.run_heed("report", self.run_dir, "--output", "b.html"), 2, "move it away")
        for _ in range(2):  # its own page is replaced
            self.report(self.run_dir, "--output", "c.html")

    def test_mistakes(self):
        self.heed("train", self.config)
        (self.folder / "empty").mkdir()
        for arguments, code, parts in (
                ([], 2, ["folder is required"]),
                ([""], 2, ['folder is ""']),
                (["nothing"], 2, ["/nothing", "is neither a run folder", "summary.json", "heed ablate"]),
                (["empty"], 2, ["/empty", "is neither a run folder"]),
                ([self.config], 2, ["tiny.toml", "is neither a run folder"]),
                ([self.run_dir, "--output", "no/folder/a.html"], 1, ["no/folder/a.html", "No such file"])):
            with self.subTest(arguments=arguments):
                self.assert_error(self.run_heed("report", *arguments), code, *parts)
        inspection = self.run_dir / "inspect"
        inspection.mkdir()
        for text, part in (("mine\n1\n", "has no column"), ("", "is empty"), ("layer,head,name,current\n0,0,a,x\n", "a number")):
            (inspection / "heads.csv").write_text(text)
            self.assert_error(self.run_heed("report", self.run_dir), 3, "heads.csv", part)
        (self.run_dir / "summary.json").write_text("{}")
        self.assert_error(self.run_heed("report", self.run_dir), 3, "summary.json")
        self.assertFalse((self.run_dir / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
