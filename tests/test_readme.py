"""The code of README and docs works: commands parse and run, Python blocks run, printed results are as documented.

Commands run on small files. The steps of "Shipping your own" in docs/bases.md are in test_bases_document.py.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from cyclopts import App, CycloptsError

from headswap.cli.app import make_app
from headswap.cli.exit_codes import run
from headswap.core.installed_bases import checked_base
from tiny import sentences

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("bases/*/README.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TORCHRUN = re.compile(r"^torchrun .*?-m headswap ")
BOX = "box:reviews-en-2"
# Minutes and labels of a document, on the small files.
QUICK = {"--max-minutes": "0.05", "--budgets": "40", "--seeds": "1"}
# Flags that commands without a limit need to be quick.
SHORT = {
    "finetune": {"--num-train-epochs": "1", "--max-length": "24"},
    "adapt": {"--max-steps": "2", "--max-length": "24"},
    "study": {
        "--finetune.num-train-epochs": "1", "--adapt.max-steps": "2", "--max-length": "24", "--budgets": "40",
        "--seeds": "1",
    },
}  # fmt: skip


class Block(NamedTuple):
    """A fenced block of a document: its language and its text."""

    language: str
    text: str


def blocks(name: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [Block(*found) for found in FENCED.findall((ROOT / name).read_text(encoding="utf-8"))]


def shell_lines(text: str) -> list[str]:
    """The commands of a block: lines behind `$`, or all; a backslash at the end of a line continues it."""
    lines = [TORCHRUN.sub("headswap ", line) for line in re.sub(r"\\\n\s*", "", text).splitlines()]
    shown = [line[2:] for line in lines if line.startswith("$ ")]
    return shown or [line for line in lines if line.startswith(("headswap ", "python benchmarks/"))]


def commands(name: str, language: str | None = None) -> list[list[str]]:
    """The words of every command of a document, or of its blocks in one language."""
    chosen = [block.text for block in blocks(name) if language in (None, block.language)]
    return [shlex.split(line, comments=True) for text in chosen for line in shell_lines(text)]


def every_command() -> list[tuple[str, list[str]]]:
    names = [str(file.relative_to(ROOT)) for file in DOCUMENTS]
    return [(f"{name}: {shlex.join(words)}", words) for name in names for words in commands(name)]


def quick(words: list[str]) -> list[str]:
    """A command with small limits instead of its own, and with limits that it does not have."""
    words = list(words)
    added = {} if "--max-minutes" in words else SHORT.get(words[1], {})
    if words[1] == "study" and "--corpus" in words:
        added = added | {"--pretrain.max-steps": "2"}
    for flag, value in (QUICK | added).items():
        if flag in words:
            words[words.index(flag) + 1] = value
        elif flag in added:
            words += [flag, value]
    return words


def refusal(app: App, words: list[str]) -> str | None:
    """What is wrong with the verb, a flag or a value of a command line; None if nothing is."""
    try:
        app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as problem:
        return str(problem)
    return None


class Workplace:
    """A folder with the files that the documents name, and a way to run Python there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, count, seed in (("reviews", 300, 0), ("new-domain", 200, 3), ("my-domain", 200, 4), ("texts", 20, 5)):
            lines = [f"{text} or so they say .\n" for text, _ in sentences(count, seed=seed)]
            (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
        for name, count, seed in (("train", 240, 1), ("test", 40, 2)):
            rows = "".join(f'"{text}",{label}\n' for text, label in sentences(count, seed=seed))
            (folder / f"{name}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")

    def run(self, *words: str) -> tuple[str, str]:
        """Standard output of a Python process, and its standard error if it failed or printed a traceback."""
        environment = os.environ | {"HEADSWAP_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        has_failed = done.returncode != 0 or "Traceback" in done.stderr
        return done.stdout, f"{shlex.join(words)}\n{done.stderr}" if has_failed else ""

    def problem(self, words: list[str]) -> str:
        """Why a command failed; empty if it did not."""
        return self.run("-m", *words)[1]

    def headswap(self, words: list[str]) -> str:
        """Standard output of a command that must succeed."""
        output, problem = self.run("-m", *words)
        assert problem == ""
        return output


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def _has_own_base() -> None:
    """`make` installs it beside headswap; a base that is missing or damaged is a failure."""
    checked_base(BOX)


# Every document


@pytest.mark.parametrize(("shown", "words"), every_command(), ids=[shown for shown, _ in every_command()])
def test_a_documented_command_has_a_verb_and_flags_that_exist(shown: str, words: list[str]) -> None:
    if words[0] == "python":
        assert refusal(import_module(Path(words[1]).stem).app, words[2:]) is None
    else:
        assert refusal(make_app(), words[1:]) is None


def test_a_verb_or_a_flag_that_does_not_exist_is_found() -> None:
    assert "Unknown command" in str(refusal(make_app(), ["pretrian", "x.txt"]))
    assert "Unknown option" in str(refusal(make_app(), ["pretrain", "x.txt", "--out", "x", "--max-step", "3"]))


def test_there_are_commands_in_many_documents() -> None:
    assert len(every_command()) >= 70


# README


def test_the_readme_begins_with_four_commands() -> None:
    assert [words[1] for words in commands("README.md", "bash")[:4]] == ["pretrain", "generate", "finetune", "predict"]


@pytest.mark.slow
def test_every_readme_command_runs(workplace: Workplace) -> None:
    for words in commands("README.md", "bash"):
        assert workplace.problem(quick(words)) == ""


@pytest.mark.slow
def test_the_python_code_of_the_readme_runs(workplace: Workplace) -> None:
    (block,) = (block.text for block in blocks("README.md") if block.language == "python")
    code = block.replace("max_minutes=10", "max_minutes=0.05")
    assert code != block
    assert workplace.run("-c", code)[1] == ""


@pytest.mark.slow
@pytest.mark.usefixtures("_has_own_base")
def test_the_readme_commands_of_the_installed_base_run(workplace: Workplace) -> None:
    (text,) = (block.text for block in blocks("README.md") if block.text.startswith("$ "))
    found = {words[1]: workplace.headswap(quick(words)) for words in map(shlex.split, shell_lines(text))}
    assert found["generate"].startswith("the acting was wooden, but")
    assert found["embed"] == "" or "2 vectors of width 256" in found["embed"]
    assert (workplace.folder / "vectors.npy").exists()


# docs


def test_another_system_is_an_arm_as_the_study_document_shows(workplace: Workplace) -> None:
    """The commands and the program of the section, in their order, on small files."""
    text = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    section = text.partition("## Another system as an arm")[2].partition("\n## ")[0]
    shown = [Block(*found) for found in FENCED.findall(section)]
    (program,) = (block.text for block in shown if block.language == "python")
    prepare, study, compare = (
        shlex.split(line) for block in shown if block.language == "bash" for line in shell_lines(block.text)
    )
    small = ["--budgets", "40", "--seeds", "1"]
    workplace.headswap([*prepare, *small])
    assert workplace.run("-c", program)[1] == ""
    assert "llm" in workplace.headswap([*(word.replace("majority,tfidf,", "") for word in study), *small])
    (workplace.folder / "rules.csv").write_bytes((workplace.folder / "llm.csv").read_bytes())
    assert "llm (one answer per text) against rules (one answer per text): the same score." in workplace.headswap(
        compare
    )


def test_the_python_code_of_concepts_prints_what_its_comments_show(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [block.text for block in blocks("docs/concepts.md") if block.language == "python"]
    assert len(shown) == 2
    for text in shown:
        expected = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
        exec(compile(text, "docs/concepts.md", "exec"), {})
        assert capsys.readouterr().out.splitlines() == expected


def test_the_parameter_counts_of_concepts_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [block.text for block in blocks("docs/concepts.md") if block.text.startswith("$ headswap params")]
    assert len(shown) == 2
    for text in shown:
        first, *table = text.splitlines()
        assert run(shlex.split(first)[2:]) == 0
        assert [line.split() for line in capsys.readouterr().out.splitlines()] == [line.split() for line in table]


@pytest.mark.slow
def test_the_commands_of_tasks_run_and_print_such_tables(workplace: Workplace) -> None:
    (workplace.folder / "recipes").symlink_to(ROOT / "recipes")
    assert workplace.run(str(ROOT / "tests" / "task_data.py"), "data")[1] == ""
    for block in blocks("docs/tasks.md"):
        parts = re.split(r"^\$ ", re.sub(r"\\\n\s*", "", block.text), flags=re.MULTILINE)[1:]
        for part in parts:
            line, *output = part.splitlines()
            printed = workplace.headswap(shlex.split(line)).splitlines()[: len(output)]
            assert len(printed) == len(output), (line, printed)
            if " finetune " in line:  # figures depend on the machine, names do not
                assert [row.split("\t")[0] for row in printed] == [re.split(r"\s{2,}", row)[0] for row in output]
                assert printed[0].split("\t") == re.split(r"\s{2,}", output[0])


@pytest.mark.slow
def test_the_commands_of_study_run(workplace: Workplace) -> None:
    study, named, report, compare = list(commands("docs/study.md", "bash"))[:4]
    assert workplace.problem(quick(study)) == ""
    assert workplace.problem(report) == ""
    assert (workplace.folder / "studies" / "reviews" / "report.html").exists()
    # The other two need a data set of 50,000 texts, and runs that were made one by one; their flags are checked above.
    assert (named[2], compare[1]) == ("movies", "compare")


@pytest.mark.slow
@pytest.mark.usefixtures("_has_own_base")
def test_the_commands_of_installed_bases_run(workplace: Workplace) -> None:
    first = next(block.text for block in blocks("docs/bases.md") if block.language == "bash")
    for line in shell_lines(first):
        assert workplace.problem(quick(shlex.split(line, comments=True))) == ""


@pytest.mark.slow
def test_the_recipe_for_several_processes_on_one_computer_runs(tmp_path: Path) -> None:
    """docs/scale.md: two CPU processes with fsdp, here with three steps of a small model."""
    lines = [line for block in blocks("docs/scale.md") for line in block.text.splitlines()]
    (recipe,) = [shlex.split(line) for line in lines if line.startswith("torchrun") and "--device cpu" in line]
    recipe[recipe.index("--max-steps") + 1] = "3"
    (tmp_path / "corpus").mkdir()
    texts = "".join(f"{text} {number}\n" for number, (text, _) in enumerate(sentences(80)))
    (tmp_path / "corpus" / "reviews.txt").write_text(texts, encoding="utf-8")
    small = ["--hidden-size=32", "--num-hidden-layers=1", "--num-attention-heads=2", "--max-length=16", "--threads=1"]
    command = [sys.executable, "-m", "torch.distributed.run", *recipe[1:], *small, "--intermediate-size=32"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "laptop" / "bundle" / "model.safetensors").is_file()
