"""What a task is: everything between a labelled file and an answer that is not the model or the loop.

A task reads examples, says which labels there are, turns examples into rows, names the objective and the head, measures
what the head said, and turns it into answers. Adding one is a class, a line in `table.py` and a contract fixture.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import SettingError, listed
from headswap.data.config import ColumnSettings, LabelledSettings, TaskName
from headswap.data.stratify import stratified_split
from headswap.model.shape import Direction, HeadKind, Pooling
from headswap.objectives.supervised import SUPERVISED, SupervisedObjective
from headswap.tasks.config import TaskSettings

COLUMNS = tuple(ColumnSettings.model_fields)
AnyTaskSettings = TypeVar("AnyTaskSettings", bound=TaskSettings)
LOWER_IS_BETTER = frozenset({"loss", "mse", "mae"})
WORST = -1e9


class Task(ABC):
    """One kind of labelled set."""

    name: ClassVar[TaskName]
    head: ClassVar[HeadKind]
    is_per_token: ClassVar[bool] = False
    """Whether the head reads token by token instead of pooling a sequence."""
    direction: ClassVar[Direction] = "causal"
    """Attention direction of a base from scratch, by default."""
    noun: ClassVar[str]
    """What one example is."""
    product: ClassVar[str]
    """What is made, as in: The classifier is in ..."""
    columns: ClassVar[tuple[str, ...]]
    """The settings of `ColumnSettings` that it reads by."""
    metrics: ClassVar[tuple[str, ...]]
    """What the best epoch may be chosen by, the default first."""
    shown: ClassVar[tuple[str, ...]]
    """What is written down at every evaluation besides the loss."""
    longs: ClassVar[tuple[str, ...]] = ("windows",)
    """What can be done with long inputs, the default first."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Which of label_smoothing_factor, class_weight and max_answer_length mean something to it."""

    @abstractmethod
    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[Any]:
        """The examples of a labelled set; all that is wrong with it is one error."""

    @abstractmethod
    def labels(self, train: Sequence[Any]) -> tuple[str, ...]:
        """The labels of a training set, one for each output of the head."""

    @abstractmethod
    def check(self, examples: Sequence[Any], labels: Sequence[str], *, role: str) -> None:
        """Raise if a set has what train has not."""

    @abstractmethod
    def layout(self, examples: Sequence[Any], bundle: Bundle) -> EncodedSet:
        """The rows of examples, without targets."""

    @abstractmethod
    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """The same rows with what is to be predicted."""

    @abstractmethod
    def measure(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Every metric, from the head's scores; a final one with the interval of the first."""

    @abstractmethod
    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[Any]:
        """Examples without labels, from what a user asks about; what is wrong is an error."""

    @abstractmethod
    def answers(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[Any]:
        """What the scores say, an answer an example."""

    def encode(self, examples: Sequence[Any], bundle: Bundle) -> EncodedSet:
        """The rows of examples with their targets."""
        return self.with_targets(self.layout(examples, bundle), bundle)

    def begin(self, state: TaskState, train: Sequence[Any]) -> TaskState:
        """What is known of a training set before the first step."""
        del train
        return state

    def choose(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> Bundle:
        """The bundle with what is chosen on validation once the weights stand."""
        del outputs, encoded
        return bundle

    def strata(self, examples: Sequence[Any]) -> list[str]:
        """By what a choice of examples keeps its shares."""
        return ["" for _ in examples]

    def hold_out(self, examples: Sequence[Any], fraction: float, seed: int) -> tuple[list[int], list[int]]:
        """Indices of the rest and of the held-out part."""
        return stratified_split(examples, fraction, seed, strata=self.strata(examples))

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> SupervisedObjective:
        """What the head is taught."""
        del training, encoded, labels
        return SUPERVISED[self.name]()

    def warn(self, metrics: dict[str, Any], *, role: str) -> None:
        """Say what is suspicious about a score."""
        del metrics, role

    def resolve(self, training: AnyTaskSettings) -> AnyTaskSettings:
        """The settings with the task's own defaults; what would have no effect is refused."""
        metric, long = training.metric_for_best_model or self.metrics[0], training.long or self.longs[0]
        if metric not in self.metrics:
            raise SettingError(
                f"metric_for_best_model is '{metric}', but the task {self.name} has {listed(self.metrics)}."
            )
        if long not in self.longs:
            raise SettingError(f"long is '{long}', but the task {self.name} has {listed(self.longs)}.")
        if training.doc_stride is not None and long != "windows":
            raise SettingError("doc_stride is for windows. Pass --long windows, or leave it out.")
        for name in training.not_default(["label_smoothing_factor", "class_weight", "max_answer_length"]):
            if name not in self.settings:
                raise SettingError(f"{name} has no meaning for the task {self.name}. Leave it out.")
        return training.changed(metric_for_best_model=metric, long=long)

    def check_columns(self, columns: ColumnSettings) -> None:
        """Refuse names of columns that this task does not read."""
        if idle := [name for name in columns.not_default(COLUMNS) if name not in self.columns]:
            raise SettingError(
                f"{', '.join(idle)} cannot be set: the task {self.name} does not read it.{_reader_hint(idle, columns)}"
            )

    def check_pooling(self, pooling: Pooling | None) -> None:
        """Refuse settings of a head that this task's does not have."""
        if self.is_per_token and pooling not in (None, "mean"):
            raise SettingError(f"pooling cannot be set: the head of the task {self.name} reads token by token.")

    def score(self, metrics: dict[str, Any], name: str) -> list[float]:
        """What the best epoch is chosen by, higher is better; many ties on a small set, which the loss decides."""
        value = metrics[f"eval_{name}"]
        signed = WORST if value is None else -value if name in LOWER_IS_BETTER else value
        return [signed] if name == "loss" else [signed, -metrics["eval_loss"]]


def _reader_hint(idle: Sequence[str], columns: ColumnSettings) -> str:
    """Which task reads these columns and how to choose it, where one can be chosen: a bundle has its own."""
    from headswap.tasks.registry import TASKS  # which imports this file

    readers = [name for name, task in TASKS.items() if set(idle) <= set(task.columns)]
    if len(readers) != 1 or not isinstance(columns, LabelledSettings):
        return ""
    return f" The task {readers[0]} does: pass --task {readers[0]}."


def length_of(bundle: Bundle) -> int:
    """The longest sequence that is read."""
    return bundle.task.max_length or bundle.max_length


def with_state(bundle: Bundle, **changes: Any) -> Bundle:
    """The bundle with some of its task's state replaced."""
    return replace(bundle, task=bundle.task.changed(**changes))
