"""The arm lsa: its space of texts is fitted once per study, on the corpus alone, and is checked like a base."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headswap.baselines.lsa_space import ARRAYS, WORDS, TextSpace
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.job import run_job
from headswap.study.jobs.planned_jobs import Job, Plan
from headswap.study.report.methods import methods
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import read_study
from headswap.tokens.store import META_FILE
from study_fixture import done_here, planned, sections_of, synthetic_study


def of_kind(plan: Plan, kind: str) -> list[Job]:
    return [job for job in plan.jobs.values() if job.kind == kind]


def with_text(file: str, text: str, **row: str) -> None:
    with Path(file).open("a", encoding="utf-8") as handle:
        handle.write(json.dumps({"text": text, **row}) + "\n")


def test_one_space_is_planned_for_all_budgets_and_seeds(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("tfidf", "lsa"))
    _, _, plan = planned(tmp_path / "a", given)
    (space,) = of_kind(plan, "space")
    lsa = [job for job in of_kind(plan, "baseline") if job.arm == "lsa"]
    assert len(lsa) == 6
    assert all(job.needs == (space.id,) for job in lsa)
    assert space.digests.keys() == {"corpus"}, "no labelled set is read"
    assert next(iter(plan.jobs.values())) == space
    with_text(given["study"]["corpus"][0], "another document of the corpus")
    _, _, other = planned(tmp_path / "b", given)
    kept = plan.jobs.keys() & other.jobs.keys()
    assert {plan.jobs[id].arm for id in kept} == {"tfidf"}, "another corpus is another space"


def test_the_space_does_not_depend_on_the_test_set_and_has_no_word_of_it(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("lsa",), budgets=("40",), seeds=1)
    before = of_kind(planned(tmp_path / "a", given)[2], "space")[0].id
    with_text(given["data"]["test"], "a secretword film of the story", label="pos")
    changed = planned(tmp_path / "b", given)[2]
    assert of_kind(changed, "space")[0].id == before
    for number in range(3):  # test texts in the corpus are dropped before anything is fitted
        with_text(given["study"]["corpus"][0], "a secretword film of the story" + " " * number)
    plan = done_here(tmp_path / "c", given)
    folder = Path(of_kind(plan, "space")[0].folder)
    words = json.loads((folder / WORDS).read_text(encoding="utf-8"))
    assert "secretword" not in words
    assert {"film", "story"} <= set(words)


def test_a_study_has_the_arm_in_its_table_and_among_the_baselines(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("majority", "tfidf", "nbsvm", "lsa"), budgets=("40",), seeds=3)
    plan = done_here(tmp_path / "out", given)
    study = read_study(tmp_path / "out")
    found = analyse(study)
    assert [(cell.arm, cell.count) for cell in found.cells] == [
        ("majority", 3), ("tfidf", 3), ("nbsvm", 3), ("lsa", 3)
    ]  # fmt: skip
    assert found.baselines.keys() == {40}
    runs = {run.arm: run for run in study.runs}
    assert all(run.result["cross_validation"] is not None for run in runs.values())
    space = TextSpace.load(Path(of_kind(plan, "space")[0].folder))
    assert runs["lsa"].result["space"] == space.fingerprint
    assert runs["lsa"].result["features"] in ("lsa", "lsa and tfidf")
    sentences = " ".join(methods(study))
    assert "LSA: TF-IDF of the words of the corpus" in sentences
    assert "NB-SVM" in sentences


def test_the_best_baseline_is_chosen_among_all_of_them() -> None:
    arms = ("majority", "tfidf", "nbsvm", "lsa", "pretrained")
    study = synthetic_study({(arm, 100): [0.7, 0.71, 0.72] for arm in arms})
    held_out = {"majority": 0.5, "tfidf": 0.6, "nbsvm": 0.62, "lsa": 0.61}
    for run in study.runs:
        if run.arm in held_out:
            run.result["cross_validation"] = held_out[run.arm]
    assert analyse(study).baselines == {100: "nbsvm"}
    for run in study.runs:
        if run.arm == "lsa":
            run.result["cross_validation"] = 0.63
    found = analyse(study)
    assert found.baselines == {100: "lsa"}
    assert [(row.arm, row.other) for row in found.comparisons if row.family == "baseline"] == [("pretrained", "lsa")]


def run_here(plan: Plan) -> None:
    """Run the jobs that are not done in this process."""
    for job in plan.jobs.values():
        run_job(json.loads(json.dumps(vars(job), default=list)))


def test_a_study_that_is_resumed_or_extended_does_not_fit_the_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []
    fit = TextSpace.fit
    monkeypatch.setattr(TextSpace, "fit", lambda texts: fits.append(1) or fit(texts))
    given = sections_of(tmp_path, arms=("lsa",), budgets=("40",), seeds=1)
    run_here(planned(tmp_path / "out", given)[2])
    given["study"] |= {"seeds": 2, "budgets": ("40", "80")}
    plan = planned(tmp_path / "out", given)[2]
    assert sum(job.is_done for job in plan.jobs.values()) == 2, "the space and the first run"
    run_here(plan)
    assert all(job.is_done for job in plan.jobs.values())
    assert fits == [1]


def test_a_damaged_space_is_fitted_again_and_a_baseline_of_another_space_too(tmp_path: Path) -> None:
    plan = planned(tmp_path / "out", sections_of(tmp_path, arms=("lsa",), budgets=("40",), seeds=1))[2]
    (space,), (baseline,) = of_kind(plan, "space"), of_kind(plan, "baseline")
    run_here(plan)
    assert space.is_done
    assert baseline.is_done
    arrays = Path(space.folder) / ARRAYS
    arrays.write_bytes(arrays.read_bytes()[:-50])
    assert space.damage is not None
    run_here(plan)
    assert baseline.is_done, "the same corpus gives the same space"
    other = TextSpace.fit(["other words", "other texts"])[0]
    result = Path(space.folder) / "result.json"
    result.write_text(json.dumps(json.loads(result.read_text()) | {"fingerprint": other.fingerprint}))
    (Path(space.folder) / "manifest.json").unlink()
    assert "fitted in another space of texts" in str(baseline.damage)


def store_at(folder: Path) -> str:
    folder.mkdir()
    (folder / META_FILE).write_text("{}")
    return str(folder)


def test_a_token_store_has_no_texts_so_the_default_arm_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    store = store_at(tmp_path / "store")
    recipe = with_default_arms(load_recipe(StudyRecipe, None, {"study": {"corpus": (store,)}}))
    assert recipe.study.arms == ("majority", "tfidf", "scratch", "pretrained")
    assert f"The arm lsa is left out: {store} is a token store, which has no texts." in caplog.messages
    assert [arm.name for arm in read_arms(recipe)] == ["majority", "tfidf", "scratch", "pretrained"]
    with pytest.raises(SettingError, match=r"The arm 'lsa' needs a corpus of text files: .* which has no texts"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"corpus": (store,), "arms": ("lsa", "pretrained")}}))


def test_without_a_corpus_it_cannot_be_fitted() -> None:
    with pytest.raises(SettingError, match="The arm 'lsa' needs a corpus to be fitted on"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": ("lsa", "tfidf")}}))


def test_predictions_of_the_arm_are_the_same_in_another_study(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("lsa",), budgets=("40",), seeds=1)
    found = []
    for name in ("a", "b"):
        done_here(tmp_path / name, given)
        found.append(read_study(tmp_path / name).runs[0].predictions.probabilities)
    assert np.array_equal(*found)


def test_the_time_of_the_space_is_estimated_and_bounded_for_a_large_corpus(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path, arms=("lsa",), budgets=("40",), seeds=1))
    (space,) = of_kind(plan, "space")
    small, large = (Estimator(None, replace(prepared, corpus_bytes=size)).seconds(space) for size in (10**6, 10**12))
    assert 0 < small < large < 60
