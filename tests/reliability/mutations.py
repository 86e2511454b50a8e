"""Random damage to a file: changed bytes, truncation, swapped values, wrong types, huge numbers, repeated keys.

The damage depends only on the content, the name and the random stream, so every case can be repeated.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HUGE = "9" * 5000
VALUES = (
    "null",
    "true",
    "false",
    "0",
    "-1",
    "3",
    "1e308",
    "1e999",
    "9" * 30,
    HUGE,
    '"x"',
    '""',
    '"\\ud800"',
    '"\\u0000"',
    "[]",
    "{}",
    "[[[]]]",
    '[1, "a", null]',
    '{"a": {"b": 1}}',
    "NaN",
    "-Infinity",
    "[" * 3000 + "]" * 3000,
)
"""JSON values of the wrong type or size."""
TOML_VALUES = ("true", "0", "-1", "1e308", "inf", "nan", "9" * 30, HUGE, '"x"', '""', "[]", "[1]", "{}", "2020-01-01",
               "[" * 2000 + "]" * 2000, "x", "'")  # fmt: skip
JSON_ENDINGS = (".json", ".jsonl")


def mutated(content: bytes, name: str, draws: np.random.Generator) -> tuple[str, bytes]:
    """What was done to the content of a file, and the result."""
    ending = Path(name).suffix
    kinds: dict[str, Callable[[bytes, np.random.Generator], bytes]] = dict(BYTES)
    if ending in JSON_ENDINGS:
        kinds |= {kind: _on_line(change) if ending == ".jsonl" else change for kind, change in JSON.items()} | JSON_TEXT
    if ending == ".toml":
        kinds |= {"wrong value": _toml_value, "repeated line": _repeated_line}
    if ending in (".csv", ".txt", ".conll"):
        kinds |= {"repeated line": _repeated_line, "strange characters": _strange}
    names = sorted(kinds)
    kind = names[int(draws.integers(len(names)))]
    return kind, kinds[kind](content, draws)


def _place(content: bytes, draws: np.random.Generator) -> int:
    return int(draws.integers(max(1, len(content))))


def _flipped(content: bytes, draws: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(draws.integers(1, 4))):
        if changed:
            changed[_place(content, draws)] ^= 1 << int(draws.integers(8))
    return bytes(changed)


def _truncated(content: bytes, draws: np.random.Generator) -> bytes:
    return content[: _place(content, draws)]


def _cut(content: bytes, draws: np.random.Generator) -> bytes:
    begin = _place(content, draws)
    return content[:begin] + content[begin + int(draws.integers(1, 40)) :]


def _doubled(content: bytes, draws: np.random.Generator) -> bytes:
    begin = _place(content, draws)
    end = begin + int(draws.integers(1, 200))
    return content[:end] + content[begin:end] + content[end:]


def _swapped(content: bytes, draws: np.random.Generator) -> bytes:
    one, two = sorted(_place(content, draws) for _ in range(2))
    middle = (one + two) // 2
    return content[:one] + content[middle:two] + content[one:middle] + content[two:]


def _random(content: bytes, draws: np.random.Generator) -> bytes:
    begin = _place(content, draws)
    return content[:begin] + draws.bytes(int(draws.integers(1, 64))) + content[begin:]


def _strange(content: bytes, draws: np.random.Generator) -> bytes:
    signs = (b"\0", b'"', b"'", b",", b"\t", b"\r", b"\n\n", b"\xff", b"\xef\xbb\xbf", b"\x1b[31m", "\u2028".encode())
    begin = _place(content, draws)
    return content[:begin] + signs[int(draws.integers(len(signs)))] + content[begin:]


def _repeated_line(content: bytes, draws: np.random.Generator) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    chosen = lines[int(draws.integers(len(lines)))]
    lines.insert(int(draws.integers(len(lines) + 1)), chosen)
    return b"".join(lines)


def _toml_value(content: bytes, draws: np.random.Generator) -> bytes:
    lines = content.decode().splitlines()
    places = [number for number, line in enumerate(lines) if " = " in line]
    number = places[int(draws.integers(len(places)))]
    lines[number] = f"{lines[number].partition(' = ')[0]} = {TOML_VALUES[int(draws.integers(len(TOML_VALUES)))]}"
    return "\n".join([*lines, ""]).encode()


BYTES = {
    "flipped bits": _flipped,
    "truncated": _truncated,
    "cut": _cut,
    "doubled": _doubled,
    "swapped bytes": _swapped,
    "random bytes": _random,
}
"""Damage to the bytes of any file."""


# JSON


class _Raw:
    """A value that is written as it is, since json would refuse it."""

    def __init__(self, text: str) -> None:
        self.text = text


def _written(value: Any) -> bytes:
    """The JSON of a value with `_Raw` parts."""
    raw: list[str] = []

    def mark(part: object) -> str:
        assert isinstance(part, _Raw)
        raw.append(part.text)
        return f"\ufdd0{len(raw) - 1}\ufdd0"

    text = json.dumps(value, ensure_ascii=False, default=mark)
    return re.sub('"\ufdd0(\\d+)\ufdd0"', lambda found: raw[int(found[1])], text).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


def _on_json(change: Callable[[Any, list[tuple[Any, Any]], np.random.Generator], None]) -> Callable[..., bytes]:
    def changed(content: bytes, draws: np.random.Generator) -> bytes:
        value = json.loads(content)
        if places := _places(value):
            change(value, places, draws)
        return _written(value)

    return changed


def _on_line(change: Callable[[bytes, np.random.Generator], bytes]) -> Callable[[bytes, np.random.Generator], bytes]:
    """A change of one JSON value, for one line of a file of them."""

    def changed(content: bytes, draws: np.random.Generator) -> bytes:
        lines = content.splitlines()
        number = int(draws.integers(len(lines)))
        lines[number] = change(lines[number], draws)
        return b"\n".join([*lines, b""])

    return changed


def _wrong_value(_: Any, places: list[tuple[Any, Any]], draws: np.random.Generator) -> None:
    container, key = places[int(draws.integers(len(places)))]
    container[key] = _Raw(VALUES[int(draws.integers(len(VALUES)))])


def _swapped_values(_: Any, places: list[tuple[Any, Any]], draws: np.random.Generator) -> None:
    leaves = [(container, key) for container, key in places if not isinstance(container[key], dict | list)] or places
    (one, first), (two, second) = (leaves[int(draws.integers(len(leaves)))] for _ in range(2))
    one[first], two[second] = two[second], one[first]


def _dropped(_: Any, places: list[tuple[Any, Any]], draws: np.random.Generator) -> None:
    container, key = places[int(draws.integers(len(places)))]
    del container[key]


def _repeated_key(content: bytes, draws: np.random.Generator) -> bytes:
    """A key that occurs a second time, before its object's other keys or after one of them."""
    keys = list(re.finditer(rb'"(\w+)"\s*:', content))
    if not keys:
        return content + content
    chosen = keys[int(draws.integers(len(keys)))]
    value = VALUES[int(draws.integers(len(VALUES)))].encode()
    return content[: chosen.start()] + b'"' + chosen[1] + b'": ' + value + b", " + content[chosen.start() :]


JSON = {
    "wrong value": _on_json(_wrong_value),
    "swapped values": _on_json(_swapped_values),
    "missing key": _on_json(_dropped),
}
JSON_TEXT = {"repeated key": _repeated_key}
