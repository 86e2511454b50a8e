"""The id of a job: a hash of everything that its result depends on.

A job with the same id as a finished one is not run again. Paths, and machine settings that change results by rounding
at most, are not part of it.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from headswap.core.files import sha256_of_file
from headswap.core.public_checkpoints import is_checkpoint
from headswap.core.settings import Recipe, flattened
from headswap.data.config import FEWEST_FOR_CHOOSING
from headswap.finetuning.config import ConsistencySettings
from headswap.training.config import MachineSettings

PATHS = {"data.train", "data.validation", "data.test", "model.base", "tokenizer.tokenizer", "corpus.corpus"}
ADDED = {
    "training.metric": None,
    "training.calibrate": False,
    "data.group_column": None,
    "model.normalization": None,
    "model.lm_head_transform": None,
    "training.token_dropout": None,
    "training.rdrop_alpha": 0.0,
    "training.adversarial_epsilon": 0.0,
    "adaptation.head_epochs": None,
    "adaptation.head_init": None,
    "head.head_similarity": None,
    "head.pair_encoding": None,
    "head.head_norm": None,
    "masking.mlm_probability_start": None,
    "masking.masked_share": None,
    "data.hold_out_from": FEWEST_FOR_CHOOSING,
    "data.unseen_labels": "error",
    "machine.parallel": "ddp",
    "data.answer_offsets": "exact",
    **{f"consistency.{name}": value for name, value in ConsistencySettings().model_dump(mode="json").items()},
}
"""Settings that earlier versions did not have. At these values they are not part of an id, so that jobs of earlier
versions are found again."""
MACHINE = {f"machine.{name}" for name in MachineSettings.model_fields if name != "precision"}


def job_id(kind: str, content: Any) -> str:
    """Twelve hexadecimal digits from the kind of a job and its content."""
    return hashlib.sha256(json.dumps([kind, content], sort_keys=True, default=list).encode()).hexdigest()[:12]


def recipe_content(recipe: Recipe) -> dict[str, Any]:
    """Every setting that changes the result; paths and the machine do not."""
    content = {name: value for name, value in flattened(recipe).items() if name not in PATHS | MACHINE}
    # Pairs were always read as one sequence before `pair_encoding`, which is not what its default is now.
    added = ADDED if content.get("data.text_pair_column") is None else ADDED | {"head.pair_encoding": "joined"}
    return {name: value for name, value in content.items() if name not in added or value != added[name]}


def bundle_content(path: str) -> list[str]:
    """Hashes of the weights and of the config, which has the shape, the tokenizer's fingerprint and the token count."""
    from headswap.bundle.bundle import CONFIG, WEIGHTS, find_bundle

    folder = find_bundle(Path(path))
    if is_checkpoint(path):
        files = sorted(file for pattern in ("*.safetensors", "*.json") for file in folder.glob(pattern))
        return [f"{file.name} {sha256_of_file(file)}" for file in files]
    return [sha256_of_file(folder / name) for name in (WEIGHTS, CONFIG)]
