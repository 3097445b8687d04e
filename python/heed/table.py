"""CSV files of heed as columns."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .errors import HeedError

if TYPE_CHECKING:
    import pandas

_TEXTS = {"arm", "name", "status", "verdict"}  # also where each looks like a number
_INTEGERS = set(
    "step tokens steps seed layer head offset parameters head_size kv_cache_bytes activation_bytes"
    " peak_memory_bytes runs complete diverged failed".split()
)


class Table(Mapping[str, np.ndarray]):
    """The columns of a CSV file by name, each an array of shape (rows).

    Numbers are f64, with NaN for an empty cell; columns that count something are i64 if no cell is empty; names are
    strings. len() is the number of columns, num_rows that of rows.
    """

    def __init__(self, columns: dict[str, np.ndarray], num_rows: int):
        self._columns = columns
        self.num_rows = num_rows

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.num_rows} rows: {', '.join(self._columns)})"

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a DataFrame. Raises HeedError without pandas."""
        try:
            import pandas
        except ImportError:
            raise HeedError("to_pandas() needs pandas: pip install pandas") from None
        return pandas.DataFrame(self._columns)


def read_table(path: str | os.PathLike[str]) -> Table:
    """Reads a CSV file of heed. An incomplete last line, of a run that is being written, is left out."""
    path = Path(path)
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise HeedError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HeedError(f"{path}: cannot be read: {error}") from None
    lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))
    if not lines:
        raise HeedError(f"{path}: it is empty, a table of heed has a line of column names")
    names, rows = lines[0], lines[1:]
    for number, row in enumerate(rows, 2):
        if len(row) != len(names):
            raise HeedError(f"{path}: line {number} has {len(row)} cells, the table has {len(names)} columns")
    cells = zip(*rows) if rows else [()] * len(names)
    return Table({name: _column(name, list(column)) for name, column in zip(names, cells)}, len(rows))


def _column(name: str, cells: list[str]) -> np.ndarray:
    if name in _TEXTS:
        return np.array(cells, dtype=np.str_)
    try:
        if name in _INTEGERS and all(cells):
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        return np.array([float(cell or "nan") for cell in cells], dtype=np.float64)
    except ValueError:
        return np.array(cells, dtype=np.str_)
