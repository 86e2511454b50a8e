"""A study of the small grammar whose jobs are done in this process, and settings that fit a second."""

import json
from pathlib import Path
from typing import Any

from headswap.core.files import write_json
from headswap.core.settings import load_recipe
from headswap.study.arms import read_arms
from headswap.study.config import StudyRecipe
from headswap.study.folder import PLAN, RECIPE
from headswap.study.job import JOBS
from headswap.study.plan import Plan, make_plan
from headswap.study.prepare import Prepared, prepare
from tiny import sentences, write_labelled

SHAPE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
MACHINE = {"device": "cpu", "threads": 1}


def write_data(folder: Path, *, num_train: int = 240, num_test: int = 60) -> dict[str, Any]:
    """A corpus, a training and a test set; the sections that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"text": f"{text} no {number}"}) for number, (text, _) in enumerate(sentences(150))]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_unique(folder / "train.jsonl", num_train, seed=1)
    write_unique(folder / "test.jsonl", num_test, seed=2)
    return {
        "study": {"corpus": (str(folder / "corpus.jsonl"),), "max_length": 24, "budgets": ("40", "220"), "seeds": 3},
        "data": {"train": str(folder / "train.jsonl"), "test": str(folder / "test.jsonl")},
        "tokenizer": {"vocab_size": 300},
        "model": SHAPE,
        "pretrain": {"max_steps": 3},
        "finetune": {"num_train_epochs": 2},
        "machine": MACHINE,
    }


def write_unique(file: Path, count: int, *, seed: int) -> None:
    """Sentences of the grammar, each with a mark of its own, so that no text stands in two sets."""
    write_labelled(file, count, seed=seed)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    marked = [row | {"text": f"{row['text']} mark {seed} {number}"} for number, row in enumerate(rows)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in marked), encoding="utf-8")


def planned(out: Path, sections: dict[str, Any]) -> tuple[StudyRecipe, Prepared, Plan]:
    """The plan of a study, and nothing done yet."""
    recipe = load_recipe(StudyRecipe, None, sections)
    prepared = prepare(recipe, out)
    return recipe, prepared, make_plan(recipe, read_arms(recipe), prepared, out)


def done_here(out: Path, sections: dict[str, Any]) -> Plan:
    """A study whose every job is done in this process."""
    recipe, _, plan = planned(out, sections)
    recipe.save(out / RECIPE)
    write_json(out / PLAN, plan.as_json())
    for job in plan.jobs.values():
        content = {"arm": job.arm, "sections": json.loads(json.dumps(job.sections, default=list)), "keep": "bundles"}
        JOBS[job.kind](Path(job.folder), content)
    return plan
