"""Question answering: the answer to a question as a span of a context.

A sequence is `<sos> question <sep> context`. A long context is read in overlapping windows, each with the question in
front. The head gives two distributions over the tokens of a sequence: the start and the end of the answer. In a window
without the answer both targets are `<sos>`. The most probable span of all windows is predicted; offsets are characters
of the context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from headswap.batches.labelled_rows import EncodedSet, Note, Row, nothing
from headswap.batches.long_texts import window_spans
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError
from headswap.data.config import ColumnSettings
from headswap.data.questions import read_questions
from headswap.data.records import SpanExample
from headswap.metrics.squad import span_metrics
from headswap.objectives.supervised import SpanObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.inputs import InputColumns, InputForm, SecondInput
from headswap.tasks.predictions import SpanPrediction
from headswap.tasks.task import Task, length_of


class Found(NamedTuple):
    """The log-probability of an answer and its offsets in the context."""

    score: float
    start: int
    end: int


@dataclass(frozen=True)
class ContextRow(Row):
    """A question with one window of its context; `starts` and `ends` are offsets in it, -1 for other tokens."""

    starts: np.ndarray = field(default_factory=nothing)
    ends: np.ndarray = field(default_factory=nothing)


class SpanTask(Task):
    """Cross entropy of the first and the last token of the answer; evaluated by exact match and F1, as in SQuAD."""

    name = "span"
    head = "span"
    num_outputs = 2
    direction = "bidirectional"
    noun = "question"
    product = "question answerer"
    columns = ("context_column", "question_column", "answers_column", "answer_offsets")
    selection_metrics = ("f1", "exact_match", "loss")
    logged_metrics = ("exact_match", "f1")
    table_metrics = ("f1", "exact_match")
    settings = ("max_answer_length",)
    lists_labels = False
    prediction_kind = "answers"
    study_metrics = ("f1", "exact_match")
    knows_installed_base = False

    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[SpanExample]:
        """Questions with contexts and answers."""
        if label_file:
            raise InputError(f"Answers are in the same file as their questions; leave out --label-file {label_file}.")
        return read_questions(source, columns)

    def labels(self, train: Sequence[SpanExample]) -> tuple[str, ...]:
        """The names of the two outputs of the head."""
        if not any(example.answers for example in train):
            raise InputError(f"{train[0].source} has no answer to any question. There is nothing to learn.")
        return ("start", "end")

    def check(self, examples: Sequence[SpanExample], labels: Sequence[str], *, role: str) -> None:
        """Every answer is allowed."""

    def initial_state(self, state: TaskState, train: Sequence[SpanExample]) -> TaskState:
        """Whether an empty answer may be predicted."""
        return state.changed(has_unanswerable=any(not example.answers for example in train))

    def subset_strata(self, examples: Sequence[SpanExample]) -> list[str]:
        """Whether a question can be answered."""
        return ["answerable" if example.answers else "unanswerable" for example in examples]

    def as_row(self, example: SpanExample) -> dict[str, Any]:
        """Question, context and answers, as in SQuAD."""
        answers = [{"text": answer.text, "answer_start": answer.start} for answer in example.answers]
        return {"question": example.question, "context": example.context, "answers": answers}

    def kept_together(self, example: SpanExample) -> str:
        """All questions about one context, so that no held-out context was trained on."""
        return example.context

    def encode_inputs(self, examples: Sequence[SpanExample], bundle: Bundle) -> EncodedSet:
        """One row per window of a context, with the question in front."""
        tokenizer, limit = bundle.tokenizer, length_of(bundle)
        frame = tokenizer.frame
        if not frame.between:
            raise SettingError(
                "Questions need a separator such as <sep>, which the tokenizer of this base does not have. "
                "Pre-train a base with a tokenizer that headswap trained, or use --base scratch."
            )
        has_segments = bundle.model.shape.base.type_vocab_size >= 2
        questions = tokenizer.encode_batch([example.question for example in examples])
        texts = list(dict.fromkeys(example.context for example in examples))  # one context has many questions
        placed = dict(zip(texts, tokenizer.encode_batch_placed(texts), strict=True))
        rows: list[Row] = []
        num_tokens = num_truncated = num_long = 0
        for number, (example, question) in enumerate(zip(examples, questions, strict=True)):
            context = placed[example.context]
            kept = question[: max(1, limit // 2 - 2)]
            front = np.concatenate((frame.before, kept, frame.between))
            spans = window_spans(len(context.ids), limit - len(front) - len(frame.after), bundle.task.doc_stride)
            outside, behind = np.full(len(front), -1), np.full(len(frame.after), -1)
            for start, end in spans:
                ids = np.concatenate((front, context.ids[start:end], frame.after)).astype(np.int64)
                segments = (np.arange(len(ids)) >= len(front)).astype(np.int64) if has_segments else None
                starts = np.concatenate((outside, context.starts[start:end], behind))
                ends = np.concatenate((outside, context.ends[start:end], behind))
                rows.append(ContextRow(number, ids, segments, starts=starts, ends=ends))
            num_tokens += len(question) + len(context.ids) + frame.num_pair
            num_truncated += len(question) - len(kept)
            num_long += len(spans) > 1
        notes = (Note(num_long, "context", "longer than a window, read in several"),) if num_long else ()
        return EncodedSet(examples, rows, num_tokens, num_truncated, notes)

    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """Start and end of the first right answer in each window; `<sos>` if the window does not contain all of it."""
        rows: list[Row] = []
        found: set[int] = set()
        for row in encoded.rows:
            assert isinstance(row, ContextRow)
            answers = encoded.examples[row.example].answers
            places = tokens_of(row, answers[0].start, answers[0].start + len(answers[0].text)) if answers else None
            if places is not None:
                found.add(row.example)
            index = np.array(places or (0, 0), dtype=np.int64)
            rows.append(replace(row, target_index=index, target_value=np.array([0, 1])))
        notes = list(encoded.notes)
        wanted = sum(1 for example in encoded.examples if example.answers)
        if cut := wanted - len(found):
            notes.append(Note(cut, "answer", "not completely in any window; raise --doc-stride or --max-length"))
        return replace(encoded, rows=rows, notes=tuple(notes))

    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Exact match and F1 per question, and the mean loss of starts and ends."""
        targets = zip(encoded.rows, outputs, strict=True)
        losses = [-output[row.target_index, row.target_value].astype(np.float64) for row, output in targets]
        answers = [prediction.answer for prediction in self.predictions(outputs, encoded, bundle)]
        metrics = span_metrics(answers, encoded.examples, is_final=is_final)
        return {"loss": float(np.concatenate(losses).mean())} | metrics

    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[SpanExample]:
        """Questions with their contexts, as pairs or as mappings."""
        examples = []
        for number, one in enumerate(given, 1):
            parts: Any = (one.get("question"), one.get("context")) if isinstance(one, Mapping) else one
            if isinstance(parts, str) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
                raise InputError(f"This model answers questions; {one!r} is not a pair (question, context).")
            question, context = parts
            if not question.strip() or not context.strip():
                raise InputError(f"Question {number} of {len(given)} or its context is blank.")
            examples.append(SpanExample(question, context, (), "predict", number))
        return examples

    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[SpanPrediction]:
        """The most probable answer over all windows, or an empty answer if that is more probable."""
        best: list[Found | None] = [None] * len(encoded.examples)
        empty = np.full(len(encoded.examples), np.inf)
        for row, output in zip(encoded.rows, outputs, strict=True):
            assert isinstance(row, ContextRow)
            found = best_span(row, output, longest=bundle.task.max_answer_length)
            previous = best[row.example]
            if found is not None and (previous is None or found.score > previous.score):
                best[row.example] = found
            empty[row.example] = min(empty[row.example], output[0].sum())
        predictions = []
        for example, found, empty_score in zip(encoded.examples, best, empty, strict=True):
            if found is None or (bundle.task.has_unanswerable and empty_score > found.score):
                predictions.append(SpanPrediction("", None, None, float(np.exp(empty_score))))
            else:
                text = example.context[found.start : found.end]
                predictions.append(SpanPrediction(text, found.start, found.end, float(np.exp(found.score))))
        return predictions

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> SpanObjective:
        """Cross entropy of start and end."""
        return SpanObjective()

    def needs_sep(self, columns: ColumnSettings) -> bool:
        """A question and its context are separated by `<sep>`."""
        return True

    def input_form(self, state: TaskState) -> InputForm:
        """Questions about contexts."""
        del state
        return QUESTIONS


def tokens_of(row: ContextRow, begin: int, end: int) -> tuple[int, int] | None:
    """The first and the last token of the characters begin..end, if the window contains all of them."""
    is_inside = (row.starts < end) & (row.ends > begin) & (row.ends > row.starts)
    places = np.flatnonzero(is_inside)
    if not len(places) or row.starts[places[0]] > begin or row.ends[places[-1]] < end:
        return None
    return int(places[0]), int(places[-1])


def best_span(row: ContextRow, output: np.ndarray, *, longest: int) -> Found | None:
    """The most probable (start, end) of a window, at most `longest` tokens long."""
    is_real = (row.starts >= 0) & (row.ends > row.starts)
    starts = np.where(is_real, output[:, 0].astype(np.float64), -np.inf)
    ends = np.where(is_real, output[:, 1].astype(np.float64), -np.inf)
    best, span = -np.inf, (0, 0)
    for gap in range(min(longest, len(starts))):
        scores = starts[: len(starts) - gap] + ends[gap:]
        first = int(scores.argmax())
        if scores[first] > best:
            best, span = float(scores[first]), (first, first + gap)
    return Found(best, int(row.starts[span[0]]), int(row.ends[span[1]])) if np.isfinite(best) else None


def _read_question_file(file: str, columns: InputColumns) -> list[tuple[str, str]]:
    """(question, context) for every row of a file, or for SQuAD's format."""
    default = ColumnSettings()
    names = ColumnSettings(
        question_column=columns.question_column or default.question_column,
        context_column=columns.context_column or default.context_column,
    )
    return [(example.question, example.context) for example in read_questions(file, names, needs_answers=False)]


QUESTIONS = InputForm(
    columns=("question_column", "context_column"),
    second=SecondInput(
        "question",
        "questions about a context",
        join=lambda context, question: (question, context),
        read_file=_read_question_file,
    ),
)
