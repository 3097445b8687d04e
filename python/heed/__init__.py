"""Reads what heed writes into NumPy, and turns checkpoints into PyTorch modules and Hugging Face folders.

    checkpoint = heed.load_checkpoint("runs/ngram")   parameters, config, tokenizer; to_torch(), to_hugging_face()
    run = heed.load_run("runs/ngram")                 metrics, layers, summary, checkpoints
    sweep = heed.load_sweep("runs/far_heads")         ablation.csv, runs.csv, speed.csv, ablation.h5
    inspection = heed.load_inspection("runs/ngram")   heads.csv, inspect.h5
    token_file = heed.load_token_file("tokens.h5")    tokens of each split, tokenizer

Each call raises HeedError if the path is missing, damaged or something else.
"""

from .checkpoint import Checkpoint, load_checkpoint
from .errors import HeedError
from .results import Inspection, Sweep, load_inspection, load_sweep
from .run import Run, load_run
from .table import Table
from .token_file import TokenFile, load_token_file
from .tokenizer import Tokenizer

__all__ = [
    "Checkpoint",
    "HeedError",
    "Inspection",
    "Run",
    "Sweep",
    "Table",
    "TokenFile",
    "Tokenizer",
    "load_checkpoint",
    "load_inspection",
    "load_run",
    "load_sweep",
    "load_token_file",
]
