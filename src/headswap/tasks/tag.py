"""A tag a word.

A word is read at the first piece that the tokenizer makes of it, found by characters, so it works for every kind of
tokenizer. A sentence longer than the limit is read in windows that overlap, and each word is read in the one that shows
most of its surroundings: every word has exactly one place, in training and in scoring, and none is left out of a score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from headswap.batches.labelled_rows import NOTHING, EncodedSet, Row, nothing
from headswap.batches.long_texts import home_windows, window_spans
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, counted
from headswap.data.config import ColumnSettings
from headswap.data.records import TaggedExample
from headswap.data.tagged import OUTSIDE, check_tags, read_tagged, split_words, tag_names
from headswap.metrics.entities import entities_of, tagging_metrics
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.classify import balanced_weights
from headswap.tasks.config import TaskSettings
from headswap.tasks.predictions import Entity, TagsPrediction
from headswap.tasks.task import Task, length_of
from headswap.tokens.tokenizer import PlacedIds


@dataclass(frozen=True)
class WordRow(Row):
    """A sentence or a window of one; `wanted` are first pieces, `words` the words they begin."""

    words: np.ndarray = field(default_factory=nothing)


class TagTask(Task):
    """Cross entropy at the first piece of every word; scored by entities, as seqeval counts them."""

    name = "tag"
    head = "tag"
    is_per_token = True
    direction = "bidirectional"
    noun = "sentence"
    product = "tagger"
    columns = ("tokens_column", "tags_column", "conll_word_column", "conll_tag_column")
    metrics = ("f1", "macro_f1", "accuracy", "loss")
    shown = ("f1", "accuracy")
    settings = ("label_smoothing_factor", "class_weight")

    def read(self, source: str, columns: ColumnSettings, label_file: str | None = None) -> list[TaggedExample]:
        """Sentences with their tags."""
        if label_file:
            raise InputError(f"Tags stand beside their words; leave out --label-file {label_file}.")
        return read_tagged(source, columns)

    def labels(self, train: Sequence[TaggedExample]) -> tuple[str, ...]:
        """The tags of train, sorted."""
        return tuple(tag_names(train))

    def check(self, examples: Sequence[TaggedExample], labels: Sequence[str], *, role: str) -> None:
        """A tag that train has not is an error."""
        check_tags(examples, labels, role=role)

    def layout(self, examples: Sequence[TaggedExample], bundle: Bundle) -> EncodedSet:
        """A row a sentence, or a row a window, each with the words that are read in it."""
        room = length_of(bundle) - 1
        rows: list[Row] = []
        num_tokens = num_long = num_unread = 0
        encoded = bundle.tokenizer.encode_batch_placed([example.text for example in examples])
        for number, (example, pieces) in enumerate(zip(examples, encoded, strict=True)):
            words, first_pieces = first_pieces_of(example.tokens, pieces)
            spans = window_spans(len(pieces.ids), room, bundle.task.doc_stride)
            homes = home_windows(first_pieces, spans) if len(words) else NOTHING
            for window, (start, end) in enumerate(spans):
                is_here = homes == window
                if is_here.any():
                    ids = np.concatenate(([bundle.tokenizer.sos_id], pieces.ids[start:end]))
                    wanted = first_pieces[is_here] - start + 1
                    rows.append(WordRow(number, ids, wanted=wanted, words=words[is_here]))
            num_tokens += len(pieces.ids) + 1
            num_long += len(spans) > 1
            num_unread += len(example.tokens) - len(words)
        notes = []
        if num_long:
            notes.append(f"{counted(num_long, 'sentence')} longer than {room + 1} tokens, read in windows")
        if num_unread:
            notes.append(f"{counted(num_unread, 'word')} that the tokenizer leaves nothing of, scored as {OUTSIDE}")
        return EncodedSet(examples, rows, num_tokens, 0, tuple(notes))

    def with_targets(self, encoded: EncodedSet, bundle: Bundle) -> EncodedSet:
        """The tag of every word, at its first piece."""
        numbers = {tag: number for number, tag in enumerate(bundle.labels)}
        rows: list[Row] = []
        for row in encoded.rows:
            assert isinstance(row, WordRow)
            assert row.wanted is not None
            tags = encoded.examples[row.example].tags
            values = np.array([numbers[tags[word]] for word in row.words], dtype=np.int64)
            rows.append(replace(row, target_index=row.wanted, target_value=values))
        return replace(encoded, rows=rows)

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> ClassificationObjective:
        """Cross entropy, weighted and smoothed as asked."""
        weights = None
        if training.class_weight == "balanced":
            weights = balanced_weights(np.concatenate([row.target_value for row in encoded.rows]), len(labels))
        return ClassificationObjective(label_smoothing=training.label_smoothing_factor, class_weights=weights)

    def measure(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Entity precision, recall and F1, and the loss a word."""
        logits = torch.from_numpy(np.concatenate(list(outputs))).double()
        targets = torch.from_numpy(np.concatenate([row.target_value for row in encoded.rows]))
        tags, _ = self._tags(outputs, encoded, bundle)
        truth = [example.tags for example in encoded.examples]
        metrics = tagging_metrics(truth, tags, is_final=is_final)
        loss = torch.nn.functional.cross_entropy(logits, targets).item()
        return {"loss": loss} | metrics | {"num_unread_words": metrics["num_words"] - len(targets)}

    def inputs(self, given: Sequence[Any], bundle: Bundle) -> list[TaggedExample]:
        """Sentences as words, or as raw texts that are split into words."""
        examples = []
        for number, one in enumerate(given, 1):
            words = split_words(one) if isinstance(one, str) else tuple(one)
            if not words:
                raise InputError(f"Text {number} of {len(given)} is blank, so there is nothing to tag.")
            if wrong := [word for word in words if not isinstance(word, str) or not word.strip()]:
                raise InputError(f"Sentence {number}: {wrong[0]!r} is not a word. Give a text, or a list of words.")
            examples.append(TaggedExample(words, (), "predict", number))
        return examples

    def answers(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[TagsPrediction]:
        """The most probable tag of every word, and the entities they spell."""
        every, scores = self._tags(outputs, encoded, bundle)
        answers = []
        for example, tags, own in zip(encoded.examples, every, scores, strict=True):
            entities = tuple(
                Entity(span.type, span.start, span.end, " ".join(example.tokens[span.start : span.end]))
                for span in entities_of(tags)
            )
            answers.append(TagsPrediction(example.tokens, tuple(tags), tuple(own), entities))
        return answers

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


def first_pieces_of(tokens: Sequence[str], pieces: PlacedIds) -> tuple[np.ndarray, np.ndarray]:
    """(words, first pieces): which piece of the words, joined by blanks, begins each of them.

    A word that the tokenizer leaves nothing of is not among them.
    """
    lengths = np.array([len(token) for token in tokens])
    begins = np.cumsum(lengths + 1) - lengths - 1
    is_real = pieces.ends > pieces.starts
    numbers = np.searchsorted(begins, pieces.starts[is_real], side="right") - 1
    words, first = np.unique(numbers, return_index=True)
    return words, np.flatnonzero(is_real)[first]
