"""Errors and warnings of prediction."""

import logging
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headswap as hs
from headswap.core.errors import InputError, RunError
from headswap.inference.predict import predict_texts


def test_predict_takes_a_list_of_texts_only(tiny_classifier: hs.Run) -> None:
    with pytest.raises(InputError, match="not one string"):
        tiny_classifier.model.predict("a fine film")
    with pytest.raises(InputError, match="1 is a int"):
        tiny_classifier.model.predict([1])  # type: ignore[list-item]
    bundle = hs.load(tiny_classifier.path / "bundle")
    assert bundle.predict(["a fine film"]) == tiny_classifier.model.predict(["a fine film"])


def test_prediction_in_bf16_logs_the_difference_to_fp32(
    tiny_classifier: hs.Run, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["the film was fine .", "the story was dull .", "the music was warm ."]
    bundle = tiny_classifier.model.bundle
    with caplog.at_level(logging.INFO, logger="headswap"):
        half = predict_texts(bundle, texts, precision="bf16")
    full = predict_texts(bundle, texts)
    logged = [record.getMessage() for record in caplog.records if "bf16 compared with fp32" in record.getMessage()]
    assert len(logged) == 1
    assert "the first 3" in logged[0]
    gap = max(abs(one.scores["pos"] - other.scores["pos"]) for one, other in zip(half, full, strict=True))
    assert 0 < gap < 0.01


def test_weights_that_are_not_finite_are_an_error(tiny_classifier: hs.Run, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_classifier.path / "bundle", tmp_path / "bundle"))
    state = load_file(folder / "model.safetensors")
    state["head.output.bias"] = torch.full_like(state["head.output.bias"], float("nan"))
    save_file(state, folder / "model.safetensors")
    with pytest.raises(RunError, match="not finite"):
        hs.load(folder).predict(["a fine film"])


def test_tokens_that_are_cut_off_are_logged(tiny_classifier: hs.Run, caplog: pytest.LogCaptureFixture) -> None:
    tiny_classifier.model.predict(["the film was lovely " * 50])
    assert "tokens were cut off" in caplog.text
