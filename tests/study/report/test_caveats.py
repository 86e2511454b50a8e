"""What the intervals leave out, and the sentences of the overlap check."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import ValuePredictions, text_ids
from headswap.finetuning.tag_predictions import TagPredictions
from headswap.study.report.caveats import caveats, overlap_sentence
from headswap.study.statistics.analysis import analyse, is_constant_prediction
from headswap.study.statistics.results import CollapsedRuns, SetOverlap
from headswap.study.statistics.runs import PretrainedBase
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


@pytest.mark.parametrize(
    ("task", "metric", "expected"),
    [
        ("classify", "accuracy", "label for every test pair, so the score is the share of that label."),
        ("classify", "macro_f1", "label for every test pair, so the score is that of a constant prediction."),
        ("multilabel", "micro_f1", "labels for every test pair, so the score is that of a constant prediction."),
        ("tag", "f1", "tag for every word, so the score is that of a constant prediction."),
        ("regress", "r2", "value for every test pair, so the score is that of a constant prediction."),
    ],
)
def test_a_constant_prediction_is_described_in_the_words_of_the_task(task: str, metric: str, expected: str) -> None:
    results = analyse(synthetic_study({("scratch", 400): [0.6, 0.7, 0.6]}))
    collapsed = [CollapsedRuns("scratch", 2, 3)]
    found = caveats(replace(results, task=task, metric=metric, unit="pair", collapsed=collapsed))
    assert f"scratch: 2 of 3 runs predicted the same {expected}" in found


def test_constant_label_sets_tags_and_values_are_found() -> None:
    ids = text_ids(["one", "two"])
    truth = np.array([[True, False], [False, True]])
    none, some = np.zeros((2, 2), dtype=bool), np.eye(2, dtype=bool)
    made = {
        "label sets": [LabelSetPredictions(one, truth, ("a", "b"), ids) for one in (none, some)],
        "values": [ValuePredictions(np.array(one), np.array([1.0, 2.0]), ids) for one in ([3.0, 3.0], [3.0, 4.0])],
        "tags": [
            TagPredictions(np.array(one), np.array([0, 1, 0]), np.array([2, 1]), ("O", "B-x"), ids)
            for one in ([0, 0, 0], [0, 1, 0])
        ],
    }
    for constant, other in made.values():
        assert is_constant_prediction(constant)
        assert not is_constant_prediction(other)


def test_installed_bases_and_their_sizes_are_stated_once_for_all_arms() -> None:
    scores = [0.8, 0.81, 0.82]
    results = analyse(synthetic_study({(arm, 100): scores for arm in ("scratch", "box", "adapted", "pretrained")}))
    results = replace(results, num_bases=0)
    sizes = {"scratch": 1_000_000, "box": 7_200_000, "adapted": 7_200_000, "pretrained": 1_000_000}
    base, size = caveats(replace(results, parameters=sizes))
    assert base.startswith("The arms 'box' and 'adapted' start from a base that was not pre-trained here. ")
    assert "could not be checked for overlap with this test set" in base
    assert size == (
        "The models differ in size: scratch has 1.0 M parameters, 'box' 7.2 M and 'adapted' 7.2 M. So differences "
        "to scratch may be due in part to the size."
    )
    (alone,) = caveats(replace(results, parameters=dict.fromkeys(sizes, 7_200_000)))
    assert alone == base


def test_a_public_checkpoint_may_have_seen_the_test_texts() -> None:
    runs = synthetic_study({("scratch", 100): [0.7, 0.71, 0.72], ("hf:mini", 100): [0.8, 0.81, 0.82]})
    for run in runs.runs:
        run.result["base"] = "hf:owner/mini" if run.arm == "hf:mini" else "scratch"
    found = [sentence for sentence in caveats(analyse(runs)) if "public checkpoint" in sentence]
    assert len(found) == 1
    assert found[0].startswith(
        "The arm 'hf:mini' starts from the public checkpoint hf:owner/mini, which may have been trained on texts"
    )


def test_a_shared_base_is_stated() -> None:
    results = analyse(synthetic_study({("scratch", 100): [0.7, 0.71, 0.72], ("pretrained", 100): [0.8, 0.81, 0.82]}))
    assert caveats(results) == [
        "All runs of a pre-trained arm share one base. These intervals leave out the variation between pre-training "
        "runs; headswap study --base-seeds 3 (or more) includes it."
    ]
    assert caveats(replace(results, num_bases=2)) == [
        "The runs of a pre-trained arm share two bases, too few for a claim about other bases; "
        "headswap study --base-seeds 3 (or more) allows one."
    ]
    assert caveats(replace(results, num_bases=3)) == []


def test_the_overlap_of_two_sets_and_of_one_set_is_a_sentence() -> None:
    assert overlap_sentence(SetOverlap("train", "test", 1, 2, 0, 0, 240, [])) == (
        "1 row of train is also in test; near-duplicates: 2."
    )
    assert overlap_sentence(SetOverlap("train", "train", 3, 0, None, None, 240, [])) == (
        "3 rows of train repeat an earlier row of the same set; near-duplicates: 0."
    )
    assert overlap_sentence(SetOverlap("corpus", "test", 2, 0, 1200, 7, 5000, [])) == (
        "2 rows of corpus are also in test; near-duplicates: 0; contained: 1,200; "
        "with a shared passage (not removed): 7."
    )


def test_bases_that_read_different_numbers_of_tokens_are_stated() -> None:
    cells = {(arm, 100): [0.7, 0.71, 0.72] for arm in ("pretrained", "masked+nsp", "adapted")}
    study = synthetic_study(cells)
    tokens = {"pretrained": 2_000_000, "masked+nsp": 1_200_000, "adapted": 500_000}
    study.bases = {
        arm: [PretrainedBase(f"base-{arm}", Path(arm), {"seconds": 1.0, "tokens": number}, [])]
        for arm, number in tokens.items()
    }
    assert [text for text in caveats(analyse(study)) if "numbers of tokens" in text] == [
        "The bases of different arms were pre-trained on different numbers of tokens (masked+nsp 1.2 M; pretrained "
        "2.0 M), so differences between these arms are not due to the objective or the settings alone."
    ]
    study.bases["masked+nsp"][0].result["tokens"] = 1_950_000
    assert not [text for text in caveats(analyse(study)) if "numbers of tokens" in text]
