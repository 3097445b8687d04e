"""Token files, which `heed data prepare` makes."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from .errors import HeedError
from .files import as_path, checksum, checksum_of_file, reading, require, require_checksum
from .tokenizer import Tokenizer, parse_tokenizer

_MAGIC, _BLOCK_BYTES = b"heed token file3", 65536
_CHECKED_TOKENS = 65536  # of each checksum
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class TokenFile:
    """A token file. Tokens are read when they are asked for, so that a file of any size opens at once.

    sizes: the number of tokens of "train", "validation" and "test". source: where the tokens are from, by the names of
    the attributes: source_name, source_bytes, source_checksum, source_changes.
    """

    path: Path
    tokenizer: Tokenizer
    sizes: dict[str, int]
    source: dict[str, str | int] = field(repr=False)

    def tokens(self, split: str = "train", start: int = 0, count: int | None = None) -> np.ndarray:
        """Tokens of a split from position start on, as i32 (count); without count, all that follow.

        Raises HeedError if the range is not in the split, or a block of it is damaged (with xxhash).
        """
        if split not in self.sizes:
            raise HeedError(f"{self.path}: no split {split!r}; there are {', '.join(_SPLITS)}")
        size = self.sizes[split]
        count = size - start if count is None else count
        inside = 0 <= start and 0 <= count <= size - start
        require(inside, self.path, f"tokens {start} to {start + count} are not in {split}, which has {size}")
        before = sum(self.sizes[name] for name in _SPLITS[: _SPLITS.index(split)])
        with reading(self.path), h5py.File(self.path) as file:
            return self._read(file, before + start, count)

    def _read(self, file: h5py.File, first: int, count: int) -> np.ndarray:
        # Whole blocks, whose checksums are known.
        block, last = first // _CHECKED_TOKENS, -(-(first + count) // _CHECKED_TOKENS)
        begin = block * _CHECKED_TOKENS
        tokens = file["tokens"][begin : last * _CHECKED_TOKENS].astype("<i4")
        for number, written in enumerate(file["block_checksum"][block:last]):
            data = tokens[number * _CHECKED_TOKENS : (number + 1) * _CHECKED_TOKENS].tobytes()
            require_checksum(data, int(written), self.path, f"tokens block {block + number}")
        return tokens[first - begin : first - begin + count]


def load_token_file(path: str | os.PathLike[str]) -> TokenFile:
    """Opens a token file. Raises HeedError if it is missing, damaged or not heed's."""
    path = as_path(path)
    with reading(path):
        _verify_block(path)
        with h5py.File(path) as file:
            sizes = {name: int(file.attrs[f"{name}_tokens"]) for name in _SPLITS}
            source = {name: _plain(value) for name, value in file.attrs.items() if name.startswith("source_")}
            tokenizer = parse_tokenizer(bytes(file["tokenizer"][:]), path)
            require(sum(sizes.values()) == len(file["tokens"]), path, "its splits are not all of its tokens")
    return TokenFile(path, tokenizer, sizes, source)


def _plain(value: object) -> str | int:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else int(value)  # type: ignore


def _verify_block(path: Path) -> None:
    """The layout is at the head of data/io/checksum_block.hpp."""
    with open(path, "rb") as file:
        block = file.read(_BLOCK_BYTES)
        size = file.seek(0, os.SEEK_END)
    require(block.startswith(_MAGIC[:-1]), path, "it is no token file of heed")
    require(block.startswith(_MAGIC), path, "its format has another version: make it again with heed data prepare")
    require(len(block) == _BLOCK_BYTES, path, f"it is cut off after {size} bytes")
    file_bytes, num_ranges, body, table, _, header = struct.unpack_from("<6Q", block, 16)
    require_checksum(block[:56], header, path, "its header")
    require(file_bytes == size, path, f"it is damaged: it has {size} bytes, {file_bytes} were written")
    require_checksum(block[64:], table, path, "its list of ranges")
    require(num_ranges <= (_BLOCK_BYTES - 64) // 16, path, "it is damaged: its header has too many ranges")
    if checksum(b"") is None:
        return
    # Everything but the tokens, whose ranges are excluded.
    bounds = [_BLOCK_BYTES, *struct.unpack_from(f"<{2 * num_ranges}Q", block, 64), size]
    actual = checksum_of_file(path, list(zip(bounds[::2], bounds[1::2])))
    require(actual == body, path, "it is damaged: its content was changed after it was written")
