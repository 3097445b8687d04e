"""The resolved config that heed stores in a checkpoint and in config.toml."""

from __future__ import annotations

import json
import re
from typing import Any

from .errors import HeedError

# Derived values are comments: "# d_ff = 64  (default: 4 * d_model)". A value has the same form in JSON.
_ENTRY = re.compile(r"(?:# )?([a-z][a-z0-9_]*) = (.+)")
_TABLE = re.compile(r"\[([a-z]+)\]")


def parse_config(text: str, where: str) -> dict[str, Any]:
    """The tables as nested dicts, with derived values: the same as "config" in summary.json.

    This reads the TOML that heed writes, one `key = value` in a line, and no other. where: for error messages.
    """
    config: dict[str, Any] = {}
    table = config
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _TABLE.fullmatch(line), _ENTRY.fullmatch(line)
        if header:
            table = config.setdefault(header[1], {})
        elif entry:
            try:
                table[entry[1]], _ = json.JSONDecoder().raw_decode(entry[2])
            except ValueError:
                raise HeedError(f"{where}: line {number} of its config has no value of heed: {line}") from None
        elif line and not line.startswith("#"):
            raise HeedError(f"{where}: line {number} of its config is not one of a resolved config: {line}")
    if "model" not in config:
        raise HeedError(f"{where}: its config has no table [model]")
    return config
