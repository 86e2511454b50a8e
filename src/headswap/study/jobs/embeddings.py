"""The arm `linear`: the texts of a study as vectors of a base, and logistic regression on them.

The vectors of all rows are computed once per base and saved as one array of float32 per set; the runs of all budgets
and seeds read them. They are pooled as in fine-tuning. Before the regression each dimension is centred and scaled by
its mean and deviation over all training texts (no label and no test text is used), and divided by the root of the
number of dimensions, so that a text has a length of about 1 as with TF-IDF and the same strengths C fit.
"""

import hashlib
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from headswap.baselines.linear import chosen_probabilities, logistic_candidates
from headswap.core.errors import InputError
from headswap.core.files import atomic_file, write_json
from headswap.core.settings import load_recipe
from headswap.data.documents import read_texts
from headswap.data.records import Example
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import Predictions, group_ids, text_ids
from headswap.finetuning.splits import read_splits
from headswap.model.shape import Pooling
from headswap.study.jobs.job_id import bundle_content
from headswap.study.setup.row_files import ROLES
from headswap.training.config import MachineSettings

VERSION = 1
"""Part of the ids of the jobs; raised when the vectors or the scores change."""
ARRAYS = "embeddings.npz"


@dataclass(frozen=True)
class Embeddings:
    """One vector per row of each set, and the ids of the texts."""

    vectors: Mapping[str, np.ndarray]
    ids: Mapping[str, np.ndarray]

    @property
    def fingerprint(self) -> str:
        """A hash of all arrays."""
        digest = hashlib.sha256()
        for arrays in (self.vectors, self.ids):
            for role in sorted(arrays):
                digest.update(role.encode() + arrays[role].tobytes())
        return digest.hexdigest()[:32]

    def save(self, folder: Path) -> None:
        """Write the arrays; no file has pickled objects."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {f"{role}_vectors": array for role, array in self.vectors.items()}
        arrays |= {f"{role}_ids": array for role, array in self.ids.items()}
        with atomic_file(folder / ARRAYS) as temporary, temporary.open("wb") as handle:
            np.savez(handle, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, folder: Path) -> "Embeddings":
        """Read the arrays; a damaged file is an error."""
        try:
            with np.load(folder / ARRAYS, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
        except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as problem:
            raise InputError(f"{folder / ARRAYS} cannot be read ({problem}). Run the study again.") from None
        roles = [name.removesuffix("_vectors") for name in arrays if name.endswith("_vectors")]
        return cls({role: arrays[f"{role}_vectors"] for role in roles}, {role: arrays[f"{role}_ids"] for role in roles})

    def of(self, examples: Sequence[Example]) -> np.ndarray:
        """The scaled vectors of some examples, found by their texts."""
        places = {id: (role, row) for role, ids in self.ids.items() for row, id in enumerate(ids.tolist())}
        found = []
        for id in text_ids([example.text for example in examples]).tolist():
            if id not in places:
                raise InputError("A labelled text has no vector: the rows changed. Run the study again.")
            role, row = places[id]
            found.append(self.vectors[role][row])
        return self._scaled(np.array(found, dtype=np.float64))

    def _scaled(self, vectors: np.ndarray) -> np.ndarray:
        every = self.vectors["train"].astype(np.float64)
        deviation = every.std(axis=0)
        deviation[deviation < 1e-12] = 1.0
        return (vectors - every.mean(axis=0)) / deviation / np.sqrt(every.shape[1])


def embed_rows(folder: Path, sections: Mapping[str, Any]) -> None:
    """The job that embeds all rows of a study with one base."""
    from headswap.bundle.bundle import Bundle
    from headswap.defaults.finetuning import POOLINGS
    from headswap.inference.embed import embed_texts
    from headswap.training.device import Machine

    start = time.perf_counter()
    base = sections["model"]["base"]
    machine = Machine(MachineSettings(**sections.get("machine", {})))
    bundle = Bundle.load(base, device=machine.device)
    pooling: Pooling = sections["embed"]["pooling"] or POOLINGS[bundle.model.shape.direction]
    length = sections["embed"]["max_length"]
    files = {role: file for role in ROLES if (file := sections["data"].get(role))}
    texts = {role: read_texts(file, text_column="text") for role, file in files.items()}
    vectors = {role: embed_texts(bundle, found, pooling=pooling, max_length=length) for role, found in texts.items()}
    made = Embeddings(vectors, {role: text_ids(found) for role, found in texts.items()})
    made.save(folder)
    result = {
        "verb": "embed", "pooling": pooling, "dimensions": vectors["train"].shape[1], "fingerprint": made.fingerprint,
        "weights": bundle_content(base)[0], "seconds": time.perf_counter() - start,
    }  # fmt: skip
    write_json(folder / "result.json", result)


def fit_linear(folder: Path, arm: str, sections: Mapping[str, Any]) -> None:
    """The job that fits logistic regression to the vectors of the labelled texts of one run."""
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    sections = dict(sections)
    embeddings = Embeddings.load(Path(sections.pop("embeddings")["folder"]))
    recipe = load_recipe(FinetuneRecipe, None, sections)
    splits = read_splits(recipe)
    train = [*splits.train, *splits.validation]  # no epoch is selected, so all labels are for training
    with threadpool_limits(1):
        candidates = logistic_candidates(embeddings.of(train), embeddings.of(splits.test))
        metric = splits.task.metric(recipe.training)
        probabilities, chosen = chosen_probabilities(candidates, train, splits.labels, metric)
    numbers = {label: number for number, label in enumerate(splits.labels)}
    targets = np.array([numbers[example.label] for example in splits.test])
    ids = text_ids([example.text for example in splits.test])
    Predictions(probabilities, targets, splits.labels, ids, group_ids(splits.test)).save(folder)
    write_json(folder / "data.json", splits.checksums())
    result = {"verb": "linear", "arm": arm, **chosen, "num_labels": len(train), "embeddings": embeddings.fingerprint}
    write_json(folder / "result.json", result | {"seconds": time.perf_counter() - start})
