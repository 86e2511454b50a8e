"""Settings of fine-tuning that a task reads. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.batches.config import Long
from headswap.core.settings import Settings
from headswap.model.shape import Count, Share

MetricName = Literal[
    "accuracy", "macro_f1", "micro_f1", "f1", "exact_match", "mse", "mae", "pearson", "spearman", "r2", "loss"
]


class TaskSettings(Settings):
    """How a task reads long inputs, weights its labels and chooses the best epoch."""

    long: Long | None = None
    """What is done with texts longer than max_length: truncate keeps the beginning (default), head+tail the first
    quarter and the last three, windows everything, in overlapping windows whose scores are averaged. The tasks tag and
    span always read in windows."""
    doc_stride: Annotated[int, Field(ge=0)] | None = None
    """Tokens that neighbouring windows share; a quarter of a window by default."""
    max_answer_length: Count = 30
    """Longest answer in tokens, in the task span."""
    metric_for_best_model: MetricName | None = None
    """What the best epoch is chosen by, on validation. By default accuracy (classify), micro_f1 (multilabel), mse
    (regress), f1 (tag, span)."""
    label_smoothing_factor: Share = 0.0
    """Share of each target spread over all labels."""
    class_weight: Literal["none", "balanced"] = "none"
    """balanced: every class weighs the same in the loss, however rare it is."""
