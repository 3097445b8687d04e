"""Run folders."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .checkpoint import Checkpoint, load_checkpoint
from .errors import HeedError
from .files import as_path, is_heed_folder, reading, require
from .resolved_config import parse_config
from .table import Table, read_table


@dataclass(frozen=True)
class Run:
    """A run folder, as it was when it was read; the run may still be going on.

    config: the resolved config by table. metrics: metrics.csv, one row for each step. layers: layers.csv, of a run with
    train.log_layers; else None. summary: summary.json. docs/formats.md has the columns and members.
    """

    path: Path
    config: dict[str, Any] = field(repr=False)
    metrics: Table
    layers: Table | None
    summary: dict[str, Any] = field(repr=False)

    @property
    def checkpoints(self) -> list[str]:
        """The names of its checkpoints, such as ["best", "last", "step-000100"]."""
        return sorted(path.stem for path in (self.path / "checkpoints").glob("*.h5"))

    def checkpoint(self, name: str = "last") -> Checkpoint:
        """Reads a checkpoint: "last", "best" or "step-000100". Raises HeedError if there is none of this name."""
        if name not in self.checkpoints:
            there = ", ".join(self.checkpoints) or "none"
            raise HeedError(f"{self.path}: it has no checkpoint {name!r}; there are: {there}")
        return load_checkpoint(self.path / "checkpoints" / f"{name}.h5")


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Reads a run folder. Raises HeedError if it is missing, is not one of heed, or a file in it is damaged."""
    path = as_path(folder)
    hint = ": heed.load_sweep() reads a sweep" if is_heed_folder(path, "ablation.csv") else ""
    require(is_heed_folder(path, "summary.json"), path, f"it is no run folder of heed, it has no summary.json{hint}")
    file = path / "summary.json"
    with reading(file):
        try:
            summary = json.loads(file.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise HeedError(f"{file}: it is no JSON: {error}") from None
    require(isinstance(summary, dict) and "status" in summary, file, "it is no summary of heed")
    file = path / "config.toml"
    with reading(file):
        config = parse_config(file.read_text(encoding="utf-8"), str(file))
    layers = path / "layers.csv"
    return Run(path, config, read_table(path / "metrics.csv"), read_table(layers) if layers.exists() else None, summary)
