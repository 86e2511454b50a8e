"""What every task does: rows, losses, scores that do not depend on the batch, and refused settings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headswap.batches.labelled_rows import batch_of
from headswap.core.errors import InputError, SettingError
from headswap.data.config import ColumnSettings, LabelledSettings
from headswap.finetuning.config import FinetuneTraining
from headswap.inference import outputs as inference
from headswap.inference.outputs import outputs_of
from headswap.registry import TASKS
from headswap.tasks.choose import named_task
from headswap.tokens.tokenizer import Tokenizer
from task_data import INPUTS, examples_of, tiny_bundle

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("task", TASKS)
def test_scores_and_predictions_do_not_depend_on_the_batch(
    tokenizer: Tokenizer, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, own = tiny_bundle(tokenizer, task, max_length=24), named_task(task)
    own_long = "windows" if task != "regress" else "truncate"
    bundle = replace(bundle, task=bundle.task.changed(long=own_long))
    examples = examples_of(task, 12)
    encoded = own.encode(examples, bundle)
    together = outputs_of(bundle.model, encoded.rows)
    monkeypatch.setitem(inference.TOKENS_PER_BATCH, "cpu", 1)  # every row on its own
    alone = outputs_of(bundle.model, encoded.rows)
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
    one = own.encode(examples[4:5], bundle)
    prediction = own.predictions(outputs_of(bundle.model, one.rows), one, bundle)[0].short
    same = own.predictions(together, encoded, bundle)[4].short
    assert prediction == (pytest.approx(same, rel=1e-4) if task == "regress" else same)
    assert own.evaluate(together, encoded, bundle)["loss"] == pytest.approx(
        own.evaluate(alone, encoded, bundle)["loss"]
    )


@pytest.mark.parametrize("task", TASKS)
def test_the_evaluated_loss_is_that_of_the_objective_over_all_targets(tokenizer: Tokenizer, task: str) -> None:
    bundle, own = tiny_bundle(tokenizer, task), named_task(task)
    encoded = own.encode(examples_of(task, 8), bundle)
    objective = own.objective(FinetuneTraining(), encoded, bundle.labels)
    batch = batch_of(encoded.rows, is_per_token=own.head != "classify")
    with torch.no_grad():
        loss = objective.loss_sum(bundle.model, batch).item() / batch.num_targets
    measured = own.evaluate(outputs_of(bundle.model, encoded.rows), encoded, bundle)
    assert measured["loss"] == pytest.approx(loss, rel=1e-5)
    assert measured["num_examples"] == 8
    assert set(own.selection_metrics) <= set(measured)
    assert set(own.logged_metrics) <= set(measured)
    assert set(own.table_metrics) <= set(measured)


def test_a_column_of_another_task_is_refused_with_the_task_that_reads_it() -> None:
    with pytest.raises(SettingError, match=r"does not read it\. The task multilabel does: pass --task multilabel\.$"):
        named_task("classify").check_columns(LabelledSettings(label_separator=";"))
    with pytest.raises(SettingError, match=r"does not read it\.$"):
        named_task("classify").check_columns(ColumnSettings(label_separator=";"))  # of a bundle, which has its task
    with pytest.raises(SettingError, match=r"does not read it\.$"):
        named_task("tag").check_columns(LabelledSettings(text_column="x"))  # three tasks do


@pytest.mark.parametrize("task", TASKS)
def test_settings_without_effect_on_a_task_are_refused(task: str) -> None:
    own = named_task(task)
    assert own.resolve(FinetuneTraining()).metric_for_best_model == own.selection_metrics[0]
    foreign = next(name for name in ("micro_f1", "mse", "f1") if name not in own.selection_metrics)
    with pytest.raises(SettingError, match=f"metric_for_best_model is '{foreign}', but the task {task} has"):
        own.resolve(FinetuneTraining(metric_for_best_model=foreign))
    for setting in ({"class_weight": "balanced"}, {"label_smoothing_factor": 0.1}, {"max_answer_length": 5}):
        if next(iter(setting)) not in own.settings:
            with pytest.raises(SettingError, match=f"has no effect on the task {task}"):
                own.resolve(FinetuneTraining.model_validate(setting))
    column = "text_column" if own.head != "classify" else "tokens_column"
    with pytest.raises(SettingError, match=f"{column} cannot be set: the task {task} does not read it"):
        own.check_columns(ColumnSettings.model_validate({column: "x"}))
    if own.head != "classify":
        with pytest.raises(SettingError, match="pooling cannot be set"):
            own.check_pooling("last")
        with pytest.raises(SettingError, match=r"long is 'truncate', but the task .* has 'windows'"):
            own.resolve(FinetuneTraining(long="truncate"))


@pytest.mark.parametrize("task", TASKS)
def test_wrong_inputs_are_errors(tokenizer: Tokenizer, task: str) -> None:
    bundle, own = tiny_bundle(tokenizer, task), named_task(task)
    assert len(own.inputs(INPUTS[task], bundle)) == len(INPUTS[task])
    wrong: list[Any] = {"tag": [["a", 3]], "span": ["a context alone"]}.get(task, [3])
    with pytest.raises(InputError):
        own.inputs(wrong, bundle)
    blank: list[Any] = [("q", " ")] if task == "span" else [" "]
    with pytest.raises(InputError, match="blank"):
        own.inputs(blank, bundle)
