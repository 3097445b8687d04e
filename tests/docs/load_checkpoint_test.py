"""docs/load_checkpoint.py reads what docs/formats.md says: a forward pass in NumPy with the arrays that it returns has
the loss that `heed eval` prints.

Usage: load_checkpoint_test.py PATH_OF_HEED. Skipped (77) without h5py.
"""

import importlib.util
import pathlib
import random
import re
import sys
import unittest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "train/commands"), str(ROOT / "docs")]

if importlib.util.find_spec("h5py") is None:
    print("load_checkpoint_test: skipped, Python has no h5py")
    sys.exit(77)

import command_line
import load_checkpoint
import numpy as np
import numpy_gpt

# 1003 bytes, of which the last 201 are for validation; the last sequence of it is incomplete. The initial weights are so
# large that the erf form of GELU would change the loss by 1e-5.
TEXT_BYTES, VAL_FRACTION, SEQ_LEN = 1003, 0.2, 16
CONFIG = f"""
[model]
num_layers = 2
d_model = 24
num_heads = 6
num_kv_heads = 2
seq_len = {SEQ_LEN}
init_std = 0.3
[data]
source = "text"
path = "text.txt"
tokenizer = "byte"
val_fraction = {VAL_FRACTION}
[optim]
learning_rate = 1e-2
[train]
steps = 60
batch_size = 8
plot = false
"""


def words(count):
    draw = random.Random(1)
    text = " ".join(draw.choice(("attend", "and", "heed", "the", "head")) for _ in range(count))
    return text[:count].encode()


def validation_loss(text, model, parameters):
    """Mean over the targets of the validation part, in sequences of SEQ_LEN targets as `heed eval` cuts them."""
    tokens = np.frombuffer(text, np.uint8)[int(len(text) * (1 - VAL_FRACTION)) :].astype(int)
    starts = range(0, len(tokens) - 1, SEQ_LEN)
    total = sum(numpy_gpt.loss(tokens[start : start + SEQ_LEN + 1], model, parameters) for start in starts)
    return total / (len(tokens) - 1)


class LoadCheckpoint(command_line.CommandLine):
    CONFIG = CONFIG

    def test_the_page_shows_the_file(self):
        code = (ROOT / "docs/load_checkpoint.py").read_text().split('"""\n\n', 1)[1]
        self.assertIn(f"```python\n{code}```\n", (ROOT / "docs/formats.md").read_text())

    def test_loss_in_numpy_is_that_of_eval(self):
        text = words(TEXT_BYTES)
        (self.folder / "text.txt").write_bytes(text)
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        config, parameters = load_checkpoint.load(self.folder / "runs/tiny/checkpoints/last.h5")
        self.assertEqual(config["model"]["d_ff"], 96)
        exact = {name: values.astype(np.float64) for name, values in parameters.items()}
        result = self.run_heed("eval", self.folder / "runs/tiny")
        printed = float(re.search(r"validation +loss ([\d.]+)", result.stdout)[1])
        self.assertLess(printed, 1.5, "the model has learned: ln 256 is 5.5")
        self.assertAlmostEqual(validation_loss(text, config["model"], exact), printed, delta=2e-6)


if __name__ == "__main__":
    unittest.main()
