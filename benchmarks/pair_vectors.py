"""The vector of a pair of texts for the arm `linear`, on the validation parts of SICK and STS-B (docs/log.md).

    python benchmarks/pair_vectors.py DATA sick stsb

DATA has a folder per set with train and valid (`text`, `text_pair`, `label`); no test part is read. A linear model is
fitted to 100 and 1,000 labels of train, which the seed draws, on vectors of an installed base: of the sequence of both
texts, as a fine-tuning reads it; of both texts apart (u, v) with their difference and product; or of these two alone.
The score is accuracy (SICK) or Pearson's correlation (STS-B).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cyclopts import App
from threadpoolctl import threadpool_limits

from headswap.baselines.pairs import pair_features
from headswap.batches.labelled_rows import batch_of
from headswap.bundle.bundle import Bundle
from headswap.data.config import ColumnSettings
from headswap.data.records import Example
from headswap.data.stratify import stratified_subset
from headswap.inference.embed import embed_texts
from headswap.inference.outputs import TOKENS_PER_BATCH, token_batches
from headswap.model.pooling import pool
from headswap.registry import LINEAR_MODELS, PREDICTIONS
from headswap.study.jobs.embeddings import Embeddings, row_vectors
from headswap.tasks.choose import named_task
from headswap.tasks.task import Task, with_state

app = App(help=__doc__)
TASKS = {"sick": ("classify", "accuracy"), "stsb": ("regress", "pearson")}
POOLING = "mean"


@torch.no_grad()
def vectors_of_sequences(task: Task, bundle: Bundle, examples: Sequence[Example]) -> np.ndarray:
    """The vectors of the sequences `first <sep> second`."""
    rows = task.encode_inputs(examples, with_state(bundle, reads_pairs=True)).rows
    ids, model = [row.ids for row in rows], bundle.model.eval()
    found = np.empty((len(rows), model.shape.base.hidden_size), dtype=np.float32)
    order = sorted(range(len(rows)), key=lambda number: len(ids[number]))
    for chosen in token_batches(order, ids, TOKENS_PER_BATCH["cpu"]):
        batch = batch_of([rows[number] for number in chosen], is_per_token=False)
        found[chosen] = pool(model.hidden(batch), batch.lengths_B, POOLING).numpy()
    return found


def vectors_of_pairs(task: Task, bundle: Bundle, examples: Sequence[Example]) -> dict[str, np.ndarray]:
    """The vectors of pairs in each of the ways that are compared."""
    sides = [[one.text for one in examples], [one.text_pair or "" for one in examples]]
    every = row_vectors([embed_texts(bundle, side, pooling=POOLING) for side in sides])
    return {
        "one sequence": vectors_of_sequences(task, bundle, examples),
        "u, v, |u - v|, u * v": every,
        "|u - v|, u * v": every[:, every.shape[1] // 2 :],
    }


def scaled(train: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors as a study scales them: by mean and deviation of train, then to a length of about 1."""
    made = Embeddings({"train": train}, {})
    return made.scaled(train.astype(np.float64)), made.scaled(other.astype(np.float64))


def scores(
    task: Task, metric: str, train: Sequence[Any], test: Sequence[Any], features: Mapping[str, Any]
) -> dict[str, float]:
    """The score of the linear model of the task on each kind of features."""
    kind, labels = task.prediction_kind or "", task.labels(train)
    found = {}
    for name, (own, of_test) in features.items():
        with threadpool_limits(1):
            outputs, _ = LINEAR_MODELS.load(kind).fit(own, of_test, train, labels, metric)
        found[name] = PREDICTIONS.load(kind).of(outputs, test, labels).scores()[metric]
    return found


@app.default
def main(
    data: Path, *sets: str, base: str = "box:reviews-en-2", budgets: tuple[int, ...] = (100, 1_000), seeds: int = 3
) -> None:
    """Print the score of every way at every budget and seed, and their means."""
    torch.set_num_threads(1)
    bundle = Bundle.load(base)
    for name in sets:
        task, metric = named_task(TASKS[name][0]), TASKS[name][1]
        columns = ColumnSettings(text_pair_column="text_pair")
        train, test = (task.read(str(data / name / f"{part}.csv.gz"), columns) for part in ("train", "valid"))
        vectors, of_test = (vectors_of_pairs(task, bundle, part) for part in (train, test))
        ways = {way: scaled(vectors[way], of_test[way]) for way in vectors}
        for budget in budgets:
            found: dict[str, list[float]] = {}
            for seed in range(1, seeds + 1):
                rows = stratified_subset(train, budget, seed, strata=task.subset_strata(train))
                own = [train[row] for row in rows]
                features = {way: (every[rows], other) for way, (every, other) in ways.items()}
                features["baseline pairs"] = pair_features(own, test)
                for way, score in scores(task, metric, own, test, features).items():
                    found.setdefault(way, []).append(score)
            for way, values in found.items():
                each = ", ".join(f"{value:.3f}" for value in values)
                print(f"{name}, {budget} labels, {way}: {metric} {np.mean(values):.3f} ({each})", flush=True)


if __name__ == "__main__":
    app()
