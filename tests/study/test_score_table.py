"""Scores, paired comparisons and label worth, computed from predictions alone."""

from pathlib import Path

import numpy as np
import pytest

from headswap.study.analysis import analyse
from headswap.study.runs import read_study
from study_fixture import (
    scored_run,
    synthetic_study,
)


def test_scores_are_computed_from_predictions() -> None:
    found = analyse(synthetic_study({("scratch", 400): [0.80, 0.70, 0.75]}))
    (cell,) = found.cells
    assert cell.values == {1: 0.80, 2: 0.70, 3: 0.75}
    assert cell.mean_macro_f1 == pytest.approx(0.75, abs=0.01)
    assert cell.test_low < 0.75 < cell.test_high
    assert found.details[0].ece == pytest.approx(0.15, abs=1e-9), "confidence .9, accuracy .75"


def test_runs_on_different_labels_are_not_paired() -> None:
    runs = synthetic_study({("scratch", 400): [0.80, 0.70, 0.75]})
    runs.runs += [scored_run("pretrained", 400, seed, 0.9, rows="others") for seed in (1, 2, 3)]
    runs.arms.append("pretrained")
    assert analyse(runs).comparisons == []


def test_equal_differences_of_one_text_are_not_significant() -> None:
    cells = {("tfidf", 400): [0.801, 0.801, 0.801], ("pretrained", 400): [0.800, 0.800, 0.800]}
    (row,) = analyse(synthetic_study(cells)).comparisons
    assert row.verdict == "none"
    assert row.p > 0.05
    assert row.low < 0 < row.high
    assert row.seeds_needed is not None


def test_only_seeds_of_both_arms_are_paired() -> None:
    runs = synthetic_study({("scratch", 400): [0.80, 0.70, 0.75, 0.76], ("pretrained", 400): [0.81, 0.71, 0.77]})
    (row,) = analyse(runs).comparisons
    assert row.count == 3


def test_the_permutation_test_needs_eight_seeds() -> None:
    values = [0.7 + 0.001 * number for number in range(8)]
    cells = {("scratch", 400): values, ("pretrained", 400): [value + 0.05 for value in values]}
    (row,) = analyse(synthetic_study(cells)).comparisons
    assert row.p_permutation == 2 / 2**8
    few = {name: values[:5] for name, values in cells.items()}
    assert analyse(synthetic_study(few)).comparisons[0].p_permutation is None


def test_intervals_of_scores_are_clipped_to_0_and_1(study_copy: Path) -> None:
    runs = read_study(study_copy)
    for number, run in enumerate(run for run in runs.runs if run.arm == "scratch"):
        run.predictions.probabilities[:] = np.eye(2)[
            run.predictions.targets if number % 3 else 1 - run.predictions.targets
        ]
    cells = [cell for cell in analyse(runs).cells if cell.arm == "scratch"]
    assert all((cell.low, cell.high) == (0.0, 1.0) for cell in cells), cells
