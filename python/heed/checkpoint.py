"""Checkpoints: parameters, config and tokenizer of a model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from .errors import HeedError
from .files import as_path, read_group, read_text, reading, require, verify_checkpoint_block
from .resolved_config import parse_config
from .tokenizer import Tokenizer, parse_tokenizer

if TYPE_CHECKING:
    from .gpt import Gpt


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    config: the resolved config by table, such as config["model"]["d_model"], with derived values.
    parameters: the weights by name, f32 (f64 of a run in f64); docs/formats.md has the names and shapes.
    ema_parameters: their moving average, of a run with optim.ema_decay; else None.
    tokenizer: None if the data has none.
    step, tokens: training steps done, targets processed.
    state: the other numbers of the run, such as state["best_val_loss"].
    """

    path: Path
    config: dict[str, Any] = field(repr=False)
    parameters: dict[str, np.ndarray] = field(repr=False)
    ema_parameters: dict[str, np.ndarray] | None = field(repr=False)
    tokenizer: Tokenizer | None
    step: int
    tokens: int
    state: dict[str, float] = field(repr=False)

    @property
    def vocab_size(self) -> int:
        return len(self.parameters["token_embedding.weight"])

    @property
    def document_separator(self) -> int | None:
        """The token that ends a document, which attention does not cross; None if there is none."""
        text = self.config.get("data", {}).get("document_separator", "")
        if not text or self.tokenizer is None:
            return None
        # It is one token; for kind "file", the one with these bytes.
        return self.tokenizer.pieces.index(text.encode()) if self.tokenizer.kind == "file" else self.tokenizer.encode(text)[0]

    def to_torch(self, ema: bool = False) -> Gpt:
        """The model as a torch.nn.Module in evaluation mode: tokens (B, T) -> logits (B, T, V), T at most model.seq_len.

        The parameters have the same names and dtype as here. ema: use the averaged weights. Raises HeedError without
        PyTorch, or if the checkpoint has no averaged weights.
        """
        parameters = self.ema_parameters if ema else self.parameters
        if parameters is None:
            raise HeedError(f"{self.path}: it has no averaged weights; train with optim.ema_decay above 0")
        try:
            import torch
        except ImportError:
            raise HeedError("to_torch() needs PyTorch: pip install torch") from None
        from .gpt import Gpt

        model = Gpt(self.config["model"], self.vocab_size, self.document_separator)
        model.to(torch.from_numpy(parameters["token_embedding.weight"]).dtype)
        model.load_state_dict({name: torch.from_numpy(values) for name, values in parameters.items()}, strict=True)
        return model.eval()

    def to_hugging_face(self, folder: str | os.PathLike[str], ema: bool = False) -> Path:
        """Runs `heed export`, which writes a folder for transformers' from_pretrained(); returns its path.

        The folder must not exist, or be empty. The program is $HEED, else heed in $PATH, else that of the build folder
        of the checkout that this package is in. Raises HeedError with the message of the program if it refuses.
        """
        from .program import run_heed

        run_heed("export", self.path, Path(folder), *(["--ema"] if ema else []))
        return Path(folder)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Reads a checkpoint (.h5), or that of a run folder: its checkpoints/last.h5.

    Raises HeedError if it is missing, damaged or no checkpoint. Checksums are verified if xxhash is installed.
    """
    path = as_path(path)
    if path.is_dir():
        require((path / "checkpoints/last.h5").is_file(), path, "it has no checkpoints/last.h5")
        path = path / "checkpoints/last.h5"
    with reading(path):
        verify_checkpoint_block(path, "checkpoint")
        with h5py.File(path) as file:
            if "tensors/parameters" not in file:
                raise HeedError(f"{path}: it is no checkpoint of heed; heed.load_inspection() reads inspections")
            state: dict[str, Any] = {name: values.item() for name, values in read_group(file, "integers").items()}
            state |= {name: values.item() for name, values in read_group(file, "reals").items()}
            tokenizer = bytes(file["texts/tokenizer"][:]) if "texts/tokenizer" in file else b""
            return Checkpoint(
                path=path,
                config=parse_config(read_text(file, "config"), str(path)),
                parameters=read_group(file, "tensors/parameters"),
                ema_parameters=read_group(file, "tensors/optimizer/ema") or None,
                tokenizer=parse_tokenizer(tokenizer, path) if tokenizer else None,
                step=state.pop("step"),
                tokens=state.pop("tokens"),
                state=state,
            )
