"""Error rates and power of a study's tests, beside those of a t test over seeds, by simulation.

    python benchmarks/verdicts.py --draws 5000 --predictions FOLDER

Half of the cells draw answers from a model: the probability that a text is answered correctly varies between texts
(stable predictions: it is near 0 or 1), and seeds shift it. The other half resamples real predictions. FOLDER has one
`.npz` per arm with `predicted` (seeds x texts, at least 20 seeds) and `targets`. For false positives, the seeds of one
arm are divided into two arms; "unrelated errors" also draws other texts for one of them, so that the two arms have the
same accuracy in the population and differ on single texts. For power, a known share of the wrong answers is corrected.

    python benchmarks/verdicts.py metrics --draws 5000 --predictions FOLDER

does the same for the other metrics of a study (metric_draws.py). FOLDER has one folder per arm, with the run folders of
its seeds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from cyclopts import App
from metric_draws import Pair, metrics_of, models, real_arms
from scipy.special import stdtr

from headswap.study.statistics.significance import crossed_mean, holm
from headswap.study.statistics.unit_scores import grouped_values, macro_f1_values

app = App(help=__doc__)
SEEDS = (3, 5, 10)
TEXTS = (1_000, 5_000)
GAIN = 0.05
BUDGETS, ARMS = 4, 4
NAMES = {
    ("tags", "f1"): "entity F1",
    ("label sets", "micro_f1"): "micro-F1 of label sets",
    ("label sets", "macro_f1"): "macro-F1 of label sets",
    ("classes", "macro_f1"): "macro-F1 of classes",
    ("values", "r2"): "R2",
    ("values", "pearson"): "Pearson",
    ("answers", "f1"): "F1 of answers",
    ("answers", "exact_match"): "exact match of answers",
}
"""Kind of predictions and metric in words."""
Draw = Callable[[np.random.Generator, int, int, float], np.ndarray]
"""(random numbers, seeds, texts, true gain) -> per-text differences of two arms, seeds x texts."""


def seeds_only(values: np.ndarray) -> float:
    """The paired t test over seeds, the rule before this one: p."""
    differences = values.mean(axis=1)
    count = len(differences)
    error = max(float(differences.std(ddof=1)), 1 / values.shape[1]) / math.sqrt(count)
    return float(2 * stdtr(count - 1, -abs(differences.mean()) / error))


def seeds_and_texts(values: np.ndarray, least_error: float | None = None) -> float:
    """The test of a study: p."""
    p = crossed_mean(values, least_error=least_error).p_value()
    assert p is not None
    return p


def from_model(
    stream: np.random.Generator, seeds: int, texts: int, gain: float, *, sharpness: float, spread: float
) -> np.ndarray:
    """Two arms with the same accuracy in the population; a small `sharpness` makes the answers stable."""
    rights = []
    for _ in range(2):
        ease = np.log(stream.beta(0.8 * sharpness, 0.2 * sharpness, texts).clip(1e-12, 1 - 1e-12))
        odds = ease - np.log1p(-np.exp(ease).clip(0, 1 - 1e-12))
        shifted = odds + spread * stream.standard_normal((seeds, 1))
        rights.append(stream.random((seeds, texts)) < 1 / (1 + np.exp(-shifted)))
    return _corrected(stream, rights[0], gain) - rights[1]


def from_predictions(
    stream: np.random.Generator,
    seeds: int,
    texts: int,
    gain: float,
    *,
    predicted: np.ndarray,
    targets: np.ndarray,
    is_unrelated: bool = False,
    metric: str = "accuracy",
) -> np.ndarray:
    """Two arms of resampled real answers: different seeds of one arm, texts drawn with replacement."""
    rows = stream.permutation(len(predicted))[: 2 * seeds]
    columns = stream.integers(0, len(targets), texts)
    others = stream.integers(0, len(targets), texts) if is_unrelated else columns
    if metric == "accuracy":
        ours, theirs = (
            predicted[rows[:seeds]][:, columns] == targets[columns],
            predicted[rows[seeds:]][:, others] == targets[others],
        )
        return _corrected(stream, ours, gain) - theirs
    num_labels = int(max(targets.max(), predicted.max())) + 1
    values = [
        [macro_f1_values(targets[at], predicted[row][at], num_labels=num_labels) for row in part]
        for part, at in ((rows[:seeds], columns), (rows[seeds:], others))
    ]
    return np.array(values[0]) - np.array(values[1])


def _corrected(stream: np.random.Generator, is_right: np.ndarray, gain: float) -> np.ndarray:
    """Answers of which a share is corrected, so that the accuracy rises by `gain`."""
    if gain == 0:
        return is_right.astype(float)
    share = gain / (1 - is_right.mean())
    return (is_right | (stream.random(is_right.shape) < share)).astype(float)


@dataclass(frozen=True)
class Source:
    """One kind of data."""

    name: str
    draw: Draw
    texts: tuple[int, ...] = TEXTS
    has_power: bool = True


def sources(folder: Path | None) -> Iterator[Source]:
    """The models, then the real predictions of a folder."""
    for name, sharpness, spread in (
        ("model: stable", 0.1, 0.0),
        ("model: stable, seeds differ", 0.1, 0.5),
        ("model: noisy", 20.0, 0.0),
        ("model: noisy, seeds differ", 20.0, 0.3),
    ):
        yield Source(name, partial(from_model, sharpness=sharpness, spread=spread))
    for file in sorted(folder.glob("*.npz")) if folder else []:
        with np.load(file, allow_pickle=False) as arrays:
            predicted, targets = arrays["predicted"].astype(int), arrays["targets"].astype(int)
        draw = partial(from_predictions, predicted=predicted, targets=targets)
        yield Source(file.stem, draw)
        yield Source(f"{file.stem}, unrelated errors", partial(draw, is_unrelated=True))
        if targets.max() > 1:
            macro = partial(draw, metric="macro_f1")
            yield Source(f"{file.stem}, macro-F1", macro, texts=TEXTS[:1], has_power=False)


def rejected(draw: Draw, seeds: int, texts: int, gain: float, draws: int) -> tuple[float, float]:
    """The shares of p < .05: t test over seeds, test over seeds and texts."""
    stream = np.random.default_rng([seeds, texts, round(gain * 1_000)])
    counts = np.zeros(2)
    for _ in range(draws):
        values = draw(stream, seeds, texts, gain)
        counts += [seeds_only(values) < 0.05, seeds_and_texts(values) < 0.05]
    before, now = counts / draws
    return float(before), float(now)


def rejected_by_metric(
    draw: Pair, metrics: Sequence[str], seeds: int, texts: int, gain: float, draws: int
) -> dict[str, tuple[float, float]]:
    """Per metric the shares of p < .05, as in `rejected`; all metrics are computed from the same draws."""
    stream = np.random.default_rng([seeds, texts, round(gain * 1_000)])
    counts = {metric: np.zeros(2) for metric in metrics}
    for _ in range(draws):
        first, second = draw(stream, seeds, texts)
        for metric in metrics:
            better = first.improved(stream, metric, gain) if gain else first
            found = better.values(metric) - second.values(metric)
            least = 0.0 if first.kind == "values" else 1 / texts
            counts[metric] += [seeds_only(found) < 0.05, seeds_and_texts(found, least) < 0.05]
    return {metric: (float(count[0] / draws), float(count[1] / draws)) for metric, count in counts.items()}


def plans(draw: Draw, seeds: int, texts: int, gains: tuple[float, ...], draws: int) -> dict[str, float]:
    """Power of three plans for one arm with the given gain per budget: the share of draws with a finding."""
    stream = np.random.default_rng([seeds, texts, len(gains)])
    found = {"overall, all budgets": 0, "primary family": 0, "one Holm family of all arms": 0}
    for _ in range(draws):
        budgets = [draw(stream, seeds, texts, gain) for gain in gains]
        own = [seeds_and_texts(values) for values in budgets]
        others = [seeds_and_texts(draw(stream, seeds, texts, 0.0)) for _ in range((ARMS - 1) * len(gains))]
        found["overall, all budgets"] += seeds_and_texts(np.mean(budgets, axis=0)) < 0.05
        found["primary family"] += min(p for p in holm(own) if p is not None) < 0.05
        found["one Holm family of all arms"] += (holm([*own, *others])[int(np.argmin(own))] or 1.0) < 0.05
    return {name: count / draws for name, count in found.items()}


@app.default
def tables(*, draws: int = 5_000, predictions: Path | None = None) -> None:
    """Print the tables as Markdown."""
    every = list(sources(predictions))
    for title, gain in (("False positives at a level of .05", 0.0), (f"Power for a gain of {GAIN:.0%}", GAIN)):
        print(f"\n**{title}** ({draws:,} draws; t test over seeds / test over seeds and texts)\n")
        print("| data | texts | " + " | ".join(f"{seeds} seeds" for seeds in SEEDS) + " |")
        print("|---|---|" + "---|" * len(SEEDS))
        for source in every:
            for texts in source.texts if gain == 0 or source.has_power else ():
                cells = [rejected(source.draw, seeds, texts, gain, draws) for seeds in SEEDS]
                shown = " | ".join(_cell(*cell) for cell in cells)
                print(f"| {source.name} | {texts:,} | {shown} |", flush=True)
    print(f"\n**Plans**: share of studies with a finding; 3 seeds, 1,000 texts, {BUDGETS} budgets, {ARMS} arms\n")
    print("| data | true gain per budget | overall, all budgets | primary family | one Holm family of all arms |")
    print("|---|---|---|---|---|")
    noisy = next(source for source in every if source.name == "model: noisy, seeds differ")
    chosen = [noisy, *(source for source in every if not source.name.startswith("model") and source.has_power)]
    few = max(100, draws // 5)
    for source in chosen:
        for gains in ((0.0,) * BUDGETS, (GAIN,) * BUDGETS, (GAIN, GAIN, -GAIN, -GAIN)):
            found = plans(_signed(source.draw), 3, 1_000, gains, few)
            text = ", ".join(f"{gain * 100:+g}" if gain else "0" for gain in gains)
            print(f"| {source.name} | {text} | " + " | ".join(f"{v:.3f}" for v in found.values()) + " |", flush=True)


@app.command
def metrics(
    *, draws: int = 5_000, power_draws: int = 1_000, predictions: Path | None = None, kind: str | None = None
) -> None:
    """Print the tables of the other metrics as Markdown, or of one kind of predictions, such as "label sets"."""
    every = [*models(), *(real_arms(predictions) if predictions else ())]
    for title, gain in (("False positives at a level of .05", 0.0), (f"Power for a gain of {GAIN:.0%}", GAIN)):
        count = power_draws if gain else draws
        print(f"\n**{title}** ({count:,} draws, 1,000 texts; t test over seeds / test over seeds and texts)\n")
        print("| metric | data | " + " | ".join(f"{seeds} seeds" for seeds in SEEDS) + " |")
        print("|---|---|" + "---|" * len(SEEDS))
        for own_kind, name, draw in every:
            if kind not in (None, own_kind):
                continue
            cells = [rejected_by_metric(draw, metrics_of(own_kind), seeds, TEXTS[0], gain, count) for seeds in SEEDS]
            for metric in metrics_of(own_kind):
                shown = " | ".join(_cell(*cell[metric]) for cell in cells)
                print(f"| {NAMES[own_kind, metric]} | {name} | {shown} |", flush=True)


@app.command
def groups(*, draws: int = 1_500) -> None:
    """False positives with few groups: the least error as 1 / groups, as it was, and as 1 / texts."""
    print("| groups | texts per group | errors | 3 seeds | 5 seeds |\n|---|---|---|---|---|")
    stream = np.random.default_rng(1)
    for num_groups, size in ((5, 40), (10, 100), (20, 100), (100, 20)):
        numbers = np.repeat(np.arange(num_groups), size)
        for of_groups, name in ((0.0, "independent"), (0.3, "depend on the group")):
            cells = []
            for seeds in (3, 5):
                rejected = np.zeros(2)
                for _ in range(draws):
                    first, second = (_grouped_arm(stream, numbers, seeds, of_groups) for _ in range(2))
                    found = first - second
                    rejected += [seeds_and_texts(found) < 0.05, seeds_and_texts(found, 1 / len(numbers)) < 0.05]
                cells.append(_cell(*(rejected / draws)))
            print(f"| {num_groups} | {size} | {name} | {cells[0]} | {cells[1]} |", flush=True)


def _grouped_arm(stream: np.random.Generator, numbers: np.ndarray, seeds: int, of_groups: float) -> np.ndarray:
    """One value per group and seed; 79 % of the answers are right, and the share `of_groups` of their stable part is
    common to a group."""
    size = len(numbers)
    of_group = stream.standard_normal(numbers.max() + 1)[numbers]
    stable = np.sqrt(1 - of_groups) * stream.standard_normal(size) + np.sqrt(of_groups) * of_group
    right = np.sqrt(0.6) * stable + np.sqrt(0.4) * stream.standard_normal((seeds, size)) > -0.8
    return np.stack([grouped_values(row.astype(float), numbers) for row in right])


def _cell(before: float, now: float) -> str:
    return f"{before:.3f} / {now:.3f}".replace("0.", ".")


def _signed(draw: Draw) -> Draw:
    """A draw that also takes losses: the two arms are exchanged."""
    return lambda stream, seeds, texts, gain: (
        draw(stream, seeds, texts, gain) if gain >= 0 else -draw(stream, seeds, texts, -gain)
    )


if __name__ == "__main__":
    app()
