"""The Python package reads runs, sweeps and inspections: the same values as are in the files.

Usage: results_test.py PATH_OF_HEED. Skipped (77) without h5py.
"""

import csv
import importlib.util
import json
import tomllib
import unittest

import package  # first: it finds the others

import heed
import numpy as np
from heed.resolved_config import parse_config

LAYERS = package.TINY + "log_layers = true\nlog_interval = 2\n"


def cells(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Results(package.Package):
    def assert_same(self, table, path):
        """Every cell of the file, as text or number."""
        rows = cells(path)
        self.assertEqual(table.num_rows, len(rows))
        self.assertEqual(list(table), list(rows[0]))
        for name, column in table.items():
            for value, row in zip(column.tolist(), rows):
                if row[name] == "":
                    self.assertTrue(np.isnan(value), name)
                else:
                    self.assertEqual(value, type(value)(row[name]), name)

    def test_run(self):
        folder = self.train(LAYERS)
        run = heed.load_run(folder)
        self.assert_same(run.metrics, folder / "metrics.csv")
        self.assert_same(run.layers, folder / "layers.csv")
        self.assertEqual(run.summary, json.loads((folder / "summary.json").read_text()))
        self.assertEqual(run.config, run.summary["config"])
        self.assertEqual(run.metrics["step"].dtype, np.int64)
        self.assertEqual(run.metrics["step"].tolist(), [1, 2, 3, 4, 5])
        self.assertEqual(run.layers["layer"].tolist()[:2], ["embedding", "block 0"])
        self.assertEqual(run.checkpoints, ["best", "last"])
        self.assertEqual(run.checkpoint("best").config, run.config)
        self.assertIsNone(run.checkpoint().tokenizer, "the data is synthetic")
        with self.assertRaisesRegex(KeyError, "no column 'loss'; there are step, "):
            run.metrics["loss"]

    def test_a_row_that_is_being_written_is_left_out(self):
        folder = self.train(package.TINY)
        with open(folder / "metrics.csv", "a") as file:
            file.write("6,1")
        self.assertEqual(heed.load_run(folder).metrics["step"].tolist(), [1, 2, 3, 4, 5])

    def test_configs_are_as_toml_reads_them(self):
        """All keys that are no comments."""
        sources = ('source = "skip"\noffsets = [3, 1]\nalpha = [4, 0.5, 2]', 'source = "dyck"\nmax_depth = 3',
                   'source = "addition"\ndigits = 2\nval_fraction = 0.25')  # fmt: skip
        for source in sources:
            run = self.train(package.TINY.replace('source = "ngram"\nvocab_size = 6\norder = 2', source))
            text = (run / "config.toml").read_text()
            ours = heed.load_run(run).config
            for table, keys in tomllib.loads(text).items():
                for key, value in keys.items() if isinstance(keys, dict) else ():
                    self.assertEqual(ours[table][key], value, f"{source}: {table}.{key}")

    def test_strings_of_a_config(self):
        text = '[model]\n[data]\npath = "/a \\"b\\" \\\\ é"\ndocument_separator = "\\u000A"\nalpha = [32.0, 8.5]\n# n = 1  (default: 2)\n'
        data = parse_config(text, "config")["data"]
        self.assertEqual(data, {"path": '/a "b" \\ é', "document_separator": "\n", "alpha": [32.0, 8.5], "n": 1})

    def test_sweep(self):
        (self.folder / "sweep.toml").write_text('config = "tiny.toml"\nseeds = 2\n[grid]\nmodel.num_heads = [1, 2]\n')
        self.run_ok("ablate", "sweep.toml")
        folder = self.folder / "runs/sweep"
        sweep = heed.load_sweep(folder)
        for name in ("ablation", "runs", "speed"):
            self.assert_same(getattr(sweep, name), folder / f"{name}.csv")
        self.assertEqual((sweep.arms, sweep.seeds), (["num_heads=1", "num_heads=2"], [1, 2]))
        self.assertEqual(sweep.train_loss.shape, (2, 2, 5))
        for a, arm in enumerate(sweep.arms):
            for s, seed in enumerate(sweep.seeds):
                run = sweep.run(arm, seed)
                self.assertEqual(run.config["model"]["num_heads"], a + 1)
                self.assertEqual(run.config["seed"], seed)
                self.assertAlmostEqual(sweep.val_loss[a, s], run.summary["val_loss"], delta=1e-7)
                self.assertTrue(np.allclose(sweep.grad_norm[a, s], run.metrics["grad_norm"], rtol=1e-7))
        with self.assertRaisesRegex(heed.HeedError, "no arm 'num_heads=3' with seed 1; arms "):
            sweep.run("num_heads=3", 1)

    def test_inspection(self):
        run = self.train(package.TINY)
        self.run_ok("inspect", run, "--sequences", 2)
        inspection = heed.load_inspection(run)
        self.assert_same(inspection.heads, run / "inspect/heads.csv")
        self.assertEqual(inspection.heads["head"].tolist(), [0, 1])
        self.assertEqual(inspection.head_names.tolist(), [inspection.heads["name"].tolist()])
        self.assertEqual(inspection.arrays["patterns"].shape, (1, 2, 8, 8))
        self.assertTrue(np.allclose(inspection.arrays["patterns"].sum(-1), 1, atol=1e-6))
        for number, name in enumerate(inspection.score_names):
            scores = inspection.arrays["scores"][..., number].ravel()
            self.assertTrue(np.allclose(scores, inspection.heads[name], rtol=1e-7), name)
        self.assertEqual(heed.load_inspection(run / "inspect").sequences, inspection.sequences)

    @unittest.skipIf(importlib.util.find_spec("pandas") is None, "Python has no pandas")
    def test_pandas(self):
        run = heed.load_run(self.train(package.TINY))
        frame = run.metrics.to_pandas()
        self.assertEqual(list(frame.columns), list(run.metrics))
        self.assertEqual(frame["step"].tolist(), run.metrics["step"].tolist())

    def test_without_pandas(self):
        if importlib.util.find_spec("pandas") is None:
            with self.assertRaisesRegex(heed.HeedError, r"^to_pandas\(\) needs pandas: pip install pandas$"):
                heed.load_run(self.train(package.TINY)).metrics.to_pandas()


if __name__ == "__main__":
    unittest.main()
