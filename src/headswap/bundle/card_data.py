"""The metadata of a model card: what `ModelCardData` of huggingface_hub writes, with the test figures as `model-index`.

The library is not needed to write a bundle; a test compares the text with what the library writes.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from headswap.core.local_paths import CHECKPOINT
from headswap.core.yaml_text import yaml_lines

if TYPE_CHECKING:
    from headswap.bundle.bundle import Bundle

EVALUATION = "evaluation"
"""The card's key for the figures on the test set."""
BASE_KEYS = ("base", "adapted from", "public checkpoint")
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
DIGITS = 6


class Metric(NamedTuple):
    """A metric as the Hub knows it."""

    type: str
    name: str
    average: str | None = None


METRICS = {
    "accuracy": Metric("accuracy", "Accuracy"),
    "macro_f1": Metric("f1", "Macro F1", "macro"),
    "micro_f1": Metric("f1", "Micro F1", "micro"),
    "f1": Metric("f1", "F1"),
    "exact_match": Metric("exact_match", "Exact match"),
    "mse": Metric("mse", "Mean squared error"),
    "mae": Metric("mae", "Mean absolute error"),
    "pearson": Metric("pearsonr", "Pearson correlation"),
    "r2": Metric("r_squared", "R2"),
}
"""By the names in `result.json`."""


class Evaluation(NamedTuple):
    """Figures of a model on a test set."""

    data: str
    examples: int
    metrics: Mapping[str, float]


def evaluation_entry(data: str, examples: int, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The card's entry for figures on a test set; those without a name at the Hub and undefined ones are left out."""
    kept = {
        name: round(float(metrics[name]), DIGITS)
        for name in METRICS
        if type(metrics.get(name)) in (int, float) and math.isfinite(metrics[name])
    }
    return {EVALUATION: {"data": data, "examples": examples, "metrics": kept}} if kept else {}


def with_figures(bundle: "Bundle", metrics: Mapping[str, Any], *, data: str, examples: int) -> "Bundle":
    """The bundle with its figures on a test set."""
    return replace(bundle, card={**bundle.card, **evaluation_entry(data, examples, metrics)})


def evaluation_of(card: Mapping[str, Any]) -> Evaluation | None:
    """The figures on a card; None if it has none. A card of unknown origin may have anything there."""
    entry = card.get(EVALUATION)
    if not isinstance(entry, Mapping):
        return None
    data, examples, metrics = (entry.get(name) for name in Evaluation._fields)
    if not isinstance(data, str) or type(examples) is not int or not isinstance(metrics, Mapping):
        return None
    found = evaluation_entry(data, examples, metrics)
    return Evaluation(**found[EVALUATION]) if found else None


def card_data(
    bundle: "Bundle",
    *,
    library: str = "headswap",
    pipeline_tag: str | None = None,
    tags: Sequence[str] = ("headswap",),
    with_head: bool = True,
) -> dict[str, Any]:
    """The metadata, in the order of `ModelCardData`."""
    use = bundle.uses[0]
    base = next((str(bundle.card[key]) for key in BASE_KEYS if key in bundle.card), "")
    repository = base.removeprefix(CHECKPOINT).partition("@")[0]
    data: dict[str, Any] = {}
    if base.startswith(CHECKPOINT) and HUB_NAME.fullmatch(repository):
        data["base_model"] = repository
    data |= {"library_name": library, "pipeline_tag": pipeline_tag or use.pipeline_tag, "tags": list(tags)}
    evaluation = evaluation_of(bundle.card) if with_head else None
    if evaluation is not None:
        name = f"headswap {use.what.partition(' ')[2]}"
        data["model-index"] = [{"name": name, "results": [_result(evaluation, use.pipeline_tag)]}]
    return data


def _result(evaluation: Evaluation, task: str) -> dict[str, Any]:
    metrics = []
    for name, value in evaluation.metrics.items():
        metric = METRICS[name]
        arguments = {"args": {"average": metric.average}} if metric.average else {}
        metrics.append({"type": metric.type, "value": value, "name": metric.name, **arguments})
    data = {"name": evaluation.data, "type": evaluation.data, "split": "test"}
    return {"task": {"type": task}, "dataset": data, "metrics": metrics}


def front_matter(data: Mapping[str, Any]) -> list[str]:
    """The metadata as the first lines of a card."""
    return ["---", *yaml_lines(data), "---"]
