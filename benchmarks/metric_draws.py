"""Two arms with the same true score, for the metrics of a study: drawn from models, or from real predictions.

`Arm` has the predictions of all seeds of one arm, scored by the functions that a study uses. A model draws the truth of
the test texts once and the errors of the two arms independently from one distribution, so that their scores in the
population are equal. An error happens where a normal variable is below a threshold. A part of its variance, `stable`,
is common to all seeds, and every seed shifts all texts by a normal variable with the standard deviation `of_seeds`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from headswap.finetuning.prediction_file import load_predictions
from headswap.metrics.intervals import f1_of_counts
from headswap.study.statistics.unit_scores import UNIT_SCORES, unit_scores

STABLE, NOISY = 0.95, 0.1
"""Shares of the variance of errors that are common to all seeds."""
ENTITIES, CANDIDATES = 3.0, 1.5
"""Means per sentence: true entities, and places at which an entity can be predicted that is not true."""
ENTITY_F1 = 0.82
CLASSES, LABELS = 10, 6
GROUP_SIZE = 5


@dataclass(frozen=True)
class Arm:
    """The answers of all seeds of an arm; the first axis of every field but `targets` and `groups` is the seed."""

    kind: str
    answers: np.ndarray
    """Counts (seeds x texts x labels x 3) of tags and label sets; otherwise seeds x texts: classes, values, or F1."""
    targets: np.ndarray | None = None
    groups: np.ndarray | None = None

    def values(self, metric: str) -> np.ndarray:
        """The values that a study tests: seeds x texts, or seeds x groups."""
        return np.stack([unit_scores(self._predictions(row), metric, groups=self.groups) for row in self.answers])

    def _predictions(self, row: np.ndarray) -> Any:
        """The predictions of one seed, with the fields that a study reads."""
        found = SimpleNamespace(kind=self.kind, targets=self.targets, counts=row, values=row, f1=row)
        if self.kind == "answers":
            found.exact_match = (row == 1).astype(float)
        if self.kind == "classes":
            found.labels, found.probabilities = range(CLASSES), np.eye(CLASSES)[row]
        return found

    def improved(self, stream: np.random.Generator, metric: str, gain: float) -> "Arm":
        """An arm whose score is higher by `gain`: a share of its errors is corrected."""
        if metric in ("r2", "pearson"):
            assert self.targets is not None
            share = _share(partial(_score_of_values, self.answers, self.targets, metric), gain)
            return replace(self, answers=self.answers + share * (self.targets - self.answers))
        if self.answers.ndim == 4:
            sums = self.answers.sum(axis=1).astype(float)
            share = _share(lambda part: _score_of_counts(_corrected(sums, part), metric), gain)
            right, predicted, true = np.moveaxis(self.answers, -1, 0).astype(np.int64)
            found, dropped = stream.binomial(true - right, share), stream.binomial(predicted - right, share)
            return replace(self, answers=np.stack([right + found, predicted + found - dropped, true], axis=-1))
        is_corrected = stream.random(self.answers.shape)
        if self.targets is None:
            return replace(self, answers=np.where(is_corrected < self._share_of_answers(metric, gain), 1, self.answers))
        # Macro-F1 of classes: the same numbers decide at every share, so that the score is monotonous in it.
        share = _share(lambda part: self._with_classes(is_corrected < part).values(metric).mean(), gain)
        return self._with_classes(is_corrected < share)

    def _share_of_answers(self, metric: str, gain: float) -> float:
        return float(gain / (1 - self.values(metric).mean()))

    def _with_classes(self, is_corrected: np.ndarray) -> "Arm":
        return replace(self, answers=np.where(is_corrected, self.targets, self.answers))


Pair = Callable[[np.random.Generator, int, int], tuple[Arm, Arm]]
"""(random numbers, seeds, texts) -> two arms with the same true score."""


def metrics_of(kind: str) -> list[str]:
    """The metrics of a kind of predictions that have a verdict; accuracy has its own simulation."""
    return [metric for metric in UNIT_SCORES[kind] if metric != "accuracy"]


def _share(score: Callable[[float], float], gain: float) -> float:
    """The share of errors to correct for a gain."""
    before = score(0.0)
    return float(brentq(lambda share: score(share) - before - gain, 0.0, 1.0, xtol=1e-3))


def _corrected(sums: np.ndarray, share: float) -> np.ndarray:
    right, predicted, true = np.moveaxis(sums, -1, 0)
    found, dropped = share * (true - right), share * (predicted - right)
    return np.stack([right + found, predicted + found - dropped, true], axis=-1)


def _score_of_counts(sums: np.ndarray, metric: str) -> float:
    return float(f1_of_counts(sums if metric.startswith("macro") else sums.sum(axis=1)).mean())


def _score_of_values(predicted: np.ndarray, targets: np.ndarray, metric: str, share: float) -> float:
    """The mean score of the seeds if every prediction is moved towards the truth by a share of its error."""
    moved = predicted + share * (targets - predicted)
    if metric == "r2":
        return float(1 - np.square(targets - moved).mean() / targets.var())
    left, right = targets - targets.mean(), moved - moved.mean(axis=1, keepdims=True)
    return float(np.mean(right @ left / np.sqrt(np.square(right).sum(axis=1) * np.square(left).sum())))


@dataclass(frozen=True)
class Errors:
    """The distribution of errors."""

    stable: float
    of_seeds: float

    def draw(
        self, stream: np.random.Generator, seeds: int, cells: int | tuple[int, ...], owners: np.ndarray | None = None
    ) -> np.ndarray:
        """Normal variables, seeds x cells; half of what is stable is equal in all cells of one owner."""
        shape = (cells,) if isinstance(cells, int) else cells
        shared = stream.standard_normal(shape, dtype=np.float32)
        if owners is not None:
            own = stream.standard_normal((int(owners.max(initial=0)) + 1, *shape[1:]), dtype=np.float32)
            shared = (shared + own[owners]) * np.sqrt(0.5, dtype=np.float32)
        noise = stream.standard_normal((seeds, *shape), dtype=np.float32)
        return np.sqrt(self.stable, dtype=np.float32) * shared + np.sqrt(1 - self.stable, dtype=np.float32) * noise

    def shift(self, stream: np.random.Generator, seeds: int) -> np.ndarray:
        """How much better each seed is, seeds x 1."""
        return self.of_seeds * stream.standard_normal((seeds, 1))


def entities(
    stream: np.random.Generator, seeds: int, texts: int, *, errors: Errors, recalls: Sequence[float] = (0.8, 0.8)
) -> tuple[Arm, Arm]:
    """Sentences with entities; both arms have the same F1, also if their recalls differ."""
    true, candidates = stream.poisson(ENTITIES, texts), stream.poisson(CANDIDATES, texts)
    owners = [np.repeat(np.arange(texts), count) for count in (true, candidates)]
    arms = []
    for recall in recalls:
        shift = errors.shift(stream, seeds)
        spurious = ENTITIES / CANDIDATES * (2 * recall / ENTITY_F1 - recall - 1)
        right = errors.draw(stream, seeds, len(owners[0]), owners[0]) + shift > -ndtri(recall)
        wrong = errors.draw(stream, seeds, len(owners[1]), owners[1]) - shift > -ndtri(spurious)
        counts = [_per_sentence(cells, own, texts) for cells, own in ((right, owners[0]), (wrong, owners[1]))]
        parts = (counts[0], counts[0] + counts[1], np.broadcast_to(true, counts[0].shape))
        arms.append(Arm("tags", np.stack(parts, axis=-1)[:, :, None]))
    return arms[0], arms[1]


def _per_sentence(cells: np.ndarray, owners: np.ndarray, texts: int) -> np.ndarray:
    places = owners + texts * np.arange(len(cells))[:, None]
    return np.bincount(places[cells], minlength=texts * len(cells)).reshape(len(cells), texts)


def label_sets(
    stream: np.random.Generator, seeds: int, texts: int, *, errors: Errors, has_groups: bool = False
) -> tuple[Arm, Arm]:
    """Texts with several labels, of which the rarest has 1 % of the texts."""
    shares = np.geomspace(0.4, 0.01, LABELS)
    thresholds = ndtri(np.stack([0.25 * shares, np.linspace(0.85, 0.45, LABELS)]))
    truth = stream.random((texts, LABELS)) < shares
    groups = drawn_groups(stream, texts) if has_groups else None
    arms = []
    for _ in range(2):
        is_better = errors.shift(stream, seeds)[:, :, None] * np.where(truth, 1, -1)
        predicted = errors.draw(stream, seeds, truth.shape, groups) + is_better > -np.where(truth, *thresholds[::-1])
        parts = (truth & predicted, predicted, np.broadcast_to(truth, predicted.shape))
        arms.append(Arm("label sets", np.stack(parts, axis=-1).astype(np.int64), groups=groups))
    return arms[0], arms[1]


def classes(stream: np.random.Generator, seeds: int, texts: int, *, errors: Errors) -> tuple[Arm, Arm]:
    """Texts of classes of which the largest has 30 times as many texts as the smallest."""
    shares = np.geomspace(30, 1, CLASSES) / np.geomspace(30, 1, CLASSES).sum()
    targets, *others = stream.choice(CLASSES, (3, texts), p=shares)
    arms = []
    for other in others:
        wrong = np.where(other == targets, (targets + 1) % CLASSES, other)
        is_right = errors.draw(stream, seeds, texts) + errors.shift(stream, seeds) > -ndtri(0.75)
        arms.append(Arm("classes", np.where(is_right, targets, wrong), targets))
    return arms[0], arms[1]


def values(stream: np.random.Generator, seeds: int, texts: int, *, errors: Errors, is_skewed: bool) -> tuple[Arm, Arm]:
    """Ratings with two peaks, or skewed values; a seed changes the slope of the predictions."""
    drawn = stream.lognormal(0, 1, texts) if is_skewed else stream.choice([1, 2, 3, 4, 7, 8, 9, 10], texts)
    targets = (drawn - drawn.mean()) / drawn.std()
    arms = []
    for _ in range(2):
        slopes = 1 + errors.shift(stream, seeds)
        arms.append(Arm("values", 0.5 * (slopes * targets + errors.draw(stream, seeds, texts)), targets))
    return arms[0], arms[1]


def answers(stream: np.random.Generator, seeds: int, texts: int, *, errors: Errors) -> tuple[Arm, Arm]:
    """Questions about contexts: 60 % of the answers are right, others share some words with the right answer."""
    groups = drawn_groups(stream, texts)
    arms = []
    for _ in range(2):
        quality = errors.draw(stream, seeds, texts, groups) + errors.shift(stream, seeds) + ndtri(0.6)
        arms.append(Arm("answers", np.clip(np.floor((1 + quality) * 5) / 5, 0, 1), groups=groups))
    return arms[0], arms[1]


def drawn_groups(stream: np.random.Generator, texts: int) -> np.ndarray:
    """The group of each text; the size of a group is geometric."""
    sizes = stream.geometric(1 / GROUP_SIZE, texts)
    return np.repeat(np.arange(texts), sizes)[:texts]


def models() -> Iterator[tuple[str, str, Pair]]:
    """(kind of predictions, name, model)."""
    for name, stable, of_seeds in (
        ("stable", STABLE, 0.0),
        ("stable, seeds differ", STABLE, 0.15),
        ("noisy", NOISY, 0.0),
        ("noisy, seeds differ", NOISY, 0.15),
    ):
        errors = Errors(stable, of_seeds)
        yield "tags", name, partial(entities, errors=errors)
        if not of_seeds:
            yield "tags", f"{name}, recall .9 and .72", partial(entities, errors=errors, recalls=(0.9, 0.72))
        yield "label sets", name, partial(label_sets, errors=errors)
        if not of_seeds and stable == STABLE:
            yield "label sets", f"{name}, groups", partial(label_sets, errors=errors, has_groups=True)
        yield "classes", name, partial(classes, errors=errors)
        yield "values", f"{name}, ratings", partial(values, errors=errors, is_skewed=False)
        if bool(of_seeds) == (stable == NOISY):
            yield "values", f"{name}, skewed", partial(values, errors=errors, is_skewed=True)
        yield "answers", f"{name}, contexts", partial(answers, errors=errors)


def resampled(stream: np.random.Generator, seeds: int, texts: int, *, arm: Arm, is_unrelated: bool) -> tuple[Arm, Arm]:
    """Two arms of real predictions: different seeds of one arm; texts, or groups of texts, drawn with replacement."""
    rows = stream.permutation(len(arm.answers))[: 2 * seeds]
    columns, groups = _columns(stream, texts, arm)
    first = _taken(arm, rows[:seeds], columns, groups)
    if is_unrelated:
        columns, groups = _columns(stream, texts, arm, like=first)
    return first, _taken(arm, rows[seeds:], columns, groups)


def _columns(
    stream: np.random.Generator, texts: int, arm: Arm, like: Arm | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Places of texts; with groups, of about `texts` texts of whole groups (as many groups as `like` has)."""
    if arm.groups is None:
        return stream.integers(0, arm.answers.shape[1], texts), None
    num_groups = int(arm.groups.max()) + 1
    count = (
        round(texts * num_groups / len(arm.groups)) if like is None or like.groups is None else like.groups.max() + 1
    )
    ends = np.cumsum(np.bincount(arm.groups))
    order = np.argsort(arm.groups, kind="stable")
    parts = [order[ends[one - 1] if one else 0 : ends[one]] for one in stream.integers(0, num_groups, count)]
    return np.concatenate(parts), np.repeat(np.arange(count), [len(part) for part in parts])


def _taken(arm: Arm, rows: np.ndarray, columns: np.ndarray, groups: np.ndarray | None) -> Arm:
    targets = None if arm.targets is None else arm.targets[columns]
    return Arm(arm.kind, arm.answers[rows[:, None], columns], targets, groups)


def real_arms(folder: Path) -> Iterator[tuple[str, str, Pair]]:
    """(kind of predictions, name, resampled predictions) for every folder of runs, such as `runs` of a study."""
    for part in sorted(path for path in folder.iterdir() if path.is_dir()):
        runs: list[Any] = [load_predictions(file.parent) for file in sorted(part.glob("*/predictions.npz"))]
        first, targets, groups = runs[0], None, None
        if first.group_ids is not None:
            groups = np.unique(first.group_ids, return_inverse=True)[1]
        if first.kind == "values":
            found, targets = np.stack([run.values for run in runs]), first.targets
        elif first.kind == "answers":
            found = np.stack([run.f1 for run in runs])
        else:
            counts = [run.counts for run in runs]
            found = np.stack([one.sum(axis=1, keepdims=True) if first.kind == "tags" else one for one in counts])
            found = found.astype(np.int16)
        arm = Arm(first.kind, found, targets, groups)
        yield first.kind, part.name, partial(resampled, arm=arm, is_unrelated=False)
        yield first.kind, f"{part.name}, unrelated errors", partial(resampled, arm=arm, is_unrelated=True)
