"""What a fine-tuned bundle records about its task. Free of torch."""

from typing import Annotated

from pydantic import Field

from headswap.batches.config import Long
from headswap.core.settings import Settings
from headswap.model.shape import Count
from headswap.registry import TaskName


class TaskState(Settings):
    """How a fine-tuned model is used: how its inputs are read and how its scores become predictions."""

    task: TaskName = "classify"
    """What is predicted."""
    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Longest sequence in tokens; the limit of the base if absent."""
    long: Long = "truncate"
    """What is done with texts longer than that."""
    doc_stride: Annotated[int, Field(ge=0)] | None = None
    """Tokens that neighbouring windows share; a quarter of a window if absent."""
    max_answer_length: Count = 30
    """Longest answer of a span, in tokens."""
    reads_pairs: bool = False
    """Whether an input is a pair of texts."""
    has_unanswerable: bool = False
    """Whether some questions of the training set have no answer, so that an empty answer may be predicted."""
    thresholds: tuple[float, ...] = ()
    """The probability from which each label is predicted, in a multi-label task; 0.5 if absent."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """What the scores of a classifier are divided by before they become probabilities; fitted on validation."""
    target_mean: float = 0.0
    """Mean of the training targets of a regression; the head predicts standardised values."""
    target_std: Annotated[float, Field(gt=0)] = 1.0
    """Standard deviation of the training targets of a regression."""
