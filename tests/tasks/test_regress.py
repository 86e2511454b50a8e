"""The regression task: standardised targets, and the choice of the best epoch."""

from dataclasses import replace

import numpy as np
import pytest

from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError
from headswap.data.records import Example
from headswap.tasks.choose import named_task
from headswap.tokens.tokenizer import Tokenizer
from task_data import examples_of, tiny_bundle

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_missing_correlation_is_never_the_best_epoch() -> None:
    score = named_task("regress").selection_score
    assert score({"eval_pearson": None, "eval_loss": 1.0}, "pearson") < score(
        {"eval_pearson": -1.0, "eval_loss": 1.0}, "pearson"
    )
    assert score({"eval_mse": 2.0, "eval_loss": 1.0}, "mse") < score({"eval_mse": 1.0, "eval_loss": 1.0}, "mse")


def test_targets_are_standardised_and_predictions_are_not(tokenizer: Tokenizer) -> None:
    examples = examples_of("regress", 50)
    task = named_task("regress")
    state = task.initial_state(TaskState(task="regress"), examples)
    bundle = replace(tiny_bundle(tokenizer, "regress"), task=state)
    encoded = task.encode(examples, bundle)
    targets = np.concatenate([row.target_value for row in encoded.rows])
    assert (targets.mean(), targets.std()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-5))
    found = task.predictions(list(targets[:, None]), encoded, bundle)
    assert [prediction.value for prediction in found] == pytest.approx(
        [example.value for example in examples], rel=1e-5
    )
    with pytest.raises(InputError, match="all labels are 3"):
        task.initial_state(state, [Example("x", "3", "a.csv", 1, None, (), 3.0)] * 2)
