"""The predictions of a multi-label classifier are saved and read back; damaged ones are an error."""

from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import load_predictions, text_ids
from task_data import LABELS, examples_of


def made() -> LabelSetPredictions:
    examples = examples_of("multilabel", 20)
    labels = LABELS["multilabel"]
    return LabelSetPredictions.of(np.eye(20, len(labels), dtype=bool), examples, labels)


def test_they_are_read_back_as_they_were_saved(tmp_path: Path) -> None:
    predictions = made()
    predictions.save(tmp_path)
    found = load_predictions(tmp_path)
    assert isinstance(found, LabelSetPredictions)
    assert (found.predicted == predictions.predicted).all()
    assert found.test_key == predictions.test_key
    assert found.scores() == predictions.scores()


def test_another_truth_is_another_test_set() -> None:
    predictions = made()
    other = LabelSetPredictions(
        predictions.predicted, ~predictions.targets, predictions.labels, predictions.text_ids
    )  # fmt: skip
    assert other.test_key != predictions.test_key


def test_damaged_ones_are_an_error(tmp_path: Path) -> None:
    ids = text_ids(["a", "b"])
    LabelSetPredictions(np.ones((2, 3), dtype=bool), np.ones((2, 2), dtype=bool), ("x", "y"), ids).save(tmp_path)
    with pytest.raises(InputError, match=r"the arrays have the shapes \(2, 3\) and \(2, 2\) for 2 texts and 2 labels"):
        load_predictions(tmp_path)
    LabelSetPredictions(np.ones((2, 1)), np.ones((2, 1), dtype=bool), ("x",), ids).save(tmp_path)
    with pytest.raises(InputError, match="predicted and targets must be true or false"):
        load_predictions(tmp_path)
