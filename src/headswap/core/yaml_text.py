"""YAML for the metadata of model cards, in the format of PyYAML, which is not a dependency.

Values are mappings with plain keys, lists, strings, integers, finite floats and booleans.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

PLAIN = re.compile(r"[A-Za-z][\w./+-]*(?: [A-Za-z(][\w./+()-]*)*", re.ASCII)
"""Strings that need no quotes: words without signs that mean something in YAML."""
OTHER_TYPES = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
"""Words that YAML reads as another type."""


def yaml_lines(value: Mapping[str, Any]) -> list[str]:
    """The lines of a mapping."""
    return list(_mapping(value, ""))


def _mapping(value: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for key, part in value.items():
        if isinstance(part, Mapping):
            lines += [f"{indent}{key}:", *_mapping(part, indent + "  ")]
        elif isinstance(part, Sequence) and not isinstance(part, str):
            lines += [f"{indent}{key}:", *_items(part, indent)]
        else:
            lines.append(f"{indent}{key}: {_scalar(part)}")
    return lines


def _items(value: Sequence[Any], indent: str) -> list[str]:
    """The items of a list; a mapping begins on the line of its dash."""
    lines = []
    for part in value:
        if isinstance(part, Mapping):
            first, *others = _mapping(part, indent + "  ")
            lines += [f"{indent}- {first.strip()}", *others]
        else:
            lines.append(f"{indent}- {_scalar(part)}")
    return lines


def _scalar(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        shown = repr(value)
        return shown.replace("e", ".0e") if "e" in shown and "." not in shown else shown
    if isinstance(value, int):
        return str(value)
    return value if PLAIN.fullmatch(value) and value.lower() not in OTHER_TYPES else _quoted(value)


def _quoted(text: str) -> str:
    """A string in double quotes, with JSON's escapes, which YAML reads; what cannot be printed is escaped."""
    return "".join(
        sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in json.dumps(text, ensure_ascii=False)
    )
