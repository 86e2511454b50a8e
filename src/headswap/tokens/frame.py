"""The special tokens that a tokenizer puts around the texts of a sequence, and which roles its special tokens have.

headswap's own tokenizers write `<sos> text` and `<sos> first <sep> second`. Tokenizers of public checkpoints have other
names and other frames, such as `[CLS] text [SEP]`; for them both are part of tokenizer.json: the frame is the template
of its post-processor, and the roles are entries of the template's table of special tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headswap.core.errors import InputError

ROLE = "headswap:"
"""Prefix of the entries that name a role, such as `headswap:mask`. No template uses them as a token."""


@dataclass(frozen=True)
class Frame:
    """Ids before a text, after it, and between the texts of a pair."""

    start: int
    """The start token; it is the whole sequence of a text without tokens, if the frame has no tokens either."""
    before: tuple[int, ...]
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def num_single(self) -> int:
        """How many tokens the frame adds to a text."""
        return len(self.before) + len(self.after)

    @property
    def num_pair(self) -> int:
        """How many tokens the frame adds to a pair of texts."""
        return self.num_single + len(self.between)

    def around(self, ids: np.ndarray) -> np.ndarray:
        """The sequence of one text."""
        if not self.num_single:
            return ids if len(ids) else np.array([self.start])
        return np.concatenate((np.array(self.before, dtype=int), ids, np.array(self.after, dtype=int)))

    def around_pair(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The sequence of two texts."""
        parts = (self.before, first, self.between, second, self.after)
        return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])

    def as_template(self, piece: Callable[[int], str], roles: Mapping[str, int] | None = None) -> dict[str, Any]:
        """The post-processor of tokenizer.json that adds this frame; the second text has segment 1."""

        def tokens(ids: tuple[int, ...], segment: int) -> list[dict[str, Any]]:
            return [{"SpecialToken": {"id": piece(id), "type_id": segment}} for id in ids]

        first, second = ({"Sequence": {"id": name, "type_id": segment}} for name, segment in (("A", 0), ("B", 1)))
        named = {piece(id): (piece(id), id) for id in (*self.before, *self.between, *self.after)}
        named |= {f"{ROLE}{role}": (piece(id), id) for role, id in (roles or {}).items()}
        return {
            "type": "TemplateProcessing",
            "single": [*tokens(self.before, 0), first, *tokens(self.after, 0)],
            "pair": [
                *tokens(self.before, 0), first, *tokens(self.between, 0), second, *tokens(self.after, 1),
            ],
            "special_tokens": {
                name: {"id": name, "ids": [id], "tokens": [token]} for name, (token, id) in named.items()
            },
        }  # fmt: skip


def roles_in(content: Mapping[str, Any], vocab_size: int, origin: str) -> dict[str, int]:
    """The roles that a tokenizer.json names; empty for headswap's own tokenizers."""
    template = content.get("post_processor")
    table = template.get("special_tokens") if isinstance(template, dict) else None
    entries = {name: entry for name, entry in table.items() if name.startswith(ROLE)} if table else {}
    found = {name.removeprefix(ROLE): entry["ids"][0] for name, entry in entries.items() if entry["ids"]}
    if entries and not ({"sos", "pad", "eos"} <= set(found) and max(found.values()) < vocab_size):
        raise InputError(f"{origin}: its post-processor names no valid start, end and padding token.")
    return found


def frame_in(content: Mapping[str, Any], start: int, origin: str) -> Frame:
    """The frame of a tokenizer.json whose post-processor was written by `Frame.as_template`."""
    template = content["post_processor"]
    table = template["special_tokens"]
    groups: list[list[int]] = [[]]
    for step in template["pair"]:
        if "Sequence" in step:
            groups.append([])
        else:
            groups[-1] += table[step["SpecialToken"]["id"]]["ids"]
    if len(groups) != 3:
        raise InputError(f"{origin}: its post-processor does not join exactly two texts.")
    before, between, after = groups
    return Frame(start, tuple(before), tuple(between), tuple(after))
