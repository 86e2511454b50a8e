"""Consistency training: its batches and loss, its check for collapse, and a run with unlabelled texts."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.batches.batch import pad_batch
from headswap.batches.labelled_rows import ExampleBatches, Row
from headswap.batches.token_dropout import TokenDropout
from headswap.batches.unlabelled_rows import ViewBatches
from headswap.core.errors import SettingError
from headswap.finetuning.consistency import MEASURED, CollapseCheck, read_unlabelled
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.consistency import ConsistencyObjective
from headswap.objectives.supervised import ClassificationObjective
from tiny import SCRATCH, random_sequences, sentences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
SPECIALS = frozenset(range(6))


def rows(count: int, *, seed: int, labelled: bool) -> list[Row]:
    sequences = random_sequences([4 + number % 9 for number in range(count)], seed=seed)
    targets: dict[str, Any] = {"target_index": np.zeros(1, dtype=np.int64)} if labelled else {}
    return [
        Row(number, ids, **targets, **({"target_value": np.array([number % 3])} if labelled else {}))
        for number, ids in enumerate(sequences)
    ]


def source(**changes: Any) -> ViewBatches:
    labelled = ExampleBatches(rows(20, seed=1, labelled=True), batch_size=6, seed=5, is_per_token=False)
    unlabelled = rows(31, seed=2, labelled=False)
    settings = {"batch_size": 10, "change": TokenDropout(0.4, 5, SPECIALS), "weight": 2.0, "ramp_steps": 4}
    return ViewBatches(labelled, unlabelled, **{**settings, **changes})


def model() -> TextModel:
    return build_model(tiny_model_shape("small", head="classify"), seed=3).double().eval()


def objective(**changes: float) -> ConsistencyObjective:
    return ConsistencyObjective(ClassificationObjective(), **{"threshold": 0.0, "temperature": 1.0, **changes})


def test_a_batch_has_labelled_rows_first_and_pairs_of_views_whose_weight_rises() -> None:
    views = source()
    (batch,) = views.micro_batches(0, count=1)
    assert batch.target_counts == (6, 10)
    assert batch.views_2P is not None
    assert batch.views_2P.tolist() == [list(range(6, 16)), list(range(16, 26))]
    lengths = np.array(batch.lengths)
    assert (lengths[16:] <= lengths[6:16]).all(), "the changed view has no more tokens"
    assert lengths[16:].sum() < lengths[6:16].sum()
    weights = [float(views.micro_batches(step, count=1)[0].view_weights_P[0]) for step in range(6)]  # type: ignore[index]
    assert weights == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    seen = np.concatenate([views.numbers(step) for step in range(4)])
    assert sorted(seen) == list(range(31)), "every unlabelled row once per pass"


@pytest.mark.parametrize("count", [2, 3, 7, 12])
def test_micro_batches_and_padding_do_not_change_the_sums(count: int) -> None:
    scored, chosen = model(), objective(threshold=0.34)
    for step in (0, 3):
        (whole,) = source().micro_batches(step, count=1)
        parts = source().micro_batches(step, count=count)
        expected = chosen.loss_sum(scored, whole)
        assert expected[1] > 0
        assert torch.allclose(torch.stack([chosen.loss_sum(scored, part) for part in parts]).sum(0), expected)
        padded = pad_batch(whole, num_tokens=whole.num_tokens + 40, num_sequences=30, num_targets=whole.num_targets)
        assert torch.allclose(chosen.loss_sum(scored, padded), expected)
    assert chosen.loss_sum(scored, whole.without_targets()).tolist() == [0, 0]


def test_equal_views_have_no_loss_and_the_target_has_no_gradient() -> None:
    scored = model()
    (batch,) = source(change=lambda row, **_: row).micro_batches(5, count=1)
    assert objective().loss_sum(scored, batch)[1].item() == pytest.approx(0, abs=1e-12)
    assert objective(temperature=0.5).loss_sum(scored, batch)[1] > 0, "the target is sharpened"
    (batch,) = source().micro_batches(5, count=1)
    assert batch.views_2P is not None
    embedded: list[torch.Tensor] = []
    scored.base.register_forward_hook(lambda _module, _given, out: embedded.append(out) or out.retain_grad())
    objective().loss_sum(scored, batch)[1].backward()
    ends = np.cumsum(batch.lengths)
    gradient = embedded[0].grad
    assert gradient is not None
    assert not gradient[: ends[15]].any(), "labelled rows and originals"
    assert gradient[ends[15] :].any()


def test_uncertain_texts_do_not_count() -> None:
    (batch,) = source().micro_batches(5, count=1)
    assert objective(threshold=0.999).loss_sum(model(), batch)[1] == 0


def test_the_check_turns_unlabelled_rows_off_after_two_low_evaluations_and_again_from_the_history(
    caplog: pytest.LogCaptureFixture,
) -> None:
    values = [0.0, 0.0, 0.0, 0.1, 0.9, 0.1, 0.2, 1.0]
    lines = [{"step": 2 * number, MEASURED: value} for number, value in enumerate(values)]
    collapse_check = CollapseCheck(source(), [], training_entropy=1.0)
    states = []
    with caplog.at_level(logging.WARNING, logger="headswap"):
        for line in lines:
            collapse_check.after_evaluation(line)
            states.append(collapse_check.source.is_off)
    assert states == [False, False, False, True, True, True, True, True]
    assert "turned off at step 6" in caplog.text
    (batch,) = collapse_check.source.micro_batches(9, count=1)
    assert batch.target_counts == (6, 0)
    assert objective().loss_sum(model(), batch)[1] == 0
    resumed = CollapseCheck(source(), [], training_entropy=1.0)
    for line in lines[:4]:
        resumed.after_evaluation(line)
    assert resumed.source.is_off


def test_the_check_measures_the_entropy_of_predicted_labels() -> None:
    scored, views = model().float(), source()
    collapse_check = CollapseCheck.of(views, views.labelled.rows)
    assert collapse_check.measure(scored, torch.autocast("cpu", enabled=False))[MEASURED] > 0
    with torch.no_grad():
        scored.head.output.bias.copy_(torch.tensor([0.0, 100.0, 0.0]))  # type: ignore[union-attr]
    assert collapse_check.measure(scored, torch.autocast("cpu", enabled=False))[MEASURED] == 0


def test_texts_of_the_test_set_are_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(f"text number {number}" for number in range(50)))
    files = [str(tmp_path / "texts.txt")]
    scored = read_unlabelled(files, text_column="text", seed=1, scored=[])[:7]
    again = read_unlabelled(files, text_column="text", seed=1, scored=scored)
    assert len(again) == 43
    assert not {example.text for example in again} & {example.text for example in scored}
    assert "7 of the unlabelled texts are also in the validation or test set" in caplog.text


@pytest.mark.parametrize("is_turned_off", [False, True])
def test_a_run_with_unlabelled_texts_resumes_bit_for_bit_and_reports_them(tmp_path: Path, is_turned_off: bool) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(text for text, _ in sentences(90, seed=8)))
    settings = {
        **SCRATCH, "train": sentences(40, seed=2), "num_train_epochs": 4, "save_steps": 2, "seed": 5,
        "unlabelled": (str(tmp_path / "texts.txt"),), "consistency_threshold": 0.4,
        "consistency_ramp": 0.1 if is_turned_off else 1.0,
    }  # fmt: skip
    whole = hs.finetune(**settings, out=tmp_path / "whole")

    class Stop(hs.Observer):
        def on_evaluation(self, line: dict[str, Any]) -> None:
            if line["epoch"] == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.finetune(**settings, out=tmp_path / "stopped", observer=Stop())
    resumed = hs.finetune(**settings, out=tmp_path / "stopped", resume=True)
    first, second = (load_file(run.path / "bundle" / "model.safetensors") for run in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert whole.result["unlabelled"] == {"rows": 90, "turned_off": is_turned_off}, "two labels are not yet learned"
    assert all(MEASURED in line for line in whole.result["history"])
    assert any("train_consistency_loss" in line for line in whole.metrics())
    (tmp_path / "texts.txt").write_text("other texts\nthan before\n")
    with pytest.raises(hs.HeadswapError, match="unlabelled texts"):
        hs.finetune(**settings, out=tmp_path / "whole", resume=True)


def test_settings_without_effect_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="consistency_weight: only used with --unlabelled"):
        hs.finetune(train=sentences(20), consistency_weight=2.0, out=tmp_path / "a", **SCRATCH)
    numbers = [(text, str(len(text))) for text, _ in sentences(20)]
    with pytest.raises(SettingError, match="cannot be used with the task regress"):
        hs.finetune(train=numbers, task="regress", unlabelled=("x.txt",), out=tmp_path / "b", **SCRATCH)
