"""HDF5 files of heed: their first block, checksums and content.

With the package xxhash, checksums are verified before HDF5 sees a byte, as heed does it. Without it the magic, the
version and the size are.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from .errors import HeedError

try:
    import xxhash
except ImportError:
    xxhash = None

_CHECKPOINT_MAGIC, _CHECKPOINT_VERSION, _CHECKPOINT_BLOCK_BYTES = b"heed checkpoint\n", 1, 512
_PART_BYTES = 1 << 20


def checksum(data: bytes) -> int | None:
    """XXH64 with seed 0; None without the package xxhash."""
    return None if xxhash is None else xxhash.xxh64_intdigest(data)


def require(condition: bool, path: Path, message: str) -> None:
    if not condition:
        raise HeedError(f"{path}: {message}")


def require_checksum(data: bytes, written: int, path: Path, what: str) -> None:
    require(checksum(data) in (None, written), path, f"it is damaged: the checksum of {what} does not match")


def checksum_of_file(path: Path, ranges: list[tuple[int, int]]) -> int | None:
    """XXH64 of these half-open ranges of bytes, one after the other; None without the package xxhash."""
    if xxhash is None:
        return None
    state = xxhash.xxh64()
    with open(path, "rb") as file:
        for begin, end in ranges:
            file.seek(begin)
            for offset in range(begin, end, _PART_BYTES):
                state.update(file.read(min(_PART_BYTES, end - offset)))
    return state.intdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what the system, h5py and a missing dataset raise into a HeedError that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise HeedError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise HeedError(f"{path}: it is a folder") from None
    except KeyError as error:
        raise HeedError(f"{path}: it lacks what such a file has: {error.args[0]}") from None
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        raise HeedError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def verify_checkpoint_block(path: Path, what: str) -> None:
    """Checks the 512 bytes before HDF5, and with xxhash the rest. what: "checkpoint" or "inspection"."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        block = file.read(_CHECKPOINT_BLOCK_BYTES)
    require(block.startswith(_CHECKPOINT_MAGIC), path, f"it is no {what} of heed")
    require(len(block) == _CHECKPOINT_BLOCK_BYTES, path, f"it is cut off after {size} bytes")
    require_checksum(block[:504], struct.unpack_from("<Q", block, 504)[0], path, "its first 512 bytes")
    version, content_bytes, written = struct.unpack_from("<3Q", block, 16)
    supported = f"its format has version {version}, this package reads version {_CHECKPOINT_VERSION}"
    require(version == _CHECKPOINT_VERSION, path, supported)
    rest = size - _CHECKPOINT_BLOCK_BYTES
    require(rest == content_bytes, path, f"it is damaged: {rest} bytes follow its first block, {content_bytes} were written")
    actual = checksum_of_file(path, [(_CHECKPOINT_BLOCK_BYTES, size)])
    require(actual in (None, written), path, "it is damaged: its content was changed after it was written")


def read_text(file: h5py.File, name: str) -> str:
    """A text of /texts, which is stored as bytes."""
    return bytes(file[f"texts/{name}"][:]).decode()


def read_group(file: h5py.File, name: str) -> dict[str, np.ndarray]:
    """The arrays of a group by name; empty if the file has no such group."""
    return {key: dataset[()] for key, dataset in file[name].items()} if name in file else {}


def is_heed_folder(path: Path, *names: str) -> bool:
    return any((path / name).is_file() for name in names)


def as_path(path: str | os.PathLike[str]) -> Path:
    """The path, with ~ for the home folder. Raises HeedError if nothing is there."""
    path = Path(path).expanduser()
    require(path.exists(), path, "there is no such file or folder")
    return path
