"""What the intervals leave out, and the sentences of the overlap check."""

from dataclasses import replace

from headswap.study.analysis import analyse
from headswap.study.caveats import caveats, overlap_sentence
from headswap.study.results import SetOverlap
from study_fixture import (
    synthetic_study,
)


def test_runs_that_predict_one_label_are_stated() -> None:
    cells = {("scratch", 400): [0.6, 0.7, 0.6], ("pretrained", 400): [0.7, 0.8, 0.7], ("majority", 400): [0.5]}
    runs = synthetic_study(cells)
    for run in runs.runs:
        if (run.arm, run.seed) in (("pretrained", 2), ("majority", 1)):
            run.predictions.probabilities[:] = [0.9, 0.1]
    found = analyse(runs)
    assert found.as_json()["collapsed"] == [{"arm": "pretrained", "count": 1, "of": 3}]
    assert any(
        sentence.startswith("pretrained: 1 of 3 runs predicted the same label for every test text")
        for sentence in caveats(found)
    )


def test_an_installed_base_and_its_size_are_stated() -> None:
    cells = {("scratch", 100): [0.7, 0.71, 0.72], ("box", 100): [0.8, 0.81, 0.82]}
    results = replace(analyse(synthetic_study(cells)), num_bases=0)
    (sentence,) = caveats(replace(results, parameters={"scratch": 1_000_000, "box": 7_200_000}))
    assert "its corpus could not be checked for overlap with this test set" in sentence
    assert sentence.endswith(
        "The arm 'box' has 7.2 M parameters and scratch 1.0 M, so their difference is not due to pre-training alone."
    )
    (sentence,) = caveats(replace(results, parameters={"scratch": 7_212_000, "box": 7_211_000}))
    assert "parameters" not in sentence


def test_a_shared_base_is_stated() -> None:
    results = analyse(synthetic_study({("scratch", 100): [0.7, 0.71, 0.72], ("pretrained", 100): [0.8, 0.81, 0.82]}))
    assert caveats(results) == [
        "All runs of a pre-trained arm share one base. These intervals leave out the variation between pre-training "
        "runs; use --base-seeds 3 or more to include it."
    ]
    assert caveats(replace(results, num_bases=2)) == [
        "The runs of a pre-trained arm share two bases, which are too few to state anything about other bases; use "
        "--base-seeds 3 or more."
    ]
    assert caveats(replace(results, num_bases=3)) == []


def test_the_overlap_of_two_sets_and_of_one_set_is_a_sentence() -> None:
    assert overlap_sentence(SetOverlap("train", "test", 1, 2, 240, [])) == (
        "1 row of train is also in test; near-duplicates: 2."
    )
    assert overlap_sentence(SetOverlap("train", "train", 3, 0, 240, [])) == (
        "3 rows of train repeat an earlier row of the same set; near-duplicates: 0."
    )
