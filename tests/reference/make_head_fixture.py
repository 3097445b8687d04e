"""The fixture that tests/train/inspect/head_reference_test.cpp compares heed with: scores by TransformerLens.

    make_head_fixture.py HEED         makes fixtures/heads.h5 from a model that the program HEED has made

It has the layout of a heed checkpoint (train/checkpoint/hdf5_image.hpp):
    tensors/weights/NAME      f32
    tensors/inputs            i32 (row, position)
    tensors/scores            f64 (score, layer, head): previous, duplicate, induction, the means over the rows of
                              detect_head() with error_measure "mul"
    texts/config              the resolved config
Needs transformer_lens.
"""

import pathlib
import sys
import tempfile
import tomllib

import h5py
import numpy as np
import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig
from transformer_lens.head_detector import detect_head

from make_fixtures import FIXTURES, made_by_heed

CONFIG = """
[model]
num_layers = 2
d_model = 24
num_heads = 4
seq_len = 32
[data]
source = "ngram"
vocab_size = 11
order = 2
[train]
steps = 3
batch_size = 4
precision = "f32"
"""
SCORES = ("previous_token_head", "duplicate_token_head", "induction_head")


def hooked(config, weights):
    """The same model in TransformerLens. Its context is one longer than the sequences, as detect_head() demands."""
    model, vocab_size = config["model"], weights["token_embedding.weight"].shape[0]
    width, heads, length = model["d_model"], model["num_heads"], model["seq_len"]
    size = width // heads
    lens = HookedTransformer(
        HookedTransformerConfig(
            n_layers=model["num_layers"], d_model=width, n_heads=heads, d_head=size, n_ctx=length + 1,
            d_mlp=4 * width, d_vocab=vocab_size, act_fn="gelu_new", normalization_type="LN",
            positional_embedding_type="standard", device="cpu",
        )
    )
    state = {
        "embed.W_E": weights["token_embedding.weight"],
        "pos_embed.W_pos": torch.cat([weights["position_embedding.weight"], torch.zeros(1, width)]),
        "unembed.W_U": weights["token_embedding.weight"].T,
        "unembed.b_U": torch.zeros(vocab_size),
        "ln_final.w": weights["last_norm.weight"],
        "ln_final.b": weights["last_norm.bias"],
    }
    for layer in range(model["num_layers"]):
        ours, theirs = f"blocks.{layer}.", f"blocks.{layer}."
        qkv, bias = weights[ours + "attention.qkv.weight"], weights[ours + "attention.qkv.bias"]
        for name, part, part_bias in zip("QKV", qkv.split(width), bias.split(width)):
            state[f"{theirs}attn.W_{name}"] = part.view(heads, size, width).transpose(1, 2)
            state[f"{theirs}attn.b_{name}"] = part_bias.view(heads, size)
        state[theirs + "attn.W_O"] = weights[ours + "attention.projection.weight"].T.reshape(heads, size, width)
        state[theirs + "attn.b_O"] = weights[ours + "attention.projection.bias"]
        for norm, name in (("attention_norm", "ln1"), ("feed_forward_norm", "ln2")):
            state[f"{theirs}{name}.w"] = weights[f"{ours}{norm}.weight"]
            state[f"{theirs}{name}.b"] = weights[f"{ours}{norm}.bias"]
        for matrix, name in (("up", "in"), ("down", "out")):
            state[f"{theirs}mlp.W_{name}"] = weights[f"{ours}feed_forward.{matrix}.weight"].T
            state[f"{theirs}mlp.b_{name}"] = weights[f"{ours}feed_forward.{matrix}.bias"]
    missing, unexpected = lens.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith(("mask", "IGNORE")) for name in missing), (missing, unexpected)
    return lens


def main(heed):
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        config, weights = made_by_heed(pathlib.Path(heed).resolve(), CONFIG, folder)
    # Larger queries and keys, so that the attention is far from uniform.
    for name in weights:
        if name.endswith("qkv.weight"):
            weights[name] = 3 * weights[name]
    model = hooked(tomllib.loads(config), weights)
    inputs = torch.randint(11, (6, 32))
    found = torch.zeros(len(SCORES), 2, 4, dtype=torch.float64)
    for row in inputs:
        _, cache = model.run_with_cache(row[None], remove_batch_dim=True)
        model.to_tokens = lambda tokens: tokens  # the sequence is given as tokens
        for index, score in enumerate(SCORES):
            found[index] += detect_head(model, row[None], score, cache=cache).double() / len(inputs)
    with h5py.File(FIXTURES / "heads.h5", "w", libver=("v110", "v110")) as file:
        for group in ("tensors", "integers", "reals", "texts", "tensors/weights"):
            file.create_group(group)
        for name, values in weights.items():
            file[f"tensors/weights/{name}"] = values.numpy()
        file["tensors/inputs"] = inputs.int().numpy()
        file["tensors/scores"] = found.numpy()
        file["texts/config"] = np.frombuffer(config.encode(), dtype=np.uint8)


if __name__ == "__main__":
    main(sys.argv[1])
