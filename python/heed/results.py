"""Sweep folders and inspections."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from .errors import HeedError
from .files import as_path, is_heed_folder, read_group, read_text, reading, require, verify_checkpoint_block
from .run import Run, load_run
from .table import Table, read_table


@dataclass(frozen=True)
class Sweep:
    """The results of `heed ablate`. A is the number of arms, S that of seeds; NaN stands for a missing value.

    ablation, runs, speed: the CSV files, one row for each arm, run and run.
    val_loss, excess: f64 (A, S). train_loss, grad_norm: f64 (A, S, steps).
    """

    path: Path
    arms: list[str]
    seeds: list[int]
    ablation: Table = field(repr=False)
    runs: Table = field(repr=False)
    speed: Table = field(repr=False)
    val_loss: np.ndarray = field(repr=False)
    excess: np.ndarray = field(repr=False)
    train_loss: np.ndarray = field(repr=False)
    grad_norm: np.ndarray = field(repr=False)

    def run(self, arm: str, seed: int) -> Run:
        """Reads the run of an arm and a seed. Raises HeedError if the sweep has no such arm or seed."""
        if arm not in self.arms or seed not in self.seeds:
            raise HeedError(f"{self.path}: no arm {arm!r} with seed {seed}; arms {self.arms}, seeds {self.seeds}")
        # The folder of an arm has its number and as much of its name as a file name may have.
        number = self.arms.index(arm) + 1
        folders = sorted((self.path / "runs").glob(f"{number}-*"))
        require(len(folders) == 1, self.path, f"it has {len(folders)} folders runs/{number}-…, one was expected")
        return load_run(folders[0] / f"seed-{seed}")


def load_sweep(folder: str | os.PathLike[str]) -> Sweep:
    """Reads the results of a finished sweep. Raises HeedError if they are missing, damaged or not heed's."""
    path = as_path(folder)
    hint = ": heed.load_run() reads a run" if is_heed_folder(path, "summary.json") else ""
    require(is_heed_folder(path, "ablation.csv"), path, f"it is no finished sweep of heed, it has no ablation.csv{hint}")
    file = path / "ablation.h5"
    with reading(file), h5py.File(file) as content:
        arrays = {name: content[f"tensors/{name}"][()] for name in ("val_loss", "excess", "train_loss", "grad_norm")}
        arms = read_text(content, "arms").splitlines()
        seeds = [int(seed) for seed in read_text(content, "seeds").split()]
    ablation, runs, speed = (read_table(path / f"{name}.csv") for name in ("ablation", "runs", "speed"))
    return Sweep(path, arms, seeds, ablation, runs, speed, **arrays)


@dataclass(frozen=True)
class Inspection:
    """The results of `heed inspect`, for L layers of H heads.

    heads: heads.csv, one row for each head. head_names: (L, H) strings. score_names: the last axis of arrays["scores"].
    arrays: the datasets of inspect.h5 by name, such as arrays["patterns"] (L, H, P, P); docs/formats.md has them all.
    checkpoint, sequences: what was inspected, in words.
    """

    path: Path
    checkpoint: str
    sequences: str
    heads: Table = field(repr=False)
    head_names: np.ndarray = field(repr=False)
    score_names: list[str] = field(repr=False)
    arrays: dict[str, np.ndarray] = field(repr=False)


def load_inspection(folder: str | os.PathLike[str]) -> Inspection:
    """Reads the folder that `heed inspect` wrote, or the folder inspect/ of a run.

    Raises HeedError if it is missing, damaged or not heed's. Checksums are verified if xxhash is installed.
    """
    path = as_path(folder)
    if not is_heed_folder(path, "inspect.h5") and is_heed_folder(path, "summary.json"):
        path = path / "inspect"
    file = path / "inspect.h5"
    require(file.is_file(), path, "it has no inspect.h5; heed inspect RUN writes it")
    with reading(file):
        verify_checkpoint_block(file, "inspection")
        with h5py.File(file) as content:
            if "kind" not in content["texts"] or read_text(content, "kind") != "inspection":
                raise HeedError(f"{file}: it is no inspection of heed")
            arrays = read_group(content, "tensors")
            names = read_text(content, "names").splitlines()
            return Inspection(
                path=path,
                checkpoint=read_text(content, "checkpoint"),
                sequences=read_text(content, "sequences"),
                heads=read_table(path / "heads.csv"),
                head_names=np.array(names).reshape(arrays["entropy"].shape),
                score_names=read_text(content, "scores").splitlines(),
                arrays=arrays,
            )
