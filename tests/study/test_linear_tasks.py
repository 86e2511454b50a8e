"""The arm `linear` of every task with one vector per example: pairs of texts, label sets and values."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from boxed import tiny_base
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import FILE, Predictions, ValuePredictions, load_predictions
from headswap.finetuning.splits import LabelledSplits, read_splits
from headswap.inference.embed import embed_texts
from headswap.metrics.multilabel import present_labels
from headswap.study.jobs.job import run_job
from headswap.study.jobs.job_id import bundle_content, job_id
from headswap.study.jobs.planned_jobs import Job, Plan
from headswap.study.report.write import write_report
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.runs import read_study
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import done_here, planned, sections_of, task_sections
from task_data import paired, write_rows

LENGTH = 12
STUDIES = ("classify pairs", "regress pairs", "multilabel", "regress")
MODELS = {
    "classify": "logistic regression on the vectors",
    "regress": "ridge regression on the vectors",
    "multilabel": "one logistic regression per label on the vectors",
}
KILL = """
import json, os, signal, sys
from pathlib import Path
from headswap.study.jobs import embeddings, job

def stop(file, content, write=embeddings.write_json):
    if file.name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    write(file, content)

embeddings.write_json = stop
job.run_job(json.loads(Path(sys.argv[1]).read_text()))
"""


def linear_sections(folder: Path, name: str, base: Path, **study: Any) -> dict[str, Any]:
    """The sections of a small study with the arm `linear` on a base in a folder."""
    task, _, is_pair = name.partition(" ")
    more: dict[str, Any] = {"arms": (f"linear:{base}",), "budgets": ("40",), "seeds": 2, "max_length": LENGTH}
    sections = task_sections(folder, task, **more | study)
    if is_pair:
        for role, count, seed in (("train", 240, 1), ("test", 40, 2)):
            rows = [row | {"text": f"{row['text']} mark {seed} {n}"} for n, row in enumerate(paired(count, seed=seed))]
            if task == "regress":
                rows = [row | {"label": len(row["text"]) - 0.5 * len(row["text_pair"])} for row in rows]
            write_rows(folder / f"{role}.jsonl", rows)
        sections["data"]["text_pair_column"] = "text_pair"
    return sections


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    return tiny_base(tmp_path_factory.mktemp("base") / "made", tokenizer)


@pytest.fixture(scope="module", params=STUDIES)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, base: Path) -> tuple[Path, Plan]:
    """The folder of a finished study, and its plan."""
    folder = tmp_path_factory.mktemp("linear")
    return folder / "study", done_here(folder / "study", linear_sections(folder / "files", request.param, base))


def splits_of(job: Job) -> LabelledSplits:
    sections = {name: part for name, part in job.sections.items() if name != "embeddings"}
    return read_splits(load_recipe(FinetuneRecipe, None, sections))


def linear_jobs(plan: Plan) -> list[Job]:
    return [job for job in plan.jobs.values() if job.kind == "linear"]


def vectors(base: Path, rows: list[Any]) -> np.ndarray:
    """The vectors of rows, computed here: of a pair both, their distance and their product."""
    bundle = Bundle.load(base)

    def of(texts: list[str]) -> np.ndarray:
        found = [embed_texts(bundle, [text], pooling="weighted-mean", max_length=LENGTH)[0] for text in texts]
        return np.array(found, dtype=np.float64)

    first = of([row["text"] for row in rows])
    if "text_pair" not in rows[0]:
        return first
    second = of([row["text_pair"] for row in rows])
    return np.concatenate([first, second, abs(first - second), first * second], axis=1)


def check_classes(result: Any, found: Any, splits: LabelledSplits, train: np.ndarray, test: np.ndarray) -> None:
    assert isinstance(found, Predictions)
    model = LogisticRegression(C=result["C"], solver="newton-cg", tol=1e-7, max_iter=1_000)
    expected = model.fit(train, [example.label for example in splits.train]).predict_proba(test)
    assert found.probabilities == pytest.approx(expected, abs=1e-4)
    assert expected.std(axis=0).min() > 1e-3, "the vectors make a difference"


def check_values(result: Any, found: Any, splits: LabelledSplits, train: np.ndarray, test: np.ndarray) -> None:
    assert isinstance(found, ValuePredictions)
    expected = Ridge(result["alpha"]).fit(train, [example.value for example in splits.train]).predict(test)
    assert found.values == pytest.approx(expected, rel=1e-3)
    assert expected.std() > 0.1


def check_label_sets(result: Any, found: Any, splits: LabelledSplits, train: np.ndarray, test: np.ndarray) -> None:
    assert isinstance(found, LabelSetPredictions)
    wanted = present_labels([example.labels for example in splits.train], splits.labels)
    model = LogisticRegression(C=result["C"], solver="newton-cg", tol=1e-7, max_iter=1_000)
    columns = [model.fit(train, wanted[:, label]).predict_proba(test)[:, 1] for label in range(len(splits.labels))]
    expected = np.stack(columns, axis=1)
    is_clear = abs(expected - result["threshold"]) > 1e-4
    assert ((expected >= result["threshold"]) == found.predicted)[is_clear].all()
    assert is_clear.mean() > 0.9
    assert 0 < found.predicted.mean() < 1


CHECKS: dict[str, Callable[..., None]] = {
    "classify": check_classes, "regress": check_values, "multilabel": check_label_sets
}  # fmt: skip


def test_the_predictions_are_those_of_scikit_learn_on_the_vectors_of_the_base(
    done: tuple[Path, Plan], base: Path
) -> None:
    study, plan = done
    jobs = linear_jobs(plan)
    assert len(jobs) == 2
    for job in jobs:
        splits = splits_of(job)
        files = {role: (study / "data" / f"{role}.jsonl").read_text(encoding="utf-8") for role in ("train", "test")}
        rows = {role: [json.loads(line) for line in text.splitlines()] for role, text in files.items()}
        every = {role: vectors(base, found) for role, found in rows.items()}
        scale = StandardScaler().fit(every["train"])
        width = every["train"].shape[1] ** 0.5
        places = [example.line - 1 for example in splits.train]
        train, test = scale.transform(every["train"][places]) / width, scale.transform(every["test"]) / width
        result = json.loads((Path(job.folder) / "result.json").read_text(encoding="utf-8"))
        assert result["num_labels"] == len(splits.train) == 40
        CHECKS[splits.task.name](result, load_predictions(Path(job.folder)), splits, train, test)


@pytest.mark.usefixtures("no_figures")
def test_the_report_names_the_linear_model_of_the_task(done: tuple[Path, Plan], tmp_path: Path) -> None:
    study, plan = done
    task = linear_jobs(plan)[0].sections["data"].get("task", "classify")
    is_pair = "text_pair_column" in linear_jobs(plan)[0].sections["data"]
    write_report(read_study(study), tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{MODELS[task]} of the base made, fitted to all labels of the budget" in text
    methods = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert ("their absolute difference and their product; " in methods) == is_pair
    selected = {"classify": "C", "regress": "the penalty", "multilabel": "C and the threshold"}[task]
    assert f"on these vectors, {selected} selected by cross-validation on the same labels" in methods


@pytest.mark.slow
@pytest.mark.parametrize(("killed", "file"), [("embed", "result.json"), ("linear", "data.json")])
def test_a_study_that_was_killed_ends_like_one_that_was_not(
    done: tuple[Path, Plan], tmp_path: Path, killed: str, file: str
) -> None:
    study, whole = done
    recipe = load_recipe(StudyRecipe, study / "study.toml")
    plan = planned(tmp_path / "out", {name: recipe.model_dump()[name] for name in ("study", "data")})[2]
    assert set(plan.jobs) == set(whole.jobs)
    content = {id: json.loads(json.dumps(asdict(job), default=list)) for id, job in plan.jobs.items()}
    for id, job in plan.jobs.items():
        if job.kind == killed:
            (tmp_path / "job.json").write_text(json.dumps(content[id]), encoding="utf-8")
            command = [sys.executable, "-c", KILL, str(tmp_path / "job.json"), file]
            assert subprocess.run(command, check=False, capture_output=True).returncode == -9
            assert not job.is_done
            assert list(Path(job.folder).iterdir()), "something was written before it was killed"
            break
        run_job(content[id])
    for job in content.values():
        run_job(job)
    for id, job in plan.jobs.items():
        assert job.is_done
        if job.kind == "linear":
            ours, theirs = (np.load(Path(one.folder) / FILE) for one in (job, whole.jobs[id]))
            assert sorted(ours.files) == sorted(theirs.files)
            assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours.files)


@pytest.mark.parametrize("task", ["tag", "span"])
def test_a_task_without_a_vector_per_example_is_refused(tmp_path: Path, base: Path, task: str) -> None:
    sections = task_sections(tmp_path, task, arms=("scratch", f"linear:{base}"))
    with pytest.raises(SettingError, match=f"'linear:made' needs one vector per example, which the task {task} does"):
        read_arms(load_recipe(StudyRecipe, None, sections))


def test_the_jobs_of_single_texts_with_classes_have_the_ids_of_earlier_versions(tmp_path: Path, base: Path) -> None:
    """A change of an id would compute finished jobs of users again."""
    sections = sections_of(tmp_path, arms=(f"linear:{base}",), budgets=("40",), seeds=1)
    _, prepared, plan = planned(tmp_path / "out", sections)
    rows = [prepared.digests["train"], prepared.digests["test"], None]
    embed = job_id("embed", [1, bundle_content(str(base)), rows, {"pooling": None, "max_length": 24}])
    assert list(plan.jobs) == [embed, job_id("linear", [1, embed, rows, "40", 1, {}])]


def test_the_same_rows_as_numbers_and_as_classes_have_different_jobs(tmp_path: Path, base: Path) -> None:
    sections = linear_sections(tmp_path / "files", "regress", base)
    for role in ("train", "test"):
        file = Path(sections["data"][role])
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        write_rows(file, [row | {"label": str(float(row["label"]))} for row in rows])
    values = {job.id for job in linear_jobs(planned(tmp_path / "a", sections)[2])}
    sections["data"]["task"], sections["study"]["metric"] = "classify", "accuracy"
    classes = {job.id for job in linear_jobs(planned(tmp_path / "b", sections)[2])}
    assert len(values) == len(classes) == 2
    assert not values & classes
