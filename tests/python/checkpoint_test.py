"""A checkpoint as the Python package reads it has the values that docs/formats.md says: a forward pass in NumPy with its
arrays has the loss that `heed eval` prints.

Usage: checkpoint_test.py PATH_OF_HEED. Skipped (77) without h5py.
"""

import re
import unittest

import package  # first: it finds the others

import h5py
import heed
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
ema_decay = 0.9
[train]
steps = 60
batch_size = 8
plot = false
"""


def validation_loss(text, model, parameters):
    """Mean over the targets of the validation part, in sequences of SEQ_LEN targets as `heed eval` cuts them."""
    tokens = np.frombuffer(text, np.uint8)[int(len(text) * (1 - VAL_FRACTION)) :].astype(int)
    starts = range(0, len(tokens) - 1, SEQ_LEN)
    total = sum(numpy_gpt.loss(tokens[start : start + SEQ_LEN + 1], model, parameters) for start in starts)
    return total / (len(tokens) - 1)


class CheckpointValues(package.Package):
    def test_loss_in_numpy_is_that_of_eval(self):
        text = package.words(TEXT_BYTES)
        run = self.train(CONFIG, text)
        checkpoint = heed.load_checkpoint(run)
        for options, parameters in ((), checkpoint.parameters), (("--ema",), checkpoint.ema_parameters):
            exact = {name: values.astype(np.float64) for name, values in parameters.items()}
            printed = float(re.search(r"validation +loss ([\d.]+)", self.run_ok("eval", run, *options))[1])
            self.assertLess(printed, 2.5, "the model has learned: ln 256 is 5.5")
            loss = validation_loss(text, checkpoint.config["model"], exact)
            self.assertAlmostEqual(loss, printed, delta=2e-6, msg=options)

    def test_all_of_a_checkpoint(self):
        run = self.train(CONFIG, package.words(TEXT_BYTES))
        checkpoint = heed.load_run(run).checkpoint("last")
        self.assertEqual(checkpoint.config["model"]["d_ff"], 96, "a derived value")
        self.assertEqual((checkpoint.step, checkpoint.tokens), (60, 60 * 8 * SEQ_LEN))
        self.assertEqual(checkpoint.vocab_size, 256)
        with h5py.File(checkpoint.path) as file:
            for kind, parameters in ("parameters", checkpoint.parameters), ("optimizer/ema", checkpoint.ema_parameters):
                self.assertEqual(set(parameters), set(file["tensors"][kind]))
                for name, values in parameters.items():
                    self.assertTrue(np.array_equal(values, file["tensors"][kind][name][()]), name)
            self.assertEqual(checkpoint.state["best_val_loss"], file["reals/best_val_loss"][()])


if __name__ == "__main__":
    unittest.main()
