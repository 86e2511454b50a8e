"""Trials: every trained arm tries the same learning rates, and only the best one on validation is scored on test."""

import json
from pathlib import Path
from typing import Any

import pytest

from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import load_predictions
from headswap.study.jobs import trials
from headswap.study.jobs.job import JOBS
from headswap.study.jobs.planned_jobs import Plan
from headswap.study.jobs.trials import TRIAL_RATE_FACTORS, trial_factors
from headswap.study.report.write import write_report
from headswap.study.setup.config import MOST_TRIALS
from headswap.study.statistics.runs import read_study
from headswap.training.runner import StoppedError
from study_fixture import done_here, planned, sections_of, task_sections


def tuned(plan: Plan) -> dict[tuple[str, int], Any]:
    return {(entry.arm, entry.labels): plan.jobs[entry.job] for entry in plan.entries}


def trial_study(tmp_path: Path, **study: Any) -> dict[str, Any]:
    given = {"arms": ("tfidf", "scratch", "frozen"), "seeds": 1, "trials": 3, **study}
    return sections_of(tmp_path, **given)


def result_of(job: Any) -> dict[str, Any]:
    return json.loads((Path(job.folder) / "result.json").read_text(encoding="utf-8"))


def test_every_trained_arm_has_the_same_trials_where_there_is_a_validation_set(tmp_path: Path) -> None:
    jobs = tuned(planned(tmp_path / "out", trial_study(tmp_path))[2])
    assert {cell: job.trials for cell, job in jobs.items()} == {
        ("tfidf", 40): (), ("scratch", 40): (), ("frozen", 40): (),
        ("tfidf", 220): (), ("scratch", 220): (1.0, 0.5, 2.0), ("frozen", 220): (1.0, 0.5, 2.0),
    }  # fmt: skip
    assert trial_factors(3, 150, has_validation=True) == (1.0, 0.5, 2.0)
    assert len(TRIAL_RATE_FACTORS) == MOST_TRIALS


def test_one_trial_makes_the_jobs_of_a_study_without_trials(tmp_path: Path) -> None:
    default = planned(tmp_path / "out", sections_of(tmp_path, arms=("scratch",)))[2]
    one, three = (
        planned(tmp_path / "out", sections_of(tmp_path, arms=("scratch",), trials=number))[2] for number in (1, 3)
    )
    assert set(default.jobs) == set(one.jobs)
    small = {entry.job for entry in default.entries if entry.labels == 40}
    large = {entry.job for entry in default.entries if entry.labels == 220}
    assert small <= set(three.jobs)
    assert large.isdisjoint(three.jobs)


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rates of the runs that are scored on test."""
    found: list[float] = []
    from headswap.finetuning import finetune

    test = finetune._Finetuning._test
    monkeypatch.setattr(
        finetune._Finetuning,
        "_test",
        lambda self, bundle: found.append(self.recipe.training.learning_rate) or test(self, bundle),
    )
    return found


@pytest.mark.usefixtures("no_figures")
def test_the_best_trial_on_validation_is_the_run_and_the_report_lists_all(tmp_path: Path, scored: list[float]) -> None:
    plan = done_here(tmp_path / "out", trial_study(tmp_path, arms=("tfidf", "scratch"), budgets=("220",)))
    job = tuned(plan)["scratch", 220]
    result, folder = result_of(job), Path(job.folder)
    factors = [trial["factor"] for trial in result["trials"]]
    assert factors == [1.0, 0.5, 2.0]
    (chosen,) = [trial for trial in result["trials"] if trial["is_chosen"]]
    assert chosen["validation_score"] == max(trial["validation_score"] for trial in result["trials"])
    assert scored == [chosen["learning_rate"]], "test is scored once, with the chosen rate"
    assert load_recipe(FinetuneRecipe, folder / "recipe.toml").training.learning_rate == chosen["learning_rate"]
    default = result["trials"][0]["learning_rate"]
    assert [trial["learning_rate"] for trial in result["trials"]] == pytest.approx([default, default / 2, default * 2])
    assert not (folder / "trials").exists()
    assert job.is_done
    write_report(read_study(tmp_path / "out"), tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "the same 3 trials per run, its default learning rate times 1, 0.5, 2" in report
    assert f"scratch {chosen['factor']:g} in 1 of 1 runs" in report
    assert "C, selected by cross-validation on all labels of the budget: tfidf" in report


@pytest.mark.parametrize("task", ["multilabel", "tag", "span"])
@pytest.mark.usefixtures("no_figures")
def test_trials_of_other_tasks_are_chosen_by_their_metric(tmp_path: Path, scored: list[float], task: str) -> None:
    given = task_sections(tmp_path / "files", task, arms=("scratch",), budgets=("40", "220"), seeds=1, trials=2)
    given["finetune"] = {"num_train_epochs": 4, "learning_rate": 0.004}
    jobs = tuned(done_here(tmp_path / "out", given))
    job, small = jobs["scratch", 220], jobs["scratch", 40]
    assert (job.trials, small.trials) == ((1.0, 0.5), ())
    result, metric = result_of(job), given["study"]["metric"]
    assert [trial["learning_rate"] for trial in result["trials"]] == pytest.approx([0.004, 0.002])
    best = max(result["trials"], key=lambda trial: trial["validation_score"])
    assert [trial["is_chosen"] for trial in result["trials"]] == [trial is best for trial in result["trials"]]
    assert scored == [0.004, best["learning_rate"]], "40 labels have one run, and 220 labels score one of two"
    lines = [json.loads(line) for line in (Path(job.folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert best["validation_score"][0] == max(line.get(f"eval_{metric}", 0) for line in lines)
    assert load_predictions(Path(job.folder)).scores()[metric] == pytest.approx(result["test"][metric])
    assert job.is_done
    write_report(read_study(tmp_path / "out"), tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "the same 2 trials per run, its default learning rate times 1, 0.5" in report
    assert f"scratch {best['factor']:g} in 1 of 1 runs" in report


def test_a_job_that_was_stopped_in_a_trial_ends_like_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = done_here(tmp_path / "whole", trial_study(tmp_path, arms=("scratch",), budgets=("220",)))
    whole = tuned(plan)["scratch", 220]
    stopped = tuned(planned(tmp_path / "stopped", trial_study(tmp_path, arms=("scratch",), budgets=("220",)))[2])
    job = stopped["scratch", 220]
    for needed in job.needs:
        tokenizer = planned(tmp_path / "stopped", trial_study(tmp_path, arms=("scratch",)))[2].jobs[needed]
        JOBS["tokenizer"](Path(tokenizer.folder), {"sections": tokenizer.sections})
    content = {"arm": job.arm, "sections": job.sections, "trials": job.trials}

    def stop(*_: Any) -> None:
        raise StoppedError("stopped")

    with monkeypatch.context() as patch:  # after the trials, before the chosen one is scored on test
        patch.setattr(trials, "_adopt", stop)
        with pytest.raises(StoppedError):
            JOBS["finetune"](Path(job.folder), content)
    assert not job.is_done
    losing = Path(job.folder) / "trials" / "rate-x0.5" / "result.json"
    losing.write_text("{", encoding="utf-8")  # a trial that is damaged meanwhile is run again
    JOBS["finetune"](Path(job.folder), content)
    assert job.is_done
    ours, theirs = result_of(job), result_of(whole)
    assert ours["test"] == theirs["test"]
    assert ours["trials"] == theirs["trials"]
