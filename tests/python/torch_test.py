"""to_torch() computes what heed computes: the validation loss and that at each position of `heed eval`, for each variant
of the model, and the logits of the fixtures, with which the tests of the trainer compare heed.

Usage: torch_test.py PATH_OF_HEED. Skipped (77) without h5py or PyTorch.
"""

import csv
import importlib.util
import re
import sys
import tomllib
import unittest

import package  # first: it finds the others

if importlib.util.find_spec("torch") is None:
    print("torch_test: skipped, Python has no torch")
    sys.exit(77)

import h5py
import heed
import torch
from heed.gpt import Gpt
from torch.nn import functional as F

torch.set_num_threads(1)

SEQ_LEN, VAL_FRACTION, TOLERANCE = 16, 0.2, 1e-5
CONFIG = """
[model]
num_layers = 2
d_model = 24
num_heads = {heads}
seq_len = 16
init_std = 0.3
{model}
[data]
source = "text"
path = "text.txt"
tokenizer = "byte"
val_fraction = 0.2
{data}
[optim]
learning_rate = 1e-2
{optim}
[train]
steps = 4
batch_size = 4
final_eval = "none"
eval_interval = 1000
plot = false
precision = "{precision}"
"""
DOCUMENTS = 'document_separator = "\\n"'
EMA = "ema_decay = 0.9"
VARIANTS = {
    "dropout": dict(model="dropout = 0.2\nattention_dropout = 0.1"),
    "post": dict(model='norm_position = "post"\nactivation = "gelu_erf"'),
    "sandwich": dict(model='norm_position = "sandwich"\nnorm = "rms"\nactivation = "relu2"'),
    "no_gain": dict(model='norm_gain = false\nqk_norm = true\nembedding_norm = true\nactivation = "silu"'),
    "llama": dict(model='norm = "rms"\nbias = false\nposition = "rope"\nactivation = "swiglu"\nnum_kv_heads = 2'),
    "rope_part": dict(model='position = "rope"\nrope_fraction = 0.5\nrope_scaling = "linear"\nrope_scaling_factor = 2', heads=3),
    "rope_llama3": dict(model='position = "rope"\nrope_base = 50\nrope_scaling = "llama3"\nrope_scaling_factor = 4'
                        "\nrope_original_seq_len = 8"),
    "alibi": dict(model='position = "alibi"\nnum_kv_heads = 1\nactivation = "geglu"', heads=6),
    "window": dict(model='sliding_window = 5\nwindow_pattern = "SL"\nposition = "none"'),
    "alibi_window": dict(model='sliding_window = 3\nposition = "alibi"'),
    "softcap": dict(model='logit_softcap = 4.0\ntie_embeddings = false\nposition = "sinusoidal"', optim=EMA),
    "mup": dict(model="mup_base_width = 8\ntie_embeddings = false\nqk_norm = true"),
    "mup_tied": dict(model='mup_base_width = 48\nactivation = "relu"'),
    "attention_only": dict(model="attention_only = true"),
    "documents": dict(data=DOCUMENTS),
    "documents_sinusoidal": dict(data=DOCUMENTS, model='position = "sinusoidal"\nsliding_window = 6'),
    "documents_rope": dict(data=DOCUMENTS, model='position = "rope"\nnum_kv_heads = 2'),
    "documents_alibi": dict(data=DOCUMENTS, model='position = "alibi"'),
    "f64": dict(precision="f64"),
}  # fmt: skip


def validation_losses(model, text):
    """The loss of each target of the validation part, in sequences of SEQ_LEN targets as `heed eval` cuts them; and the
    number of tokens before each, with that of its prediction."""
    tokens = torch.tensor(list(text[int(len(text) * (1 - VAL_FRACTION)) :]))
    losses, context = [], []
    for start in range(0, len(tokens) - 1, SEQ_LEN):
        part = tokens[start : start + SEQ_LEN + 1]
        with torch.no_grad():
            losses.append(F.cross_entropy(model(part[None, :-1])[0].double(), part[1:], reduction="none"))
        context.append(torch.arange(1, len(part)))
    return torch.cat(losses), torch.cat(context)


class Torch(package.Package):
    TEXT = package.words(1003)

    def compare(self, name, heads=4, model="", data="", optim="", precision="f32"):
        config = CONFIG.format(heads=heads, model=model, data=data, optim=optim, precision=precision)
        run = self.train(config, self.TEXT, name)
        ema = ["--ema"] if optim == EMA else []
        losses, context = validation_losses(heed.load_checkpoint(run).to_torch(ema=bool(ema)), self.TEXT)
        printed = self.run_ok("eval", run, "--by-position", "--csv", f"{name}.csv", *ema)
        loss = float(re.search(r"validation +loss ([\d.]+)", printed)[1])
        self.assertAlmostEqual(losses.mean().item(), loss, delta=TOLERANCE)
        with open(self.folder / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), SEQ_LEN)
        for row in rows:
            mean = losses[context == int(row["context"])].mean().item()
            self.assertAlmostEqual(mean, float(row["loss"]), delta=TOLERANCE, msg=row)

    def test_variants(self):
        for name, settings in VARIANTS.items():
            with self.subTest(name):
                self.compare(name, **settings)

    def test_fixtures(self):
        """Whose logits are also those of heed, as tests/train/trainer/reference_test.cpp checks."""
        count = 0
        for path in sorted((package.ROOT / "tests/reference/fixtures").glob("*.h5")):
            with h5py.File(path) as file:
                if "tensors/f64/logits" not in file:
                    continue
                config = tomllib.loads(bytes(file["texts/config"][:]).decode())["model"]
                weights = {name: torch.from_numpy(values[:]).double() for name, values in file["tensors/weights"].items()}
                inputs, expected = torch.from_numpy(file["tensors/inputs"][0]).long(), file["tensors/f64/logits"][:]
            model = Gpt(config, len(weights["token_embedding.weight"])).double()
            model.load_state_dict(weights, strict=True)
            difference = (model(inputs).detach() - torch.from_numpy(expected)).abs().max().item()
            self.assertLess(difference, 1e-10, path.name)
            count += 1
        self.assertGreater(count, 25)

    def test_the_module(self):
        run = self.train(CONFIG.format(heads=4, model="", data="", optim="", precision="f64"), self.TEXT)
        checkpoint = heed.load_checkpoint(run)
        module = checkpoint.to_torch()
        self.assertFalse(module.training)
        for name, parameter in module.state_dict().items():
            self.assertEqual(parameter.dtype, torch.float64)
            self.assertTrue((parameter.numpy() == checkpoint.parameters[name]).all(), name)
        with torch.no_grad():
            module.last_norm.weight.zero_()
        self.assertTrue(checkpoint.parameters["last_norm.weight"].any(), "the module has its own copy")
        with self.assertRaisesRegex(ValueError, r"^tokens have shape \(1, 17\), they must be \(batch, at most 16\)$"):
            module(torch.zeros(1, 17, dtype=torch.long))
        with self.assertRaisesRegex(heed.HeedError, "it has no averaged weights; train with optim.ema_decay above 0"):
            checkpoint.to_torch(ema=True)


if __name__ == "__main__":
    unittest.main()
