"""Help pages: groups, common flags, widths, examples that run."""

import glob
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from cli_calls import FLAGS, MACHINE, SHAPE, call, modules_after
from headswap.cli.app import VERBS, make_app
from headswap.cli.exit_codes import run
from headswap.cli.help_page import broken_command, entries_of, is_common
from headswap.cli.help_tables import ARGUMENTS, COMMON, GROUPS, HIDDEN, NEEDED, ORDER, OUTSIDE_THEIR_SECTION, VALUES
from reloading import reload_here
from task_data import questions, tagged, write_rows
from tiny import sentences

WIDTHS = (80, 100, 120)
TINY = [*FLAGS, *MACHINE, "--max-length=24"]
START = [*MACHINE, "--num-train-epochs=1"]
QUICK: dict[str, list[str]] = {
    "pretrain": ["--vocab-size=300", *TINY],
    "adapt": [*MACHINE, "--max-length=24"],
    "finetune": START,
    "study": ["--arms=majority,tfidf", "--budgets=40", "--seeds=1"],
    "evaluate": MACHINE,
}
"""Flags that make an example small."""
SMALLER = {"--max-minutes 10": "--max-steps 2", "--vocab-size 16000": "--vocab-size 300", "--vocab-size 50001": ""}


def page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, *argv: str) -> list[str]:
    """The lines of a help page on a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(width))
    return call(capsys, *argv).splitlines()


def groups_of(lines: list[str]) -> list[str]:
    return [line for line in lines if line in ORDER]


def examples(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Every example of every help page, as one line each."""
    found = []
    for verb in VERBS:
        text = call(capsys, verb, "--help").replace("\\\n", "")
        found += [(verb, " ".join(line.split())) for line in re.findall(r"^  (headswap .*)", text, re.MULTILINE)]
    return found


def test_overview_has_every_verb_with_its_description(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(call(capsys, "--help").split())
    assert all(f"{verb} {description}" in shown for verb, description in VERBS.items())
    assert " ".join(call(capsys).split()) == shown, "without arguments the overview is printed too"


@pytest.mark.parametrize("verb", VERBS)
def test_page_of_a_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    lines = page(capsys, monkeypatch, 100, verb, "--help")
    assert lines[0].startswith(f"Usage: headswap {verb}")
    assert lines[2] == VERBS[verb], "the overview and the page describe the verb in the same words"
    assert {"Example", "Examples"} & set(lines)
    entries = [entry for entry in entries_of(make_app(), verb) if entry.name not in HIDDEN.get(verb, ())]
    common = [entry for entry in entries if is_common(verb, entry)]
    assert len(common) <= 27
    hidden = len(entries) - len(common)
    more = f"{hidden} more options: headswap {verb} --help-all"
    assert lines[-1] == more if hidden else "--help-all" not in lines[-1]


@pytest.mark.parametrize("verb", VERBS)
def test_help_all_has_every_flag_that_is_not_hidden_in_the_groups_of_the_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    lines = page(capsys, monkeypatch, 100, verb, "--help-all")
    flags = {found for line in lines for found in re.findall(r"^  --([\w.-]+)", line.replace("[no-]", ""))}
    arguments = make_app()[verb].assemble_argument_collection()
    hidden = {f"--{name.replace('_', '-')}" for name in HIDDEN.get(verb, ())}
    every = {each.name for each in arguments if each.show and each.index is None}
    assert {f"--{flag}" for flag in flags} == every - hidden
    groups = groups_of(lines)
    assert groups == sorted(set(groups), key=ORDER.index)
    assert set(groups_of(page(capsys, monkeypatch, 100, verb, "--help"))) <= set(groups)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verb", VERBS)
def test_lines_fill_the_width_and_do_not_exceed_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, width: int
) -> None:
    lines = page(capsys, monkeypatch, width, verb, "--help-all")
    limit = min(width, 100)
    assert all(len(line) <= limit for line in lines)
    for line, following in pairwise(lines):
        if line[28:30] == "  " and following.startswith(" " * 30) and "[" not in following:
            first_word = re.match(r" *((?:- )?\S+)", following)[1]  # type: ignore[index]
            assert len(line) + 1 + len(first_word) > limit, f"broken too early: {line!r}"


def test_tables_name_settings_and_groups_that_exist() -> None:
    app = make_app()
    names = {verb: {entry.name for entry in entries_of(app, verb)} for verb in VERBS}
    for verb, common in COMMON.items():
        assert set(common) <= names[verb], verb
        assert len(set(common)) == len(common), verb
    every = {name for found in names.values() for name in found}
    last_parts = {name.rpartition(".")[2] for name in every}
    assert set(GROUPS) | set(OUTSIDE_THEIR_SECTION) <= every
    assert set(VALUES) <= last_parts
    for verb, hidden in HIDDEN.items():
        assert set(hidden) <= names[verb] - set(COMMON[verb]), verb
    for verb, needed in NEEDED.items():
        assert set(needed) <= names[verb], verb
    assert set(ARGUMENTS) <= every
    assert {entry.group for verb in VERBS for entry in entries_of(app, verb)} <= set(ORDER)


def test_descriptions_have_no_source_line_breaks_and_name_flags() -> None:
    for verb in VERBS:
        for entry in entries_of(make_app(), verb):
            assert entry.text == " ".join(entry.text.split())
            assert entry.text, entry.name
            assert "max_length" not in entry.text


def test_a_flag_with_an_opposite_states_that_it_is_off_by_default() -> None:
    texts = {entry.label: entry.text for entry in entries_of(make_app(), "pretrain")}
    assert texts["--[no-]lowercase"].endswith("[default: off]")
    assert "default" not in texts["--overwrite"]


def test_every_default_is_shown_in_brackets_at_the_end() -> None:
    for verb in VERBS:
        for entry in entries_of(make_app(), verb):
            assert "Default" not in entry.text, (verb, entry.text)
            assert "[default: " not in entry.text or entry.text.endswith("]"), (verb, entry.text)
    texts = {entry.name: entry.text for entry in entries_of(make_app(), "finetune")}
    assert texts["hidden_size"] == "Width of the base. [default: that of the preset]"
    assert texts["metric"].endswith(
        "r2, loss; default: accuracy (classify), micro_f1 (multilabel), mse (regress), f1 (tag, span)]"
    )


def test_a_note_in_brackets_is_broken_only_if_it_is_longer_than_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in WIDTHS:
        for verb in VERBS:
            text = "\n".join(page(capsys, monkeypatch, width, verb, "--help-all"))
            for note in re.findall(r"\[(?:choices|default|required)[^]]*\]", text):
                if "\n" in note:
                    assert len(" ".join(note.split())) > min(width, 100) - 30, note
                    assert re.search(rf"^ +{re.escape(note)}", text, re.MULTILINE), note


def test_a_study_names_settings_of_its_trainings_with_their_prefix() -> None:
    texts = {entry.name: entry.text for entry in entries_of(make_app(), "study")}
    assert "neither --finetune.num-train-epochs nor --finetune.max-steps" in texts["finetune.early_stopping_patience"]
    assert "(--finetune.long windows)" in texts["finetune.doc_stride"]
    assert "divided by --finetune.learning-rate" in texts["head_lr_factor"]
    assert "see --pretrain.optimizer" in texts["dropout"]
    assert "that of --max-length" in texts["pretrain.max_length"]
    assert "truncates it at --adapt.max-length" in texts["adapt.layout"], "not the flag that all trainings share"
    assert "longer than --finetune.max-length" in texts["finetune.long"]
    assert "default: that of --metric]" in texts["finetune.metric"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_names_only_flags_of_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    lines = [line.replace("[no-]", "") for line in page(capsys, monkeypatch, 100, verb, "--help-all")]
    flags = {found for line in lines for found in re.findall(r"^  (--[\w.-]+)", line)}
    text = " ".join(" ".join(lines).split())
    of_others = re.compile(rf"headswap (?!{verb} )[a-z]+ --[a-z-]+")
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9.-]*[a-z0-9]", of_others.sub("", text)))
    assert named <= flags | {"--help-all"}


def test_long_command_is_broken_before_a_flag() -> None:
    command = 'headswap predict runs/a "a text of words" --question "what?" --file x.txt'
    shown = broken_command(command, 50)
    assert all(len(line) <= 50 for line in shown.splitlines())
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(command)
    assert [line.split()[0] for line in shown.splitlines()] == ["headswap", "--question"]


def test_overview_imports_nothing_large() -> None:
    assert not {"torch", "sklearn", "scipy", "matplotlib", "transformers"} & modules_after("--help")


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "study", "pack", "generate"])
def test_page_of_a_verb_does_not_import_torch(verb: str) -> None:
    assert not {"torch", "sklearn", "scipy"} & modules_after(verb, "--help-all")


def test_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m headswap pretrain --help | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command]).returncode == 0


def test_help_after_two_dashes_is_a_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["predict", str(tmp_path / "nothing"), "--", "--help"]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and models that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("reviews.txt", "my-domain.txt"):
        (folder / name).write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    (folder / "reference.txt").write_text("the film was warm .\nthe ending was cold .\n", encoding="utf-8")
    for name, seed in (("train", 1), ("test", 2)):
        rows = "".join(f"{text} no {number},{label}\n" for number, (text, label) in enumerate(sentences(80, seed=seed)))
        (folder / f"{name}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
        words = ("\n".join(map(" ".join, zip(*row.values(), strict=True))) for row in tagged(40, seed=seed))
        (folder / f"{name}.conll").write_text("\n\n".join(words) + "\n", encoding="utf-8")
    write_rows(folder / "questions.jsonl", questions(40))
    tiny: dict[str, Any] = {"device": "cpu", "threads": 1, "max_length": 24}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        patch.setattr("headswap.study.report.write.draw_figures", lambda *_, **__: [])
        reload_here(patch)
        runs = folder / "runs"
        for name, objective in (("base", "causal"), ("masked", "masked")):
            hs.pretrain(
                folder / "reviews.txt", out=runs / name, objective=objective, max_steps=3, held_out_fraction=0.1,
                vocab_size=300, **SHAPE, **tiny,
            )  # fmt: skip
        hs.pretrain(
            folder / "reviews.txt", out=runs / "llama", preset="llama", max_steps=2, held_out_fraction=0.1,
            vocab_size=300, **SHAPE, **tiny,
        )  # fmt: skip
        quick = {"device": "cpu", "threads": 1, "max_steps": 2}
        data = {"train": folder / "train.csv", "test": folder / "test.csv"}
        for name, more in (("classifier", {}), ("lora", {"trainable": "lora"}), ("pretrained-1", {})):
            hs.finetune(runs / "base", out=runs / name, **data, **quick, **more)
        hs.finetune("scratch", out=runs / "scratch-1", vocab_size=300, **data, **SHAPE, **tiny, max_steps=2)
        hs.finetune(
            "scratch", out=runs / "answerer", train=folder / "questions.jsonl", task="span", max_steps=2,
            vocab_size=300, **SHAPE, **tiny | {"max_length": 40},
        )  # fmt: skip
        hs.run_study(
            out=folder / "studies" / "reviews", train=data["train"], test=data["test"], arms=["majority", "tfidf"],
            budgets=[40], seeds=1,
        )  # fmt: skip
    return folder


def test_every_example_of_every_page_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("headswap.study.report.write.draw_figures", lambda *_, **__: [])
    (folder / "tokenizer.json").write_bytes((folder / "runs/base/bundle/tokenizer.json").read_bytes())
    commands = examples(capsys)
    assert {verb for verb, _ in commands} == set(VERBS)
    for number, (verb, command) in enumerate(commands):
        if verb == "demo":
            continue  # minutes: the next test
        for written, smaller in SMALLER.items():
            command = command.replace(written, smaller)
        words = [each for word in shlex.split(command)[1:] for each in (sorted(glob.glob(word)) or [word])]
        if "--out" in words:
            words[words.index("--out") + 1] = f"out-{number}{Path(words[words.index('--out') + 1]).suffix}"
        code = run([*words, *QUICK.get(verb, [])])
        assert code == 0, f"{command}\n{capsys.readouterr().err}"
        capsys.readouterr()


def test_the_example_of_the_demo_starts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr("headswap.cli.verbs.study.run_study_verb", lambda *given, **_: started.append(given) or 0)
    ((_, command),) = [each for each in examples(capsys) if each[0] == "demo"]
    assert run(shlex.split(command)[1:]) == 0
    assert len(started) == 1
