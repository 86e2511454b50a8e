"""Scores, paired comparisons and label worth, computed from predictions alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import read_study
from study_fixture import (
    scored_run,
    synthetic_study,
)


def test_scores_are_computed_from_predictions() -> None:
    found = analyse(synthetic_study({("scratch", 400): [0.80, 0.70, 0.75]}))
    (cell,) = found.cells
    assert cell.values == {1: 0.80, 2: 0.70, 3: 0.75}
    assert cell.mean_macro_f1 == pytest.approx(0.75, abs=0.01)
    assert cell.low < 0.75 < cell.high
    assert cell.over == "seeds and texts"
    assert found.details[0].ece == pytest.approx(0.15, abs=1e-9), "confidence .9, accuracy .75"


def test_runs_of_a_comparison_on_different_labels_are_not_paired() -> None:
    runs = synthetic_study({("scratch", 400): [0.80, 0.70, 0.75]})
    runs.runs += [scored_run("pretrained", 400, seed, 0.9, rows="others") for seed in (1, 2, 3)]
    runs.arms.append("pretrained")
    assert analyse(runs).comparisons == []


def test_arms_of_a_study_are_paired_although_scratch_holds_nothing_out() -> None:
    """The training sets differ by the held-out part; the labels of the budget are the same."""
    runs = synthetic_study({("scratch", 400): [0.80, 0.70, 0.75], ("scratch", 100): [0.6, 0.6, 0.61]})
    runs.runs += [scored_run("box", 400, seed, 0.9, rows="four fifths") for seed in (1, 2, 3)]
    runs.runs += [scored_run("box", 100, seed, 0.8) for seed in (1, 2, 3)]
    runs.arms.append("box")
    runs.recipe, runs.primary = StudyRecipe(), "box"
    found = analyse(runs)
    assert [(row.arm, row.other, row.labels) for row in found.comparisons] == [
        ("box", "scratch", 100), ("box", "scratch", 400)
    ]  # fmt: skip
    assert found.overall is not None
    assert found.overall.budgets == [100, 400]


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


def test_the_interval_is_over_texts_as_well_as_seeds() -> None:
    """All seeds have the same predictions: the t test over seeds would be certain."""
    runs = synthetic_study({("scratch", 400): [0.70] * 3})
    runs.runs = [scored_run("scratch", 400, 1, 0.70, rows=str(seed)) for seed in (1, 2, 3)]
    runs.runs = [replace(run, seed=seed) for seed, run in enumerate(runs.runs, 1)]
    runs.runs += [
        replace(scored_run("pretrained", 400, 9, 0.72, rows=str(seed)), seed=seed, folder=Path(f"p{seed}"))
        for seed in (1, 2, 3)
    ]
    runs.arms.append("pretrained")
    (row,) = analyse(replace(runs, primary="pretrained")).comparisons
    assert row.mean == pytest.approx(0.02)
    assert row.low == pytest.approx(0.02 - 1.96 * np.sqrt(2 * 0.7 * 0.3 / 1_000), abs=0.004)
    assert row.verdict == "none"


def test_families_are_corrected_apart() -> None:
    cells = {
        (arm, labels): [value, value + 0.01, value - 0.01]
        for arm, value in (("tfidf", 0.6), ("scratch", 0.5), ("pretrained", 0.7), ("lora", 0.7), ("frozen", 0.6))
        for labels in (100, 400)
    }
    found = analyse(synthetic_study(cells))
    sizes = {row.family: row.num_comparisons for row in found.comparisons}
    assert sizes == {"scratch": 2, "baseline": 2, "exploratory": 10}
    assert {row.arm for row in found.comparisons if row.family != "exploratory"} == {"pretrained"}
    assert found.error_rate == pytest.approx(0.15), "overall, against scratch, against the best baseline"
    other = analyse(synthetic_study(cells, primary="lora"))
    assert {row.arm for row in other.comparisons if row.family != "exploratory"} == {"lora"}


def test_the_primary_arm_is_also_tested_against_existing_bases_without_a_change_of_the_planned_families() -> None:
    arms = {"tfidf": 0.6, "scratch": 0.5, "pretrained": 0.7, "linear:box": 0.6}
    more = {"box": 0.65, "adapted": 0.72, "adapted:box:mine": 0.7, "hf:mini": 0.7}

    def planned_and_others(primary: str, levels: dict[str, float]) -> tuple[list[object], set[tuple[str, str]]]:
        cells = {(arm, 100): [level, level + 0.01, level - 0.01] for arm, level in levels.items()}
        rows = analyse(synthetic_study(cells, primary=primary)).comparisons
        exploratory = {(row.arm, row.other) for row in rows if row.family == "exploratory" and row.arm == primary}
        return [row for row in rows if row.family != "exploratory"], exploratory

    before, none = planned_and_others("pretrained", arms)
    after, found = planned_and_others("pretrained", arms | more)
    assert none == set()
    assert found == {("pretrained", base) for base in more}, "linear:box is not fine-tuned"
    assert before == after
    assert len(before) == 2
    _, of_box = planned_and_others("box", arms | more)
    assert of_box == {("box", base) for base in more if base != "box"}


def test_the_best_baseline_is_chosen_by_cross_validation_not_by_test() -> None:
    cells = {("majority", 100): [0.7] * 3, ("tfidf", 100): [0.5, 0.51, 0.49], ("pretrained", 100): [0.8, 0.81, 0.79]}
    runs = synthetic_study(cells)
    for run in runs.runs:
        if run.arm in ("majority", "tfidf"):
            run.result["cross_validation"] = {"majority": 0.55, "tfidf": 0.6}[run.arm]
    found = analyse(runs)
    assert found.baselines == {100: "tfidf"}
    assert [(row.arm, row.other) for row in found.comparisons] == [("pretrained", "tfidf")]
    for run in runs.runs:
        if run.arm == "majority":
            run.result["cross_validation"] = 0.65
    assert analyse(runs).baselines == {100: "majority"}


def test_a_constant_baseline_without_a_score_is_not_the_best_one() -> None:
    scores = [0.7, 0.71, 0.72]
    study = synthetic_study({(arm, 100): scores for arm in ("majority", "tfidf", "lsa", "scratch", "pretrained")})
    for run in study.runs:
        if run.arm in ("tfidf", "lsa"):
            run.result["cross_validation"] = {"tfidf": 0.8, "lsa": 0.6}[run.arm]
    assert analyse(study).baselines == {100: "tfidf"}


def test_with_three_bases_the_test_is_over_means_per_base() -> None:
    gains = [0.10, 0.10, 0.02, 0.02, 0.06, 0.06]
    cells = {("scratch", 400): [0.7] * 6, ("pretrained", 400): [0.7 + gain for gain in gains]}
    runs = synthetic_study(cells)
    (over_seeds,) = analyse(runs).comparisons
    runs.runs = [
        replace(run, base=f"base {(run.seed - 1) // 2}") if run.arm == "pretrained" else run for run in runs.runs
    ]
    (over_bases,) = analyse(runs).comparisons
    assert (over_seeds.num_bases, over_bases.num_bases) == (None, 3)
    assert over_bases.mean == pytest.approx(over_seeds.mean)
    assert over_bases.high - over_bases.low > 2 * (over_seeds.high - over_seeds.low)
    half = stats.t.ppf(0.975, 2) * np.std([0.10, 0.02, 0.06], ddof=1) / np.sqrt(3)
    assert over_bases.high - over_bases.mean == pytest.approx(half, rel=0.05)


def test_with_three_bases_label_worth_and_catch_up_are_over_means_per_base() -> None:
    """Two seeds per base with the same gain are no two observations of the gain."""
    gains = [0.12, 0.12, 0.08, 0.08, 0.10, 0.10]
    cells = {("scratch", labels): [level] * 6 for labels, level in ((100, 0.6), (400, 0.7), (1_600, 0.8))}
    cells |= {("pretrained", labels): [0.6 + gain for gain in gains] for labels in (100, 400, 1_600)}
    runs = synthetic_study(cells)
    over_seeds = analyse(runs)
    runs.runs = [
        replace(run, base=f"base {(run.seed - 1) // 2}") if run.arm == "pretrained" else run for run in runs.runs
    ]
    over_bases = analyse(runs)
    (seeds,), (bases,) = (
        [row for row in one.label_worth if (row.labels, row.other) == (100, "scratch")]
        for one in (over_seeds, over_bases)
    )
    assert bases.times == pytest.approx(seeds.times)
    assert (seeds.count, bases.count) == (6, 6)
    assert np.log(bases.high / bases.low) > 1.5 * np.log(seeds.high / seeds.low)
    (of_seeds,), (of_bases,) = over_seeds.catch_up, over_bases.catch_up
    assert of_bases.labels == pytest.approx(of_seeds.labels)
    assert of_bases.low < of_seeds.low < of_seeds.high < of_bases.high


def test_without_a_significant_gain_at_the_smallest_budget_no_catch_up_is_stated() -> None:
    """The interval of an exploratory gain can be above 0 although the test is not significant after correction."""
    low = [0.60, 0.61, 0.59]
    cells = {(arm, labels): low for arm in ("scratch", "tfidf", "pretrained") for labels in (100, 400)}
    cells |= {("box", labels): [0.66, 0.69, 0.655] for labels in (100, 400)}
    found = analyse(synthetic_study(cells))
    (gain,) = [row for row in found.comparisons if (row.arm, row.other, row.labels) == ("box", "scratch", 100)]
    assert gain.low > 0
    assert gain.verdict != "better"
    assert found.catch_up == []


def test_two_seeds_have_an_interval_over_texts_and_no_verdict() -> None:
    found = analyse(synthetic_study({("scratch", 400): [0.7, 0.71], ("pretrained", 400): [0.9, 0.92]}))
    assert all(cell.over == "texts" and cell.low < cell.mean < cell.high for cell in found.cells)
    assert [row.verdict for row in found.comparisons] == ["no claim"]


def test_the_majority_class_has_no_interval() -> None:
    found = analyse(synthetic_study({("majority", 400): [0.5] * 3, ("tfidf", 400): [0.6, 0.61, 0.62]}))
    assert [cell.low is None for cell in found.cells] == [True, False]


def test_intervals_of_scores_are_clipped_to_0_and_1(study_copy: Path) -> None:
    runs = read_study(study_copy)
    for number, run in enumerate(run for run in runs.runs if run.arm == "scratch"):
        run.predictions.probabilities[:] = np.eye(2)[
            run.predictions.targets if number % 3 else 1 - run.predictions.targets
        ]
    cells = [cell for cell in analyse(runs).cells if cell.arm == "scratch"]
    assert all((cell.low, cell.high) == (0.0, 1.0) for cell in cells), cells


def test_bases_with_more_runs_weigh_more_so_that_all_tables_have_one_mean() -> None:
    cells = {("scratch", 400): [0.7] * 5, ("pretrained", 400): [0.9, 0.9, 0.6, 0.9, 0.9]}
    study = synthetic_study(cells)
    of_seed = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}
    study.runs = [replace(run, base=of_seed[run.seed]) if run.arm == "pretrained" else run for run in study.runs]
    results = analyse(study)
    cell = next(cell for cell in results.cells if cell.arm == "pretrained")
    assert cell.mean == pytest.approx(np.mean(list(cell.values.values())))
    assert cell.mean == pytest.approx(cell.mean_accuracy)
    (row,) = results.comparisons
    assert row.num_bases == 3
    assert row.mean == pytest.approx(cell.mean - 0.7)
