"""Errors and warnings of prediction."""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headswap as hs
from headswap.core.errors import InputError, RunError, SettingError
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


def test_texts_below_the_limit_are_not_answered(tiny_classifier: hs.Run) -> None:
    model, texts = tiny_classifier.model, ["the film was superb .", "the the the", "film"]
    highest = sorted(model.predict_proba(texts).max(axis=1).tolist())
    limit = (highest[0] + highest[1]) / 2
    plain, found = model.predictions(texts), model.predictions(texts, abstain_below=limit)
    assert [one.abstained for one in found].count(True) == 1
    for before, after in zip(plain, found, strict=True):
        assert after.scores == before.scores
        if after.abstained:
            assert after.short is None
            assert after.as_json() == {"label": None, "abstained": True, "scores": before.scores}
            assert after.as_line() == f"(abstained)\t{max(before.scores.values()):.4f}"
        else:
            assert (after.short, after.as_json(), after.as_line()) == (
                before.short,
                before.as_json(),
                before.as_line(),
            )
    assert model.predict(texts, abstain_below=limit).count(None) == 1


def test_evaluation_reports_coverage_and_accuracy_of_the_answered_texts(
    tiny_classifier: hs.Run, tiny_runs: Path
) -> None:
    model = tiny_classifier.model
    rows = [json.loads(line) for line in (tiny_runs / "test.jsonl").read_text().splitlines()]
    found = model.evaluate(tiny_runs / "test.jsonl", abstain_below=0.99)
    answers = model.predict([row["text"] for row in rows], abstain_below=0.99)
    right = [answer == row["label"] for answer, row in zip(answers, rows, strict=True) if answer is not None]
    assert found["abstention"] == {
        "below": 0.99,
        "coverage": len(right) / len(rows),
        "accuracy": sum(right) / len(right),
        "num_abstained": answers.count(None),
    }
    assert found["accuracy"] == tiny_classifier.result["test"]["accuracy"], "of all texts"
    assert "abstention" not in model.evaluate(tiny_runs / "test.jsonl")


@pytest.mark.parametrize("limit", [0.0, -1.0, 1.5, float("nan")])
def test_a_limit_that_is_no_probability_is_an_error(tiny_classifier: hs.Run, limit: float) -> None:
    with pytest.raises(SettingError, match="but it is a probability above 0 and at most 1"):
        tiny_classifier.model.predict(["a film"], abstain_below=limit)
