"""The interface of a task: everything between a labelled file and a prediction that is neither model nor training loop.

A task reads examples, lists the labels, turns examples into rows, chooses the objective and the head, computes metrics
from the head's outputs, and turns outputs into predictions. It also declares what other rooms need: the columns it
reads, the metrics in its tables, its inputs on the command line. A new task is a class in a file of its own and one
line in `TASKS` (registry.py); baselines are optional.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError, counted, listed
from headswap.data.config import ColumnSettings, LabelledSettings
from headswap.data.groups import check_group_column
from headswap.model.shape import Direction, Pooling
from headswap.objectives.supervised import SupervisedObjective
from headswap.registry import HEADS, TASKS, HeadKind, TaskName
from headswap.tasks.config import TaskSettings
from headswap.tasks.inputs import TEXTS, InputForm

log = logging.getLogger("headswap")
COLUMNS = tuple(ColumnSettings.model_fields)
AnyTaskSettings = TypeVar("AnyTaskSettings", bound=TaskSettings)
LOWER_IS_BETTER = frozenset({"loss", "mse", "mae"})
WORST = -1e9
MAX_F1_ROWS = 30


class Table(NamedTuple):
    """A table of results, for the command line."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Task(ABC):
    """One kind of labelled set."""

    name: ClassVar[TaskName]
    head: ClassVar[HeadKind]
    direction: ClassVar[Direction] = "causal"
    """Default attention direction of a base from scratch."""
    noun: ClassVar[str]
    """What one example is, for messages: text, sentence, question."""
    product: ClassVar[str]
    """What fine-tuning produces, for messages: classifier, tagger."""
    columns: ClassVar[tuple[str, ...]]
    """The settings of `ColumnSettings` that it reads."""
    selection_metrics: ClassVar[tuple[str, ...]]
    """The metrics by which the best epoch can be chosen; the first is the default."""
    logged_metrics: ClassVar[tuple[str, ...]]
    """The metrics that are logged at every evaluation, in addition to the loss."""
    table_metrics: ClassVar[tuple[str, ...]]
    """The metrics in tables of results; the first has an interval."""
    long_modes: ClassVar[tuple[str, ...]] = ("windows",)
    """What can be done with long inputs; the first is the default."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Which of label_smoothing_factor, class_weight, max_answer_length and calibrate have an effect."""
    problem_type: ClassVar[str | None] = None
    """Hugging Face's `problem_type`, where it has one."""
    one_label_per_text: ClassVar[bool] = False
    """Whether each text has exactly one label. Class means, a cosine head, unlabelled texts and averages need this."""
    one_label_per_target: ClassVar[bool] = False
    """Whether each prediction, of a text or of a word, is a distribution over labels, which R-Drop needs."""
    labels_texts: ClassVar[bool] = False
    """Whether the predictions are probabilities of labels of whole texts, by which `suggest` chooses texts."""
    lists_labels: ClassVar[bool] = True
    """Whether the labels are names from the training set; otherwise they only name the outputs of the head."""
    num_outputs: ClassVar[int | None] = None
    """The number of outputs of its head, where it does not depend on the labels."""
    label_noun: ClassVar[str] = "label"
    """What one of its labels is, for messages and reports: class, label, tag."""
    version: ClassVar[int] = 1
    """Incremented when the same run gives other predictions than before: a study then runs its jobs again."""
    knows_all_labels: ClassVar[bool] = False
    """Whether the labels are those of the whole training file, also where a run uses a part of it (--num-train, budgets
    of a study); otherwise every label must occur in the part."""
    scores_unseen: ClassVar[bool] = False
    """Whether labels that do not occur in train can be scored as errors (--unseen-labels wrong)."""
    prediction_kind: ClassVar[str | None] = None
    """What the test predictions of a run are, which `study` and `compare` need (predictions.npz): a name of
    `PREDICTIONS` (registry.py); None if they are not saved."""
    study_metrics: ClassVar[tuple[str, ...]] = ()
    """The metrics by which a study can compare models, higher is better; the first is the default. Each has a test of
    differences whose error rate was measured (docs/verdicts.md)."""

    knows_installed_base: ClassVar[bool] = True
    """Whether models from the installed base were compared with models from scratch on this task. Only then are they
    default arms of a study."""
    reads_groups: ClassVar[bool] = False
    """Whether it reads --group-column."""

    @abstractmethod
    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[Any]:
        """The examples of a labelled set; all its problems are raised as one error."""

    @abstractmethod
    def labels(self, train: Sequence[Any]) -> tuple[str, ...]:
        """The labels of a training set, one per output of the head."""

    @abstractmethod
    def check(self, examples: Sequence[Any], labels: Sequence[str], *, role: str) -> None:
        """Raise an error if a set has labels that are not in train."""

    def check_scored(self, examples: Sequence[Any], labels: Sequence[str], data: LabelledSettings, role: str) -> None:
        """`check`, or only a warning if unseen labels are to be scored as errors."""
        try:
            self.check(examples, labels, role=role)
        except InputError as problem:
            if data.unseen_labels == "error":
                hint = " To score them as errors, pass --unseen-labels wrong." if self.scores_unseen else ""
                raise InputError(f"{problem}{hint}") from None
            num = len(str(problem).splitlines())
            verbs = ("does", "is", "an error") if num == 1 else ("do", "are", "errors")
            message = "%s of the %s set %s not occur in train, cannot be predicted and %s scored as %s."
            log.warning(message, counted(num, self.label_noun), role, *verbs)

    @abstractmethod
    def encode_inputs(self, examples: Sequence[Any], bundle: Bundle) -> EncodedSet:
        """The rows of examples, without targets."""

    @abstractmethod
    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """The same rows with their targets."""

    @abstractmethod
    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> SupervisedObjective:
        """The training objective of the head."""

    @abstractmethod
    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """All metrics, from the outputs of the head; a final evaluation includes the interval of the first metric."""

    @abstractmethod
    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[Any]:
        """Examples without labels, from the inputs of `predict`; a wrong input is an error."""

    @abstractmethod
    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[Any]:
        """One prediction per example, from the outputs of the head."""

    def encode(self, examples: Sequence[Any], bundle: Bundle) -> EncodedSet:
        """The rows of examples with their targets."""
        return self.with_targets(self.encode_inputs(examples, bundle), bundle)

    def initial_state(self, state: TaskState, train: Sequence[Any]) -> TaskState:
        """The task state with what is computed from the training set before the first step."""
        del train
        return state

    def choose_thresholds(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, metric: str
    ) -> Bundle:
        """The bundle with the thresholds that are chosen on validation by the metric, where a task has any."""
        del outputs, encoded, metric
        return bundle

    def calibrated(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle
    ) -> tuple[Bundle, dict[str, Any]]:
        """The bundle with a temperature fitted on validation, and its effect there; only for tasks with `calibrate`."""
        raise NotImplementedError(f"the task {self.name} has no temperature")

    def effect_of_temperature(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle
    ) -> dict[str, Any]:
        """Log loss and calibration error of a set without and with the temperature of the bundle."""
        raise NotImplementedError(f"the task {self.name} has no temperature")

    def strata(self, examples: Sequence[Any]) -> list[str]:
        """The group of each example, whose share is kept when examples are sampled or held out."""
        return ["" for _ in examples]

    def subset_strata(self, examples: Sequence[Any]) -> list[str]:
        """The group of each example, whose share is kept in the label subsets of a study."""
        return self.strata(examples)

    def as_row(self, example: Any) -> dict[str, Any]:
        """An example as a row of a .jsonl file with the default names of columns (a second text is `text_pair`)."""
        raise NotImplementedError(f"the task {self.name} cannot be the task of a study")

    def unit(self, columns: ColumnSettings) -> str:
        """What one example is in the report of a study: text, pair, sentence, question."""
        del columns
        return self.noun

    def kept_together(self, example: Any) -> str | None:
        """Examples with the same value are on one side of a split (finetuning/splits.py); None: each is on its own."""
        del example
        return None

    def warn_of_problems(self, metrics: dict[str, Any], *, role: str) -> None:
        """Log a warning if the metrics indicate a problem."""
        del metrics, role

    # Settings

    @property
    def is_per_token(self) -> bool:
        """Whether the head scores every token; otherwise it scores the pooled sequence."""
        return HEADS.load(self.head).is_per_token

    def resolve(self, training: AnyTaskSettings) -> AnyTaskSettings:
        """The settings with the defaults of the task; settings without effect are errors."""
        metric = self.metric(training)
        best = training.metric_for_best_model or metric
        long = training.long or self.long_modes[0]
        for name, value in (("metric", metric), ("metric_for_best_model", best)):
            if value not in self.selection_metrics:
                raise SettingError(
                    f"{name} is '{value}', but the task {self.name} has {listed(self.selection_metrics)}."
                )
        if long not in self.long_modes:
            raise SettingError(f"long is '{long}', but the task {self.name} has {listed(self.long_modes)}.")
        if training.doc_stride is not None and long != "windows":
            raise SettingError("doc_stride is for windows. Pass --long windows, or leave it out.")
        for name in training.not_default(["label_smoothing_factor", "class_weight", "max_answer_length", "calibrate"]):
            if name not in self.settings:
                raise SettingError(f"{name} has no effect on the task {self.name}. Leave it out.")
        return training.changed(metric_for_best_model=best, long=long)

    def metric(self, training: TaskSettings) -> str:
        """The metric that counts, as given or by default."""
        return training.metric or self.selection_metrics[0]

    def check_columns(self, columns: ColumnSettings) -> None:
        """Refuse column settings that this task does not read."""
        if unread := [name for name in columns.not_default(COLUMNS) if name not in self.columns]:
            hint = _reader_hint(unread, columns)
            raise SettingError(f"{', '.join(unread)} cannot be set: the task {self.name} does not read it.{hint}")
        if isinstance(columns, LabelledSettings) and columns.unseen_labels != "error" and not self.scores_unseen:
            raise SettingError(f"unseen_labels has no effect on the task {self.name}. Leave it out.")
        if isinstance(columns, LabelledSettings) and columns.group_column is not None:
            if not self.reads_groups:
                raise SettingError(f"group_column cannot be set: the task {self.name} does not read it. Leave it out.")
            check_group_column(columns)

    def check_pooling(self, pooling: Pooling | None) -> None:
        """Refuse pooling for a head that scores tokens."""
        if self.is_per_token and pooling not in (None, "mean"):
            raise SettingError(f"pooling cannot be set: the head of the task {self.name} reads token by token.")

    def heads(self, state: TaskState) -> tuple[HeadKind, ...]:
        """The heads that a model of this task may have."""
        del state
        return (self.head,)

    def needs_sep(self, columns: ColumnSettings) -> bool:
        """Whether inputs have two parts, so that the tokenizer needs `<sep>`."""
        return columns.text_pair_column is not None

    def selection_score(self, metrics: dict[str, Any], name: str) -> list[float]:
        """The score by which the best epoch is chosen, higher is better; the loss decides ties."""
        value = metrics[f"eval_{name}"]
        signed = WORST if value is None else -value if name in LOWER_IS_BETTER else value
        return [signed] if name == "loss" else [signed, -metrics["eval_loss"]]

    # The command line

    def input_form(self, state: TaskState) -> InputForm:
        """How inputs are given to `headswap predict`."""
        del state
        return TEXTS

    def interval(self, metrics: dict[str, Any]) -> tuple[float, float]:
        """The 95 % interval of the first table metric, for the sampling of test examples."""
        return metrics["interval"]["low"], metrics["interval"]["high"]

    def describe_set(self, metrics: dict[str, Any]) -> str:
        """The size of a scored set, for the title of a table."""
        return f"{metrics['num_examples']:,} {self.noun}s"

    def extra_rows(self, metrics: dict[str, Any]) -> list[tuple[str, float]]:
        """Further rows of the table of `evaluate`: a name and a value."""
        del metrics
        return []

    def detail_tables(self, metrics: dict[str, Any]) -> list[Table]:
        """Further tables: confusion matrix, or F1 by label or type."""
        del metrics
        return []


def _reader_hint(unread: Sequence[str], columns: ColumnSettings) -> str:
    """Which task reads these columns, if it is one and it can be chosen; the task of a bundle cannot."""
    readers = [name for name in TASKS if set(unread) <= set(TASKS.load(name).columns)]
    if len(readers) != 1 or not isinstance(columns, LabelledSettings):
        return ""
    return f" The task {readers[0]} does: pass --task {readers[0]}."


def f1_tables(what: str, f1: dict[str, float]) -> list[Table]:
    """F1 by label or by type as a table, unless there are too many rows or none."""
    if not 0 < len(f1) <= MAX_F1_ROWS:
        return []
    return [Table(f"By {what}", (what, "F1"), [(name, f"{value:.3f}") for name, value in f1.items()])]


def length_of(bundle: Bundle) -> int:
    """The longest sequence in tokens that a fine-tuned model reads."""
    return bundle.task.max_length or bundle.max_length


def with_state(bundle: Bundle, **changes: Any) -> Bundle:
    """The bundle with some fields of its task state replaced."""
    return replace(bundle, task=bundle.task.changed(**changes))
