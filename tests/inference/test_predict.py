"""Errors and warnings of prediction."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headswap as hs
from headswap.core.errors import InputError, RunError
from headswap.inference import predict as predicting
from headswap.inference.predict import predict_stream, predict_texts
from tiny import sentences


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


def test_chunks_change_neither_predictions_nor_messages(
    tiny_classifier: hs.Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tiny_classifier.model.bundle
    texts = [text for text, _ in sentences(50, seed=5)] + ["the film was lovely " * 50]
    whole, said = predict_texts(bundle, texts), caplog.messages[-1]
    assert "tokens were cut off" in said
    for name, size in (("CHUNK_INPUTS", 7), ("CHUNK_CHARACTERS", 100)):
        caplog.clear()
        monkeypatch.setattr(predicting, name, size)
        parts = list(predict_stream(bundle, iter(texts)))
        assert [one.label for one in parts] == [one.label for one in whole]
        for one, other in zip(parts, whole, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-5)
        assert caplog.messages == [said]


def test_a_stream_is_scored_before_it_ends(tiny_classifier: hs.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "CHUNK_INPUTS", 2)
    read: list[str] = []

    def texts() -> Iterator[str]:
        for number in range(6):
            read.append(f"film {number}")
            yield read[-1]

    stream = predict_stream(tiny_classifier.model.bundle, texts())
    next(stream)
    assert len(read) == 2
    assert len(list(stream)) == 5
