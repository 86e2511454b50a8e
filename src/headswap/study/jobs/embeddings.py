"""The arm `linear`: the rows of a study as vectors of a base, and the linear model of the task on them.

The vectors of all rows are computed once per base and saved as one array of float32 per set; the runs of all budgets
and seeds read them. They are pooled as in fine-tuning. A pair of texts with the vectors u and v is one vector of u, v,
|u - v| and u * v, as in InferSent: before a base is fine-tuned on pairs, the vector of both texts in one sequence says
little about how they compare (docs/log.md has the figures). Before the regression each dimension is centred and scaled
by its mean and deviation over all training rows (no label and no test row is used), and divided by the root of the
number of dimensions, so that a row has a length of about 1 as with TF-IDF and the same strengths fit.
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

from headswap.core.errors import InputError
from headswap.core.files import atomic_file, write_json
from headswap.core.settings import load_recipe
from headswap.data.documents import read_texts
from headswap.data.records import PAIR_SEPARATOR, Example, whole_text
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import text_ids
from headswap.finetuning.splits import read_splits
from headswap.model.shape import Pooling
from headswap.registry import LINEAR_MODELS, PREDICTIONS
from headswap.study.jobs.job_id import bundle_content
from headswap.study.setup.row_files import ROLES
from headswap.tasks.text_task import PAIR
from headswap.training.config import MachineSettings

VERSION = 1
"""Part of the ids of the jobs; raised when the vectors or the scores change."""
ARRAYS = "embeddings.npz"


@dataclass(frozen=True)
class Embeddings:
    """One vector per row of each set, and the ids of the rows."""

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
        """The scaled vectors of some examples, found by their texts (of a pair, both)."""
        places = {id: (role, row) for role, ids in self.ids.items() for row, id in enumerate(ids.tolist())}
        found = []
        for id in text_ids([whole_text(example) for example in examples]).tolist():
            if id not in places:
                raise InputError("A labelled text has no vector: the rows changed. Run the study again.")
            role, row = places[id]
            found.append(self.vectors[role][row])
        return self.scaled(np.array(found, dtype=np.float64))

    def scaled(self, vectors: np.ndarray) -> np.ndarray:
        """Each dimension centred and scaled as over the training rows, and rows of a length of about 1."""
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
    columns = ("text", PAIR) if sections["data"].get("text_pair_column") else ("text",)
    texts = {role: [read_texts(file, text_column=column) for column in columns] for role, file in files.items()}
    vectors = {
        role: row_vectors([embed_texts(bundle, side, pooling=pooling, max_length=length) for side in sides])
        for role, sides in texts.items()
    }
    ids = {role: text_ids(list(map(PAIR_SEPARATOR.join, zip(*sides, strict=True)))) for role, sides in texts.items()}
    made = Embeddings(vectors, ids)
    made.save(folder)
    result = {
        "verb": "embed", "pooling": pooling, "dimensions": vectors["train"].shape[1], "fingerprint": made.fingerprint,
        "weights": bundle_content(base)[0], "seconds": time.perf_counter() - start,
    }  # fmt: skip
    write_json(folder / "result.json", result)


def row_vectors(sides: Sequence[np.ndarray]) -> np.ndarray:
    """The vectors of rows: of single texts as they are, of pairs u, v, |u - v| and u * v."""
    if len(sides) == 1:
        return sides[0]
    first, second = sides
    return np.hstack([first, second, np.abs(first - second), first * second])


def fit_linear(folder: Path, arm: str, sections: Mapping[str, Any]) -> None:
    """The job that fits the linear model of the task to the vectors of the labelled rows of one run."""
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    sections = dict(sections)
    embeddings = Embeddings.load(Path(sections.pop("embeddings")["folder"]))
    recipe = load_recipe(FinetuneRecipe, None, sections)
    splits = read_splits(recipe)
    train = [*splits.train, *splits.validation]  # no epoch is selected, so all labels are for training
    kind = splits.task.prediction_kind or ""
    features = embeddings.of(train), embeddings.of(splits.test)
    with threadpool_limits(1):
        metric = splits.task.metric(recipe.training)
        outputs, chosen = LINEAR_MODELS.load(kind).fit(*features, train, splits.labels, metric)
    PREDICTIONS.load(kind).of(outputs, splits.test, splits.labels).save(folder)
    write_json(folder / "data.json", splits.checksums())
    result = {"verb": "linear", "arm": arm, **chosen, "num_labels": len(train), "embeddings": embeddings.fingerprint}
    write_json(folder / "result.json", result | {"seconds": time.perf_counter() - start})
