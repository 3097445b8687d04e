"""docs/formats.md has every file, column and dataset that heed writes.

Usage: formats_test.py PATH_OF_HEED ROOT. Without h5py, the datasets are not compared.
"""

import csv
import importlib.util
import json
import pathlib
import re
import sys
import unittest

import markdown_pages

ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
sys.path.insert(0, str(ROOT / "tests/train/commands"))
import command_line

HAS_H5PY = importlib.util.find_spec("h5py") is not None
PAGE = (ROOT / "docs/formats.md").read_text()


def documented(heading):
    """The code spans of a section, up to the next heading of its level."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return {code.text for code in markdown_pages.split_code(section)[1]}


def first_line(path):
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def datasets(path):
    import h5py

    found = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: isinstance(item, h5py.Dataset) and found.append("/" + name))
    return found


class Formats(command_line.CommandLine):
    CONFIG = command_line.TINY + 'log_layers = true\n[optim]\noptimizer = "adamw"\n'

    def assert_documented(self, heading, names):
        missing = sorted(set(names) - documented(heading))
        self.assertEqual(missing, [], f'docs/formats.md, section "{heading}", does not have them')

    def run_ok(self, *arguments):
        self.assertEqual(self.run_heed(*arguments).returncode, 0)

    def test_run_and_inspection(self):
        self.run_ok("train", self.config)
        run = self.folder / "runs/tiny"
        for name in ("metrics.csv", "layers.csv"):
            self.assert_documented("Run folder", first_line(run / name))
        self.assert_documented("Run folder", json.loads((run / "summary.json").read_text()))
        self.run_ok("inspect", run, "--sequences", 2)
        self.assert_documented("Inspection", first_line(run / "inspect/heads.csv"))
        files = {path.name for path in run.iterdir() if path.is_file()}
        self.assert_documented("Run folder", files)
        if HAS_H5PY:
            self.assert_documented("Inspection", datasets(run / "inspect/inspect.h5"))
            names = [re.sub(r"blocks\.\d+", "blocks.N", name) for name in datasets(run / "checkpoints/last.h5")]
            parameters = {name[len("/tensors/parameters/") :] for name in names if "/parameters/" in name}
            state = {re.sub("(/tensors/optimizer/.)/.*", r"\1/NAME", name) for name in names if "/parameters/" not in name}
            self.assert_documented("Checkpoint", parameters | state)

    def test_sweep(self):
        (self.folder / "sweep.toml").write_text('config = "tiny.toml"\nseeds = 2\n[grid]\nmodel.num_heads = [1, 2]\n')
        self.run_ok("ablate", "sweep.toml")
        sweep = self.folder / "runs/sweep"
        for name in ("ablation.csv", "runs.csv", "speed.csv"):
            columns = [re.sub("^step_below_.*", "step_below_NAME", column) for column in first_line(sweep / name)]
            self.assert_documented("Sweep folder", columns)
        if HAS_H5PY:
            self.assert_documented("Sweep folder", datasets(sweep / "ablation.h5"))


if __name__ == "__main__":
    unittest.main()
