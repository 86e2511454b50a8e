"""The count of demos that show a gain: disjoint blocks of seeds, each with the planned tests of a report."""

from dataclasses import replace
from pathlib import Path

import demo_blocks
import pytest
from demo_blocks import analysed, blocks_of, print_blocks

from headswap.cli.verbs.demo import SEEDS
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import StudyRuns
from study_fixture import synthetic_study

LEVELS = {"tfidf": 0.6, "scratch": 0.55, "box": 0.7}


@pytest.fixture
def study() -> StudyRuns:
    """Nine seeds; in the last three, the installed base is not better than TF-IDF."""
    shifts = [0.0, 0.01, -0.01] * 3
    cells = {
        (arm, labels): [level + labels / 10_000 + shift for shift in shifts]
        for arm, level in LEVELS.items()
        for labels in (100, 400)
    }
    for labels in (100, 400):
        cells["tfidf", labels][6:] = cells["box", labels][6:]
    return synthetic_study(cells)


def test_the_blocks_are_disjoint_and_have_no_seed_of_the_demo() -> None:
    blocks = blocks_of(10, SEEDS)
    seeds = [seed for block in blocks for seed in block]
    assert len(blocks) == 10
    assert len(set(seeds)) == len(seeds) == 10 * SEEDS
    assert min(seeds) == SEEDS + 1


def test_a_block_has_the_planned_tests_of_a_report_of_its_seeds(study: StudyRuns) -> None:
    block = analysed(study, (4, 5, 6))
    alone = analyse(replace(study, runs=[run for run in study.runs if run.seed in (4, 5, 6)]))
    assert block is not None
    assert block.overall == alone.overall
    assert block.comparisons == alone.comparisons
    assert [test.verdict for test in block.tests] == ["better"] * 5


def test_the_counts_are_of_blocks_whose_planned_tests_show_a_gain(
    study: StudyRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [analysed(study, seeds) for seeds in blocks_of(2, 3)]
    print_blocks([block for block in found if block is not None])
    printed = capsys.readouterr().out.splitlines()
    assert "box - scratch, mean: shown in 2 of 2" in printed
    assert "box - best baseline, 400 labels: shown in 1 of 2" in printed
    assert "scratch on average and best baseline per budget: shown in 1 of 2" in printed
    assert printed[-1] == "all planned tests: shown in 1 of 2"


def test_blocks_with_missing_runs_or_seeds_that_were_never_planned_are_not_counted(
    study: StudyRuns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study.runs.remove(study.by_seed("box", 400)[8])
    monkeypatch.setattr(demo_blocks, "read_study", lambda _: study)
    demo_blocks.main(out=Path("study"), blocks=10, seeds=3, report_only=True)
    printed = capsys.readouterr().out
    assert "shown in 1 of 1" in printed
    assert "9 of 10 blocks are not finished" in printed


def test_more_seeds_show_a_difference_more_often(
    study: StudyRuns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_blocks, "read_study", lambda _: study)
    demo_blocks.design(out=Path("study"), seeds=(3, 8), draws=20, handicap=0.12)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "box - scratch, 100 labels: 15.0 points, standard deviation 0.0 over 5 seeds"
    few, many = (int(line.partition("%")[0].split()[-1]) for line in printed[2:4])
    assert few < many
