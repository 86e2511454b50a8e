"""Long texts in parts: a text is cut where its tokenizer begins a new word anyway, so that the ids are the same.

The package tokenizers needs up to 200 bytes per character while it encodes. So a long text is cut into parts, and
texts and parts are encoded in groups of bounded size. A text is cut before a single blank between two words (for some
pre-tokenizers also before a single line end): white space begins a word there, whatever comes before it. A tokenizer
whose pre-tokenizer or normalizer is not known to be cut there encodes whole texts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from headswap.core.errors import InputError

Item = TypeVar("Item")
PART_CHARACTERS = 1 << 15
GROUP_CHARACTERS = 1_000_000
LONGEST_PART = 1 << 23
"""Characters that are encoded as one: the package then needs 1 to 2 GB."""
BLANK = re.compile(r"(?<=\S) (?=\S)")
BLANK_OR_LINE_END = re.compile(r"(?<=\S)[ \n](?=\S)")
LOCAL_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Lowercase"})
WHITE_SPACE_SPLITS = frozenset({"WhitespaceSplit", "Whitespace", "BertPreTokenizer"})
SPLITS_OF_WORDS = frozenset({"Punctuation", "Digits"})


class Part(NamedTuple):
    """A part of one of several texts."""

    text: int
    """Number of the text."""
    start: int
    """Position of its first character in the text."""
    content: str


def cut_pattern(content: Mapping[str, Any]) -> re.Pattern[str] | None:
    """What matches where a tokenizer, given as the content of its tokenizer.json, may be cut; None if unknown."""
    added = content.get("added_tokens") or []
    if not all(isinstance(token, dict) and token.get("special") is True for token in added):
        return None
    normalizers = _steps(content.get("normalizer"), "normalizers")
    steps = _steps(content.get("pre_tokenizer"), "pretokenizers")
    if not steps or any(step.get("type") not in LOCAL_NORMALIZERS for step in normalizers):
        return None
    first, rest = steps[0], steps[1:]
    if first.get("type") == "ByteLevel" and first.get("use_regex", True) is True and not rest:
        return BLANK if first.get("add_prefix_space") else BLANK_OR_LINE_END  # a part gets a space unless it has one
    if first.get("type") in WHITE_SPACE_SPLITS and all(step.get("type") in SPLITS_OF_WORDS for step in rest):
        return BLANK_OR_LINE_END
    if first.get("type") == "Metaspace" and first.get("split", True) is True and all(map(_is_plain_split, rest)):
        return BLANK
    return None


def _steps(found: Any, name: str) -> list[Mapping[str, Any]]:
    """A normalizer or pre-tokenizer as the list of its steps."""
    if not isinstance(found, dict):
        return []
    inner = found.get(name) if found.get("type") == "Sequence" else [found]
    return [step if isinstance(step, dict) else {} for step in inner] if isinstance(inner, list) else [{}]


def _is_plain_split(step: Mapping[str, Any]) -> bool:
    """Whether a step splits words at a fixed string, which contains no white space."""
    pattern = step.get("pattern")
    sign = pattern.get("String") if isinstance(pattern, dict) else None
    return step.get("type") == "Split" and isinstance(sign, str) and not re.search(r"\s|▁", sign)


def groups_of(texts: Iterable[str], pattern: re.Pattern[str] | None) -> Iterator[list[Part]]:
    """The parts of all texts in order, in groups of about `GROUP_CHARACTERS`; a short text is one part."""
    parts = (part for number, text in enumerate(texts) for part in _parts(number, text, pattern))
    return in_groups(parts, lambda part: len(part.content), GROUP_CHARACTERS)


def in_groups(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Lists of items in order; a list ends with the item with which its size reaches `most`."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= most:
            yield group
            group, size = [], 0
    if group:
        yield group


def _parts(number: int, text: str, pattern: re.Pattern[str] | None) -> Iterator[Part]:
    start = 0
    while len(text) - start > PART_CHARACTERS and pattern is not None:
        cut = pattern.search(text, start + PART_CHARACTERS)
        if cut is None:
            break
        yield _checked(Part(number, start, text[start : cut.start()]), text, pattern)
        start = cut.start()
    yield _checked(Part(number, start, text[start:]), text, pattern)


def _checked(part: Part, text: str, pattern: re.Pattern[str] | None) -> Part:
    if len(part.content) <= LONGEST_PART:
        return part
    where = "" if pattern is None else f" without a blank, from character {part.start + 1:,} on"
    raise InputError(
        f"A text of {len(text):,} characters begins with {text[:40]!r} and has more than {LONGEST_PART:,} "
        f"characters{where}: too many to encode as one. Split it into several texts."
    )
