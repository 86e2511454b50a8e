"""Saved rows, corpora and token stores are used again only if they have not changed."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from headswap.core.files import read_json, write_json
from headswap.core.settings import load_recipe
from headswap.data.records import Document
from headswap.study.executors.job_queue import Executor
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import Job, Plan
from headswap.study.run import run_study
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.prepare import prepare
from headswap.study.setup.row_files import rows_digest
from headswap.study.statistics.runs import read_study
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import build_store
from headswap.tokens.train_tokenizer import train_tokenizer
from study_fixture import (
    RecordingWatcher,
    done_here,
    planned,
    write_data,
)
from tiny import sentences

OLD = (1_000_000_000, 1_000_000_000)
BASELINES = {"arms": ("majority", "tfidf"), "budgets": ("40",), "seeds": 1}


def rows_of(file: str | Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def swap_labels(file: Path) -> None:
    """Exchange the two labels, which are equally long."""
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"pos"', '"???"').replace('"neg"', '"pos"').replace('"???"', '"neg"'), "utf-8")


def write_store(folder: Path, *, seed: int, vocab_size: int = 300) -> Path:
    """Write a token store of some sentences, or replace it."""
    documents = [Document(text, "corpus", line) for line, (text, _) in enumerate(sentences(150, seed=seed))]
    tokenizer = train_tokenizer(
        [Document(text, "corpus", 1) for text, _ in sentences(150, seed=1)], TokenizerSettings(vocab_size=vocab_size)
    )
    build_store(documents, tokenizer, folder)
    return folder


def store_sections(tmp_path: Path, **study: Any) -> dict[str, Any]:
    sections = write_data(tmp_path / "files")
    sections["study"] |= {"corpus": (str(write_store(tmp_path / "store", seed=1)),), **study}
    return sections | {"tokenizer": {}}


def ids(plan: Plan, kind: str, arm: str | None = None) -> set[str]:
    return {job.id for job in plan.jobs.values() if job.kind == kind and arm in (None, job.arm)}


@pytest.mark.parametrize("name", ["train", "test"])
def test_changed_labels_of_the_same_length_and_date_are_read(tmp_path: Path, name: str) -> None:
    sections = write_data(tmp_path / "files")
    file = tmp_path / "files" / f"{name}.jsonl"
    os.utime(file, OLD)
    before = planned(tmp_path / "out", sections)
    labels = [row["label"] for row in rows_of(tmp_path / "out" / "data" / f"{name}.jsonl")]
    swap_labels(file)
    os.utime(file, OLD)
    after = planned(tmp_path / "out", sections)
    swapped = [row["label"] for row in rows_of(tmp_path / "out" / "data" / f"{name}.jsonl")]
    assert swapped == [{"pos": "neg", "neg": "pos"}[label] for label in labels]
    assert ids(before[2], "finetune").isdisjoint(ids(after[2], "finetune"))


def test_the_hash_of_a_labelled_file_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if size and dates of the file are unchanged."""
    monkeypatch.setattr("headswap.data.content_hash.FRESH_SECONDS", -1)
    recipe = load_recipe(StudyRecipe, None, write_data(tmp_path / "files"))
    prepare(recipe, tmp_path / "out")
    cached = " ".join(read_json(tmp_path / "cache" / "hashes.json"))
    assert "corpus.jsonl" in cached
    assert "train.jsonl" not in cached
    assert "test.jsonl" not in cached


def test_a_rebuilt_token_store_makes_new_jobs(tmp_path: Path) -> None:
    sections = store_sections(tmp_path)
    before = planned(tmp_path / "out", sections)[2]
    assert set(planned(tmp_path / "out", sections)[2].jobs) == set(before.jobs)
    write_store(tmp_path / "store", seed=5)
    after = planned(tmp_path / "out", sections)[2]
    assert ids(before, "pretrain").isdisjoint(ids(after, "pretrain"))
    assert ids(before, "finetune", "pretrained").isdisjoint(ids(after, "finetune", "pretrained"))
    assert ids(before, "baseline") == ids(after, "baseline"), "they read no corpus"
    assert ids(before, "finetune", "scratch") == ids(after, "finetune", "scratch"), "the tokenizer is the same"


def test_a_token_store_with_another_tokenizer_makes_new_scratch_jobs(tmp_path: Path) -> None:
    sections = store_sections(tmp_path)
    before = planned(tmp_path / "out", sections)[2]
    write_store(tmp_path / "store", seed=1, vocab_size=280)
    after = planned(tmp_path / "out", sections)[2]
    assert ids(before, "finetune").isdisjoint(ids(after, "finetune"))


@pytest.mark.parametrize("change", ["changed", "deleted"])
def test_a_copied_study_reads_its_own_rows(tmp_path: Path, change: str) -> None:
    sections = write_data(tmp_path / "files")
    sections["study"] |= BASELINES
    first = run_study(out=tmp_path / "original", sections=sections)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    if change == "deleted":
        shutil.rmtree(tmp_path / "original")
    else:
        for name in ("train", "test"):
            swap_labels(tmp_path / "original" / "data" / f"{name}.jsonl")
    sections["study"] |= {"seeds": 2}
    study = run_study(out=tmp_path / "copy", sections=sections)
    assert study.prepared.train == str((tmp_path / "copy" / "data" / "train.jsonl").resolve())
    assert not study.outcome.failed
    assert len(study.outcome.done) == 2, "the jobs of the first seed are already done"
    tests = {read_json(Path(job.folder) / "data.json")["test set"] for job in study.plan.jobs.values()}
    assert tests == {first.prepared.digests["test"]}
    assert all(str(tmp_path / "original") not in file.read_text() for file in (tmp_path / "copy" / "data").iterdir())


def test_a_copied_study_reads_its_own_corpus_without_overlap(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    with (tmp_path / "files" / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": rows_of(tmp_path / "files" / "test.jsonl")[0]["text"]}) + "\n")
    before = planned(tmp_path / "original", sections)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    (tmp_path / "original" / "data" / "corpus.jsonl").write_text("{}\n", encoding="utf-8")
    _, prepared, plan = planned(tmp_path / "copy", sections)
    assert prepared.corpus == (str((tmp_path / "copy" / "data" / "corpus.jsonl").resolve()),)
    assert set(plan.jobs) == set(before[2].jobs)
    (tmp_path / "copy" / "data" / "corpus.jsonl").write_text('{"text": "other"}\n', encoding="utf-8")
    assert set(planned(tmp_path / "copy", sections)[2].jobs) == set(plan.jobs), "a changed copy is written again"
    assert len(rows_of(prepared.corpus[0])) == 150


@pytest.mark.parametrize("content", [None, "", "{}\n", "not JSON\n"])
def test_changed_rows_of_a_study_are_prepared_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    sections = write_data(tmp_path / "files")
    _, first, _ = planned(tmp_path / "out", sections)
    file = tmp_path / "out" / "data" / "test.jsonl"
    if content is None:
        swap_labels(file)
    else:
        file.write_text(content, encoding="utf-8")
    _, prepared, _ = planned(tmp_path / "out", sections)
    assert "so they are prepared again from their sources" in caplog.text
    assert rows_digest(rows_of(file)) == first.digests["test"] == prepared.digests["test"]


def test_missing_rows_are_prepared_again(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    first = planned(tmp_path / "out", sections)[1]
    Path(first.test).unlink()
    assert planned(tmp_path / "out", sections)[1] == first
    assert rows_digest(rows_of(first.test)) == first.digests["test"]


def problems_of(out: Path, prepared: Any, job: Job) -> list[str]:
    """The problems of a job that is run in its own process."""
    watcher = RecordingWatcher()
    Executor(out, Estimator(None, prepared), parallel=1, threads=1, keep="bundles", watcher=watcher).run([job])
    return [str(problem) for problem in watcher.ended.values()]


def test_a_job_with_changed_rows_is_not_started(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    _, prepared, plan = planned(tmp_path / "out", sections)
    swap_labels(Path(prepared.train))
    job = next(job for job in plan.jobs.values() if job.arm == "majority")
    (problem,) = problems_of(tmp_path / "out", prepared, job)
    assert "train.jsonl does not hold the rows that this study was prepared with" in problem
    assert not job.is_done


def test_a_job_with_a_rebuilt_token_store_is_not_started(tmp_path: Path) -> None:
    sections = store_sections(tmp_path)
    _, prepared, plan = planned(tmp_path / "out", sections)
    write_store(tmp_path / "store", seed=5)
    job = next(job for job in plan.jobs.values() if job.kind == "pretrain")
    (problem,) = problems_of(tmp_path / "out", prepared, job)
    assert "changed after the study had planned its jobs" in problem
    assert not job.is_done


def test_a_study_of_an_earlier_version_is_reported_and_prepared_again(tmp_path: Path) -> None:
    """Its prepared.json has absolute paths and another key, its plan.json has no digests."""
    sections = write_data(tmp_path / "files")
    sections["study"] |= BASELINES
    plan = done_here(tmp_path / "out", sections)
    kept, places = (
        tmp_path / "out" / "data" / "prepared.json",
        {"train": "/gone/train.jsonl", "test": "/gone/test.jsonl"},
    )
    write_json(kept, read_json(kept) | places | {"key": "of version 1", "validation": None, "corpus": ["/gone/corpus"]})
    written = read_json(tmp_path / "out" / "plan.json")
    for job in written["jobs"].values():
        del job["digests"]
    write_json(tmp_path / "out" / "plan.json", written)
    assert len(read_study(tmp_path / "out").runs) == 2
    study = run_study(out=tmp_path / "out", sections=sections)
    assert set(study.plan.jobs) == set(plan.jobs)
    assert study.outcome.done == []
