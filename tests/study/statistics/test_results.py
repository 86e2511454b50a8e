"""The results of a study are immutable and plain JSON."""

import json

from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.results import SetOverlap
from study_fixture import (
    NUM_TEST,
    synthetic_study,
)


def test_results_are_plain_json() -> None:
    cells = {("tfidf", 400): [0.8] * 3, ("scratch", 400): [0.78, 0.77, 0.79], ("pretrained", 400): [0.83, 0.82, 0.84]}
    written = json.dumps(analyse(synthetic_study(cells)).as_json(), allow_nan=False)
    again = json.loads(written)
    assert json.dumps(again) == written
    assert {row["arm"] for row in again["cells"]} == {"tfidf", "scratch", "pretrained"}


def test_results_json_has_these_keys() -> None:
    cells = {("scratch", 400): [0.78, 0.77, 0.79], ("pretrained", 400): [0.83, 0.82, 0.79]}
    texts = [f"text {number}" for number in range(NUM_TEST)]
    written = analyse(synthetic_study(cells, texts=texts)).as_json()
    interval = ["mean", "low", "high", "count"]
    assert list(written["cells"][0]) == [
        "arm", "labels", *interval, "values", "over", "mean_accuracy", "mean_macro_f1", "mean_loss",
        "mean_ece", "without_scores", "median", "num_collapsed", "abstention",
    ]  # fmt: skip
    assert list(written["comparisons"][0]) == [
        "arm", "other", "labels", *interval, "num_bases", "p", "family", "p_holm", "num_comparisons", "verdict",
        "seeds_needed", "over", "one_answer",
    ]  # fmt: skip
    assert list(written["disagreements"][0]) == ["row", "label", "trust", "text"]
    assert list(written["details"][0]) == ["arm", "labels", "confusion", "f1", "ece", "bins"]
    assert list(written["details"][0]["bins"][0]) == ["confidence", "accuracy", "share"]


def test_only_a_comparison_without_a_significant_difference_has_seeds_needed() -> None:
    cells = {("scratch", 400): [0.78, 0.77, 0.79], ("pretrained", 400): [0.83, 0.821, 0.84]}
    (row,) = analyse(synthetic_study(cells)).as_json()["comparisons"]
    assert row["verdict"] == "better"
    assert "seeds_needed" not in row


def test_an_overlap_is_read_and_written_without_a_change() -> None:
    example = {"kind": "exact", "from_row": 1, "to_row": 2, "similarity": 1.0, "from_text": "a", "to_text": "A"}
    row = {"from": "train", "to": "test", "exact_rows": 1, "near_rows": 0, "rows": 9, "examples": [example]}
    assert SetOverlap.from_json(row).as_json() == row
    (without,) = SetOverlap.from_json(row, with_texts=False).as_json()["examples"]
    assert list(without) == ["kind", "from_row", "to_row", "similarity"]
