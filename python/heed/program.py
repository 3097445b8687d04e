"""The program heed, for what only it does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .errors import HeedError

_CHECKOUT = Path(__file__).resolve().parents[2]


def find_heed() -> str:
    """$HEED, else heed in $PATH, else that of the checkout which this file is in. Raises HeedError if there is none."""
    named = os.environ.get("HEED")
    if named:
        if not shutil.which(named):
            raise HeedError(f"HEED = {named}: there is no such program; set HEED to the path of heed")
        return named
    found = shutil.which("heed") or shutil.which(str(_CHECKOUT / "build" / "bin" / "heed"))
    if found is None:
        raise HeedError("the program heed was not found: set HEED to its path, such as HEED=build/bin/heed")
    return found


def run_heed(*arguments: str | os.PathLike[str]) -> str:
    """Runs heed and returns what it prints. Raises HeedError with its message if it ends with an error."""
    result = subprocess.run([find_heed(), *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or [f"heed ended with exit code {result.returncode}"])[-1]
        raise HeedError(last[len("heed: ") :] if last.startswith("heed: ") else last)
    return result.stdout
