"""The results of the error analysis of one arm, as they are in `results.json`."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SliceScore:
    """The accuracy of an arm, or another metric, on a part of the test set, with its 95 % interval."""

    arm: str
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TestSlice:
    """A part of the test set: the texts of one label, or those of a range of lengths."""

    __test__ = False  # not a test, though its name begins like one
    by: str
    """`label`, `type`, `questions:`, `value` or `words`."""
    name: str
    num_texts: int
    scores: Sequence[SliceScore]


@dataclass(frozen=True)
class Confusion:
    """How many texts of a label get another one: mean, smallest and largest number over the runs."""

    label: str
    predicted: str
    mean: float
    smallest: int
    largest: int
    num_texts: int
    """Test texts of the label."""


@dataclass(frozen=True)
class ConfidentError:
    """A test text with a wrong prediction: the label that the runs prefer on average, and its probability."""

    row: int
    label: str
    predicted: str
    probability: float
    lowest: float
    highest: float
    """The probability of the predicted label in the runs: mean, lowest and highest."""
    num_wrong: int
    """Runs that predict another label than the given one."""
    is_possible_label_error: bool
    text: str | None = None


@dataclass(frozen=True)
class PredictedValues:
    """Predicted and true values of one run of a regression, of at most `MOST_VALUES` test rows."""

    seed: int
    rows: Sequence[int]
    """Rows of the test set, counted from 0."""
    targets: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class ErrorAnalysis:
    """Where one arm is wrong at one budget."""

    arm: str
    labels: int
    num_runs: int
    slices: Sequence[TestSlice]
    confusions: Sequence[Confusion]
    errors: Sequence[ConfidentError]
    possible_label_errors: Sequence[int]
    """Rows of the test set, counted from 0, the most confident first."""
    metric: str = "accuracy"
    """Of the parts of the test set."""
    is_above_majority: bool = True
    """Whether the arm is clearly better than the most frequent label; otherwise no label errors are searched."""
    predicted: PredictedValues | None = None
    """Of a regression."""
