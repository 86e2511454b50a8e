"""A new head, objective, task or baseline is one file and one line of registry.py.

Each test copies the package, adds the file and the line to the copy, and uses it with the commands of a user.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import headswap
from headswap import registry
from study_fixture import SHAPE, write_data
from task_data import ROWS, write_rows
from tiny import sentences

NEW_FILES = Path(__file__).parent / "registered"
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
MACHINE = ["--device=cpu", "--threads=1"]
TABLES = {
    "HEADS": registry.HEADS,
    "OBJECTIVES": registry.OBJECTIVES,
    "TASKS": registry.TASKS,
    "STUDY_BASELINES": registry.STUDY_BASELINES,
    **{f"BASELINES {task}": table for task, table in registry.BASELINES.items()},
}


@dataclass(frozen=True)
class Copy:
    """A copy of the package, to which files and lines are added."""

    folder: Path

    def add(self, file: str, room: str, *, after: str, line: str) -> None:
        """Add a file to a room, and one line to registry.py after the line that begins with `after`."""
        shutil.copy(NEW_FILES / file, self.folder / "src" / "headswap" / room)
        path = self.folder / "src" / "headswap" / "registry.py"
        before = path.read_text(encoding="utf-8")
        (place,) = (known for known in before.splitlines() if known.strip().startswith(after))
        path.write_text(before.replace(place, f"{place}\n        {line}"), encoding="utf-8")

    def run(self, *argv: object, code: int = 0) -> str:
        """Standard output of a command of the copy, or its message where it is refused."""
        done = subprocess.run(
            [sys.executable, "-m", "headswap", *map(str, argv)],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder / "src"), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """The package as it is."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(headswap.__file__).parent, tmp_path / "src" / "headswap", ignore=ignored)
    return Copy(tmp_path)


@pytest.fixture
def labelled(copy: Copy) -> list[str]:
    """Arguments of a fine-tuning with labelled sets that are learnt in a few steps."""
    train = write_rows(copy.folder / "train.jsonl", ROWS["classify"](240, seed=1))
    test = write_rows(copy.folder / "test.jsonl", ROWS["classify"](40, seed=2))
    return [
        "--base=scratch", f"--train={train}", f"--test={test}", "--kind=word", "--max-length=40", "--dropout=0",
        "--learning-rate=5e-3", "--out=run", *FLAGS, *MACHINE,
    ]  # fmt: skip


def text_of(label: str) -> str:
    """A text of the grammar that has this label."""
    return next(text for text, own in sentences(10, seed=3) if own == label)


@pytest.mark.parametrize(("table", "name"), [(table, name) for table, names in TABLES.items() for name in names])
def test_every_entry_can_be_imported(table: str, name: str) -> None:
    assert callable(TABLES[table].load(name))


def test_an_unknown_name_is_refused_with_the_names_that_are_allowed(copy: Copy) -> None:
    found = copy.run("finetune", "--task=dance", "--train=x", "--out=run", code=2)
    assert all(name in found for name in ("dance", *registry.TASKS))
    found = copy.run("params", "--head=dance", code=2)
    assert all(name in found for name in ("dance", *registry.HEADS))


def test_a_new_task_is_one_file_and_one_line(copy: Copy, labelled: list[str]) -> None:
    copy.add("yes_no.py", "tasks", after='"tag": "tasks', line='"yesno": "tasks.yes_no:YesNoTask",')
    assert "yesno" in copy.run("finetune", "--help-all")
    made = json.loads(copy.run("finetune", *labelled, "--num-train-epochs=5", "--task=yesno", "--json"))
    assert (made["task"], made["baselines"]) == ("yesno", {})
    assert made["test"]["accuracy"] > 0.9
    assert copy.run("predict", "run", text_of("pos"), text_of("neg")).splitlines() == ["yes", "no"]
    scored = json.loads(copy.run("evaluate", "run", copy.folder / "test.jsonl", "--device=cpu", "--json"))
    assert scored["accuracy"] == made["test"]["accuracy"]


def test_a_new_head_is_one_file_and_one_line(copy: Copy, labelled: list[str]) -> None:
    copy.add(
        "first_and_last.py", "model", after='"tag": "model', line='"ends": "model.first_and_last:FirstAndLastHead",'
    )
    copy.add("ends_task.py", "tasks", after='"tag": "tasks', line='"ends": "tasks.ends_task:EndsTask",')
    counted = json.loads(copy.run("params", "--preset=small", "--head=ends", "--num-labels=3", "--json"))
    assert next(part["count"] for part in counted["parts"] if part["name"] == "head") == 3 * 2 * 256 + 3
    made = json.loads(copy.run("finetune", *labelled, "--num-train-epochs=5", "--task=ends", "--json"))
    assert made["test"]["accuracy"] > 0.9
    config = json.loads((copy.folder / "run" / "bundle" / "config.json").read_text())
    assert (config["head"], config["architectures"]) == ("ends", ["EndsClassifier"])
    lines = copy.run("predict", "run", text_of("pos"), text_of("neg")).splitlines()
    assert [line.split()[0] for line in lines] == ["pos", "neg"]


def test_a_new_objective_is_one_file_and_one_line(copy: Copy) -> None:
    copy.add(
        "same_token.py", "objectives", after='"causal"', line='"same": "objectives.same_token:SameTokenObjective",'
    )
    corpus = copy.folder / "corpus.txt"
    corpus.write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    assert "same" in copy.run("pretrain", "--help")
    copy.run(
        "pretrain", corpus, "--objective=same", "--out=base", "--max-steps=40", "--batch-size=16",
        "--learning-rate=1e-2", "--kind=word", "--max-length=32", *FLAGS, *MACHINE,
    )  # fmt: skip
    scored = json.loads(copy.run("evaluate", "base", corpus, "--device=cpu", "--json"))
    assert scored["loss"] < 0.5, "less than any model of the next token can reach"


def test_a_new_baseline_is_one_file_and_one_line(copy: Copy, labelled: list[str]) -> None:
    copy.add(
        "shortest_text.py", "baselines", after='"majority": "baselines.classify',
        line='"shortest": "baselines.shortest_text:baseline",',
    )  # fmt: skip
    made = json.loads(copy.run("finetune", *labelled, "--num-train-epochs=1", "--json"))
    assert set(made["baselines"]) == {"majority", "shortest", "tfidf"}
    write_data(copy.folder / "files")
    copy.run(
        "study", "--train=files/train.jsonl", "--test=files/test.jsonl", "--arms=majority,shortest", "--budgets=40",
        "--seeds=1", "--max-length=24", "--out=study", *FLAGS, *MACHINE,
    )  # fmt: skip
    report = (copy.folder / "study" / "report.md").read_text(encoding="utf-8")
    rows = [line for line in report.splitlines() if line.startswith("| shortest |")]
    assert len(rows) == 2, report  # the scores, and the confidence
    assert "the label of the shortest training text" in (copy.folder / "study" / "report.html").read_text("utf-8")


def test_only_tasks_know_the_names_of_tasks() -> None:
    """A room asks a task what it can do; a comparison with its name would leave out a task that is added."""
    source = Path(headswap.__file__).parent
    found = set()
    for file in source.rglob("*.py"):
        place = file.relative_to(source).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare) or place.startswith("tasks/"):
                continue
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            names = {name for side in sides for name in re.findall(r"'(\w+)'", side)}
            if names & set(registry.TASKS) and any(
                re.search(r"task(_of\(.*\))?\.(name|task)\b", side) for side in sides
            ):
                found.add(place)
    assert found == {"bundle/rename_labels.py"}, "bundle/ is below tasks/ and has only the name"
