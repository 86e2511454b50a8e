"""What classification, multi-label classification and regression share: one target per text or pair of texts.

A long text is truncated, or reduced to its head and tail, or split into windows. In training each window is a row with
the label of its text: memory does not grow with the length, and a long text counts once per window. In evaluation the
scores of the windows are averaged, so that a text has one prediction.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from headswap.batches.labelled_rows import EncodedSet, Row
from headswap.batches.long_texts import cut_text, join_pair
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, read_rows, text_problem
from headswap.data.config import ColumnSettings, LabelledSettings
from headswap.data.labelled import one_file, read_labelled
from headswap.data.open_text import extension_of
from headswap.data.records import Example
from headswap.registry import HeadKind
from headswap.tasks.inputs import TEXTS, InputColumns, InputForm, SecondInput
from headswap.tasks.task import Task, length_of
from headswap.tokens.kept_ids import encode_kept

PAIR = "text_pair"
"""The column of the second texts in a row of `as_row`."""
PAIR_HEAD: HeadKind = "compare"
"""The head that compares one vector per text, where a pair is read as two sequences."""
SCORES_PER_CHUNK = 1 << 24
"""Scores that are turned into metrics or probabilities at a time, so that copies of them do not fill the memory."""


class TextTask(Task):
    """A task with one target per text."""

    head: ClassVar[HeadKind] = "classify"
    noun: ClassVar[str] = "text"
    columns: ClassVar[tuple[str, ...]] = ("text_column", "text_pair_column", "label_column")
    reads_groups: ClassVar[bool] = True
    long_modes: ClassVar[tuple[str, ...]] = ("truncate", "head+tail", "windows")

    @abstractmethod
    def parse(self, columns: ColumnSettings) -> Any:
        """The function that parses a value of the label column."""

    @abstractmethod
    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """The target of each example."""

    @abstractmethod
    def average(self, scores: np.ndarray) -> np.ndarray:
        """The scores of a text from those of its windows (windows x outputs)."""

    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[Example]:
        """The examples of a labelled set."""
        return read_labelled(
            source,
            text_column=columns.text_column,
            label_column=columns.label_column,
            label_file=label_file,
            text_pair_column=columns.text_pair_column,
            group_column=columns.group_column if isinstance(columns, LabelledSettings) else None,
            parse=self.parse(columns),
        )

    def as_row(self, example: Example) -> dict[str, Any]:
        """Text and label, and the second text and the group if there are any."""
        row: dict[str, Any] = {"text": example.text}
        row |= {} if example.text_pair is None else {PAIR: example.text_pair}
        row["label"] = self.label_of(example)
        return row if example.group is None else row | {"group": example.group}

    def label_of(self, example: Example) -> Any:
        """The label of an example as a value of a .jsonl file."""
        return example.label

    def unit(self, columns: ColumnSettings) -> str:
        """A text, or a pair of texts."""
        return self.noun if columns.text_pair_column is None else "pair"

    def encode_inputs(self, examples: Sequence[Example], bundle: Bundle) -> EncodedSet:
        """One row per text, or one row per window."""
        state, tokenizer, limit = bundle.task, bundle.tokenizer, length_of(bundle)
        if state.reads_pairs:
            return _pairs_as_two(examples, bundle) if _has_two_vectors(bundle) else _pairs_as_one(examples, bundle)
        rows: list[Row] = []
        num_tokens = num_truncated = 0
        for number, ids in enumerate(encode_kept(tokenizer, [example.text for example in examples])):
            parts = cut_text(ids, tokenizer.frame, max_length=limit, long=state.long, overlap=state.doc_stride)
            rows += [Row(number, part) for part in parts]
            length = len(ids) + tokenizer.frame.num_single
            num_tokens += length
            num_truncated += 0 if state.long == "windows" else max(0, length - limit)
        return EncodedSet(examples, rows, num_tokens, num_truncated)

    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """Every row with the target of its text."""
        targets = self.targets(encoded.examples, bundle)
        index = np.zeros(1, dtype=np.int64)
        rows = [  # `replace` would take several times as long per row
            Row(row.example, row.ids, row.segments, index, target, row.wanted, row.split)
            for row in encoded.rows
            for target in (targets[row.example : row.example + 1],)
        ]
        return replace(encoded, rows=rows)

    def score_chunks(self, outputs: Sequence[np.ndarray], encoded: EncodedSet) -> Iterator[np.ndarray]:
        """The scores of the texts in input order, examples x outputs, in chunks of `SCORES_PER_CHUNK` scores."""
        windows: list[list[np.ndarray]] = [[] for _ in encoded.examples]
        for row, output in zip(encoded.rows, outputs, strict=True):
            windows[row.example].append(output)
        per_chunk = max(1, SCORES_PER_CHUNK // max(1, windows[0][0].size)) if windows else 1
        for start in range(0, len(windows), per_chunk):
            chunk = windows[start : start + per_chunk]
            yield np.stack([own[0] if len(own) == 1 else self.average(np.stack(own)) for own in chunk])

    def scores(self, outputs: Sequence[np.ndarray], encoded: EncodedSet) -> np.ndarray:
        """The scores of every text, examples x outputs."""
        return np.concatenate(list(self.score_chunks(outputs, encoded)))

    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[Example]:
        """Texts, or pairs of texts if the model reads pairs."""
        return [self._input(one, number, len(given), bundle) for number, one in enumerate(given, 1)]

    def heads(self, state: TaskState) -> tuple[HeadKind, ...]:
        """A pooled head; for pairs of texts also one that compares two vectors."""
        return (self.head, PAIR_HEAD) if state.reads_pairs else (self.head,)

    def input_form(self, state: TaskState) -> InputForm:
        """Texts, or pairs of texts."""
        return PAIRS if state.reads_pairs else TEXTS

    def _input(self, given: Any, number: int, count: int, bundle: Bundle) -> Example:
        if not bundle.task.reads_pairs:
            if not isinstance(given, str):
                raise InputError(f"predict takes texts; {given!r} is a {type(given).__name__}.")
            parts: tuple[str, ...] = (given,)
        else:
            if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
                raise InputError(f"This model reads pairs of texts; {given!r} is not a pair (text, second text).")
            parts = tuple(given)
        for part in parts:
            if not isinstance(part, str):
                raise InputError(f"predict takes texts; {part!r} is a {type(part).__name__}.")
            if not part.strip():
                raise InputError(f"Text {number} of {count} is blank, so there is nothing to label.")
        return Example(parts[0], "", "predict", number, parts[1] if len(parts) == 2 else None)


def _read_pairs(file: str, columns: InputColumns) -> list[tuple[str, str]]:
    """The pairs of a file with two text columns."""
    path = one_file(file)
    if extension_of(path) not in COLUMN_EXTENSIONS:
        raise InputError(f"{path} has no columns. Pairs need a file that has (.jsonl, .csv, .tsv, .parquet).")
    wanted = {
        "text_column": columns.text_column or "text",
        "text_pair_column": columns.text_pair_column or "text_pair",
    }
    problems, pairs = Problems(), []
    for line, values in read_rows(path, wanted, problems):
        for value in values:
            if problem := text_problem(value) or (None if value.strip() else "the text is blank"):
                problems.add(f"{path}, line {line}: {problem}.")
        pairs.append((values[0], values[1]))
    problems.raise_found()
    return pairs


PAIRS = InputForm(
    columns=("text_column", "text_pair_column"),
    second=SecondInput("text-pair", "pairs of texts", join=lambda text, second: (text, second), read_file=_read_pairs),
)


def _has_two_vectors(bundle: Bundle) -> bool:
    """Whether the head compares one vector per text."""
    return bundle.model.shape.head == PAIR_HEAD


def _pairs_as_two(examples: Sequence[Example], bundle: Bundle) -> EncodedSet:
    """Two sequences per pair, `<sos> text` and `<sos> second text`; each of them is truncated by itself."""
    tokenizer, limit = bundle.tokenizer, length_of(bundle)
    frame = tokenizer.frame
    firsts = encode_kept(tokenizer, [example.text for example in examples])
    seconds = encode_kept(tokenizer, [example.text_pair or "" for example in examples])
    rows: list[Row] = []
    num_tokens = num_truncated = 0
    for number, pair in enumerate(zip(firsts, seconds, strict=True)):
        first, second = (cut_text(ids, frame, max_length=limit, long="truncate", overlap=None)[0] for ids in pair)
        rows.append(Row(number, np.concatenate((first, second)), split=len(first)))
        length = sum(map(len, pair)) + 2 * frame.num_single
        num_tokens += length
        num_truncated += length - len(first) - len(second)
    return EncodedSet(examples, rows, num_tokens, num_truncated)


def _pairs_as_one(examples: Sequence[Example], bundle: Bundle) -> EncodedSet:
    """`<sos> text <sep> second text`; if they are too long, the longer one is truncated first."""
    tokenizer, limit = bundle.tokenizer, length_of(bundle)
    if not tokenizer.frame.between:
        raise SettingError(
            "Two texts in one sequence need a separator such as <sep>, which the tokenizer of this base does not have. "
            "Pass --pair-encoding separate, or pre-train a base with a tokenizer that headswap trained."
        )
    has_segments = bundle.model.shape.base.type_vocab_size >= 2
    firsts = encode_kept(tokenizer, [example.text for example in examples])
    seconds = encode_kept(tokenizer, [example.text_pair or "" for example in examples])
    rows: list[Row] = []
    num_tokens = num_truncated = 0
    for number, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        ids, segments, lost = join_pair(first, second, tokenizer.frame, max_length=limit)
        rows.append(Row(number, ids, segments if has_segments else None))
        num_tokens += len(first) + len(second) + tokenizer.frame.num_pair
        num_truncated += lost
    return EncodedSet(examples, rows, num_tokens, num_truncated)
