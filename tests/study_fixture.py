"""Small studies for tests: settings that train in a second, studies whose jobs run in this process, synthetic runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.files import write_json
from headswap.core.settings import load_recipe
from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.study.executors.job_queue import Watcher
from headswap.study.jobs.job import JOBS
from headswap.study.jobs.plan import make_plan
from headswap.study.jobs.planned_jobs import Job, Plan
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.folder import PLAN, RECIPE
from headswap.study.setup.prepare import Prepared, prepare
from headswap.study.statistics.design import default_primary
from headswap.study.statistics.runs import PretrainedBase, ScoredRun, StudyRuns
from headswap.tasks.choose import named_task
from task_data import ROWS, write_rows
from tiny import ONE_LAYER, sentences, write_labelled

SHAPE = ONE_LAYER
MACHINE = {"device": "cpu", "threads": 1}
ARMS = ("majority", "tfidf", "scratch", "pretrained")
"""The default arms without lsa, which has its own tests."""
NUM_TEST = 1_000
TARGETS = np.arange(NUM_TEST) % 2
TEXT_IDS = text_ids([f"text {number}" for number in range(NUM_TEST)])


def write_data(folder: Path, *, num_train: int = 240, num_test: int = 60) -> dict[str, Any]:
    """Write a corpus, a training and a test set; return the sections of a study of them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"text": f"{text} no {number}"}) for number, (text, _) in enumerate(sentences(150))]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_unique(folder / "train.jsonl", num_train, seed=1)
    write_unique(folder / "test.jsonl", num_test, seed=2)
    study = {"arms": ARMS, "max_length": 24, "budgets": ("40", "220"), "seeds": 3}
    return {
        "study": {"corpus": (str(folder / "corpus.jsonl"),), **study},
        "data": {"train": str(folder / "train.jsonl"), "test": str(folder / "test.jsonl")},
        "tokenizer": {"vocab_size": 300},
        "model": SHAPE,
        "pretrain": {"max_steps": 3},
        "finetune": {"num_train_epochs": 2},
        "machine": MACHINE,
    }


def write_unique(file: Path, count: int, *, seed: int) -> None:
    """Sentences of the grammar, each with its own suffix, so that no text is in two sets."""
    write_labelled(file, count, seed=seed)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    marked = [row | {"text": f"{row['text']} mark {seed} {number}"} for number, row in enumerate(rows)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in marked), encoding="utf-8")


def planned(out: Path, sections: dict[str, Any]) -> tuple[StudyRecipe, Prepared, Plan]:
    """A study that is prepared and planned, but not run."""
    recipe = load_recipe(StudyRecipe, None, sections)
    prepared = prepare(recipe, out)
    return recipe, prepared, make_plan(recipe, read_arms(recipe), prepared, out)


def done_here(out: Path, sections: dict[str, Any]) -> Plan:
    """A study whose jobs are run in this process."""
    recipe, _, plan = planned(out, sections)
    recipe.save(out / RECIPE)
    write_json(out / PLAN, plan.as_json())
    for job in plan.jobs.values():
        sections = json.loads(json.dumps(job.sections, default=list))
        content = {"arm": job.arm, "sections": sections, "keep": "bundles", "trials": job.trials}
        JOBS[job.kind](Path(job.folder), content)
    return plan


def task_sections(folder: Path, task: str, **study: Any) -> dict[str, Any]:
    """The sections of a small study of a task other than classification; no text is in two sets."""
    sections = write_data(folder)
    for role, count, seed in (("train", 240, 1), ("test", 40, 2)):
        rows = [_marked(row, f"mark {seed} {number}") for number, row in enumerate(ROWS[task](count, seed=seed))]
        write_rows(folder / f"{role}.jsonl", rows)
    sections["data"]["task"] = task
    sections["study"] |= {"metric": named_task(task).study_metrics[0], "corpus": ()} | study
    return sections


def _marked(row: dict[str, Any], mark: str) -> dict[str, Any]:
    """A row whose text no other row has."""
    if "tokens" in row:
        return {"tokens": [*row["tokens"], *mark.split()], "tags": [*row["tags"], *["O"] * len(mark.split())]}
    name = "context" if "context" in row else "text"
    return row | {name: f"{row[name]} {mark}"}


def sections_of(tmp_path: Path, **study: Any) -> dict[str, Any]:
    """The sections of `write_data`, with other settings of the study."""
    found = write_data(tmp_path / "files")
    found["study"] |= study
    return found


def runs_of(study: Path, *names: str) -> list[Path]:
    """The run folders of a study whose names start with the given ones."""
    return [next(path for path in (study / "runs").iterdir() if path.name.startswith(name)) for name in names]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, also hidden ones, with the bytes of the files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


class RecordingWatcher(Watcher):
    """Keeps the names of the jobs that started and the problems of those that ended."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, str | None] = {}

    def on_start(self, job: Job) -> None:
        self.started.append(job.name)

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        self.ended[job.name] = problem


def scored_run(arm: str, labels: int, seed: int, accuracy: float, *, rows: str | None = None) -> ScoredRun:
    """A run with a given accuracy; which texts are wrong depends on the seed."""
    order = np.random.default_rng(seed).permutation(NUM_TEST)
    predicted = TARGETS.copy()
    wrong = order[round(accuracy * NUM_TEST) :]
    predicted[wrong] = 1 - predicted[wrong]
    probabilities = np.where(np.arange(2) == predicted[:, None], 0.9, 0.1)
    predictions = Predictions(probabilities, TARGETS, ("neg", "pos"), TEXT_IDS)
    history = [{"epoch": 0, "eval_accuracy": 0.5, "eval_loss": 0.7}, {"epoch": 1, "eval_accuracy": accuracy}]
    result = {"seconds": 3.0, "tokens": 1_000, "peak_memory_bytes": 10**8}
    folder = Path(f"{arm}-{labels}-{seed}")
    return ScoredRun(arm, str(labels), labels, seed, folder, predictions, result, history, rows or f"{labels} {seed}")


def synthetic_study(cells: dict[tuple[str, int], list[float]], **more: Any) -> StudyRuns:
    """A study with the given accuracies per arm and budget, one per seed, and a base that took 60 seconds."""
    runs = [
        scored_run(arm, labels, seed, value)
        for (arm, labels), values in cells.items()
        for seed, value in enumerate(values, 1)
    ]
    arms = list(dict.fromkeys(arm for arm, _ in cells))
    base = PretrainedBase("base-seed1", Path("base"), {"seconds": 60.0, "tokens": 1, "tokens_per_second": 1.0}, [])
    bases = {arm: [base] for arm in arms if arm not in ("majority", "tfidf", "scratch")}
    return StudyRuns(None, runs, arms, bases=bases, **{"primary": default_primary(arms), **more})
