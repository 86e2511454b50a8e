"""What a comparison says follows from its intervals and nothing else; arms share labels and seeds."""

import json
from pathlib import Path

import pytest

import headswap as hs
from headswap.study.comparison import Arm, Comparison, compare_arms, verdict
from headswap.study.figures import draw_comparison, mean_curve, spark_line
from tiny import sentences, write_labelled


def comparison(scratch: list[float], pretrained: list[float], tfidf: list[float]) -> Comparison:
    accuracy = {"majority": [0.5] * len(scratch), "tfidf": tfidf, "scratch": scratch, "pretrained": pretrained}
    return Comparison(1_600, accuracy, {"scratch": [], "pretrained": []}, dict.fromkeys(accuracy, 1.0), 1_000)


def test_a_gain_is_told_with_its_interval() -> None:
    first, second = verdict(comparison([0.78, 0.77, 0.79], [0.83, 0.82, 0.84], [0.80, 0.80, 0.80]))
    assert first == "Pre-training gains 5.0 points (5.0 to 5.0, 3 seeds) over scratch with 1,600 labels."
    assert second == "The pretrained model beats TF-IDF + logistic regression by 3.0 points."


def test_harm_is_told_as_plainly_as_a_gain() -> None:
    first, second = verdict(comparison([0.83, 0.82, 0.84], [0.78, 0.765, 0.795], [0.9, 0.9, 0.9]))
    assert first.startswith("Pre-training HURTS by 5.0 points (")
    assert second == "TF-IDF + logistic regression is still 7.0 points ahead of the best Transformer here."


def test_noise_is_called_no_difference() -> None:
    first, second = verdict(comparison([0.80, 0.82, 0.78], [0.82, 0.79, 0.81], [0.81, 0.81, 0.80]))
    assert first.startswith("No difference between pre-trained and scratch is shown with 1,600 labels: +0.7 points (")
    assert second == "No difference to TF-IDF + logistic regression is shown."


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_seeds_claim_nothing(count: int) -> None:
    first, second = verdict(comparison([0.7] * count, [0.9] * count, [0.8] * count))
    assert first == f"With {count} seed(s) no claim about pre-training is possible; use 3 or more."
    assert second == "Against TF-IDF no claim is possible either."


def test_the_json_holds_intervals_and_differences() -> None:
    found = comparison([0.78, 0.77, 0.79], [0.83, 0.82, 0.84], [0.8] * 3).as_json()
    assert json.loads(json.dumps(found)) is not None
    assert found["differences"]["pretrained - scratch"]["mean"] == pytest.approx(0.05)
    assert set(found["intervals"]) == {"majority", "tfidf", "scratch", "pretrained"}


def test_curves_are_averaged_over_the_epochs_that_all_seeds_reached() -> None:
    found = mean_curve([[(0, 0.5), (1, 0.7), (2, 0.9)], [(0, 0.7), (1, 0.9)]])
    assert [value for _, value in found] == pytest.approx([0.6, 0.8])
    assert spark_line([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"


def test_arms_are_run_with_the_same_labels_and_a_second_call_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = write_labelled(tmp_path / "train.jsonl", 220), write_labelled(tmp_path / "test.jsonl", 40, seed=2)
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(100)), encoding="utf-8")
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    machine = {"device": "cpu", "threads": 1}
    base = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "base", max_steps=3, max_length=24, **shape, **machine)
    arms = (
        Arm("scratch", {"model": {"base": "scratch", **shape}, "tokenizer": {"tokenizer": str(base.path)}}),
        Arm("pretrained", {"model": {"base": str(base.path)}}),
    )
    data = {"train": str(train), "test": str(test), "num_train": 200}
    shared = {"data": data, "training": {"max_length": 24, "num_train_epochs": 1}, "machine": machine}
    found = compare_arms(tmp_path / "out", arms, shared, seeds=(1, 2))
    assert {name: len(values) for name, values in found.accuracy.items()} == {
        "majority": 2, "tfidf": 2, "scratch": 2, "pretrained": 2,
    }  # fmt: skip
    assert (found.num_labels, found.num_test) == (200, 40), "the labels that are chosen on count too"
    assert [epoch for epoch, _ in found.curves["scratch"][0]] == [0, 1]
    draw_comparison(found, tmp_path / "figure", title="tests")
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    monkeypatch.setattr("headswap.training.finetune.drive", lambda *_: pytest.fail("trained again"))
    assert compare_arms(tmp_path / "out", arms, shared, seeds=(1, 2)) == found
