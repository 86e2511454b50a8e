"""Settings of fine-tuning that a task reads, and the names of metrics. Free of torch."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from headswap.batches.config import Long
from headswap.core.settings import Settings
from headswap.model.shape import Count, Share

MetricName = Literal[
    "accuracy", "macro_f1", "micro_f1", "f1", "exact_match", "mse", "mae", "pearson", "spearman", "r2", "loss"
]
METRIC_TITLES = {
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "f1": "F1",
    "exact_match": "exact match",
    "mse": "MSE",
    "mae": "MAE",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "r2": "R2",
}
"""What metrics are called in tables, where that is not their name."""


class TaskSettings(Settings):
    """How a task reads long inputs, weights its labels and chooses the best epoch."""

    long: Long | None = None
    """What is done with texts longer than max_length: truncate keeps the beginning (default), head+tail takes a
    quarter of max_length from the beginning and three quarters from the end, windows reads the whole text in
    overlapping windows and averages their scores. The tasks tag and span always use windows."""
    doc_stride: Annotated[int, Field(ge=0)] | None = None
    """Tokens that neighbouring windows share. Default: a quarter of a window."""
    max_answer_length: Count = 30
    """Longest answer in tokens (task span)."""
    metric: MetricName | None = None
    """The metric that counts: it chooses the best epoch on validation and the strength of the TF-IDF baseline. Default:
    accuracy (classify), micro_f1 (multilabel), mse (regress), f1 (tag, span)."""
    metric_for_best_model: MetricName | None = None
    """The validation metric by which the best epoch is chosen, if it is not --metric."""
    label_smoothing_factor: Share = 0.0
    """Share of each target that is spread evenly over all labels."""
    class_weight: Literal["none", "balanced"] = "none"
    """balanced: every class has the same total weight in the loss, however rare it is."""
    calibrate: bool = False
    """Divide the scores of a classifier by a temperature that minimises the log loss on validation, so that its
    probabilities fit its accuracy. No prediction changes. Log loss and calibration error before and after are
    reported."""

    @field_validator("metric", "metric_for_best_model", mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        """`macro-f1` and `macro_f1` are the same."""
        return value.replace("-", "_").lower() if isinstance(value, str) else value
