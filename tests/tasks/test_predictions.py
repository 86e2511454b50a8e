"""Predictions: the scores of a text are a row of an array, and read as a dictionary."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from headswap.batches.labelled_rows import EncodedSet, Row
from headswap.data.records import Example
from headswap.tasks.choose import named_task
from headswap.tasks.predictions import LabelPrediction, LabelScores, numbered
from headswap.tokens.tokenizer import Tokenizer
from task_data import tiny_bundle

NUM_LABELS, NUM_TEXTS = 2_000, 400


def test_scores_are_read_as_a_dictionary_in_the_order_of_the_labels() -> None:
    scores = LabelScores(numbered(("b", "a")), np.array([0.25, 0.75], dtype=np.float32))
    assert dict(scores) == {"b": 0.25, "a": 0.75}
    assert list(scores.values()) == [0.25, 0.75]
    assert scores == {"b": 0.25, "a": 0.75}
    assert LabelPrediction("a", scores).as_json() == {"label": "a", "scores": {"b": 0.25, "a": 0.75}}
    assert repr(scores) == "{'b': 0.25, 'a': 0.75}"
    with pytest.raises(KeyError):
        scores["c"]


@pytest.mark.parametrize("name", ["classify", "multilabel"])
def test_predictions_and_metrics_of_many_classes_need_little_memory(tokenizer: Tokenizer, name: str) -> None:
    labels = tuple(f"label {number}" for number in range(NUM_LABELS))
    bundle = replace(tiny_bundle(tokenizer, name), labels=labels)
    examples = [Example("x", labels[at], "tests", at + 1, None, (labels[at],)) for at in range(NUM_TEXTS)]
    encoded = EncodedSet(examples, [Row(at, np.zeros(1, dtype=np.int64)) for at in range(NUM_TEXTS)], NUM_TEXTS, 0)
    outputs = list(np.random.default_rng(0).normal(size=(NUM_TEXTS, NUM_LABELS)).astype(np.float32))
    task = named_task(name)
    tracemalloc.start()
    try:
        found = task.predictions(outputs, encoded, bundle)
        metrics = task.evaluate(outputs, encoded, bundle)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == metrics["num_examples"] == NUM_TEXTS
    assert peak < 4 * 8 * NUM_TEXTS * NUM_LABELS, "four arrays of float64; dictionaries and a matrix need 7 to 17"
