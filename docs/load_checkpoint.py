"""Reads a checkpoint of heed; docs/formats.md says what is in it.

    config, parameters = load("runs/ngram/checkpoints/last.h5")

For PyTorch: {name: torch.from_numpy(values) for name, values in parameters.items()}.
"""

import tomllib

import h5py


def load(path):
    """The resolved config as nested dicts, and the parameters as NumPy arrays by name."""
    with h5py.File(path) as file:
        config = tomllib.loads(bytes(file["texts/config"][:]).decode())
        parameters = {name: values[:] for name, values in file["tensors/parameters"].items()}
    # Values that follow from others are comments in the stored config.
    config["model"].setdefault("num_kv_heads", config["model"]["num_heads"])
    config["model"].setdefault("d_ff", 4 * config["model"]["d_model"])
    return config, parameters
