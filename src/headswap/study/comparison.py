"""Scratch against pre-trained, with the baselines beside them: the same labels, order and settings, several seeds.

Every fine-tuning is a run folder of its own, so a comparison that was stopped goes on where it was. What is said in the
end follows from the intervals: a gain, a loss, or no difference shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headswap.core.config import load_recipe
from headswap.core.files import write_json
from headswap.study.baselines import baselines
from headswap.study.statistics import Interval, mean_interval, paired_difference
from headswap.training.config import FinetuneRecipe
from headswap.training.finetune import finetune
from headswap.training.observer import Observer
from headswap.training.run import Run
from headswap.training.splits import read_splits

Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Arm:
    """One way to get a model: a name and the sections of a recipe that make it."""

    name: str
    sections: Sections


@dataclass(frozen=True)
class Comparison:
    """Scores of every arm over seeds, and what they show."""

    num_labels: int
    accuracy: dict[str, list[float]]
    curves: dict[str, list[list[tuple[float, float]]]]
    seconds: dict[str, float]
    num_test: int

    def interval(self, arm: str) -> Interval:
        """Mean test accuracy of an arm with its interval over seeds."""
        return mean_interval(self.accuracy[arm])

    def difference(self, arm: str, other: str) -> Interval:
        """How much better an arm is than another, seed by seed."""
        return paired_difference(self.accuracy[arm], self.accuracy[other])

    def as_json(self) -> dict[str, Any]:
        """Everything, with intervals, for `comparison.json`."""
        intervals = {name: asdict(self.interval(name)) for name in self.accuracy}
        gains = {
            f"{name} - {other}": asdict(self.difference(name, other))
            for name, other in (("pretrained", "scratch"), ("pretrained", "tfidf"))
            if name in self.accuracy
        }
        return asdict(self) | {"intervals": intervals, "differences": gains}


def compare_arms(
    out: Path,
    arms: Sequence[Arm],
    shared: Sections,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    on_arm: Callable[[str, int], None] = lambda name, seed: None,
) -> Comparison:
    """Fine-tune every arm with every seed, score the baselines on the same labels, and keep it all under `out`."""
    accuracy: dict[str, list[float]] = {name: [] for name in ("majority", "tfidf", *(arm.name for arm in arms))}
    curves: dict[str, list[list[tuple[float, float]]]] = {arm.name: [] for arm in arms}
    seconds = dict.fromkeys(accuracy, 0.0)
    recipe = None
    for seed in seeds:
        for arm in arms:
            on_arm(arm.name, seed)
            sections = _merged(shared, arm.sections, {"training": {"seed": seed}})
            run = finetune(out=out / f"{arm.name}-seed{seed}", sections=sections, resume=True, observer=observer)
            accuracy[arm.name].append(run.result["test"]["accuracy"])
            seconds[arm.name] += run.result["seconds"]
            curves[arm.name].append(_curve(run))
            recipe = load_recipe(FinetuneRecipe, run.path / "recipe.toml")
        assert recipe is not None
        on_arm("tfidf", seed)
        splits = read_splits(recipe)
        for name, scores in baselines([*splits.train, *splits.validation], splits.test).items():
            accuracy[name].append(scores["accuracy"])
            num_test = scores["num_examples"]
    num_labels = len(splits.train) + len(splits.validation)
    comparison = Comparison(num_labels, accuracy, curves, seconds, num_test)
    write_json(out / "comparison.json", comparison.as_json())
    return comparison


def verdict(comparison: Comparison) -> list[str]:
    """What was found, in sentences; nothing below the noise is claimed."""
    labels = f"{comparison.num_labels:,} labels"
    gain = comparison.difference("pretrained", "scratch")
    sentences = [_gain_sentence(gain, labels)]
    best = max(("scratch", "pretrained"), key=lambda name: comparison.interval(name).mean)
    lead = comparison.difference(best, "tfidf")
    points = f"{abs(lead.mean) * 100:.1f} points"
    if lead.low is None:
        sentences.append("Against TF-IDF no claim is possible either.")
    elif lead.is_above_zero:
        sentences.append(f"The {best} model beats TF-IDF + logistic regression by {points}.")
    elif lead.is_below_zero:
        sentences.append(f"TF-IDF + logistic regression is still {points} ahead of the best Transformer here.")
    else:
        sentences.append("No difference to TF-IDF + logistic regression is shown.")
    return sentences


def _gain_sentence(gain: Interval, labels: str) -> str:
    if gain.low is None or gain.high is None:
        return f"With {gain.count} seed(s) no claim about pre-training is possible; use 3 or more."
    span = f"({gain.low * 100:.1f} to {gain.high * 100:.1f}, {gain.count} seeds)"
    if gain.is_above_zero:
        return f"Pre-training gains {gain.mean * 100:.1f} points {span} over scratch with {labels}."
    if gain.is_below_zero:
        return f"Pre-training HURTS by {-gain.mean * 100:.1f} points {span} with {labels}."
    return (
        f"No difference between pre-trained and scratch is shown with {labels}: {gain.mean * 100:+.1f} points {span}."
    )


def _merged(*layers: Sections) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for name, values in layer.items():
            sections[name] = sections.get(name, {}) | dict(values)
    return sections


def _curve(run: Run) -> list[tuple[float, float]]:
    """(epoch, validation accuracy), epoch 0 included."""
    return [(line["epoch"], line["eval_accuracy"]) for line in run.metrics() if line.get("eval_accuracy") is not None]
