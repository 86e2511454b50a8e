"""Learning rates and commands of the methods section."""

from pathlib import Path

from headswap.study.report.methods import commands, methods
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from study_fixture import (
    runs_of,
    synthetic_study,
)


def test_the_learning_rates_of_every_arm_are_stated(finished_study: Path) -> None:
    (sentence,) = [sentence for sentence in methods(read_study(finished_study)) if "Learning rates" in sentence]
    assert "scratch 0.00085; pretrained 0.0017, times 0.8 per layer downwards, times 10 for the head." in sentence


def test_the_command_of_a_comparison_names_existing_runs(finished_study: Path) -> None:
    names = [f"{arm}-220-seed{seed}-" for arm in ("scratch", "pretrained") for seed in (1, 2, 3)]
    command = commands(add_baselines(read_runs(runs_of(finished_study, *names))))
    folders = command.removeprefix("headswap compare ").split()
    assert len(folders) == 6
    assert all(Path(folder).is_dir() for folder in folders)


def test_an_arm_that_held_nothing_out_where_others_did_is_named() -> None:
    study = synthetic_study({(arm, labels): [0.8] for arm in ("scratch", "box") for labels in (100, 400, 1600)})
    for run in study.runs:
        run.result["num_validation"] = run.labels // 5 if run.labels >= 200 and run.arm != "scratch" else 0
    (sentence,) = [sentence for sentence in methods(study) if "held no labels out" in sentence]
    assert sentence.startswith("scratch held no labels out at 400 and 1,600 labels: ")
