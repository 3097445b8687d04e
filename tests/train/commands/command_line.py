"""What the tests of the command line share. The program under test is the first argument of the test.
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HEED = os.path.abspath(sys.argv.pop(1))

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
plot = false
"""

ALPHABET = """
[model]
num_layers = 1
num_heads = 2
d_model = 32
seq_len = 8
dropout = 0.1
[data]
source = "text"
path = "abcd.txt"
[optim]
learning_rate = 1e-2
[train]
steps = 300
batch_size = 4
eval_interval = 1000
plot = false
"""


def timeless(run):
    """The rows of metrics.csv without the columns of time."""
    return [row[:6] for row in csv.reader((run / "metrics.csv").read_text().splitlines())]


class InFolder(unittest.TestCase):
    """A temporary folder with a config."""

    CONFIG = TINY

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "tiny.toml"
        self.config.write_text(self.CONFIG)


class CommandLine(InFolder):
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
