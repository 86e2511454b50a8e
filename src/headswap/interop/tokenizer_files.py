"""The tokenizer of a bundle as transformers reads it: the special tokens around a text are part of tokenizer.json."""

import json
from pathlib import Path
from typing import Any

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.core.files import write_json


def write_tokenizer(bundle: Bundle, folder: Path) -> dict[str, Any]:
    """Write tokenizer.json and tokenizer_config.json; returns the token ids for config.json."""
    tokenizer = bundle.tokenizer
    if tokenizer.kind == "lab":
        raise InputError(
            "The lab's tokenizer cuts texts with a SentencePiece model of its own, which no tokenizer.json can "
            "express. Pre-train a base with a tokenizer of headswap tokenizer."
        )
    ids = {"bos": tokenizer.sos_id, "eos": tokenizer.eos_id, "pad": tokenizer.pad_id}
    names = {f"{role}_token": tokenizer.piece(id) for role, id in ids.items()}
    others = {"unk": tokenizer.unk_id, "mask": tokenizer.mask_id, "sep": tokenizer.sep_id, "cls": tokenizer.sos_id}
    names |= {f"{role}_token": tokenizer.piece(id) for role, id in others.items() if id is not None}
    content = json.loads(tokenizer.serialised) | {"post_processor": tokenizer.frame.as_template(tokenizer.piece)}
    write_json(folder / "tokenizer.json", content)
    limit = bundle.task.max_length if bundle.model.shape.head != "lm" and bundle.task.max_length else bundle.max_length
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": limit,
            "padding_side": "right",
            "clean_up_tokenization_spaces": False,
            "model_input_names": input_names(bundle),
            **names,
        },
    )
    return {f"{role}_token_id": id for role, id in ids.items()}


def input_names(bundle: Bundle) -> list[str]:
    """What the tokenizer returns: segments only for a base that has them."""
    segments = ["token_type_ids"] if bundle.model.shape.base.type_vocab_size >= 2 else []
    return ["input_ids", *segments, "attention_mask"]
