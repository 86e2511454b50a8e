"""Error analysis: slices with intervals, confusions, confident errors and possible label errors."""

import json
import tracemalloc

import numpy as np
import pytest

from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.error_analysis import _confusions
from headswap.study.statistics.error_results import ErrorAnalysis
from headswap.study.statistics.runs import ScoredRun, StudyRuns
from study_fixture import NUM_TEST, scored_run, synthetic_study

LABELS = ("a", "b", "c")
TARGETS = np.repeat([0, 1, 2], 40)
TEXTS = [" ".join(["secret"] * (1 + number % 40)) for number in range(len(TARGETS))]


def run(seed: int, wrong: dict[int, tuple[int, float]]) -> ScoredRun:
    """A run that is right with probability .8, except for the rows of `wrong`: (label, probability)."""
    probabilities = np.full((len(TARGETS), 3), 0.1)
    probabilities[np.arange(len(TARGETS)), TARGETS] = 0.8
    for row, (label, probability) in wrong.items():
        probabilities[row] = (1 - probability) / 2
        probabilities[row, label] = probability
    made = scored_run("pretrained", 400, seed, 1.0)
    predictions = Predictions(probabilities, TARGETS, LABELS, text_ids([str(row) for row in range(len(TARGETS))]))
    return ScoredRun(made.arm, "400", 400, seed, made.folder, predictions, made.result, made.history, made.rows)


def errors_of(runs: list[ScoredRun], *, with_texts: bool = True) -> ErrorAnalysis:
    study = StudyRuns(None, runs, ["pretrained"], bases={}, primary="pretrained", texts=TEXTS)
    found = analyse(study, with_texts=with_texts).errors
    assert found is not None
    return found


def test_possible_label_errors_have_the_same_confident_other_label_in_all_runs() -> None:
    sure, unsure, varied = (1, 0.95), (1, 0.5), (1, 0.9)
    runs = [run(seed, {0: sure, 1: unsure, 2: varied if seed == 1 else (2, 0.9)}) for seed in (1, 2, 3)]
    found = errors_of(runs)
    assert found.possible_label_errors == [0]
    assert [(row.row, row.predicted, row.num_wrong) for row in found.errors] == [(0, "b", 3), (2, "c", 3), (1, "b", 3)]
    assert [row.is_possible_label_error for row in found.errors] == [True, False, False]
    assert (found.errors[1].lowest, found.errors[1].highest) == pytest.approx((0.05, 0.9))


def test_an_arm_that_is_often_wrong_with_a_high_probability_finds_no_label_errors() -> None:
    """A quarter of its predictions is wrong in all runs, with the highest probability."""
    often = {row: ((TARGETS[row] + 1) % 3, 0.95) for row in range(0, len(TARGETS), 4)}
    found = errors_of([run(seed, often) for seed in (1, 2, 3)])
    assert found.is_above_majority
    assert found.possible_label_errors == []
    seldom = {row: often[row] for row in (0, 8)}
    assert errors_of([run(seed, seldom) for seed in (1, 2, 3)]).possible_label_errors == [0, 8]


def test_possible_label_errors_do_not_depend_on_the_order_of_rows_with_one_probability() -> None:
    """Of 16 predictions with the highest probability, 2 are wrong: first, or after 14 right ones."""
    for wrong in ((0, 1), (14, 15)):
        sure = {row: ((TARGETS[row] + (row in wrong)) % 3, 0.95) for row in range(16)}
        low = {row: ((TARGETS[row] + 1) % 3, 0.4) for row in range(40, 60)}
        assert errors_of([run(seed, sure | low) for seed in (1, 2, 3)]).possible_label_errors == list(wrong)
        many = {row: ((TARGETS[row] + 1) % 3, 0.8) for row in range(40, 70)}
        assert errors_of([run(seed, sure | many) for seed in (1, 2, 3)]).possible_label_errors == []


def test_an_arm_that_is_no_better_than_the_most_frequent_label_finds_no_label_errors() -> None:
    """It predicts b for every text, with the same probability for all."""
    always = [run(seed, dict.fromkeys(range(len(TARGETS)), (1, 0.6))) for seed in (1, 2, 3)]
    found = errors_of(always)
    assert not found.is_above_majority
    assert found.possible_label_errors == []
    assert errors_of([run(seed, {0: (1, 0.95)}) for seed in (1, 2, 3)]).is_above_majority


def test_slices_by_label_and_length_have_counts_and_intervals() -> None:
    runs = [run(seed, dict.fromkeys(range(seed, 20), (1, 0.9))) for seed in (1, 2, 3)]
    found = errors_of(runs)
    by_label = {part.name: part for part in found.slices if part.by == "label"}
    assert {name: part.num_texts for name, part in by_label.items()} == {"a": 40, "b": 40, "c": 40}
    (score,) = by_label["a"].scores
    assert score.mean == pytest.approx(1 - 18 / 40)
    assert score.low is not None
    assert score.high is not None
    assert 0 <= score.low < score.mean < score.high <= 1
    (perfect,) = by_label["b"].scores
    assert perfect.mean == 1.0
    assert perfect.low is not None
    assert perfect.low < 1.0
    lengths = [part for part in found.slices if part.by == "words"]
    assert [part.name for part in lengths] == ["1 to 11", "12 to 21", "22 to 31", "32 to 40"]
    assert sum(part.num_texts for part in lengths) == len(TARGETS)


def test_confusions_have_their_range_over_runs() -> None:
    found = errors_of([run(seed, dict.fromkeys(range(5 * seed), (1, 0.9))) for seed in (1, 2, 3)])
    (row,) = found.confusions
    assert (row.label, row.predicted, row.mean, row.smallest, row.largest, row.num_texts) == ("a", "b", 10, 5, 15, 40)


def test_without_texts_no_text_is_in_the_results() -> None:
    runs = [run(1, {0: (1, 0.9)})]
    assert "secret" in json.dumps([row.text for row in errors_of(runs).errors])
    assert errors_of(runs, with_texts=False).errors[0].text is None


def test_the_primary_arm_is_shown_next_to_the_best_baseline() -> None:
    cells = {("tfidf", 400): [0.7, 0.7, 0.7], ("scratch", 400): [0.6] * 3, ("pretrained", 400): [0.8] * 3}
    found = analyse(synthetic_study(cells)).errors
    assert found is not None
    assert [score.arm for score in found.slices[0].scores] == ["pretrained", "tfidf"]
    assert sum(part.num_texts for part in found.slices) == NUM_TEST
    assert analyse(synthetic_study({("majority", 400): [0.5]})).errors is None


def test_intervals_of_grouped_texts_are_over_groups() -> None:
    def grouped(groups: np.ndarray | None) -> float:
        made = [run(seed, dict.fromkeys(range(10), (1, 0.9))) for seed in (1, 2, 3)]
        for one in made:
            object.__setattr__(one.predictions, "group_ids", groups)
        score = errors_of(made).slices[0].scores[0]
        assert score.low is not None
        assert score.high is not None
        assert score.mean == pytest.approx(0.75)
        return score.high - score.low

    assert grouped(np.arange(len(TARGETS)) // 10) > grouped(None)


def test_confusions_of_many_classes_need_little_memory() -> None:
    size, stream = 4_000, np.random.default_rng(0)
    targets = stream.integers(0, size, 500).astype(np.int32)
    predicted = np.stack([np.where(stream.random(500) < 0.5, targets, 7) for _ in range(3)])
    predicted[:, :20] = 9
    targets[:20] = 8
    tracemalloc.start()
    found = _confusions(predicted, targets, [f"class {number}" for number in range(size)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    assert (found[0].label, found[0].predicted, found[0].mean) == ("class 8", "class 9", 20.0)
