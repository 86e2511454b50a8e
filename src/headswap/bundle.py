"""The bundle: model, tokenizer, labels and config as one folder in Hugging Face conventions.

`config.json`, `model.safetensors`, `tokenizer.json`, `README.md` (the card), `manifest.json` (checksums) and
`golden.json`: outputs for token ids drawn from a seed, so that anyone can check that a copy still computes the same;
the checks are in examine.py. Never pickle. A run folder holds its
bundle in `bundle/` and works wherever a bundle does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from headswap.core.bases import base_folder, checked_base, is_boxed
from headswap.core.config import problem_sentences, validate
from headswap.core.errors import InputError, absent, raise_problems
from headswap.core.files import atomic_folder, read_json, write_json
from headswap.core.manifest import write_manifest
from headswap.core.seeds import numpy_stream
from headswap.model.account import account_of
from headswap.model.config import BaseShape, TaskState
from headswap.model.text_model import ModelShape, TextModel, lay_out
from headswap.text.batch import flat_batch
from headswap.text.config import MaskingSettings
from headswap.text.tokenizer import Tokenizer

FORMAT_VERSION = 1
WEIGHTS, CONFIG, GOLDEN, CARD = "model.safetensors", "config.json", "golden.json", "README.md"
GOLDEN_TOLERANCE = 1e-4
VERBS = {
    "classify": ("predict", "text-classification"),
    "tag": ("predict", "token-classification"),
    "span": ("predict", "question-answering"),
    "causal": ("generate", "text-generation"),
    "bidirectional": ("fill", "fill-mask"),
}
"""What a model is for, by its head or its direction: the verb, and Hugging Face's name of the task."""
ARCHITECTURES = {
    "lm": "HeadswapForLanguageModelling",
    "classify": "HeadswapForSequenceClassification",
    "tag": "HeadswapForTokenClassification",
    "span": "HeadswapForQuestionAnswering",
}
PROBLEM_TYPES = {
    "classify": "single_label_classification",
    "multilabel": "multi_label_classification",
    "regress": "regression",
}


@dataclass(frozen=True)
class Bundle:
    """A model with all that is needed to use it; one of the three parcels that cross rooms."""

    model: TextModel
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()
    objective: str = "causal"
    card: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    """How a masked objective hid its tokens."""
    task: TaskState = field(default_factory=TaskState)
    """How a fine-tuned model is used."""

    @property
    def max_length(self) -> int:
        """Longest sequence the base can read, `<sos>` included."""
        return self.model.shape.base.max_position_embeddings

    @property
    def verb(self) -> str:
        """The verb that this model is made for."""
        shape = self.model.shape
        return VERBS[shape.direction if shape.head == "lm" else shape.head][0]

    @property
    def what(self) -> str:
        """What this model is, in words."""
        shape = self.model.shape
        if shape.head == "lm":
            return f"a {'causal' if shape.direction == 'causal' else 'masked'} language model"
        return {"classify": "a classifier", "tag": "a tagger", "span": "a question answerer"}[shape.head]

    def save(self, folder: Path, *, dtype: torch.dtype | None = None) -> None:
        """Write the folder whole, or not at all; a narrower `dtype` must hold every weight exactly."""
        with atomic_folder(folder) as temporary:
            self.write_into(temporary, dtype=dtype)
            write_manifest(temporary)

    def write_into(self, folder: Path, *, dtype: torch.dtype | None = None) -> None:
        """Write the files into an existing folder."""
        save_model(self.model, folder / WEIGHTS, dtype=dtype)
        self.tokenizer.save(folder / "tokenizer.json")
        write_json(folder / CONFIG, config_of(self))
        write_json(folder / GOLDEN, golden_outputs(self.model))
        (folder / CARD).write_text(card_text(self), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, *, device: torch.device | str = "cpu") -> "Bundle":
        """Read a bundle, a run folder's bundle or `box:NAME`; all that is wrong with it is one error."""
        folder = checked_base(path) if is_boxed(path) else find_bundle(Path(path))
        check_inside(folder)
        config = read_json(folder / CONFIG)
        shape = shape_of(config, folder / CONFIG)
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        if config.get("tokenizer_fingerprint") != tokenizer.fingerprint:
            raise InputError(
                f"{folder}: tokenizer.json is not the one this model was trained with (fingerprint "
                f"{tokenizer.fingerprint}, the model's is {config.get('tokenizer_fingerprint')}). Restore the original."
            )
        check_size(shape, folder)
        model = lay_out(shape)
        load_weights(model, folder / WEIGHTS, device=device)
        labels = tuple(config["id2label"][str(index)] for index in range(shape.num_labels or 0))
        masking = validate(MaskingSettings, config.get("masking", {}), origin=str(folder / CONFIG))
        state = task_state_of(config, folder / CONFIG)
        objective, card = config.get("objective", "causal"), config.get("card", {})
        return cls(model.eval(), tokenizer, labels, objective, card, folder, masking, state)

    def verify(self) -> list[str]:
        """What does not compute as it did when the bundle was saved; empty if all is well."""
        assert self.path is not None
        recorded = read_json(self.path / GOLDEN)
        now = golden_outputs(self.model)
        gap = float(np.abs(np.array(recorded["outputs"]) - np.array(now["outputs"])).max())
        return [] if gap <= GOLDEN_TOLERANCE else [f"{self.path}: golden outputs differ by {gap:.3g}."]


def find_bundle(path: Path) -> Path:
    """The bundle folder that `path` names: itself, the one inside a run folder, or that of an installed base."""
    if is_boxed(path):
        return base_folder(path)
    for folder in (path, path / "bundle"):
        if (folder / CONFIG).is_file():
            return folder
    if (path / "checkpoints").is_dir():
        raise InputError(
            f"{path} is a run that has not finished, so it has no bundle yet. "
            f"Finish it with --resume, or use {path / 'checkpoints' / 'last'}."
        )
    if not path.exists():
        raise InputError(f"{absent(path)} Give a bundle, a run folder, or box:NAME (see headswap bases).")
    raise InputError(f"{path} is neither a bundle nor a run folder: it has no {CONFIG}.")


def check_inside(folder: Path) -> None:
    """Refuse a bundle whose files are links to somewhere else: it could read what its sender should not see."""
    for name in (CONFIG, WEIGHTS, "tokenizer.json", GOLDEN):
        if (folder / name).is_symlink() and folder.resolve() not in (folder / name).resolve().parents:
            raise InputError(
                f"{folder / name} is a link out of the bundle. Copy the file itself into it, for example with: cp -L"
            )


def check_size(shape: ModelShape, folder: Path) -> None:
    """Refuse a config of a model far larger than its weights, before memory and time are spent on laying it out."""
    base = shape.base
    fewest = base.vocab_size * base.hidden_size + base.num_hidden_layers * base.hidden_size**2
    with open_weights(folder / WEIGHTS):
        size = (folder / WEIGHTS).stat().st_size
    if fewest > size:
        raise InputError(
            f"{folder / CONFIG} describes a model of {fewest:,} numbers and more (vocab_size {base.vocab_size:,}, "
            f"hidden_size {base.hidden_size:,}, num_hidden_layers {base.num_hidden_layers:,}), and {WEIGHTS} has "
            f"{size:,} bytes: it is damaged or not this model's. Restore both files from a copy."
        )


def config_of(bundle: Bundle) -> dict[str, Any]:
    """What stands in config.json."""
    model_shape = bundle.model.shape
    config: dict[str, Any] = {
        "model_type": "headswap",
        "architectures": [ARCHITECTURES[model_shape.head]],
        "headswap_format": FORMAT_VERSION,
        **model_shape.base.model_dump(),
        "tie_word_embeddings": model_shape.base.tied_head,
        "direction": model_shape.direction,
        "is_decoder": model_shape.direction == "causal",
        "objective": bundle.objective,
        **({"masking": bundle.masking.model_dump()} if bundle.objective.startswith("masked") else {}),
        "head": model_shape.head,
        "pad_token_id": bundle.tokenizer.pad_id,
        "bos_token_id": bundle.tokenizer.sos_id,
        "eos_token_id": bundle.tokenizer.eos_id,
        "tokenizer_fingerprint": bundle.tokenizer.fingerprint,
        "card": dict(bundle.card),
    }
    if model_shape.pair_head:
        config["pair_head"] = True
    if model_shape.lora is not None:
        config["lora"] = model_shape.lora.model_dump(mode="json")
    if model_shape.head != "lm":
        if problem_type := PROBLEM_TYPES.get(bundle.task.task):
            config["problem_type"] = problem_type
        config |= {
            "num_labels": len(bundle.labels),
            "id2label": {str(index): label for index, label in enumerate(bundle.labels)},
            "label2id": {label: index for index, label in enumerate(bundle.labels)},
            "classifier": model_shape.classifier.model_dump(),
            "task": bundle.task.model_dump(mode="json", exclude_defaults=True) | {"task": bundle.task.task},
        }
    return config


def task_state_of(config: dict[str, Any], origin: Path) -> TaskState:
    """How the model is used; a bundle that says nothing of it is a plain classifier, or a language model."""
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
            classifier=config.get("classifier", {}),
            pair_head=config.get("pair_head", False),
            lora=config.get("lora"),
        )
    except ValidationError as problems:
        raise_problems(problem_sentences(problems, ModelShape, origin=str(origin)))
        raise
    if has_labels and (
        not isinstance(shape.num_labels, int) or not _are_labels(config.get("id2label"), shape.num_labels)
    ):
        raise InputError(f"{origin}: id2label does not name the {shape.num_labels} labels of the head, one for each.")
    return shape


def _are_labels(names: Any, count: int) -> bool:
    """Whether a config's id2label names each of so many labels once."""
    if not isinstance(names, dict) or set(names) != {str(index) for index in range(count)}:
        return False
    labels = list(names.values())
    return all(isinstance(label, str) for label in labels) and len(set(labels)) == count


def save_model(model: TextModel, path: Path, *, dtype: torch.dtype | None = None) -> None:
    """Write the weights; a tied head has none of its own, so nothing is stored twice."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if dtype is not None:
        whole, state = state, {name: tensor.to(dtype) for name, tensor in state.items()}
        assert all(torch.equal(state[name].to(tensor.dtype), tensor) for name, tensor in whole.items()), "not exact"
    save_file(state, path, metadata={"format": "pt"})


@contextmanager
def open_weights(path: Path, *, device: torch.device | str = "cpu") -> Iterator[Any]:
    """A safetensors file, open; one that is missing or damaged is an error that names it."""
    try:
        with safetensors.safe_open(path, framework="pt", device=str(device)) as file:
            yield file
    except FileNotFoundError:
        pickles = [name for name in ("pytorch_model.bin", "model.pt", "model.bin") if (path.parent / name).exists()]
        pickled = f" {pickles[0]} is a pickle, which can run code and is never unpickled." if pickles else ""
        raise InputError(
            f"{path} does not exist, so the model has no weights.{pickled} Restore it from a copy."
        ) from None
    except (safetensors.SafetensorError, OSError) as problem:
        raise InputError(f"{path} is damaged or not a safetensors file ({problem}). Restore it from a copy.") from None


def load_weights(model: TextModel, path: Path, *, device: torch.device | str) -> None:
    """Fill a model, which may lie on the meta device, with exactly the tensors of a file.

    Weights that are stored in 16 bits become fp32, exactly: what they are computed in is the machine's matter.
    """
    with open_weights(path, device=device) as file:
        state = {name: _widened(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - no mapping
    wanted = model.state_dict()
    problems = [f"{path}: the tensor {name} is missing." for name in wanted if name not in state]
    problems += [f"{path}: the tensor {name} has no place in this model." for name in state if name not in wanted]
    problems += [
        f"{path}: {name} holds {str(tensor.dtype).removeprefix('torch.')}, not floating-point numbers."
        for name, tensor in state.items()
        if not tensor.is_floating_point()
    ]
    problems += [
        f"{path}: {name} has shape {tuple(state[name].shape)}, wanted is {tuple(wanted[name].shape)}."
        for name in wanted
        if name in state and state[name].shape != wanted[name].shape
    ]
    raise_problems([*problems[:-1], f"{problems[-1]} Restore the file from a copy."] if problems else [])
    is_trainable = {name: tensor.requires_grad for name, tensor in model.named_parameters()}
    model.load_state_dict(state, assign=True)
    for name, tensor in model.named_parameters():
        tensor.requires_grad_(is_trainable[name])


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


@torch.no_grad()
def golden_outputs(model: TextModel) -> dict[str, Any]:
    """Outputs on token ids drawn from a seed, never on a user's text."""
    shape = model.shape.base
    stream = numpy_stream(0, "golden")
    lengths = [min(shape.max_position_embeddings, length) for length in (3, 9, 17)]
    sequences = [stream.integers(0, shape.vocab_size, length) for length in lengths]
    was_training = model.training
    model.eval()
    batch = flat_batch(sequences).to(model.device)
    logits = model(batch).float().cpu()
    model.train(was_training)
    return {"seed": 0, "lengths": lengths, "outputs": logits[:, :8].double().numpy().round(6).tolist()}


def largest_gap(first: TextModel, second: TextModel) -> float:
    """How far the golden outputs of two models are apart."""
    outputs = [np.array(golden_outputs(model)["outputs"]) for model in (first, second)]
    return float(np.abs(outputs[0] - outputs[1]).max())


def card_text(bundle: Bundle) -> str:
    """The model card; it holds settings and figures, never a user's texts."""
    shape = bundle.model.shape
    account = account_of(bundle.model)
    verb, task = VERBS[shape.direction if shape.head == "lm" else shape.head]
    lines = [
        "---",
        "library_name: headswap",
        f"pipeline_tag: {task}",
        "tags: [headswap]",
        "---",
        f"# A headswap {bundle.what.partition(' ')[2]}",
        "",
        f"- {shape.base.num_hidden_layers} layers of {shape.base.hidden_size}, {shape.direction} attention, vocabulary "
        f"{shape.base.vocab_size:,}, at most {shape.base.max_position_embeddings} tokens",
        f"- {account.total:,} parameters ({account.parts[0].count:,} of them in the embedding)",
        f"- tokenizer fingerprint `{bundle.tokenizer.fingerprint}`",
    ]
    if shape.head != "lm":
        lines.append(f"- task: {bundle.task.task}")
    if bundle.labels:
        lines.append(f"- labels: {', '.join(bundle.labels)}")
    lines += ["", "## How it was made", ""]
    lines += [f"- {key}: {value}" for key, value in bundle.card.items()] or ["- not recorded"]
    lines += ["", f"Use it with `headswap {verb}`, or `headswap.load(folder).{verb}(...)` in Python.", ""]
    return "\n".join(lines)
