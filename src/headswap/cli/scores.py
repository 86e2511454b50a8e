"""Scores of a task as tables: what `finetune` and `evaluate` print."""

from collections.abc import Mapping
from typing import Any

from headswap.cli.display import print_table

NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "exact_match": "exact match",
    "mse": "MSE",
    "mae": "MAE",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "r2": "R2",
}
MEASURES = {
    "classify": ("accuracy", "macro_f1"),
    "multilabel": ("micro_f1", "macro_f1", "exact_match"),
    "regress": ("mse", "mae", "pearson", "spearman", "r2"),
    "tag": ("f1", "precision", "recall", "accuracy"),
    "span": ("f1", "exact_match"),
}
INTERVAL = "95 % interval (test sample)"


def print_comparison(task: str, noun: str, scores: Mapping[str, dict[str, Any]]) -> None:
    """A row a model: the task's first measure with its interval, then the others."""
    first, *others = MEASURES[task]
    test = next(iter(scores.values()))
    title = f"Test, {test['num_examples']:,} {noun}s, one seed"
    if task == "classify":
        title = f"Test, {test['num_examples']:,} texts, largest class {test['majority_share']:.3f} of them, one seed"
    columns = ("model", NAMES[first], INTERVAL, *(NAMES[name] for name in others))
    rows = []
    for model, score in scores.items():
        low, high = interval(task, score)
        rows.append(
            (model, _shown(score[first]), f"{low:.3f} to {high:.3f}", *(_shown(score[name]) for name in others))
        )
    print_table(title, columns, rows)
    print_details(task, test)


def print_evaluation(task: str, noun: str, score: dict[str, Any]) -> None:
    """A row a measure."""
    first, *others = MEASURES[task]
    low, high = interval(task, score)
    rows = [(NAMES[first], f"{score[first]:.4f}", f"{low:.4f} to {high:.4f}")]
    rows += [(NAMES[name], _shown(score[name], 4), "") for name in others]
    if task == "classify":
        rows.append(("largest class of these texts", f"{score['majority_share']:.4f}", ""))
    rows += [("loss", f"{score['loss']:.4f}", ""), ("share of tokens cut off", f"{score['truncated_share']:.4f}", "")]
    print_table(f"{score['num_examples']:,} {noun}s", ("measure", "value", INTERVAL), rows)
    print_details(task, score)


def interval(task: str, score: dict[str, Any]) -> tuple[float, float]:
    """What the sample of test examples leaves open: Wilson's for a share, else the one that was resampled."""
    from headswap.metrics.intervals import wilson_interval

    if task == "classify":
        return wilson_interval(score["accuracy"], score["num_examples"])
    return score["interval"]["low"], score["interval"]["high"]


def print_details(task: str, score: dict[str, Any]) -> None:
    """The confusion of few classes, or F1 by label or type."""
    if task == "classify" and len(score["labels"]) <= 10:
        columns = ("truth \\ predicted", *score["labels"])
        rows = [(label, *row) for label, row in zip(score["labels"], score["confusion"], strict=True)]
        print_table("Confusion", columns, rows)
    by_name = {"multilabel": score.get("f1"), "tag": score.get("f1_by_type")}.get(task)
    if by_name and len(by_name) <= 30:
        what = "label" if task == "multilabel" else "type"
        print_table(f"By {what}", (what, "F1"), [(name, f"{value:.3f}") for name, value in by_name.items()])


def _shown(value: float | None, digits: int = 3) -> str:
    return "none" if value is None else f"{value:.{digits}f}"
