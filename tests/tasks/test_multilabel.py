"""The multi-label task: class weights, thresholds, and labels in one string."""

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.data.records import Example
from headswap.finetuning.config import FinetuneTraining
from headswap.inference.outputs import outputs_of
from headswap.tasks.choose import named_task
from headswap.tokens.tokenizer import Tokenizer
from task_data import LABELS, examples_of, tiny_bundle

pytestmark = pytest.mark.usefixtures("one_thread")


def test_several_labels_in_one_string_are_refused_with_the_separator() -> None:
    task = named_task("multilabel")
    joined = Example("a text", "film;story", "test.csv", 2, labels=("film;story",))
    with pytest.raises(InputError, match=r"\n'film;story' seems to be several labels: pass --label-separator ';'\.$"):
        task.check([joined], LABELS["multilabel"], role="test")
    other = Example("a text", "film;plot", "test.csv", 2, labels=("film;plot",))
    with pytest.raises(InputError) as raised:
        task.check([other], LABELS["multilabel"], role="test")
    assert "separator" not in str(raised.value), "it is not made of known labels"


def test_balanced_weights_are_equal_for_present_and_absent_labels(tokenizer: Tokenizer) -> None:
    bundle, task = tiny_bundle(tokenizer, "multilabel"), named_task("multilabel")
    encoded = task.encode(examples_of("multilabel", 30), bundle)
    objective = task.objective(FinetuneTraining(class_weight="balanced"), encoded, bundle.labels)
    present = np.concatenate([row.target_value for row in encoded.rows]).sum(axis=0)
    absent_weight, present_weight = objective.class_weights.numpy()
    np.testing.assert_allclose(present * present_weight, 15)
    np.testing.assert_allclose((30 - present) * absent_weight, 15)


def test_metrics_and_predictions_use_the_thresholds_of_the_bundle(tokenizer: Tokenizer) -> None:
    task, examples = named_task("multilabel"), examples_of("multilabel", 10)
    for limits, given in (((0.01,) * 4, 4), ((0.99, 0.01, 0.99, 0.99), 1)):
        bundle = tiny_bundle(tokenizer, "multilabel", thresholds=limits)  # untrained: every score is near one half
        encoded = task.encode(examples, bundle)
        outputs = outputs_of(bundle.model, encoded.rows)
        assert {len(prediction.labels) for prediction in task.predictions(outputs, encoded, bundle)} == {given}
        hits = sum(len(set(example.labels) & set(("film",) if given == 1 else bundle.labels)) for example in examples)
        assert task.evaluate(outputs, encoded, bundle)["precision"] == pytest.approx(hits / (10 * given))
