"""The command line as a user meets it: exit codes, one line per error, files of a run.

Usage: cli_test.py PATH_OF_HEED
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HEED = None

TINY = """
[model]
num_layers = 1
num_heads = 2
d_model = 16
seq_len = 8
[data]
source = "ngram"
vocab_size = 6
order = 2
[train]
steps = 5
batch_size = 4
eval_batches = 1
"""


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "tiny.toml"
        self.config.write_text(TINY)

    def run_heed(self, *arguments, **environment):
        return subprocess.run(
            [HEED, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120,
            env={**os.environ, **environment})

    def assert_error(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("heed: "), result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_run_leaves_its_files(self):
        result = self.run_heed("train", self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        run = self.folder / "runs" / "tiny"
        rows = list(csv.DictReader((run / "metrics.csv").open()))
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
            files.append([row[:6] for row in csv.reader((self.folder / name / "metrics.csv").open())])
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
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr, arguments)

    def test_divergence_is_named(self):
        result = self.run_heed("train", self.config, "learning_rate=1e30", "warmup_steps=0", "clip_norm=0", "steps=50")
        self.assert_error(result, 6, "update", "learning_rate")
        self.assertTrue((self.folder / "runs" / "tiny" / "metrics.csv").exists())

    def test_unknown_operation(self):
        self.assert_error(self.run_heed("gradcheck", "layernorm"), 2, "layer_norm")
        self.assert_error(self.run_heed("bench", "layernorm"), 2, "layernorm")

    def test_gradcheck_of_one_operation(self):
        result = self.run_heed("gradcheck", "layer_norm")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("1 of 1 passed", result.stdout)

    def test_config_prints_values_and_origins(self):
        result = self.run_heed("config", self.config, "d_model=32")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"d_model\s+=?\s*32\s.*command line")
        reference = self.run_heed("config")
        self.assertEqual(reference.returncode, 0)
        self.assertIn("learning_rate", reference.stdout)

    def test_info_and_help(self):
        self.assertIn("matrix products", self.run_heed("info").stdout)
        help_text = self.run_heed("--help").stdout
        for command in ("train", "config", "gradcheck", "bench", "info"):
            self.assertIn(command, help_text)

    def test_bench_of_a_config(self):
        result = self.run_heed("bench", "--config", self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("MFU", result.stdout)
        self.assertFalse((self.folder / "runs").exists())


if __name__ == "__main__":
    HEED = os.path.abspath(sys.argv.pop(1))
    unittest.main()
