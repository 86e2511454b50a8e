"""Settings of fine-tuning that a task reads, and the names of metrics. Free of torch."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from headswap.batches.config import Long
from headswap.core.settings import Settings
from headswap.model.shape import Count, Share

METRIC_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "f1": "F1",
    "exact_match": "exact match",
    "mse": "MSE",
    "mae": "MAE",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "r2": "R2",
    "loss": "loss",
}
"""The metrics by which an epoch can be chosen, and what they are called in tables."""
if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(METRIC_TITLES)]


class TaskSettings(Settings):
    """How a task reads long inputs, weights its labels and chooses the best epoch."""

    long: Long | None = None
    """What is done with texts longer than max_length. truncate: keep the beginning. head+tail: keep the beginning (a
    quarter of max_length) and the end (three quarters). windows: read the whole text in overlapping windows and average
    their logits. Default: truncate; the tasks tag and span always use windows."""
    doc_stride: Annotated[int, Field(ge=0)] | None = None
    """Number of tokens that neighbouring windows share (--long windows). Default: a quarter of a window."""
    max_answer_length: Count = 30
    """Maximum number of tokens of an answer (task span)."""
    metric: MetricName | None = None
    """Metric that selects the best epoch on validation, and the regularisation of the TF-IDF baseline. With macro_f1
    each label of a multi-label classifier has its own threshold, otherwise all labels share one. Default: accuracy
    (classify), micro_f1 (multilabel), mse (regress), f1 (tag, span)."""
    metric_for_best_model: MetricName | None = None
    """Metric that selects the best epoch, if it is another one than --metric. Default: that of --metric."""
    label_smoothing_factor: Share = 0.0
    """Share of the target probability that is spread evenly over all labels."""
    class_weight: Literal["none", "balanced"] = "none"
    """Weights of the classes in the loss: none (all examples count the same), or balanced (all classes have the same
    total weight, so examples of rare classes count more)."""
    calibrate: bool = False
    """Divide the logits of a classifier by a temperature that minimises the log loss on validation, so that its
    probabilities match its accuracy. The predicted labels stay the same. Log loss and calibration error before and
    after are reported."""

    @field_validator("metric", "metric_for_best_model", mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        """`macro-f1` and `macro_f1` are the same."""
        return value.replace("-", "_").lower() if isinstance(value, str) else value
