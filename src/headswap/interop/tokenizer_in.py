"""The tokenizer of a public checkpoint: its own vocabulary, its own special tokens, and its own frame around texts.

The frame is found by encoding a pair of texts. Both frame and roles are written into the post-processor of
tokenizer.json (tokens/frame.py), so that a bundle made from the checkpoint is complete.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import tokenizers

from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.interop.families.family import CheckpointConfig, Family
from headswap.tokens.frame import Frame
from headswap.tokens.tokenizer import Tokenizer, parsed_tokenizer

ROLES = {
    "sos": ("cls_token", "bos_token", "eos_token"),
    "eos": ("eos_token", "sep_token", "bos_token"),
    "pad": ("pad_token", "eos_token", "sep_token"),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
    "sep": ("sep_token",),
}
"""For each of our roles the names of theirs, the first that is present. Batches have no padding, so a tokenizer
without a padding token is complete."""


def read_tokenizer(folder: Path, config: CheckpointConfig, family: Family) -> Tokenizer:
    """The tokenizer in the folder of a checkpoint."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        command = (
            f"import transformers as t; t.AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained('tokenizer')"
        )
        raise InputError(
            f"{folder} has no tokenizer.json. Make one and copy it into the folder: python -c {shlex.quote(command)}"
        )
    content = read_json(file)
    hf = parsed_tokenizer(json.dumps(content), str(file))
    before, between, after = _around(hf, file)
    ids = _special_ids(folder, config, family, hf)
    roles = {role: next((ids[name] for name in names if name in ids), None) for role, names in ROLES.items()}
    if before:
        roles["sos"] = before[0]
    if roles["sos"] is None or roles["eos"] is None:
        raise InputError(f"{folder}: neither tokenizer_config.json nor config.json names a start or end token.")
    found = {role: id for role, id in roles.items() if id is not None}
    frame = Frame(found["sos"], before, between, after)
    content |= {
        "post_processor": frame.as_template(lambda id: str(hf.id_to_token(id)), found),
        "truncation": None,
        "padding": None,
    }
    return Tokenizer(json.dumps(content, ensure_ascii=False), origin=str(file))


def _around(hf: tokenizers.Tokenizer, file: Path) -> tuple[tuple[int, ...], ...]:
    """What the tokenizer puts before, between and after two texts; a single text must have the same frame."""
    encoded = hf.encode("a", "b")
    groups: list[list[int]] = [[], [], []]
    reached = 0
    for id, sequence in zip(encoded.ids, encoded.sequence_ids, strict=True):
        if sequence is None:
            groups[reached].append(id)
        else:
            reached = sequence + 1
    before, between, after = map(tuple, groups)
    single = hf.encode("a")
    inner = [id for id, sequence in zip(single.ids, single.sequence_ids, strict=True) if sequence is not None]
    if [*before, *inner, *after] != single.ids:
        raise InputError(
            f"{file}: its post-processor puts other special tokens around one text than around two, which headswap "
            "cannot express."
        )
    return before, between, after


def _special_ids(folder: Path, config: CheckpointConfig, family: Family, hf: tokenizers.Tokenizer) -> dict[str, int]:
    """The ids of the special tokens by their names in transformers.

    They are those of the tokenizer's files, else the usual ones of the family, else those of config.json.
    """
    names: dict[str, Any] = dict(family.special_tokens)
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / file).is_file():
            values = read_json(folder / file)
            names |= values if isinstance(values, dict) else {}
    found = {}
    for name in {name for group in ROLES.values() for name in group}:
        value = names.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        id = hf.token_to_id(content) if isinstance(content, str) else None
        if id is None:
            listed = config.get(f"{name}_id")
            id = listed[0] if isinstance(listed, list) and listed else listed
        if type(id) is int and 0 <= id < hf.get_vocab_size(with_added_tokens=True):
            found[name] = id
    return found
