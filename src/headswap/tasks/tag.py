"""Tagging: one tag per word.

A word is scored at its first token, which is found by character offsets, so every kind of tokenizer can be used. A
sentence longer than the limit is read in overlapping windows, and each word is scored in the window with the most
context around it: every word is scored exactly once, in training and in evaluation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headswap.batches.labelled_rows import NOTHING, EncodedSet, Note, Row, nothing
from headswap.batches.long_texts import home_windows, window_spans
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError
from headswap.data.columns import COLUMN_EXTENSIONS
from headswap.data.config import ColumnSettings
from headswap.data.open_text import extension_of
from headswap.data.records import TaggedExample
from headswap.data.tagged import CONLL_EXTENSIONS, OUTSIDE, check_tags, read_tagged, split_words, tag_names
from headswap.metrics.entities import entities_of, tagging_metrics
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.classify import cross_entropy
from headswap.tasks.config import TaskSettings
from headswap.tasks.inputs import InputColumns, InputForm
from headswap.tasks.predictions import Entity, TagsPrediction
from headswap.tasks.task import Table, Task, f1_tables, length_of
from headswap.tokens.marks import PlacedIds

UNSEEN = -100
"""The target of a word of a scored set whose tag does not occur in train; such a word has no loss."""


@dataclass(frozen=True)
class WordRow(Row):
    """A sentence or a window of it; `wanted` are the first tokens of words, `words` the numbers of these words."""

    words: np.ndarray = field(default_factory=nothing)


class TagTask(Task):
    """Cross entropy at the first token of every word; evaluated by entities, as seqeval counts them."""

    name = "tag"
    head = "tag"
    direction = "bidirectional"
    noun = "sentence"
    product = "tagger"
    one_label_per_target = True
    columns = ("tokens_column", "tags_column", "conll_word_column", "conll_tag_column")
    selection_metrics = ("f1", "macro_f1", "accuracy", "loss")
    logged_metrics = ("f1", "accuracy")
    table_metrics = ("f1", "precision", "recall", "accuracy")
    settings = ("label_smoothing_factor", "class_weight")
    label_noun = "tag"
    knows_all_labels = True
    version = 2  # a validation set without entities is scored by entities
    scores_unseen = True
    prediction_kind = "tags"
    study_metrics = ("f1",)

    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[TaggedExample]:
        """Sentences with their tags."""
        if label_file:
            raise InputError(f"Tags are in the same file as their words; leave out --label-file {label_file}.")
        return read_tagged(source, columns)

    def labels(self, train: Sequence[TaggedExample]) -> tuple[str, ...]:
        """The tags of train, sorted."""
        return tuple(tag_names(train))

    def check(self, examples: Sequence[TaggedExample], labels: Sequence[str], *, role: str) -> None:
        """A tag that is not in train is an error."""
        check_tags(examples, labels, role=role)

    def as_row(self, example: TaggedExample) -> dict[str, Any]:
        """The words and their tags."""
        return {"tokens": list(example.tokens), "tags": list(example.tags)}

    def encode_inputs(self, examples: Sequence[TaggedExample], bundle: Bundle) -> EncodedSet:
        """One row per sentence or per window, each with the words that are scored in it."""
        frame = bundle.tokenizer.frame
        room = length_of(bundle) - frame.num_single
        rows: list[Row] = []
        num_tokens = num_long = num_unread = 0
        placed = bundle.tokenizer.encode_batch_placed([example.text for example in examples])
        for number, (example, pieces) in enumerate(zip(examples, placed, strict=True)):
            words, first_tokens = first_tokens_of(example.tokens, pieces)
            spans = window_spans(len(pieces.ids), room, bundle.task.doc_stride)
            homes = home_windows(first_tokens, spans) if len(words) else NOTHING
            for window, (start, end) in enumerate(spans):
                is_here = homes == window
                if is_here.any():
                    ids = frame.around(pieces.ids[start:end])
                    wanted = first_tokens[is_here] - start + len(frame.before)
                    rows.append(WordRow(number, ids, wanted=wanted, words=words[is_here]))
            num_tokens += len(pieces.ids) + frame.num_single
            num_long += len(spans) > 1
            num_unread += len(example.tokens) - len(words)
        notes = []
        if num_long:
            notes.append(Note(num_long, "sentence", f"longer than {room + frame.num_single} tokens, read in windows"))
        if num_unread:
            notes.append(Note(num_unread, "word", f"without any token, scored as {OUTSIDE}"))
        return EncodedSet(examples, rows, num_tokens, 0, tuple(notes))

    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """The tag of every word, at its first token."""
        numbers = {tag: number for number, tag in enumerate(bundle.labels)}
        rows: list[Row] = []
        for row in encoded.rows:
            assert isinstance(row, WordRow)
            assert row.wanted is not None
            tags = encoded.examples[row.example].tags
            values = np.array([numbers.get(tags[word], UNSEEN) for word in row.words], dtype=np.int64)
            rows.append(replace(row, target_index=row.wanted, target_value=values))
        return replace(encoded, rows=rows)

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> ClassificationObjective:
        """Cross entropy with label smoothing and class weights as set."""
        return cross_entropy(training, encoded, labels)

    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Entity precision, recall and F1, and the loss per word whose tag is in train."""
        logits = torch.from_numpy(np.concatenate(list(outputs))).double()
        targets = torch.from_numpy(np.concatenate([row.target_value for row in encoded.rows]))
        tags, _ = self._tags(outputs, encoded, bundle)
        truth = [example.tags for example in encoded.examples]
        metrics = tagging_metrics(truth, tags, bundle.labels, is_final=is_final)
        loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=UNSEEN).item()
        return {"loss": loss} | metrics | {"num_unread_words": metrics["num_words"] - len(targets)}

    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[TaggedExample]:
        """Sentences as lists of words, or as texts, which are split into words."""
        examples = []
        for number, one in enumerate(given, 1):
            words = split_words(one) if isinstance(one, str) else tuple(one)
            if not words:
                raise InputError(f"Text {number} of {len(given)} is blank, so there is nothing to tag.")
            if wrong := [word for word in words if not isinstance(word, str) or not word.strip()]:
                raise InputError(f"Sentence {number}: {wrong[0]!r} is not a word. Give a text, or a list of words.")
            examples.append(TaggedExample(words, (), "predict", number))
        return examples

    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[TagsPrediction]:
        """The most probable tag of every word, and the entities."""
        all_tags, all_scores = self._tags(outputs, encoded, bundle)
        predictions = []
        for example, tags, scores in zip(encoded.examples, all_tags, all_scores, strict=True):
            entities = tuple(
                Entity(span.type, span.start, span.end, " ".join(example.tokens[span.start : span.end]))
                for span in entities_of(tags)
            )
            predictions.append(TagsPrediction(example.tokens, tuple(tags), tuple(scores), entities))
        return predictions

    def input_form(self, state: TaskState) -> InputForm:
        """Sentences as texts or as words."""
        del state
        return SENTENCES

    def detail_tables(self, metrics: dict[str, Any]) -> list[Table]:
        """F1 by type of entity."""
        return f1_tables("type", metrics["f1_by_type"])

    def _tags(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle
    ) -> tuple[list[list[str]], list[list[float]]]:
        """The tag of every word and its probability."""
        tags = [[OUTSIDE] * len(example.tokens) for example in encoded.examples]
        scores = [[0.0] * len(example.tokens) for example in encoded.examples]
        for row, output in zip(encoded.rows, outputs, strict=True):
            assert isinstance(row, WordRow)
            probabilities = torch.softmax(torch.from_numpy(output), dim=1)
            for word, score, choice in zip(row.words.tolist(), *map(torch.Tensor.tolist, probabilities.max(dim=1)),
                                           strict=True):  # fmt: skip
                tags[row.example][word] = bundle.labels[choice]
                scores[row.example][word] = score
        return tags, scores


def first_tokens_of(tokens: Sequence[str], pieces: PlacedIds) -> tuple[np.ndarray, np.ndarray]:
    """(words, first tokens): the numbers of the words that have a token, and the position of the first token of each.

    `pieces` are the tokens of the words, joined by blanks. A word without any token is left out.
    """
    lengths = np.array([len(token) for token in tokens])
    begins = np.cumsum(lengths + 1) - lengths - 1
    is_real = pieces.ends > pieces.starts
    numbers = np.searchsorted(begins, pieces.starts[is_real], side="right") - 1
    words, first = np.unique(numbers, return_index=True)
    return words, np.flatnonzero(is_real)[first]


def _read_sentences(file: str, columns: InputColumns) -> list[Any] | None:
    """Words from a .conll file or a tokens column; None for a plain text file, whose lines are texts."""
    extension = extension_of(Path(file))
    if extension not in CONLL_EXTENSIONS | COLUMN_EXTENSIONS:
        if columns.tokens_column is not None:
            raise SettingError(f"tokens_column is '{columns.tokens_column}', but {file} has no columns. Leave it out.")
        return None
    names = ColumnSettings(tokens_column=columns.tokens_column or ColumnSettings().tokens_column)
    return [example.tokens for example in read_tagged(file, names, needs_tags=False)]


SENTENCES = InputForm(columns=("text_column", "tokens_column"), read_file=_read_sentences)
