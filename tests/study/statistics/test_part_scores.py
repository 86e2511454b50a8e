"""Scores on parts of the test set: per label and per length, with intervals over seeds and texts."""

from pathlib import Path

import numpy as np
import pytest

from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import ValuePredictions, text_ids
from headswap.study.statistics.part_scores import MOST_VALUES, analyse_parts, number_format, value_ranges
from headswap.study.statistics.runs import ScoredRun, StudyRuns

NUM = 90


def study_of(num_labels: int, *, groups: bool = False) -> StudyRuns:
    """Two arms and three seeds; the first label is always right, the others in about 3 of 4 cases."""
    stream = np.random.default_rng(0)
    targets = stream.random((NUM, num_labels)) < 0.4
    ids = text_ids([str(number) for number in range(NUM)])
    group_ids = text_ids([str(number // 3) for number in range(NUM)]) if groups else None
    runs = []
    for arm in ("scratch", "pretrained"):
        for seed in (1, 2, 3):
            predicted = np.where(stream.random(targets.shape) < 0.75, targets, ~targets)
            predicted[:, 0] = targets[:, 0]
            made = LabelSetPredictions(predicted, targets, tuple(f"l{n}" for n in range(num_labels)), ids, group_ids)
            runs.append(ScoredRun(arm, "50", 50, seed, Path(f"{arm}-{seed}"), made, {"seconds": 1.0}, [], "rows"))
    texts = ["word " * (1 + number % 7) for number in range(NUM)]
    return StudyRuns(
        None, runs, ["scratch", "pretrained"], metric="micro_f1", task="multilabel", primary="pretrained", texts=texts
    )


@pytest.mark.parametrize("groups", [False, True])
def test_every_label_and_length_has_a_score_of_the_primary_arm(groups: bool) -> None:
    study = study_of(4, groups=groups)
    found = analyse_parts(study, {})
    assert found is not None
    assert (found.arm, found.num_runs, found.metric) == ("pretrained", 3, "f1")
    by_name = {(part.by, part.name): part for part in found.slices}
    assert set(by_name) >= {("label", f"l{number}") for number in range(4)}
    (perfect,) = by_name["label", "l0"].scores
    assert (perfect.mean, perfect.low) == (1.0, None), "no spread was seen, so no interval is stated"
    (other,) = by_name["label", "l1"].scores
    assert other.low is not None
    assert other.high is not None
    assert other.low < other.mean < other.high
    first = study.runs[0].predictions
    assert isinstance(first, LabelSetPredictions)
    assert by_name["label", "l1"].num_texts == first.targets[:, 1].sum()
    assert sum(part.num_texts for part in found.slices if part.by == "words") == NUM


def test_all_labels_are_listed_the_most_frequent_ones_first() -> None:
    found = analyse_parts(study_of(35), {})
    assert found is not None
    counts = [part.num_texts for part in found.slices if part.by == "label"]
    assert len(counts) == 35
    assert counts == sorted(counts, reverse=True)


def test_a_regression_has_the_mean_absolute_error_per_range_of_values_and_per_length() -> None:
    """Values below 45 are right, the others 2 too high."""
    study, values = study_of(2), np.arange(NUM, dtype=float)
    ids = text_ids([str(number) for number in range(NUM)])
    made = ValuePredictions(np.where(values < 45, values, values + 2), values, ids)
    study.runs = [ScoredRun("scratch", "50", 50, seed, Path(f"{seed}"), made, {}, [], "rows") for seed in (1, 2, 3)]
    study.metric, study.task, study.primary = "pearson", "regress", None
    found = analyse_parts(study, {})
    assert found is not None
    assert found.metric == "mae"
    ranges = [(part.name, part.num_texts, part.scores[0].mean) for part in found.slices if part.by == "value"]
    assert ranges == [("0 to 23", 24, 0.0), ("24 to 45", 22, 2 / 22), ("46 to 67", 22, 2.0), ("68 to 89", 22, 2.0)]
    words = [part for part in found.slices if part.by == "words"]
    assert sum(part.num_texts for part in words) == NUM
    assert all(part.scores[0].high is not None and part.scores[0].high > 1 for part in words), "an error has no limit"


def test_a_regression_keeps_the_values_of_one_run_at_rows_of_equal_distance() -> None:
    study, size = study_of(2), 4 * MOST_VALUES
    values, ids = np.arange(size, dtype=float), text_ids([str(number) for number in range(size)])
    study.texts = None
    study.runs = [
        ScoredRun("scratch", "50", 50, seed, Path(f"{seed}"), ValuePredictions(values + seed, values, ids), {}, [], "")
        for seed in (2, 3)
    ]
    study.metric, study.task, study.primary = "r2", "regress", None
    found = analyse_parts(study, {})
    assert found is not None
    assert found.predicted is not None
    kept = found.predicted
    assert (kept.seed, len(kept.rows), kept.rows[0], kept.rows[-1]) == (2, MOST_VALUES, 0, size - 1)
    assert list(kept.targets) == list(kept.rows)
    assert list(kept.values) == [row + 2.0 for row in kept.rows]


def test_equal_values_are_one_range() -> None:
    assert [name for name, _ in value_ranges(np.array([0.0] * 8 + [2.5, 5.0]))] == ["0", "2.5 to 5"]


def test_errors_in_the_unit_of_the_labels_have_the_interval_of_their_spread() -> None:
    """One label far from the others must not widen the intervals of all parts."""
    stream = np.random.default_rng(0)
    targets = np.append(stream.uniform(10, 50, 199), 2_000.0)
    ids = text_ids([str(number) for number in range(200)])
    runs = [
        ScoredRun("scratch", "50", 50, seed, Path(str(seed)),
                  ValuePredictions(targets + stream.normal(size=200), targets, ids), {"seconds": 1.0}, [], "rows")
        for seed in (1, 2, 3)
    ]  # fmt: skip
    study = StudyRuns(None, runs, ["scratch"], metric="r2", task="regress", primary="scratch")
    found = analyse_parts(study, {})
    assert found is not None
    (score,) = found.slices[1].scores
    assert score.low is not None
    assert score.high is not None
    assert score.high - score.low < 0.8


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1_000.1, 1_000.2, 1_000.3, 1_000.4], ["1,000.1", "1,000.2", "1,000.3", "1,000.4"]),
        ([123_411.6, 123_415.8, 123_500.0], ["123,411.6", "123,415.8", "123,500"]),
        ([0.00001, 0.00002, 0.00004], ["0.00001", "0.00002", "0.00004"]),
        ([1e-12, 3e-12], ["1e-12", "3e-12"]),
        ([1.0, 5.0], ["1", "5"]),
        ([2.5, 2.5], ["2.5", "2.5"]),
    ],
)
def test_numbers_of_a_range_have_different_names(values: list[float], names: list[str]) -> None:
    assert list(map(number_format(values), values)) == names
