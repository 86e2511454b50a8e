"""Rows in memory as a file of JSON lines, so that they are read, checked and split like any labelled file."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError
from headswap.core.files import atomic_file
from headswap.data.content_hash import cache_folder, writable


def cached_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """The file in the cache that has these rows; it is named by the hash of its content and written once."""
    content = json_lines(rows)
    root = cache_folder()
    file = root / "inputs" / f"{hashlib.sha256(content).hexdigest()[:32]}.jsonl"
    if not file.exists():
        with writable(root), atomic_file(file) as temporary:
            temporary.write_bytes(content)
    return str(file)


def write_rows(rows: Iterable[Mapping[str, Any]], file: Path) -> str:
    """Write the rows into a file; return its name."""
    file.write_bytes(json_lines(rows))
    return str(file)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """One JSON object per row; no rows are an error."""
    lines = [json.dumps(_plain(dict(row)), ensure_ascii=False) + "\n" for row in rows]
    if not lines:
        raise InputError("The data holds no rows.")
    return "".join(lines).encode()


def _plain(value: Any) -> Any:
    """A value as JSON has it: NumPy's numbers and arrays as Python's, a missing number as null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return str(value)
