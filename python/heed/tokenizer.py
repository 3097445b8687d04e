"""Tokenizers: text to token ids and back, the same ids as in heed."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

from .errors import HeedError
from .files import require, require_checksum

_KINDS = ("char", "byte", "bpe", "file")
_HEADER = struct.Struct("<8sBBI")  # magic, kind, whether there is an end token, number of other tokens
_MAGICS = {b"heedtok2": (0, 1, 2), b"heedtok3": (3,)}  # and the kinds of each

# A word of bpe begins at each space and after each line feed, and has at most 256 bytes.
_WORD = re.compile(rb"\n|[^\n][^ \n]{0,254}\n|[^\n][^ \n]{0,255}")


class Tokenizer:
    """The vocabulary and its rule.

    kind: "char", "byte", "bpe" or "file". pieces: the bytes of each token, by id. end_token: the last id if lines end
    with a token of their own, which stands for the line feed; else None.
    """

    def __init__(self, kind: str, pieces: list[bytes], has_end_token: bool = False):
        self.kind = kind
        self.pieces = pieces + [b"\n"] if has_end_token else pieces
        self.end_token = len(pieces) if has_end_token else None
        self._ids = {piece: id for id, piece in enumerate(pieces)}
        if has_end_token:
            self._ids[b"\n"] = len(pieces)
        self._merges = _merges_of(pieces) if kind == "bpe" else {}

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.vocab_size} tokens)"

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of the tokens of text.

        Raises HeedError for a character that is not in the vocabulary, and for kind "file", whose words only heed and
        the tokenizers of Hugging Face split.
        """
        data = text.encode() if isinstance(text, str) else text
        if self.kind == "file":
            raise HeedError(
                'a tokenizer of kind "file" only decodes here: for its ids write a token file by `heed data prepare`, '
                "or load the tokenizer.json of to_hugging_face() with transformers"
            )
        if self.kind == "char":
            return self._encode_characters(data)
        if self.kind == "byte":
            return [self._ids[b"\n"] if byte == 10 else byte for byte in data]
        known: dict[bytes, list[int]] = {}
        ids: list[int] = []
        for word in _WORD.findall(data):
            if word not in known:
                known[word] = self._encode_word(word)
            ids += known[word]
        return ids

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of the tokens. Raises HeedError for an id outside the vocabulary."""
        ids = [int(id) for id in ids]
        for id in ids:
            if not 0 <= id < self.vocab_size:
                raise HeedError(f"token {id} is outside the vocabulary, it must be 0 to {self.vocab_size - 1}")
        return b"".join(self.pieces[id] for id in ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the tokens, with U+FFFD for bytes that are not UTF-8."""
        return self.decode_bytes(ids).decode(errors="replace")

    def _encode_characters(self, data: bytes) -> list[int]:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise HeedError(f"byte {data[error.start]:#04x} at offset {error.start} is not UTF-8") from None
        ids = [self._ids.get(character.encode(), -1) for character in text]
        if -1 in ids:
            at = ids.index(-1)
            raise HeedError(f"character {text[at]!r} at position {at} is not in the vocabulary of {self.vocab_size} characters")
        return ids

    def _encode_word(self, word: bytes) -> list[int]:
        ends_line = self.end_token is not None and word.endswith(b"\n")
        ids = list(word[:-1] if ends_line else word)
        while len(ids) > 1:
            # The earliest merge, leftmost first.
            merged, at = min((self._merges.get(pair, self.vocab_size), i) for i, pair in enumerate(zip(ids, ids[1:])))
            if merged == self.vocab_size:
                break
            ids[at : at + 2] = [merged]
        return ids + [self.vocab_size - 1] if ends_line else ids


def _merges_of(pieces: list[bytes]) -> dict[tuple[int, int], int]:
    """The token that each pair of tokens becomes; a lower id was learned earlier."""
    ids = {piece: id for id, piece in enumerate(pieces)}
    merges = {}
    for id, piece in enumerate(pieces[256:], 256):
        for cut in range(1, len(piece)):
            left, right = ids.get(piece[:cut]), ids.get(piece[cut:])
            if left is not None and right is not None:
                merges[left, right] = id
    return merges


def parse_tokenizer(data: bytes, path: Path) -> Tokenizer:
    """Reads a serialized tokenizer (docs/formats.md, "Tokenizer") of the file at path."""
    damaged = "its tokenizer is damaged: "
    require(len(data) >= _HEADER.size + 8, path, damaged + "it is too short")
    magic, kind, has_end_token, count = _HEADER.unpack_from(data)
    require(magic in _MAGICS, path, damaged + "it does not begin as one")
    require(kind in _MAGICS[magic], path, f"its tokenizer is of kind {kind}, which this package does not know")
    require_checksum(data[:-8], struct.unpack("<Q", data[-8:])[0], path, "its tokenizer")
    pieces, at, end = [], _HEADER.size, len(data) - 8
    for _ in range(count):
        length = data[at] if at < end else 0
        require(0 < length and at + 1 + length <= end, path, damaged + "a token has no length or ends after the end")
        pieces.append(data[at + 1 : at + 1 + length])
        at += 1 + length
    require(at == end or _KINDS[kind] == "file", path, damaged + "bytes follow the last token")
    return Tokenizer(_KINDS[kind], pieces, bool(has_end_token))
