"""The fixtures that tests/train/huggingface/export_test.cpp compares `heed export` with: logits by transformers.

    make_huggingface_fixtures.py HEED [CASE ...]     HEED: the program. Without a case: all of them

Each case is a tiny model, whose parameters follow a rule that the test computes, too: see value(). It is exported, and
transformers computes the logits from the exported folder. In fixtures/huggingface:
    cases.csv           the cases: name, model class, XXH64 of model.safetensors (0 if it has values of sin and cos)
    CASE.toml           the config
    CASE.config.json    the config.json that heed exports
    CASE.logits.csv     a line for each position, a column for each token of the vocabulary
Needs transformers, torch, h5py and xxhash; written with transformers 5.24.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import tempfile

import h5py
import numpy as np
import torch
import transformers
import xxhash

FIXTURES = pathlib.Path(__file__).parent / "fixtures/huggingface"
VOCABULARY, LENGTH, BLOCK_BYTES = 11, 12, 512

MODEL = {"num_layers": 2, "d_model": 8, "num_heads": 2, "seq_len": LENGTH, "d_ff": 12}
RMS = {"norm": "rms", "position": "rope", "bias": False}
SHARED = {"num_kv_heads": 1}
LINEAR = {"rope_scaling": "linear", "rope_scaling_factor": 2.0}
# Its three regions: of the wavelengths 6.3, 20, 63 and 199 one is kept, one between, and two are divided.
LLAMA3 = {"rope_scaling": "llama3", "rope_scaling_factor": 4.0, "rope_original_seq_len": 28}
GEMMA = RMS | SHARED | {"norm_position": "sandwich", "activation": "geglu", "logit_softcap": 3.0}
NO_GAIN = {"norm_gain": False}

# Each of the 19 classes, with what is easily wrong in it.
CASES = {
    "gpt2": {"activation": "gelu_erf", "tie_embeddings": False},
    "gpt2_shared_heads": SHARED | NO_GAIN | {"position": "none", "activation": "relu", "mup_base_width": 4},
    "gpt2_sinusoids": {"position": "sinusoidal", "activation": "relu2", "bias": False, "norm_eps": 1e-3},
    "openai": SHARED | {"norm_position": "post", "activation": "silu", "mup_base_width": 4},
    "opt": SHARED | {"norm_position": "post", "activation": "relu2", "d_ff": 40, "bias": False},
    "llama": RMS | SHARED | LLAMA3 | {"activation": "swiglu", "d_model": 16, "bias": True, "rope_base": 100},
    "llama_no_positions": RMS | NO_GAIN | {"position": "none", "activation": "geglu", "mup_base_width": 4},
    "llama_attention_only": RMS | SHARED | {"attention_only": True, "tie_embeddings": False, "norm_eps": 1e-3},
    "mistral": RMS | SHARED | {"activation": "geglu", "sliding_window": 5},
    "qwen2": RMS | SHARED | LINEAR | {"activation": "swiglu", "sliding_window": 4, "window_pattern": "SL"},
    "qwen3": RMS | SHARED | {"qk_norm": True, "activation": "swiglu", "sliding_window": 4, "window_pattern": "LS"},
    "qwen3_mup": RMS | LLAMA3 | {"qk_norm": True, "activation": "geglu", "mup_base_width": 4},
    "phi3": RMS | SHARED | {"activation": "swiglu", "rope_fraction": 0.5, "sliding_window": 6},
    "arcee": RMS | SHARED | LINEAR | {"activation": "relu2", "bias": True},
    "apertus": RMS | SHARED | {"qk_norm": True, "activation": "silu", "rope_base": 500},
    "starcoder2": SHARED | {"position": "rope", "activation": "gelu", "sliding_window": 5},
    "neox": SHARED | {"position": "rope", "rope_fraction": 0.5, "activation": "relu", "mup_base_width": 4},
    "stablelm": SHARED | {"position": "rope", "rope_fraction": 0.5, "activation": "swiglu", "bias": False},
    # Three heads: the slopes of ALiBi are not those of a power of two.
    "mpt": {"position": "alibi", "activation": "gelu_erf", "bias": False, "d_model": 12, "num_heads": 3, "d_ff": 20},
    "bloom": SHARED | {"position": "alibi", "activation": "gelu", "embedding_norm": True},
    "gemma2": GEMMA | {"sliding_window": 4, "window_pattern": "LS"},
    "gemma3": GEMMA | {"qk_norm": True, "mup_base_width": 4, "sliding_window": 4, "window_pattern": "SL"},
    "vaultgemma": GEMMA | NO_GAIN | {"norm_position": "pre", "tie_embeddings": False},
    "nanochat": RMS | SHARED | NO_GAIN | {"embedding_norm": True, "qk_norm": True, "activation": "relu2",
                                          "logit_softcap": 3.0, "tie_embeddings": False},
}  # fmt: skip


def tokens():
    """The sequence whose logits are compared."""
    return [(3 * i * i + i + 1) % VOCABULARY for i in range(LENGTH)]


def values(index, count):
    """The elements of the parameter with this index in the order of the names: multiples of 1 / 256 from -1/2 to 1/2."""
    mixed = ((1000003 * index + np.arange(count, dtype=np.uint64)) * 2654435761) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & 0xFFFFFFFF
    return ((mixed >> 24).astype(np.float32) - 128) / 256


def config_text(model):
    keys = MODEL | model
    if keys.get("attention_only"):
        del keys["d_ff"]
    lines = ["[model]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    lines += ["[data]", 'source = "ngram"', f"vocab_size = {VOCABULARY}", "order = 1"]
    lines += ["[train]", "steps = 1", "batch_size = 1", 'device = "cpu"', "plot = false", 'final_eval = "none"']
    return "\n".join(lines) + "\n"


def set_parameters(checkpoint):
    """Overwrites the parameters in a checkpoint file, and makes its first block fit: docs/formats.md."""
    data = bytearray(checkpoint.read_bytes())
    with h5py.File(checkpoint) as file:
        parameters = {}
        file["tensors/parameters"].visititems(
            lambda name, item: parameters.update({name: item}) if isinstance(item, h5py.Dataset) else None
        )
        for index, name in enumerate(sorted(parameters)):
            fresh = values(index, parameters[name].size)
            if name.endswith("norm.weight"):
                fresh += 1  # gains
            begin = parameters[name].id.get_offset()
            begin += 0 if begin >= BLOCK_BYTES else BLOCK_BYTES
            old = parameters[name][()].astype("<f4").tobytes()
            assert data[begin : begin + len(old)] == old, name
            data[begin : begin + len(old)] = fresh.astype("<f4").tobytes()
    data[32:40] = struct.pack("<Q", xxhash.xxh64(bytes(data[BLOCK_BYTES:])).intdigest())
    data[504:512] = struct.pack("<Q", xxhash.xxh64(bytes(data[:504])).intdigest())
    checkpoint.write_bytes(data)


def logits_of(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager", dtype=torch.float32)  # fmt: skip
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], (kind, info[kind])
    with torch.no_grad():
        return model.eval()(torch.tensor([tokens()])).logits[0].tolist(), type(model).__name__


def make(heed, name, model):
    """Writes the files of one case. Returns its line of cases.csv."""
    text = config_text(model)
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        (folder / "case.toml").write_text(text)
        run = [heed, "train", "case.toml", "run_dir=run"]
        subprocess.run(run, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        set_parameters(folder / "run/checkpoints/last.h5")
        export = [heed, "export", "run", "model"]
        subprocess.run(export, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        config = (folder / "model/config.json").read_text()
        weights = (folder / "model/model.safetensors").read_bytes()
        logits, architecture = logits_of(folder / "model")
    read = json.loads(config)
    assert [architecture] == read["architectures"], architecture
    (FIXTURES / f"{name}.toml").write_text(text)
    (FIXTURES / f"{name}.config.json").write_text(config)
    rows = [",".join(f"{value:.9g}" for value in row) for row in logits]
    (FIXTURES / f"{name}.logits.csv").write_text("\n".join(rows) + "\n")
    checksum = 0 if model.get("position") == "sinusoidal" else xxhash.xxh64(weights).intdigest()
    print(f"{name}: {read['model_type']}")
    return f"{name},{read['model_type']},{checksum:016x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=pathlib.Path)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    FIXTURES.mkdir(exist_ok=True)
    table = FIXTURES / "cases.csv"
    lines = {line.split(",")[0]: line for line in table.read_text().split()} if table.exists() else {}
    for name in arguments.cases or CASES:
        lines[name] = make(arguments.heed.resolve(), name, CASES[name])
    table.write_text("\n".join(lines[name] for name in CASES if name in lines) + "\n")


if __name__ == "__main__":
    main()
