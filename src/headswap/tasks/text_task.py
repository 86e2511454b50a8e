"""What classification, multi-label classification and regression share: texts, or pairs of them, read whole.

A long text is cut at the limit, or keeps its head and tail, or becomes windows. In training each window is a row that
carries its document's label (memory stays that of one window; a long document counts as often as it has windows); in
scoring the windows' scores are averaged, so that a document has one answer.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from headswap.batches.labelled_rows import EncodedSet, Row
from headswap.batches.long_texts import cut_text, join_pair
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, SettingError
from headswap.data.config import ColumnSettings
from headswap.data.labelled import read_labelled
from headswap.data.records import Example
from headswap.model.shape import HeadKind
from headswap.tasks.task import Task, length_of


class TextTask(Task):
    """A task with one target a text."""

    head: ClassVar[HeadKind] = "classify"
    noun: ClassVar[str] = "text"
    columns: ClassVar[tuple[str, ...]] = ("text_column", "text_pair_column", "label_column")
    longs: ClassVar[tuple[str, ...]] = ("truncate", "head+tail", "windows")

    @abstractmethod
    def parse(self, columns: ColumnSettings) -> Any:
        """How a value of the label column is understood."""

    @abstractmethod
    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """The target of each example."""

    @abstractmethod
    def average(self, scores: np.ndarray) -> np.ndarray:
        """The scores of a document from those of its windows (windows x outputs)."""

    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[Example]:
        """The examples of a labelled set."""
        return read_labelled(
            source,
            text_column=columns.text_column,
            label_column=columns.label_column,
            label_file=label_file,
            text_pair_column=columns.text_pair_column,
            parse=self.parse(columns),
        )

    def layout(self, examples: Sequence[Example], bundle: Bundle) -> EncodedSet:
        """A row a text, or a row a window."""
        state, tokenizer, limit = bundle.task, bundle.tokenizer, length_of(bundle)
        if state.reads_pairs:
            return _pairs(examples, bundle)
        rows: list[Row] = []
        num_tokens = num_truncated = 0
        for number, ids in enumerate(tokenizer.encode_batch([example.text for example in examples])):
            parts = cut_text(ids, tokenizer, max_length=limit, long=state.long, overlap=state.doc_stride)
            rows += [Row(number, part) for part in parts]
            num_tokens += len(ids) + 1
            num_truncated += 0 if state.long == "windows" else max(0, len(ids) + 1 - limit)
        return EncodedSet(examples, rows, num_tokens, num_truncated)

    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """Every row with its text's target."""
        targets = self.targets(encoded.examples, bundle)
        place = np.zeros(1, dtype=np.int64)
        rows = [
            replace(row, target_index=place, target_value=targets[row.example : row.example + 1])
            for row in encoded.rows
        ]
        return replace(encoded, rows=rows)

    def scores(self, outputs: Sequence[np.ndarray], encoded: EncodedSet) -> np.ndarray:
        """The head's scores of every text, examples x outputs."""
        windows: list[list[np.ndarray]] = [[] for _ in encoded.examples]
        for row, output in zip(encoded.rows, outputs, strict=True):
            windows[row.example].append(output)
        return np.stack([own[0] if len(own) == 1 else self.average(np.stack(own)) for own in windows])

    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[Example]:
        """Texts, or pairs of texts where the model reads pairs."""
        return [self._input(one, number, len(given), bundle) for number, one in enumerate(given, 1)]

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


def _pairs(examples: Sequence[Example], bundle: Bundle) -> EncodedSet:
    """`<sos> text <sep> second text`; where they do not fit, the longer one is cut first."""
    tokenizer, limit = bundle.tokenizer, length_of(bundle)
    if tokenizer.sep_id is None:
        raise SettingError(
            "Pairs of texts need <sep>, which the tokenizer of this base does not have. "
            "Pre-train a base with a tokenizer that headswap trained, or use --base scratch."
        )
    has_segments = bundle.model.shape.base.type_vocab_size >= 2
    firsts = tokenizer.encode_batch([example.text for example in examples])
    seconds = tokenizer.encode_batch([example.text_pair or "" for example in examples])
    rows: list[Row] = []
    num_tokens = num_truncated = 0
    for number, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        ids, segments, lost = join_pair(first, second, tokenizer, max_length=limit)
        rows.append(Row(number, ids, segments if has_segments else None))
        num_tokens += len(first) + len(second) + 2
        num_truncated += lost
    return EncodedSet(examples, rows, num_tokens, num_truncated)
