"""A public checkpoint as a bundle: its weights by the tensor map of its family, its tokenizer with its own tokens.

Every tensor of the file must have a place. Pickled weights are refused. The head of a fine-tuned checkpoint is read if
our heads can express it; a checkpoint without a head is a base that can be fine-tuned or adapted, but not used as a
language model.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError, listed, raise_problems
from headswap.core.files import read_json
from headswap.core.local_paths import shared_name
from headswap.core.public_checkpoints import CONFIG, checkpoint_folder
from headswap.core.settings import problem_sentences
from headswap.interop.families.choose import family_of
from headswap.interop.families.family import CheckpointConfig, Family
from headswap.interop.tokenizer_in import read_tokenizer
from headswap.model.shape import BaseShape, HeadShape
from headswap.model.text_model import ModelShape, build_empty
from headswap.model.weights import open_weights

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
NO_OBJECTIVE = "none"
"""The objective of a base without a language modelling head."""
TASKS = {"classify": "classify", "tag": "tag", "span": "span"}
PROBLEMS = {"multi_label_classification": "multilabel", "regression": "regress"}
OLD_NAMES = ((r"\.gamma$", ".weight"), (r"\.beta$", ".bias"))
"""Names of norms in checkpoints that were converted from TensorFlow."""


def load_checkpoint(name: str, *, device: torch.device | str = "cpu", allow_download: bool = False) -> Bundle:
    """The bundle of `hf:FOLDER` or `hf:NAME`."""
    folder = checkpoint_folder(name, allow_download=allow_download)
    config = _config(folder)
    family = family_of(config)
    tensors = _named(_read_tensors(folder, config), family)
    shape = _shape(config, family)
    tokenizer = read_tokenizer(folder, config, family)
    if tokenizer.vocab_size > shape.base.vocab_size:
        raise InputError(
            f"{folder}: tokenizer.json has ids up to {tokenizer.vocab_size - 1:,}, but the model knows only "
            f"{shape.base.vocab_size:,} tokens ({CONFIG})."
        )
    has_head = _head_kind(config, family) != "none"
    state = our_tensors(tensors, family, shape, str(folder), has_head=has_head)
    model = build_empty(shape)
    problems = [
        f"{folder}: {ours} has shape {tuple(state[ours].shape)}; {CONFIG} describes {tuple(tensor.shape)}."
        for ours, tensor in model.state_dict().items()
        if state[ours].shape != tensor.shape
    ]
    raise_problems(problems)
    model.load_state_dict(state, assign=True)
    return Bundle(
        model.to(device).eval(),
        tokenizer,
        labels=_labels(config, shape),
        objective=_objective(family) if has_head else NO_OBJECTIVE,
        card={"preset": f"{family.name} checkpoint", "public checkpoint": shared_name(str(name))},
        path=folder,
        task=_task(config, shape),
        problem_type=_problem_type(config, shape),
    )


def _objective(family: Family) -> str:
    return "causal" if family.direction == "causal" else "masked"


def our_tensors(
    tensors: Mapping[str, Tensor], family: Family, shape: ModelShape, origin: str, *, has_head: bool
) -> dict[str, Tensor]:
    """The state of our model; a tensor that is missing, or that has no place, is an error that names it."""
    entries = [(f"base.{entry.ours}", entry) for entry in family.base_entries(shape.base)]
    if has_head:
        entries += [(f"head.{entry.ours}", entry) for entry in family.head_entries(shape)]
    used = {name for _, entry in entries for name in entry.theirs}
    problems = [f"{origin}: the tensor {name} is missing." for name in sorted(used - set(tensors))]
    left_over = [name for name in tensors if name not in used and not _is_ignored(name, family)]
    for name in left_over:
        first = family.duplicates.get(name)
        if first is None or first not in tensors:
            problems.append(f"{origin}: the tensor {name} has no place in a {family.name} model of headswap.")
        elif not torch.equal(tensors[name], tensors[first]):
            problems.append(f"{origin}: {name} differs from {first}, although tie_word_embeddings is true.")
    raise_problems(problems)
    return {ours: entry.read(tensors).float() for ours, entry in entries}


def _is_ignored(name: str, family: Family) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in family.ignored)


def _config(folder: Path) -> CheckpointConfig:
    values = read_json(folder / CONFIG)
    if not isinstance(values, dict):
        raise InputError(f"{folder / CONFIG} is JSON, but not an object, so it describes no model.")
    if values.get("model_type") == "headswap":
        raise InputError(f"{folder} is a bundle of headswap. Give it without hf:, as {folder}.")
    return CheckpointConfig(values, str(folder / CONFIG))


def _shape(config: CheckpointConfig, family: Family) -> ModelShape:
    """The shape of the model; a checkpoint without a head gets a tied head, which has no weights."""
    kind = _head_kind(config, family)
    try:
        base = family.base_shape(config)
        if kind in ("none", "lm"):
            if kind == "none":
                base = base.changed(tied_head=True, lm_head_bias=False, lm_head_transform="none")
            return ModelShape(base=base, direction=family.direction, head="lm")
        head: HeadShape = family.stock_head(config, kind)
        count = 2 if kind == "span" else len(_label_names(config))
        return ModelShape(base=base, direction=family.direction, head=kind, num_labels=count, classifier=head)
    except ValidationError as problems:
        raise_problems(problem_sentences(problems, BaseShape, origin=config.origin))
        raise
    except SettingError as problem:
        raise InputError(f"{config.origin}: {problem}") from None


def _head_kind(config: CheckpointConfig, family: Family) -> str:
    """The kind of head of the class that wrote the checkpoint."""
    if config.architecture is None:
        return "none"
    kinds = family.kinds()
    if config.architecture not in kinds:
        raise InputError(
            f"{config.origin}: architectures names {config.architecture}; headswap can read "
            f"{listed(sorted(kinds), most=30)}."
        )
    return kinds[config.architecture]


def has_task_head(folder: Path) -> bool:
    """Whether a checkpoint was fine-tuned."""
    config = _config(folder)
    return _head_kind(config, family_of(config)) not in ("none", "lm")


def _label_names(config: CheckpointConfig) -> tuple[str, ...]:
    """The labels of a fine-tuned checkpoint; transformers leaves them out of config.json if there are two unnamed."""
    names = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    try:
        found = tuple(str(names[str(index)]) for index in range(len(names)))
    except (KeyError, TypeError):
        raise InputError(f"{config.origin}: id2label does not name the labels 0, 1, 2, ...") from None
    if len(set(found)) < len(found):
        raise InputError(f"{config.origin}: id2label names a label twice.")
    return found


def _labels(config: CheckpointConfig, shape: ModelShape) -> tuple[str, ...]:
    if shape.head == "lm":
        return ()
    return ("start", "end") if shape.head == "span" else _label_names(config)


def _task(config: CheckpointConfig, shape: ModelShape) -> TaskState:
    if shape.head == "lm":
        return TaskState()
    task = PROBLEMS.get(_problem_type(config, shape) or "", TASKS[shape.head])
    return TaskState(task=task, thresholds=_thresholds(config, shape) if task == "multilabel" else ())


def _thresholds(config: CheckpointConfig, shape: ModelShape) -> tuple[float, ...]:
    """The thresholds of an exported model. Another program may mean something else by this name."""
    values = config.get("thresholds")
    if not isinstance(values, list) or not all(isinstance(value, float) for value in values):
        return ()
    return tuple(values) if len(values) == shape.num_labels else ()


def _problem_type(config: CheckpointConfig, shape: ModelShape) -> str | None:
    """The problem of a classifier. As in transformers, one output without a problem is a value, not a class."""
    if shape.head != "classify":
        return None
    return config.get("problem_type") or ("regression" if shape.num_labels == 1 else None)


def _named(tensors: dict[str, Tensor], family: Family) -> dict[str, Tensor]:
    """The tensors under the names of the family's map: with its prefix, and without TensorFlow's names of norms."""
    result = {}
    others = tuple(family.prefixes.values())
    has_prefix = any(name.startswith((family.prefix, *others)) for name in tensors)
    for name, tensor in tensors.items():
        for pattern, current in OLD_NAMES:
            name = re.sub(pattern, current, name)
        for other in others:
            if name.startswith(other):
                name = family.prefix + name.removeprefix(other)
        result[name if has_prefix else family.prefix + name] = tensor
    return result


def _read_tensors(folder: Path, config: CheckpointConfig) -> dict[str, Tensor]:
    """All tensors of a checkpoint, from one file or from the files of an index."""
    if (folder / INDEX).is_file():
        index: Any = read_json(folder / INDEX)
        places = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(places, dict) or not all(_is_file_name(name) for name in places.values()):
            raise InputError(f"{folder / INDEX} has no weight_map of file names.")
        files = sorted(set(places.values()))
    else:
        _refuse_pickles(folder, config)
        files = [WEIGHTS]
    tensors: dict[str, Tensor] = {}
    for name in files:
        with open_weights(folder / name) as file:
            tensors |= {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
    return tensors


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")


def _refuse_pickles(folder: Path, config: CheckpointConfig) -> None:
    if (folder / WEIGHTS).is_file():
        return
    pickles = sorted(file.name for file in folder.glob("*.bin")) or sorted(file.name for file in folder.glob("*.pt"))
    if not pickles:
        raise InputError(f"{folder} has no weights: neither {WEIGHTS} nor {INDEX} exists.")
    kind = config.architecture or "AutoModel"
    command = (
        f"import transformers as t; t.{kind}.from_pretrained({str(folder)!r}).save_pretrained('converted'); "
        f"t.AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained('converted')"
    )
    raise InputError(
        f"{folder / pickles[0]} is a pickle, which can run code and is never unpickled. If you trust its origin, "
        f"convert the checkpoint to safetensors: python -c {shlex.quote(command)}"
    )
