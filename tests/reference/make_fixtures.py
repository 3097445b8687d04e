"""The fixtures that tests/train/trainer/reference_test.cpp compares heed with.

    make_fixtures.py HEED             makes the fixtures of CASES and trainer.h5 from models that the program HEED has made
    make_fixtures.py HEED NAME …      makes these fixtures of VARIANTS
    make_fixtures.py --check FIXTURE  its steps once more: the loss of each beside what is stored

A fixture has the layout of a heed checkpoint (train/checkpoint/hdf5_image.hpp):
    tensors/weights/NAME      f32; both precisions begin with them
    tensors/inputs, targets   i32 (step, row, position); a target of -1 does not count
    tensors/PRECISION/…       what PyTorch computes in f32 and in f64: logits and gradients/NAME of the first step,
                              losses and norms (before clipping) of all
    texts/config              the resolved config
    texts/text                what its config trains on, if that is a text: its characters are the vocabulary
muon.h5 has matrices alone: tensors/CASE/weights, gradients of each step, and what the weights become.
"""

import argparse
import itertools
import pathlib
import subprocess
import tempfile
import tomllib
import zlib

import h5py
import numpy as np
import torch

from torch_gpt import IGNORED, Muon, build, loss_of, make_optimizer, read_checkpoint, train_step

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
DTYPES = {"f32": torch.float32, "f64": torch.float64}

# Odd sizes; a clip_norm that some steps pass and others do not; a schedule with all its parts.
BASE = """
[model]
num_layers = {layers}
d_model = 18
num_heads = {heads}
seq_len = 7
norm_position = "{norm}"
num_kv_heads = {kv_heads}
tie_embeddings = {tied}
position = "{position}"
{mlp}
bias = {bias}
{more}
[data]
{data}
[optim]
learning_rate = 1e-2
min_learning_rate = 1e-3
warmup_steps = 3
weight_decay = 0.3
clip_norm = {clip}
[train]
steps = 10
batch_size = 3
micro_batch_size = {micro}
precision = "f32"
"""
MUON = """optimizer = "muon"
muon_scale = "original"
momentum = 0.9
adamw_learning_rate = 3e-2
schedule = "wsd"
decay_steps = 4
[train]"""
NGRAM = 'source = "ngram"\nvocab_size = 13\norder = 2'
ALPHABET = "abcdefghijklm"
DOCUMENTS = dict(data='source = "text"\npath = "text.txt"\ndocument_separator = "c"', text=8 * ALPHABET)
CASES = [  # norm, num_kv_heads, tied, position, activation, bias
    ("pre", 6, True, "learned", "gelu", True),
    ("pre", 6, False, "none", "relu", False),
    ("pre", 2, True, "sinusoidal", "gelu", True),
    ("pre", 1, False, "learned", "gelu", True),
    ("post", 6, True, "learned", "gelu", True),
    ("post", 6, False, "sinusoidal", "gelu", False),
    ("post", 1, True, "none", "relu", True),
    ("post", 2, False, "learned", "gelu", True),
]
DEFAULTS = dict(norm="pre", layers=2, heads=6, kv_heads=6, tied=True, position="learned", activation="gelu", bias=True, more="")
# Each variant, with what is not as in DEFAULTS, has random numbers of its name alone, so that a new one leaves the bytes
# of the others as they are. activation None: without MLP.
VARIANTS = {
    "gelu_erf": dict(activation="gelu_erf", layers=1),
    "relu2": dict(activation="relu2", layers=1),
    "silu": dict(activation="silu", layers=1),
    "swiglu": dict(activation="swiglu", layers=1),
    "geglu": dict(activation="geglu", norm="post", bias=False, layers=1),
    "rope": dict(position="rope", heads=3, kv_heads=1, more="rope_base = 50"),
    "rope_part": dict(position="rope", heads=3, kv_heads=3, layers=1, more='rope_fraction = 0.667\nrope_base = 50'
                      '\nrope_scaling = "linear"\nrope_scaling_factor = 2'),
    "rope_llama3": dict(position="rope", heads=3, kv_heads=3, layers=1, more='rope_base = 50\nrope_scaling = "llama3"'
                        '\nrope_scaling_factor = 2\nrope_original_seq_len = 16'),
    "softcap": dict(more="logit_softcap = 1.5", tied=False, layers=1),
    "alibi": dict(position="alibi", kv_heads=2),
    "window": dict(position="rope", heads=3, kv_heads=3, more='sliding_window = 3\nwindow_pattern = "SL"'),
    "rms": dict(kv_heads=2, more='norm = "rms"'),
    "attention_only": dict(kv_heads=2, tied=False, position="sinusoidal", activation=None, more="attention_only = true"),
    "embedding_norm": dict(more="embedding_norm = true"),
    "norm_without_gain": dict(norm="post", kv_heads=2, tied=False, more="norm_gain = false"),
    "qk_norm": dict(kv_heads=2, tied=False, more="qk_norm = true"),
    "norms_together": dict(norm="sandwich", kv_heads=2, position="none", activation=None, bias=False, more='norm = "rms"'
                           '\nnorm_gain = false\nqk_norm = true\nembedding_norm = true\nattention_only = true'),
    "sandwich": dict(norm="sandwich", kv_heads=1),
    "mup": dict(kv_heads=2, tied=False, more="mup_base_width = 5"),
    "mup_tied": dict(norm="post", activation="relu", more="mup_base_width = 40\nlogit_softcap = 3.0", layers=1),
    # Without biases: the gradient of a key bias is rounding alone, which AdamW turns into whole steps.
    "documents": dict(**DOCUMENTS, kv_heads=2, bias=False),
    "documents_rope": dict(**DOCUMENTS, position="rope", heads=3, kv_heads=3, more='rope_base = 50\nsliding_window = 3'),
}
TEXT = "bad cafe"  # one window, so every row of every batch; the same again for validation


def document_separator(config, text):
    """The token that ends a document, or None."""
    separator = config["data"].get("document_separator")
    return sorted(set(text)).index(separator) if separator else None


def results(config, weights, inputs, targets, dtype, separator=None):
    """What a fixture stores of one precision."""
    model = build(config, weights, dtype, separator)
    found = {"logits": model(inputs[0]).detach()}
    loss_of(model(inputs[0]), targets[0], (targets[0] != IGNORED).sum()).backward()
    found |= {f"gradients/{name}": parameter.grad.clone() for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, config["optim"])
    steps = [train_step(model, optimizer, config, step, *batch) for step, batch in enumerate(zip(inputs, targets))]
    losses, norms = zip(*steps)
    return found | {"losses": torch.tensor(losses, dtype=dtype), "norms": torch.tensor(norms, dtype=dtype)}


def write_fixture(path, config_text, text, weights, inputs, targets):
    tensors = {f"weights/{name}": values for name, values in weights.items()}
    tensors |= {"inputs": inputs.int(), "targets": targets.int()}
    config = tomllib.loads(config_text)
    for name, dtype in DTYPES.items():
        found = results(config, weights, inputs, targets, dtype, document_separator(config, text))
        tensors |= {f"{name}/{key}": values for key, values in found.items()}
    write_tensors(path, tensors, {"config": config_text, "text": text})


def write_tensors(path, tensors, texts):
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        groups = {name.rsplit("/", 1)[0] for name in tensors if "/" in name}
        for group in ("tensors", "integers", "reals", "texts", *sorted(f"tensors/{name}" for name in groups)):
            file.create_group(group)  # not left to the datasets, whose groups would get the time of day
        for name, values in tensors.items():
            file[f"tensors/{name}"] = values.numpy()
        for name, value in texts.items():
            file[f"texts/{name}"] = np.frombuffer(value.encode(), dtype=np.uint8)


def write_muon_fixture(path):
    """Ten steps of a wide and a tall matrix: in f64, and by torch.optim.Muon, whose Newton-Schulz is in bf16."""
    tensors = {}
    for shape, scale in itertools.product(((12, 20), (20, 12)), ("original", "match_rms_adamw")):
        name = f"{shape[0]}x{shape[1]}_{scale}"
        weights, gradients = torch.randn(shape), torch.randn(10, *shape)
        tensors |= {f"{name}/weights": weights, f"{name}/gradients": gradients}
        for kind in ("f64", "torch"):
            w = weights.double().requires_grad_()
            own = dict(momentum=0.9, weight_decay=0.2, scale=scale)
            library = dict(lr=0.05, momentum=0.9, weight_decay=0.2, adjust_lr_fn=scale)
            optimizer = Muon([{"params": [w]}], **own) if kind == "f64" else torch.optim.Muon([w], **library)
            optimizer.param_groups[0]["lr"] = 0.05
            for gradient in gradients.double():
                w.grad = gradient.clone()
                optimizer.step()
            tensors[f"{name}/{kind}"] = w.detach()
        away = (tensors[f"{name}/f64"] - tensors[f"{name}/torch"]).norm() / (tensors[f"{name}/f64"] - weights).norm()
        print(f"{name}: torch.optim.Muon is {away:.2%} of the updates away")
    write_tensors(path, tensors, {})


def made_by_heed(heed, config_text, folder, text=""):
    """The resolved config and the weights after a run of heed, each weight moved so that no bias is 0, no gain 1."""
    config = pathlib.Path(folder) / "fixture.toml"
    config.write_text(config_text)
    (pathlib.Path(folder) / "text.txt").write_text(text)
    subprocess.run([heed, "train", config], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    checkpoint = pathlib.Path(folder) / "runs/fixture/checkpoints/last.h5"
    _, weights = read_checkpoint(checkpoint)
    with h5py.File(checkpoint) as file:
        resolved = bytes(file["texts/config"][:]).decode()
    return resolved, {name: values + 0.2 * torch.randn(values.shape) for name, values in weights.items()}


def config_of(settings, **more):
    settings = DEFAULTS | dict(data=NGRAM, clip=2.0, micro=0) | settings | more
    activation = settings["activation"]
    settings |= dict(mlp=f'd_ff = 19\nactivation = "{activation}"' if activation else "")
    return BASE.format(**{key: str(value).lower() if isinstance(value, bool) else value for key, value in settings.items()})


def make_case(heed, name, settings):
    text = settings.get("text", "")
    with tempfile.TemporaryDirectory() as folder:
        config, weights = made_by_heed(heed, config_of(settings), folder, text)
    inputs, targets = torch.randint(13, (2, 10, 3, 7))
    targets[torch.rand(targets.shape) < 0.1] = IGNORED
    if text:  # some documents in most sequences
        inputs[torch.rand(inputs.shape) < 0.2] = document_separator(tomllib.loads(config), text)
    write_fixture(FIXTURES / f"{name}.h5", config, text, weights, inputs, targets)


def make_variant(heed, name):
    torch.manual_seed(zlib.crc32(name.encode()))
    make_case(heed, name, VARIANTS[name])


def make_fixtures(heed):
    torch.manual_seed(1)
    for norm, kv_heads, tied, position, activation, bias in CASES:
        settings = dict(norm=norm, kv_heads=kv_heads, tied=tied, position=position, activation=activation, bias=bias)
        make_case(heed, f"{norm}_{'mha' if kv_heads == 6 else 'gqa'}_{'tied' if tied else 'untied'}", settings)

    text = dict(data='source = "text"\npath = "text.txt"\nval_fraction = 0.5', clip=1.5, micro=1)
    with tempfile.TemporaryDirectory() as folder:
        config, weights = made_by_heed(heed, config_of(settings, **text), folder, TEXT + TEXT)
    tokens = torch.tensor([sorted(set(TEXT)).index(letter) for letter in TEXT])
    inputs, targets = (part.expand(10, 3, 7) for part in (tokens[:-1], tokens[1:]))
    write_fixture(FIXTURES / "trainer.h5", config, TEXT + TEXT, weights, inputs, targets)
    with tempfile.TemporaryDirectory() as folder:
        config, weights = made_by_heed(heed, BASE.format(**settings).replace("[train]", MUON), folder, TEXT + TEXT)
    write_fixture(FIXTURES / "trainer_muon.h5", config, TEXT + TEXT, weights, inputs, targets)
    write_muon_fixture(FIXTURES / "muon.h5")


def check(path):
    config, weights = read_checkpoint(path, "weights")
    with h5py.File(path) as file:
        inputs, targets = (torch.from_numpy(file[f"tensors/{name}"][:]).long() for name in ("inputs", "targets"))
        stored = {name: file[f"tensors/{name}/losses"][:] for name in DTYPES}
        separator = document_separator(config, bytes(file["texts/text"][:]).decode())
    for name, dtype in DTYPES.items():
        found = results(config, weights, inputs, targets, dtype, separator)
        for step, (loss, norm) in enumerate(zip(found["losses"].tolist(), found["norms"].tolist())):
            print(f"{name} step {step + 1:2}  loss {loss:.12g}  stored {stored[name][step]:.12g}  norm {norm:.6g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the program heed, or with --check a fixture")
    parser.add_argument("variants", nargs="*", metavar="NAME", help="variants to make, of " + ", ".join(VARIANTS))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.variants) - set(VARIANTS):
        parser.error(f"no such variant: {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    torch.set_num_threads(1)
    program = pathlib.Path(options.path).resolve()
    if options.check:
        check(options.path)
    elif options.variants:
        for variant in options.variants:
            make_variant(program, variant)
    else:
        make_fixtures(program)
