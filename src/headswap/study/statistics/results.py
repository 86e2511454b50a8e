"""The results of a study as typed, immutable objects; `as_json()` gives what `results.json` holds.

The objects hold numbers only and are computed in analysis.py. Scores and their comparisons are in score_results.py, the
error analysis is in error_results.py. Sentences about results and charts are in report/.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headswap.study.statistics.budget_words import TEXT, BudgetWords, budget_words
from headswap.study.statistics.error_results import ErrorAnalysis
from headswap.study.statistics.score_results import (
    BreakEven,
    CatchUp,
    Cell,
    Comparison,
    LabelStep,
    LabelWorth,
    OverallDifference,
)
from headswap.tasks.choose import DEFAULT_TASK

NO_BUDGET = 0
"""The labels of the only budget of a comparison of systems whose numbers of labels are not given."""
UNIT = TEXT
EPOCH_SCORES = ("accuracy", "macro_f1", "r2", "pearson", "micro_f1", "f1", "exact_match")
"""The metrics of studies; a run logs them per epoch on validation or, without one, on its training set."""
EPOCH_METRICS = (*(f"{part}_{name}" for name in EPOCH_SCORES for part in ("eval", "train")), "eval_loss")


@dataclass(frozen=True)
class Budget:
    """A number of labels, and its name in the settings (`all` is the whole training set)."""

    name: str
    labels: int

    def heading(self, words: BudgetWords) -> str:
        """The heading of its column in a table of scores."""
        return "score" if self.labels == NO_BUDGET else f"{self.labels:,} {words.heading}"


@dataclass(frozen=True)
class Curve:
    """One metric of an arm at one budget: per seed, (epoch, value) from epoch 0 on."""

    arm: str
    labels: int
    measure: str
    seeds: Mapping[int, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class BasePoint:
    """One evaluation of a pre-training run on held-out text."""

    epoch: float
    loss: float | None
    perplexity: float | None


@dataclass(frozen=True)
class BaseResult:
    """One base that the study pre-trained, and the arms that start from it."""

    name: str
    arms: Sequence[str]
    folder: str
    objective: str | None
    loss: float | None
    perplexity: float | None
    bits_per_byte: float | None
    epochs: float | None
    steps: int | None
    tokens: int
    seconds: float
    tokens_per_second: float | None
    peak_memory_bytes: int | None
    device: str | None
    references: Mapping[str, float] | None
    curve: Sequence[BasePoint]


@dataclass(frozen=True)
class CalibrationBin:
    """The texts of one confidence range: mean confidence, accuracy, share of all texts."""

    confidence: float
    accuracy: float
    share: float


@dataclass(frozen=True)
class ArmDetails:
    """Confusion matrix (mean over seeds), F1 per label and calibration of one arm at one budget."""

    arm: str
    labels: int
    confusion: Sequence[Sequence[float]] | None
    """None with many classes."""
    f1: Sequence[float | None]
    ece: float | None
    """None for an arm without scores."""
    bins: Sequence[CalibrationBin]


@dataclass(frozen=True)
class Disagreement:
    """A test text, and the probability that each arm gives to its true label (mean over seeds)."""

    row: int
    label: str
    trust: Mapping[str, float]
    text: str | None = None


@dataclass(frozen=True)
class Cost:
    """Mean time and tokens per run, and the largest peak memory, of one arm at one budget."""

    arm: str
    labels: int
    seconds: float
    tokens: float | None
    peak_memory_bytes: int | None


@dataclass(frozen=True)
class CollapsedRuns:
    """How many of an arm's runs predict the same for every test example; in tagging, for every word."""

    arm: str
    count: int
    of: int


@dataclass(frozen=True)
class ConsistencyRun:
    """The unlabelled texts of one run, and whether they were left out because the predicted labels collapsed."""

    arm: str
    labels: int
    seed: int
    num_texts: int
    turned_off: bool


@dataclass(frozen=True)
class ExternalArm:
    """An arm that is another system: the study has its answers, and not the system."""

    file: str
    sha256: str
    """Of the file of answers."""
    has_scores: bool
    has_one_answer: bool
    """Whether there is one answer per text and no seed, so that claims about it cover the test texts only."""


@dataclass(frozen=True)
class MissingRun:
    """A planned run without a result."""

    arm: str
    budget: str
    labels: int
    seed: int
    reason: str | None = None


@dataclass(frozen=True)
class OverlapExample:
    """Two rows with the same or nearly the same text; rows are counted from 0."""

    kind: str
    from_row: int
    to_row: int
    similarity: float
    from_text: str | None = None
    to_text: str | None = None


@dataclass(frozen=True)
class SetOverlap:
    """How many rows of one set are also in another set; within one set, how many repeat an earlier row."""

    from_set: str
    to_set: str
    exact_rows: int
    near_rows: int
    contained_rows: int | None
    """None in data that a version without this check prepared."""
    passage_rows: int | None
    rows: int
    examples: Sequence[OverlapExample]

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, with_texts: bool = True) -> "SetOverlap":
        """Read an entry of `overlap` in `prepared.json`."""
        texts = () if with_texts else ("from_text", "to_text")
        examples = [
            OverlapExample(**{name: value for name, value in found.items() if name not in texts})
            for found in values["examples"]
        ]
        counts = {name: values[name] for name in ("exact_rows", "near_rows", "rows")}
        counts |= {name: values.get(name) for name in ("contained_rows", "passage_rows")}
        return cls(values["from"], values["to"], **counts, examples=examples)

    def as_json(self) -> dict[str, Any]:
        """One entry of `overlap`."""
        values = asdict(self)
        values["examples"] = [_without_none(found) for found in values["examples"]]
        values = _without_none(values)
        return {"from": values.pop("from_set"), "to": values.pop("to_set")} | values


@dataclass(frozen=True)
class StudyResults:
    """All results of a study or of a comparison of runs."""

    metric: str
    arms: Sequence[str]
    budgets: Sequence[Budget]
    seeds: Sequence[int]
    labels: Sequence[str]
    """Names of the classes; empty for a task without classes."""
    num_test: int
    num_bases: int
    """The largest number of bases that one arm has."""
    primary: str | None
    """The arm that the planned tests are about; the plan names it before anything is scored."""
    baselines: Mapping[int, str]
    """The best baseline per budget, chosen by cross-validation on the labels of the budget."""
    design_changes: Sequence[str]
    """Sentences about changes of the design after runs were scored."""
    error_rate: float
    """Upper limit of the probability of at least one false statement among the planned tests."""
    overall: OverallDifference | None
    last_step: LabelStep | None
    """None if the arm that "What next" is about has one budget, or too few seeds for an interval."""
    parameters: Mapping[str, int]
    """Parameters of the model, per arm that has one."""
    public: Mapping[str, str]
    """The public checkpoint of an arm that starts from one."""
    given_bases: Sequence[str]
    """The arms that fine-tune a base from a folder."""
    installed: Mapping[str, str]
    """The installed base of an arm that starts from one, from the recipes of its runs or of their adaptation."""
    cells: Sequence[Cell]
    comparisons: Sequence[Comparison]
    label_worth: Sequence[LabelWorth]
    break_even: Sequence[BreakEven]
    catch_up: Sequence[CatchUp]
    curves: Sequence[Curve]
    bases: Sequence[BaseResult]
    details: Sequence[ArmDetails]
    disagreements: Sequence[Disagreement]
    errors: ErrorAnalysis | None
    cost: Sequence[Cost]
    overlap: Sequence[SetOverlap]
    dropped: Mapping[str, int]
    """Rows that the overlap check removed, per set."""
    collapsed: Sequence[CollapsedRuns]
    consistency: Sequence[ConsistencyRun]
    """Per run with consistency training."""
    notes: Sequence[str]
    missing: Sequence[MissingRun]
    external: Mapping[str, ExternalArm]
    """Per arm that is another system."""
    with_texts: bool
    task: str = DEFAULT_TASK
    unit: str = UNIT
    """What one test example is: text, pair, sentence, question."""

    @property
    def words(self) -> BudgetWords:
        """The words for what a budget counts."""
        return budget_words(self.task, self.unit)

    def as_json(self) -> dict[str, Any]:
        """`results.json` without its sentences (`headline` and `caveats`)."""
        values = asdict(self)
        for name, default in (("task", DEFAULT_TASK), ("unit", UNIT)):
            if values[name] == default:
                del values[name]  # as in earlier versions
        for name in ("cells", "comparisons", "label_worth", "catch_up", "overlap"):
            values[name] = [row.as_json() for row in getattr(self, name)]
        for name in ("disagreements", "missing"):
            values[name] = [_without_none(row) for row in values[name]]
        if self.errors is not None:
            values["errors"]["errors"] = [_without_none(row) for row in values["errors"]["errors"]]
            if self.errors.predicted is None:
                del values["errors"]["predicted"]
        return values


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
