"""`--calibrate` from end to end: the bundle has the temperature, and its effect is recorded."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.core.errors import SettingError
from headswap.finetuning.calibration import calibration_sentence
from headswap.metrics.classification import log_loss
from headswap.metrics.temperature import fitted_temperature
from tiny import ONE_THREAD, SCRATCH

FINETUNE: dict[str, Any] = {"num_train_epochs": 2, "learning_rate": 5e-3, **ONE_THREAD}
TEXTS = ["the film was superb .", "the film was dull .", "the story was warm and the music was grey ."]


def noisy(file: Path, out: Path) -> Path:
    """The same texts; every sixth label is wrong."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows[::6]:
        row["label"] = {"neg": "pos", "pos": "neg"}[row["label"]]
    out.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return out


def test_the_temperature_changes_probabilities_and_no_prediction(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sets = {role: noisy(tiny_runs / f"{role}.jsonl", tmp_path / f"{role}.jsonl") for role in ("train", "test")}
    plain = hs.finetune(tiny_runs / "base", out=tmp_path / "plain", **sets, **FINETUNE)
    with caplog.at_level(logging.INFO, logger="headswap"):
        run = hs.finetune(tiny_runs / "base", out=tmp_path / "calibrated", calibrate=True, **sets, **FINETUNE)
    found = run.result["calibration"]
    config = json.loads((tmp_path / "calibrated" / "bundle" / "config.json").read_text())
    assert config["task"]["temperature"] == found["temperature"] != 1
    assert f"temperature {found['temperature']:.3g}" in caplog.text
    assert found["validation"]["loss_after"] <= found["validation"]["loss_before"]
    assert found["test"]["loss_before"] == pytest.approx(plain.result["test"]["loss"], abs=1e-6)
    assert run.result["test"]["loss"] == pytest.approx(found["test"]["loss_after"], abs=1e-6)
    assert run.result["test"]["accuracy"] == plain.result["test"]["accuracy"]
    assert "calibration" not in plain.result

    before, after = plain.model.predict_proba(TEXTS), run.model.predict_proba(TEXTS)
    scaled = before ** (1 / found["temperature"])
    assert after == pytest.approx(scaled / scaled.sum(axis=1, keepdims=True), abs=1e-5)
    assert run.model.predict(TEXTS) == plain.model.predict(TEXTS)
    saved = np.load(tmp_path / "calibrated" / "predictions.npz")
    assert log_loss(saved["probabilities"], saved["targets"]) == pytest.approx(found["test"]["loss_after"], abs=1e-5)
    assert run.model.evaluate(sets["test"])["loss"] == pytest.approx(run.result["test"]["loss"], abs=1e-6)


def test_without_a_validation_set_calibrate_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="calibrate needs a validation set, and none is held out of 60 training"):
        hs.finetune(train=tiny_runs / "few.jsonl", out=tmp_path / "run", calibrate=True, num_train_epochs=1, **SCRATCH)
    assert not (tmp_path / "run").exists()


def test_if_every_validation_text_is_right_the_temperature_stays_1() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    assert fitted_temperature(logits, np.array([0, 1])) == 1
    assert "every validation text is classified correctly" in calibration_sentence({"temperature": 1.0})


def test_calibrate_is_for_classifiers(tiny_runs: Path, tmp_path: Path) -> None:
    rows = [{"text": f"film {number}", "label": number % 5} for number in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(SettingError, match="calibrate has no effect on the task regress"):
        hs.finetune(train=tmp_path / "train.jsonl", out=tmp_path / "run", task="regress", calibrate=True, **SCRATCH)
