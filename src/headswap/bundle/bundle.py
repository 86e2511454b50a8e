"""The bundle: model, tokenizer, labels and config as one folder in Hugging Face conventions.

Its files are `config.json` (config_json.py), `model.safetensors`, `tokenizer.json`, `README.md` (the card, card.py),
`manifest.json` (checksums) and `golden.json`: outputs for token ids drawn from a seed, so that anyone can check that a
copy computes the same (check.py). There is no pickle. A run folder has its bundle in `bundle/` and can be given
wherever a bundle is expected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headswap.batches.config import MaskingSettings
from headswap.bundle.card import TOKENS_TRAINED, card_text
from headswap.bundle.config_json import check_values, config_of, shape_of, task_state_of
from headswap.bundle.task_state import TaskState
from headswap.bundle.untrusted import CARD, CONFIG, GOLDEN, WEIGHTS, check_config_unchanged, check_inside, check_sizes
from headswap.bundle.uses import Use, predicts_next, uses_of
from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import InputError, absent
from headswap.core.files import has_entry, read_json, write_json
from headswap.core.installed_bases import base_folder, checked_base, is_boxed
from headswap.core.manifest import MANIFEST, write_manifest
from headswap.core.ownership import OwnFiles
from headswap.core.public_checkpoints import checkpoint_folder, is_checkpoint
from headswap.core.settings import validate
from headswap.model.golden import GOLDEN_TOLERANCE, golden_outputs
from headswap.model.text_model import TextModel, build_empty
from headswap.model.weights import load_weights, save_model
from headswap.registry import CHECKPOINTS
from headswap.tokens.lab_tokenizer import MODEL_FILE
from headswap.tokens.tokenizer import Tokenizer

OWN_FILES = OwnFiles(
    files=tuple(map(re.escape, (WEIGHTS, CONFIG, GOLDEN, CARD, "tokenizer.json", MODEL_FILE, MANIFEST))),
    is_ours=lambda folder: (
        has_entry(folder / MANIFEST, "headswap_manifest") or has_entry(folder / CONFIG, "headswap_format")
    ),
)


@dataclass(frozen=True)
class Bundle:
    """A model with everything that is needed to use it."""

    model: TextModel
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()
    objective: str = "causal"
    card: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    """How a masked objective masked its tokens."""
    task: TaskState = field(default_factory=TaskState)
    """How a fine-tuned model reads its inputs and turns scores into predictions."""
    problem_type: str | None = None
    """Hugging Face's name for the problem of a fine-tuned model, for example single_label_classification."""

    @property
    def tokens_trained(self) -> int | None:
        """Tokens that the base was trained on, repetitions counted; None if the card does not record it."""
        return self.card.get(TOKENS_TRAINED)

    @property
    def max_length(self) -> int:
        """Longest sequence in tokens that the base can read, `<sos>` included."""
        return self.model.shape.base.max_position_embeddings

    @property
    def verb(self) -> str:
        """The command that uses this model: predict, generate or fill; the first where there are two."""
        return self.uses[0].verb

    @property
    def what(self) -> str:
        """What this model is, in words, for example: a classifier."""
        return self.uses[0].what

    @property
    def uses(self) -> tuple[Use, ...]:
        """How this model is used; a base that was trained in both directions has two uses."""
        return uses_of(self.model.shape, self.objective, reads_pairs=self.task.reads_pairs)

    def check_use(self, verb: str, needed: str) -> None:
        """Raise if this is another kind of model than the verb needs, or if it has no head for it."""
        name = self.path or "This bundle"
        if verb not in {use.verb for use in self.uses}:
            raise InputError(f"{name} is {self.what}; only {needed} can {verb}. Use headswap {self.verb}.")
        if self.objective == "none":
            raise InputError(
                f"{name} has no language modelling head, so it cannot {verb}. Train one with headswap adapt."
            )

    @property
    def reads_both_ways(self) -> bool:
        """Whether this is a base that was trained with causal and with bidirectional attention."""
        return len(self.uses) > 1

    @property
    def predicts_next(self) -> bool:
        """Whether the vector of a token predicts the token after it; otherwise it predicts the token itself."""
        return predicts_next(self.model.shape, self.objective)

    def save(self, folder: str | Path, *, dtype: torch.dtype | None = None) -> None:
        """Write the folder atomically; a narrower `dtype` must represent every weight exactly.

        A bundle in the folder is replaced; a folder with other files is refused.
        """
        with atomic_folder(Path(folder), OWN_FILES) as temporary:
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
            problem_type=self.problem_type,
        )

    @classmethod
    def load(cls, path: str | Path, *, device: torch.device | str = "cpu", allow_download: bool = False) -> "Bundle":
        """Read a bundle, the bundle of a run folder, `box:NAME`, or a public checkpoint (`hf:NAME`)."""
        if is_checkpoint(path):
            return CHECKPOINTS.load("hf")(str(path), device=device, allow_download=allow_download)
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
        if tokenizer.vocab_size > shape.base.vocab_size:
            raise InputError(
                f"{folder}: tokenizer.json has ids up to {tokenizer.vocab_size - 1:,}, but the model knows only "
                f"{shape.base.vocab_size:,} tokens ({CONFIG}). Restore both files from a copy."
            )
        check_values(config, folder / CONFIG)
        masking = validate(MaskingSettings, config.get("masking", {}), origin=str(folder / CONFIG))
        state = task_state_of(config, folder / CONFIG, longest=shape.base.max_position_embeddings)
        check_sizes(shape, folder)
        check_config_unchanged(folder)
        model = build_empty(shape)
        load_weights(model, folder / WEIGHTS, device=device)
        labels = tuple(config["id2label"][str(index)] for index in range(shape.num_labels or 0))
        objective, card = config.get("objective", "causal"), config.get("card", {})
        problem_type = config.get("problem_type")
        return cls(model.eval(), tokenizer, labels, objective, card, folder, masking, state, problem_type)

    def verify(self) -> list[str]:
        """Problems: what the model computes otherwise than when it was saved; empty if there are none."""
        assert self.path is not None
        recorded = read_json(self.path / GOLDEN)
        now = golden_outputs(self.model)
        gap = float(np.abs(np.array(recorded["outputs"]) - np.array(now["outputs"])).max())
        return [] if gap <= GOLDEN_TOLERANCE else [f"{self.path}: golden outputs differ by {gap:.3g}."]


def find_bundle(path: Path) -> Path:
    """The bundle folder for `path`: the folder itself, the one in a run folder, or that of an installed base."""
    if is_boxed(path):
        return base_folder(path)
    if is_checkpoint(path):
        return checkpoint_folder(path)
    for folder in (path, path / "bundle"):
        if (folder / CONFIG).is_file():
            return folder
    if (path / "result.json").is_file():
        raise InputError(
            f"{path} is a finished run, but its bundle is missing ({path / 'bundle' / CONFIG} does not exist). Restore "
            "it from a copy, or run it again with --overwrite. A study with --keep results keeps no bundles."
        )
    if (path / "checkpoints").is_dir():
        raise InputError(
            f"{path} is a run that has not finished, so it has no bundle yet. "
            f"Finish it with --resume, or use {path / 'checkpoints' / 'last'}."
        )
    if any(path.glob("shard-*.safetensors")):
        raise InputError(
            f"{path} has the shards of a run with --parallel fsdp, which are not a bundle. Finish the run with "
            "--resume (any number of processes can do it); its bundle has the whole model."
        )
    if (path / "recipe.toml").is_file():
        raise InputError(
            f"{path} is a run that has not finished and has no checkpoint yet. Finish it with its command and --resume."
        )
    if not path.exists():
        raise InputError(f"{absent(path)} Give a bundle, a run folder, box:NAME (see headswap bases), or hf:FOLDER.")
    raise InputError(f"{path} is neither a bundle nor a run folder: it has no {CONFIG}. Give one of the two.")
