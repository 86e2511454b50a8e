"""The config.json of a bundle, written and read: what a model is, what it was trained for and how it is used.

Keys have Hugging Face's names where there is one. A file that is read may be wrong: then the error names the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headswap.batches.config import MaskingSettings
from headswap.bundle.card import TOKENS_TRAINED
from headswap.bundle.task_state import TaskState
from headswap.bundle.uses import Use, uses_of
from headswap.core.errors import InputError, SettingError, raise_problems
from headswap.core.files import read_json
from headswap.core.local_paths import shared_name
from headswap.core.settings import problem_sentences
from headswap.model.shape import BaseShape
from headswap.model.text_model import ModelShape
from headswap.registry import OBJECTIVES
from headswap.tokens.tokenizer import Tokenizer

FORMAT_VERSION = 1


def config_of(
    shape: ModelShape,
    tokenizer: Tokenizer,
    *,
    labels: Sequence[str],
    objective: str,
    masking: MaskingSettings,
    task: TaskState,
    card: Mapping[str, Any],
    problem_type: str | None,
) -> dict[str, Any]:
    """The content of config.json."""
    masks_tokens = objective in OBJECTIVES and OBJECTIVES.load(objective).masks_tokens
    config: dict[str, Any] = {
        "model_type": "headswap",
        "architectures": [uses_of(shape, objective)[0].architecture],
        "headswap_format": FORMAT_VERSION,
        **shape.base.model_dump(),
        "tie_word_embeddings": shape.base.tied_head,
        "direction": shape.direction,
        "is_decoder": shape.direction == "causal",
        "objective": objective,
        **({"masking": masking.model_dump()} if masks_tokens else {}),
        "head": shape.head,
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.sos_id,
        "eos_token_id": tokenizer.eos_id,
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "card": {key: shared_name(value) if _is_absolute(value) else value for key, value in card.items()},
    }
    if shape.pair_head:
        config["pair_head"] = True
    if shape.lora is not None:
        config["lora"] = shape.lora.model_dump(mode="json")
    if shape.head != "lm":
        if problem_type:
            config["problem_type"] = problem_type
        config |= {
            "num_labels": len(labels),
            **label_entries(labels),
            "classifier": _head_entries(shape),
            "task": task.model_dump(mode="json", exclude_defaults=True) | {"task": task.task},
        }
    return config


def _head_entries(shape: ModelShape) -> dict[str, Any]:
    """The settings of a head, without the defaults of those that earlier versions of headswap do not know."""
    newer = {"head_similarity": "dot"} if shape.head == "compare" else {"head_similarity": "dot", "head_norm": "none"}
    head = shape.classifier
    return head.model_dump(exclude={name for name, default in newer.items() if getattr(head, name) == default})


def _classifier(config: dict[str, Any]) -> Any:
    """The settings of a head as they were written; the first heads that compare two texts always normalised."""
    entries = config.get("classifier", {})
    return (
        {"head_norm": "layer"} | entries if config.get("head") == "compare" and isinstance(entries, dict) else entries
    )


def read_use(file: Path) -> Use:
    """How the model of this config.json is used."""
    config = read_json(file)
    shape = shape_of(config, file)
    state = task_state_of(config, file, longest=shape.base.max_position_embeddings)
    return uses_of(shape, config.get("objective", "causal"), reads_pairs=state.reads_pairs)[0]


def check_values(config: dict[str, Any], origin: Path) -> None:
    """Raise if an entry that is no part of the shape has a type that the rest of the package cannot use."""
    problems = [
        f"{origin}: {name} is not {what}. Restore the file from a copy."
        for name, kind, what in (
            ("objective", str, "a text"),
            ("card", dict, "an object"),
            ("masking", dict, "an object"),
        )
        if name in config and not isinstance(config[name], kind)
    ]
    card = config.get("card")
    tokens = card.get(TOKENS_TRAINED) if isinstance(card, dict) else None
    if tokens is not None and (type(tokens) is not int or tokens < 0):
        problems.append(f"{origin}: '{TOKENS_TRAINED}' of the card is not a number. Restore the file from a copy.")
    raise_problems(problems)


def _is_absolute(value: Any) -> bool:
    return isinstance(value, str) and "\n" not in value and Path(value).is_absolute()


def label_entries(labels: Sequence[str]) -> dict[str, Any]:
    """The entries of config.json that name the labels."""
    return {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def task_state_of(config: dict[str, Any], origin: Path, *, longest: int) -> TaskState:
    """How the model is used; a bundle without this entry is a classifier or a language model."""
    values = config.get("task", {})
    if not isinstance(values, dict):
        raise InputError(f"{origin}: task is not an object.")
    try:
        state = TaskState(**values)
    except ValidationError as problems:
        raise_problems(problem_sentences(problems, TaskState, origin=str(origin)))
        raise
    if state.thresholds and len(state.thresholds) != config.get("num_labels"):
        raise InputError(f"{origin}: {len(state.thresholds)} thresholds for {config.get('num_labels')} labels.")
    if state.max_length is not None and state.max_length > longest:
        raise InputError(f"{origin}: task.max_length is {state.max_length:,}, but the base reads at most {longest:,}.")
    return state


def shape_of(config: dict[str, Any], origin: Path) -> ModelShape:
    """The model shape that a config.json describes."""
    if not isinstance(config, dict):
        raise InputError(f"{origin} is JSON, but not an object, so it describes no model. Restore it from a copy.")
    if config.get("model_type") != "headswap":
        raise InputError(f"{origin} describes a model of type {config.get('model_type')!r}, not a headswap bundle.")
    if config.get("headswap_format") != FORMAT_VERSION:
        raise InputError(
            f"{origin} has format {config.get('headswap_format')!r}; this version of headswap reads {FORMAT_VERSION}."
        )
    has_labels = config.get("head") != "lm"
    try:
        shape = ModelShape(
            base=BaseShape(**{name: config[name] for name in BaseShape.model_fields if name in config}),
            direction=config.get("direction"),
            head=config.get("head"),
            num_labels=config.get("num_labels") if has_labels else None,
            classifier=_classifier(config),
            pair_head=config.get("pair_head", False),
            lora=config.get("lora"),
        )
    except ValidationError as problems:
        raise_problems(problem_sentences(problems, ModelShape, origin=str(origin)))
        raise
    except SettingError as problem:  # widths that do not fit together
        raise InputError(f"{origin}: {problem}") from None
    if has_labels and (
        not isinstance(shape.num_labels, int) or not _are_labels(config.get("id2label"), shape.num_labels)
    ):
        raise InputError(f"{origin}: id2label does not name the {shape.num_labels} labels of the head, one for each.")
    return shape


def _are_labels(names: Any, count: int) -> bool:
    """Whether `id2label` of a config names each of `count` labels once."""
    if not isinstance(names, dict) or len(names) != count or set(names) != {str(index) for index in range(count)}:
        return False
    labels = list(names.values())
    return all(isinstance(label, str) for label in labels) and len(set(labels)) == count
