"""The arm `consistency`: fine-tuning with texts without labels, which are drawn once per study."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boxed import Box, tiny_base
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.data.records import Document
from headswap.finetuning import consistency
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.job import run_job
from headswap.study.jobs.planned_jobs import Job, Plan
from headswap.study.report.caveats import caveats
from headswap.study.report.findings import describe_arm
from headswap.study.report.write import write_report
from headswap.study.setup.arm_bases import is_adapted, is_from_box
from headswap.study.setup.arms import read_arms, saved_name
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.setup.unlabelled_sample import FILE
from headswap.study.statistics.runs import read_study
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import done_here, planned, sections_of

ONE = {"budgets": ("220",), "seeds": 1}
PROBE = {
    "step_seconds": 0.01, "tokens_a_step": 100, "score_seconds": 1e-3, "bytes_a_token": 4, "num_parameters": 1000,
    "num_embedding_parameters": 500, "max_length": 24, "device": "CPU",
}  # fmt: skip


@pytest.fixture
def base(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("reviews-en-2", str(folder))
    return folder


def arm_of(name: str, **study: Any) -> Any:
    recipe = load_recipe(StudyRecipe, None, {"study": {"corpus": ("c.txt",), "arms": name, **study}})
    (found,) = read_arms(with_default_arms(recipe))
    return found


def kind_of(plan: Plan, kind: str) -> list[Job]:
    return [job for job in plan.jobs.values() if job.kind == kind]


def tuned(plan: Plan, arm: str) -> list[Job]:
    return [job for job in kind_of(plan, "finetune") if job.arm == arm]


def rows_of(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]


def test_without_a_name_the_base_is_that_of_adapted(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    arm = arm_of("consistency", primary_arm="consistency")
    assert (arm.name, arm.start, arm.bundle) == ("consistency:adapted", "adapted", "box:reviews-en-2")
    assert "The arm consistency is consistency:adapted." in caplog.text
    assert is_adapted(arm.name)
    assert is_from_box(arm.name)
    assert describe_arm(arm.name) == f"{describe_arm('adapted')}, with consistency training on texts without labels"


@pytest.mark.usefixtures("box")
def test_without_an_installed_base_it_is_the_pre_trained_one(caplog: pytest.LogCaptureFixture) -> None:
    arm = arm_of("consistency")
    assert (arm.name, arm.start, arm.is_consistent) == ("consistency:pretrained", "base", True)
    assert "The arm consistency is consistency:pretrained: box:reviews-en-2 cannot be used" in caplog.text
    with pytest.raises(SettingError, match="The arm 'consistency:pretrained' needs a corpus to pre-train on"):
        arm_of("consistency", corpus=())


def test_another_base_follows_the_colon(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert arm_of(f"consistency:{base}").name == "consistency:made"
    assert arm_of(f"consistency:adapted:{base}").start == "adapted"
    assert arm_of("consistency:box").bundle == "box:reviews-en-2"
    for wrong in ("scratch", "tfidf", "frozen", "linear", "consistency:box"):
        with pytest.raises(SettingError, match="after consistency: comes a base"):
            arm_of(f"consistency:{wrong}")
    with pytest.raises(SettingError, match="after linear: comes a base"):
        arm_of("linear:consistency:box")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert saved_name(f"consistency:adapted:{base}") == "consistency:adapted:~/made"


@pytest.mark.usefixtures("base")
def test_bases_and_the_sample_of_texts_are_shared(tmp_path: Path) -> None:
    arms = ("adapted", "consistency:adapted", "consistency:pretrained", "pretrained", "consistency:box")
    plan = planned(tmp_path / "out", sections_of(tmp_path, arms=arms, base_seeds=2))[2]
    assert (len(kind_of(plan, "adapt")), len(kind_of(plan, "pretrain"))) == (2, 2)
    (sample,) = kind_of(plan, "sample")
    assert all(sample.id in job.needs for arm in arms[1:3] for job in tuned(plan, arm))
    assert all(job.needs == (sample.id,) and job.made_base is None for job in tuned(plan, "consistency:box"))
    assert not any(sample.id in job.needs for job in tuned(plan, "adapted"))
    order = list(plan.jobs)
    assert all(order.index(need) < order.index(job.id) for job in plan.jobs.values() for need in job.needs)


@pytest.mark.usefixtures("base")
def test_jobs_are_named_by_the_texts_and_the_other_arms_stay_the_same(tmp_path: Path) -> None:
    arms = ("scratch", "box", "consistency:box")
    found = sections_of(tmp_path, arms=arms, **ONE)
    plan = planned(tmp_path / "first", found)[2]
    again = planned(tmp_path / "again", found)[2]
    assert list(plan.jobs) == list(again.jobs)
    corpus = Path(found["study"]["corpus"][0])
    corpus.write_text(corpus.read_text() + json.dumps({"text": "one more text"}) + "\n", encoding="utf-8")
    changed = planned(tmp_path / "changed", found)[2]
    ids = {arm: ([job.id for job in tuned(plan, arm)], [job.id for job in tuned(changed, arm)]) for arm in arms[1:]}
    assert ids["box"][0] == ids["box"][1]
    assert ids["consistency:box"][0] != ids["consistency:box"][1]
    without = planned(tmp_path / "without", sections_of(tmp_path, arms=arms[:2], **ONE))[2]
    assert set(without.jobs) <= set(plan.jobs)


@pytest.mark.usefixtures("base", "no_figures")
def test_the_arm_reads_corpus_and_training_texts_and_is_reported(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = sections_of(tmp_path, arms=("majority", "scratch", "consistency:box"), **ONE)
    plan = done_here(out, found)
    (sample,), (job,) = kind_of(plan, "sample"), tuned(plan, "consistency:box")
    texts = rows_of(Path(sample.folder) / FILE)
    assert set(texts) == {*rows_of(Path(found["study"]["corpus"][0])), *rows_of(Path(found["data"]["train"]))}
    assert len(texts) == 150 + 240
    assert set(texts).isdisjoint(rows_of(Path(found["data"]["test"])))
    result = json.loads((Path(job.folder) / "result.json").read_text())
    assert result["unlabelled"] == {"rows": len(texts) - result["num_validation"], "turned_off": False}
    assert all(one.is_done for one in plan.jobs.values())
    results = write_report(read_study(out), out).results
    written = json.loads((out / "results.json").read_text())["consistency"]
    assert written == [{
        "arm": "consistency:box", "labels": 220, "seed": 1, "num_texts": len(texts) - 44, "turned_off": False,
    }]  # fmt: skip
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "The texts are all 390 texts of the corpus and the training set" in report
    assert "turned off" not in report
    off = replace(results, consistency=[replace(results.consistency[0], turned_off=True)])
    assert any("turned off in 1 of 1 run (220 labels: 1)" in sentence for sentence in caveats(off))


@pytest.mark.usefixtures("base")
def test_a_damaged_sample_is_drawn_again_with_the_same_texts(tmp_path: Path) -> None:
    plan = planned(tmp_path / "out", sections_of(tmp_path, arms=("consistency:box",), **ONE))[2]
    (sample,) = kind_of(plan, "sample")
    content = json.loads(json.dumps(sample.__dict__, default=list))
    run_job(content)
    file = Path(sample.folder) / FILE
    first = file.read_bytes()
    assert sample.is_done
    file.write_bytes(first[:-40])
    assert not sample.is_done
    (tmp_path / "out" / "logs").mkdir(exist_ok=True)
    run_job(content)
    assert (sample.is_done, file.read_bytes()) == (True, first)


def test_a_large_number_of_texts_is_sampled_with_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "MOST_TEXTS", 20)
    documents = [Document(f"text {number}", "file", number) for number in range(500)]
    samples = [[one.text for one in consistency.sample_documents(documents, seed=seed)] for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]
    assert len(set(samples[0])) == 20


@pytest.mark.usefixtures("base")
def test_the_estimate_counts_both_views_of_the_unlabelled_texts(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path, arms=("box", "consistency:box"), **ONE))
    estimator = Estimator(PROBE, prepared)
    (alone,), (both,) = tuned(plan, "box"), tuned(plan, "consistency:box")
    steps = 2 * 11  # epochs of 176 texts in batches of 16
    checked = 3 * 390  # evaluations
    assert estimator.seconds(both) - estimator.seconds(alone) == pytest.approx(
        estimator._relative_cost(both) * (steps * 6 * PROBE["step_seconds"] + checked * PROBE["score_seconds"])
    )


@pytest.mark.usefixtures("base")
def test_a_study_of_numbers_refuses_the_arm() -> None:
    given = {"study": {"corpus": ("c.txt",), "arms": "consistency:box"}, "data": {"task": "regress"}}
    with pytest.raises(SettingError, match="The arm 'consistency:box' is for classifiers"):
        read_arms(load_recipe(StudyRecipe, None, given))


def test_a_token_store_has_no_texts_for_it(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headswap.study.setup.arms.is_store", lambda source: True)
    with pytest.raises(SettingError, match="The arm 'consistency:box' needs a corpus of text files"):
        arm_of("consistency:box", corpus=("store",))
