"""Averages of classifiers: probabilities, order of labels, metrics, and models that cannot be averaged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bundles import make_bundle
from cli_calls import call_json, call_wrong
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.inference.average import check_can_be_averaged
from headswap.inference.predict import predict_texts
from headswap.tokens.tokenizer import Tokenizer

TEXTS = ["the film was fine .", "the story was dull .", "a warm and moving ending ."]
pytestmark = pytest.mark.usefixtures("one_thread")


def classifiers(tokenizer: Tokenizer) -> list[Bundle]:
    """Two models that differ in direction, order of labels and temperature."""
    one = make_bundle(tokenizer)
    two = make_bundle(tokenizer, preset="modern", direction="bidirectional")
    for bundle, factor in ((one, 40.0), (two, -60.0)):  # an untrained head predicts almost the same for all texts
        with torch.no_grad():
            bundle.model.head.output.weight.mul_(factor)  # type: ignore[union-attr]
    state = two.task.changed(temperature=2.0)
    return [one, replace(two, labels=("middling", "bad", "good"), task=state)]


def test_the_probabilities_are_the_mean_by_label(tokenizer: Tokenizer) -> None:
    bundles = classifiers(tokenizer)
    alone = [[one.scores for one in predict_texts(bundle, TEXTS)] for bundle in bundles]
    together = predict_texts(bundles[0], TEXTS, others=bundles[1:])
    for number, found in enumerate(together):
        mean = {label: (alone[0][number][label] + alone[1][number][label]) / 2 for label in bundles[0].labels}
        assert dict(found.scores) == pytest.approx(mean, abs=1e-6)
        assert found.short == max(mean, key=lambda label: mean[label])
    assert np.ptp([[scores[number]["bad"] for scores in alone] for number in range(3)]) > 0.05


def test_predict_and_evaluate_average_models(
    capsys: pytest.CaptureFixture[str], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    bundles = classifiers(tokenizer)
    for bundle, name in zip(bundles, "ab", strict=True):
        bundle.save(tmp_path / name)
    answers = [one.short for one in predict_texts(bundles[0], TEXTS, others=bundles[1:])]
    first = call_json(capsys, "predict", tmp_path / "a", TEXTS[0], "--average-with", tmp_path / "b")
    assert first["label"] == answers[0]
    rows = "text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, answers, strict=True))
    (tmp_path / "test.csv").write_text(rows, encoding="utf-8")
    given = ("evaluate", tmp_path / "a", tmp_path / "test.csv")
    assert call_json(capsys, *given, "--average-with", tmp_path / "b")["accuracy"] == 1.0
    short = [
        call_json(capsys, "evaluate", tmp_path / one, tmp_path / "test.csv", "--average-with", tmp_path / other,
                  "--max-length", 3)["loss"]
        for one, other in ("ab", "ba")
    ]  # fmt: skip
    assert short[0] == pytest.approx(short[1], abs=1e-6), "the limit is that of every model"
    make_bundle(tokenizer, "tag").save(tmp_path / "tagger")
    assert "not a classifier" in call_wrong(capsys, *given, "--average-with", tmp_path / "tagger")


def test_models_with_other_labels_or_inputs_are_refused(tokenizer: Tokenizer) -> None:
    one = make_bundle(tokenizer)
    with pytest.raises(InputError, match="only one of them has 'fair'"):
        check_can_be_averaged([one, replace(one, labels=("bad", "fair", "middling"))])
    with pytest.raises(InputError, match="reads pairs of texts"):
        check_can_be_averaged([one, replace(one, task=one.task.changed(reads_pairs=True))])
