"""Estimates of time, memory and disk."""

from pathlib import Path

import pytest

from headswap.batches.labelled_rows import ExampleBatches
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.preflight import estimate_study
from headswap.study.jobs.probe import measure
from study_fixture import (
    planned,
    sections_of,
    task_sections,
)
from task_data import questions, tagged, write_rows


def test_estimates_are_corrected_by_finished_jobs(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    tfidf = [job for job in plan.jobs.values() if job.arm == "tfidf"]
    estimator = Estimator(None, prepared)
    before = estimator.seconds(tfidf[0])
    estimator.record(tfidf[0], before * 3)
    assert estimator.seconds(tfidf[0]) == pytest.approx(before * 3)
    assert estimate_study(tfidf, estimator, parallel=2, keep="bundles").seconds > before


def test_a_probe_gives_time_memory_and_disk(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    probe = {
        "step_seconds": 0.1, "tokens_a_step": 200, "score_seconds": 0.001, "bytes_a_token": 4.0,
        "num_parameters": 1_000_000, "num_embedding_parameters": 500_000, "max_length": 24,
        "peak_memory_bytes": 500_000_000, "device": "1 CPU threads, fp32",
    }  # fmt: skip
    estimator = Estimator(probe, prepared)
    tuned = {job.labels: job for job in plan.jobs.values() if job.kind == "finetune"}
    # 2 epochs of 11 steps and of 3 steps, 3 x 44 and 3 x 40 evaluated texts, 60 test texts, 1 s to start.
    assert estimator.seconds(tuned[220]) == pytest.approx(1 + 22 * 0.1 + (3 * 44 + 60) * 0.001)
    assert estimator.seconds(tuned[40]) == pytest.approx(1 + 6 * 0.1 + (3 * 40 + 60) * 0.001)
    windows = Estimator(probe | {"rows_a_text": 3.0}, prepared)
    # 2 epochs of 528 windows in 33 steps; score_seconds is per text.
    assert windows.seconds(tuned[220]) == pytest.approx(1 + 66 * 0.1 + (3 * 44 + 60) * 0.001)
    found = estimate_study(plan.jobs.values(), estimator, parallel=2, keep="bundles")
    assert found.memory_bytes == 10**9
    assert found.disk_bytes == 4 * 10**6 * (1 + 12 + 2 * 5)
    assert "26 jobs; they need about " in found.sentence()
    base = next(job for job in plan.jobs.values() if job.kind == "pretrain")
    base.sections["training"] |= {"max_steps": 10, "batch_size": 4, "max_length": 1_000}
    rows = {"packed": 1_000.0, "documents": prepared.corpus_bytes / 4.0 / prepared.num_rows["corpus"]}
    for layout, row_tokens in rows.items():
        base.sections["training"]["layout"] = layout
        # 0.8 M parameters of fixed cost are shared by the 200 tokens of a step of the probe, here by those of 4 rows.
        relative = (500_000 + 500_000 + 800_000 * 200 / (4 * row_tokens)) / (500_000 + 800_000)
        assert estimator.seconds(base) == pytest.approx(1 + 10 * 4 * row_tokens * 0.1 / 200 * relative)


def test_a_larger_base_costs_its_own_parameters_and_output_embeddings(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    probe = {
        "step_seconds": 0.1, "tokens_a_step": 400, "score_seconds": 0.001, "bytes_a_token": 4.0, "vocab_size": 1_000,
        "num_parameters": 600_000, "num_embedding_parameters": 100_000, "max_length": 50, "device": "1 CPU threads",
    }  # fmt: skip
    shape = {
        "hidden_size": 100,
        "num_hidden_layers": 10,
        "intermediate_size": 300,
        "vocab_size": 1,
        "activation": "gelu",
    }
    (base,) = [job for job in plan.jobs.values() if job.kind == "pretrain" and job.arm != "masked"][:1]
    base.sections["training"] |= {"max_tokens": 80_000, "max_steps": None, "batch_size": 8, "max_length": 50}
    seconds = Estimator(probe, prepared, shapes={base.folder: shape}).seconds(base)
    used = 10 * 100 * (4 * 100 + 2 * 300)
    assert seconds == pytest.approx(1 + 200 * 0.1 * (used + 100_000 + 800_000) / (500_000 + 800_000))
    tuned = next(job for job in plan.jobs.values() if job.labels == 40 and job.arm == "pretrained")
    steps, scored = Estimator(probe, prepared), Estimator(probe, prepared, shapes={base.folder: shape})
    relative = (used + 800_000) / (500_000 + 800_000)
    assert scored.seconds(tuned) - 1 == pytest.approx((steps.seconds(tuned) - 1) * relative)


@pytest.mark.parametrize("task", ["span", "tag"])
def test_the_probe_counts_windows_and_reads_tokens_as_a_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """Every text is longer than a window."""
    made: list[ExampleBatches] = []
    monkeypatch.setattr("headswap.study.jobs.probe.SECONDS", 0.1)
    monkeypatch.setattr(
        "headswap.study.jobs.probe.ExampleBatches", lambda *given: made.append(ExampleBatches(*given)) or made[-1]
    )
    given = sections_of(tmp_path, arms=("scratch",), budgets=("40",), seeds=1, corpus=())
    for role, seed in (("train", 1), ("test", 2)):
        rows = questions(60, seed=seed, padding=8) if task == "span" else tagged(60, seed=seed)
        if task == "tag":
            rows = [{name: row[name] * 5 for name in row} for row in rows]
        write_rows(Path(given["data"][role]), rows)
    given["data"]["task"] = task
    given["study"]["metric"] = "f1"
    given["finetune"]["max_length"] = 24
    (job,) = [job for job in planned(tmp_path / "out", given)[2].jobs.values() if job.kind == "finetune"]
    found = measure(job.sections)
    assert made[0].is_per_token
    assert found["rows_a_text"] > 2
    assert found["rows_a_text"] == len(made[0].rows) / len({row.example for row in made[0].rows})


def test_a_linear_model_per_label_is_estimated_longer_than_one(tmp_path: Path) -> None:
    seconds = {}
    for task in ("classify", "multilabel", "regress"):
        sections = task_sections(tmp_path / task, task, arms=("linear",), budgets=("220",), seeds=1)
        sections["study"]["corpus"] = (str(tmp_path / task / "corpus.jsonl"),)
        _, prepared, plan = planned(tmp_path / task / "out", sections)
        (job,) = [job for job in plan.jobs.values() if job.kind == "linear"]
        seconds[task] = Estimator(None, prepared).seconds(job)
    assert 1.0 < seconds["regress"] < seconds["classify"] < seconds["multilabel"] < 5.0
