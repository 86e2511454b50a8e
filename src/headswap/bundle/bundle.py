"""The bundle: model, tokenizer, labels and config as one folder in Hugging Face conventions.

`config.json` (bundle_config.py), `model.safetensors`, `tokenizer.json`, `README.md` (the card), `manifest.json`
(checksums) and `golden.json`: outputs for token ids drawn from a seed, so that anyone can check that a copy still
computes the same; the checks are in examine.py. Never pickle. A run folder holds its bundle in `bundle/` and works
wherever a bundle does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headswap.batches.config import MaskingSettings
from headswap.bundle.config_json import config_of, shape_of, task_state_of
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, absent
from headswap.core.files import atomic_folder, has_entry, read_json, write_json
from headswap.core.installed_bases import base_folder, checked_base, is_boxed
from headswap.core.manifest import MANIFEST, write_manifest
from headswap.core.ownership import Layout
from headswap.core.settings import validate
from headswap.model.golden import GOLDEN_TOLERANCE, golden_outputs
from headswap.model.parameter_count import count_parameters
from headswap.model.text_model import ModelShape, TextModel, build_empty
from headswap.model.weights import load_weights, open_weights, save_model
from headswap.tokens.lab_tokenizer import MODEL_FILE
from headswap.tokens.tokenizer import Tokenizer

WEIGHTS, CONFIG, GOLDEN, CARD = "model.safetensors", "config.json", "golden.json", "README.md"
LAYOUT = Layout(
    files=tuple(map(re.escape, (WEIGHTS, CONFIG, GOLDEN, CARD, "tokenizer.json", MODEL_FILE, MANIFEST))),
    is_ours=lambda folder: (
        has_entry(folder / MANIFEST, "headswap_manifest") or has_entry(folder / CONFIG, "headswap_format")
    ),
)
TOKENS_TRAINED = "tokens read"  # on the card
VERBS = {
    "classify": ("predict", "text-classification"),
    "tag": ("predict", "token-classification"),
    "span": ("predict", "question-answering"),
    "causal": ("generate", "text-generation"),
    "bidirectional": ("fill", "fill-mask"),
}
"""What a model is for, by its head or its direction: the verb, and Hugging Face's name of the task."""


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
    def tokens_trained(self) -> int | None:
        """Tokens that the base was trained on, repetitions counted; None where the card does not tell."""
        return self.card.get(TOKENS_TRAINED)

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
        """Write the folder whole, or not at all; a narrower `dtype` must hold every weight exactly.

        A bundle in the folder is replaced; a folder with other files is refused.
        """
        with atomic_folder(folder, LAYOUT) as temporary:
            self.write_into(temporary, dtype=dtype)
            write_manifest(temporary)

    def write_into(self, folder: Path, *, dtype: torch.dtype | None = None) -> None:
        """Write the files into an existing folder."""
        save_model(self.model, folder / WEIGHTS, dtype=dtype)
        self.tokenizer.save(folder / "tokenizer.json")
        write_json(folder / CONFIG, self._config())
        write_json(folder / GOLDEN, golden_outputs(self.model))
        (folder / CARD).write_text(card_text(self), encoding="utf-8")

    def _config(self) -> dict[str, Any]:
        return config_of(
            self.model.shape,
            self.tokenizer,
            labels=self.labels,
            objective=self.objective,
            masking=self.masking,
            task=self.task,
            card=self.card,
        )

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
        model = build_empty(shape)
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


def card_text(bundle: Bundle) -> str:
    """The model card; it holds settings and figures, never a user's texts."""
    shape = bundle.model.shape
    counts = count_parameters(bundle.model)
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
        f"- {counts.total:,} parameters ({counts.parts[0].count:,} of them in the embedding)",
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
