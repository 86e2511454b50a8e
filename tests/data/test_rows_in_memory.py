"""Rows in memory as a file of JSON lines."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.data.rows_in_memory import cached_rows, json_lines, write_rows


def read(content: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def test_values_of_numpy_become_those_of_json_and_a_missing_number_becomes_null() -> None:
    row = {
        "text": "\u00e9 \U0001f600", "label": np.int64(3), "share": np.float32(0.5), "gap": float("nan"),
        "tags": np.array(["A", "B"]), "nested": {1: (True, None)}, "day": date(2024, 2, 29),
    }  # fmt: skip
    assert read(json_lines([row])) == [
        {
            "text": "\u00e9 \U0001f600",
            "label": 3,
            "share": 0.5,
            "gap": None,
            "tags": ["A", "B"],
            "nested": {"1": [True, None]},
            "day": "2024-02-29",
        }
    ]


def test_no_rows_are_an_error() -> None:
    with pytest.raises(InputError, match="no rows"):
        json_lines([])


def test_equal_rows_have_one_file_in_the_cache_and_other_rows_another() -> None:
    first, again = cached_rows([{"text": "a"}]), cached_rows([{"text": "a"}])
    written = Path(first).stat().st_mtime_ns
    other = cached_rows([{"text": "b"}])
    assert first == again != other
    assert Path(first).stat().st_mtime_ns == written
    assert read(Path(other).read_bytes()) == [{"text": "b"}]


def test_rows_are_written_into_a_given_file(tmp_path: Path) -> None:
    assert write_rows([{"text": "a"}, {"text": "b"}], tmp_path / "rows.jsonl") == str(tmp_path / "rows.jsonl")
    assert read((tmp_path / "rows.jsonl").read_bytes()) == [{"text": "a"}, {"text": "b"}]
