"""What is mutated, and how the answer is judged.

A protected file is covered by a manifest, a digest or a checksum: each change of it must be detected or be harmless. An
input is a file of the user: each change of it must be read, or be refused with a sentence.
"""

import contextlib
import io
import json
import os
import re
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.cli.exit_codes import run
from headswap.core.errors import HeadswapError
from headswap.inference.predict import predict_texts
from headswap.study.jobs.job_outputs import damage, write_checksums
from headswap.study.setup.row_files import check_rows, rows_digest
from headswap.tokens.store import TokenStore
from headswap.training.checkpoint import find_checkpoints, problems_of
from reliability.bad_inputs import ROWS, SHAPE, UNFINISHED
from reliability.outcome import SENTENCE, make_good
from study_fixture import done_here, sections_of

DETECTED, HARMLESS = "detected", "harmless"
TEXTS = ["the film was fine", "a cold story"]
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "the film was made in 1950", "qas": [
    {"id": "q", "question": "when was it made?", "answers": [{"text": "1950", "answer_start": 21}]}]}]}]}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """Files that are mutated one at a time, and a judge of the answer."""

    name: str
    files: Callable[[Path], list[Path]]
    """The files below the folder of fixtures."""
    judge: Callable[[Path, Path], str]
    """`detected`, `harmless`, or what is wrong, for the folder of fixtures and the mutated file."""
    is_protected: bool


def make_fixtures(folder: Path) -> None:
    """Valid files of every kind."""
    make_good(folder)
    shutil.copytree(folder / "unfinished", folder / "resumable", symlinks=True)
    plan = done_here(folder / "study", sections_of(folder / "study-files", arms=ARMS, budgets=("40",), seeds=1))
    for job in plan.jobs.values():
        write_checksums(Path(job.folder))
    inputs = folder / "inputs"
    inputs.mkdir()
    (inputs / "rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS * 3))
    (inputs / "rows.jsonl").write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS)
    )
    (inputs / "lines.txt").write_text("".join(f"{text}\n" for text, _ in ROWS * 3))
    (inputs / "labels.txt").write_text("".join(f"{label}\n" for _, label in ROWS * 3))
    table = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
    pyarrow.parquet.write_table(pyarrow.table(table), inputs / "rows.parquet")
    (inputs / "squad.json").write_text(json.dumps(SQUAD))
    (inputs / "words.conll").write_text("the O\nfilm B-X\n\na O\nstory B-X\n" * 3)
    shutil.copy(folder / "store" / "tokenizer.json", inputs / "tokenizer.json")
    (inputs / "dict.txt").write_text(
        "".join(f"\u2581{word} {9 - at}\n" for at, word in enumerate(["the", "film", "was", "a"]))
    )
    (inputs / "pieces.txt").write_text("\u2581the \u2581film\n\u2581a \u2581film\n")
    shutil.copy(folder / "unfinished" / "recipe.toml", inputs / "recipe.toml")


ARMS = ("majority", "scratch", "pretrained")


# Protected files


def _inside(*parts: str, leave: tuple[str, ...] = ()) -> Callable[[Path], list[Path]]:
    return lambda folder: sorted(
        file for part in parts for file in folder.glob(f"{part}/*") if file.is_file() and file.name not in leave
    )


def _judge_bundle(folder: Path, file: Path) -> str:
    bundle = folder / "bundle"
    if any(not check.is_sound for check in check_bundle(bundle)):
        with contextlib.suppress(HeadswapError):  # also without the doctor there is no other error
            predict_texts(Bundle.load(bundle), TEXTS)
        return DETECTED
    same = [answer.as_json() for answer in predict_texts(Bundle.load(bundle), TEXTS)] == _answers(folder)
    return HARMLESS if same else "other predictions"


def _answers(folder: Path) -> list[object]:
    file = folder / "answers.json"
    if not file.exists():  # written before the first mutation
        answers = [answer.as_json() for answer in predict_texts(Bundle.load(folder / "bundle"), TEXTS)]
        file.write_text(json.dumps(answers))
    return json.loads(file.read_text())


def _judge_store(folder: Path, file: Path) -> str:
    try:
        store = TokenStore.open(folder / "store")
        store.verify()
    except HeadswapError:
        return DETECTED
    sound = TokenStore.open(folder / "sound-store")
    pairs = ((store.ids, sound.ids), (store.offsets, sound.offsets), (store.byte_counts, sound.byte_counts))
    is_same = all(np.array_equal(one, other) for one, other in pairs) and store.fingerprint == sound.fingerprint
    return HARMLESS if is_same else "other tokens"


def _judge_checkpoint(folder: Path, file: Path) -> str:
    found = problems_of(file.parent) if file.parent.name.startswith("step-") else []
    return DETECTED if found else _only_manifest(file)


def _judge_job(folder: Path, file: Path) -> str:
    job = file.parent.parent if file.parent.name == "bundle" else file.parent
    kind = json.loads((folder / "kinds.json").read_text())[job.name]
    base = next((folder / "study" / "runs").glob("base-*"), None) if kind == "finetune" else None
    base = base if job.name.startswith("pretrained") else None
    return DETECTED if damage(kind, job, base=base) else _only_manifest(file)


def _only_manifest(file: Path) -> str:
    """A changed manifest that still fits all files changes nothing; a card is not read by a program."""
    return HARMLESS if file.name in ("manifest.json", "README.md") else "not detected"


def _judge_rows(folder: Path, file: Path) -> str:
    digests = json.loads((folder / "digests.json").read_text())
    try:
        check_rows({file.stem: str(file)}, digests)
    except HeadswapError:
        return DETECTED
    now = rows_digest(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return HARMLESS if now == digests[file.stem] else "other rows"


def _judge_resumed(folder: Path, file: Path) -> str:
    """A run that is resumed with a damaged file is refused, or ends with the same weights."""
    code, said = answer_of(RESUME, folder)
    if wrong := _wrong_answer(code, said):
        return wrong
    if code:
        return DETECTED
    same = (folder / "resumable/bundle/model.safetensors").read_bytes() == (folder / "weights").read_bytes()
    return HARMLESS if same else "other weights"


RESUME = ["pretrain", "corpus.txt", "--out=resumable", "--resume", *UNFINISHED]


# Inputs


def answer_of(argv: list[str], folder: Path) -> tuple[int | None, str]:
    """Exit code and messages of a command in this process; None and the traceback if an exception left it."""
    before = Path.cwd()
    os.chdir(folder)
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return run(argv), err.getvalue()
    except BaseException:  # any exception is a bug
        return None, traceback.format_exc()
    finally:
        os.chdir(before)
        for name in ("out", "out.json", "out.npy"):
            place = folder / name
            if place.is_dir():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)


def _wrong_answer(code: int | None, said: str) -> str:
    if code is None:
        return re.sub(r"\s+", " ", said[-600:])
    if code not in (0, 1, 2):
        return f"exit code {code}"
    return "" if code == 0 or SENTENCE.search(said) else f"no sentence: {said[-300:]!r}"


def _command(*argv: str) -> Callable[[Path, Path], str]:
    """A command that reads the mutated file."""

    def judge(folder: Path, file: Path) -> str:
        code, said = answer_of(list(argv), folder)
        if argv[0] == "doctor" and code == 1:  # its problems are on standard output
            return DETECTED
        return _wrong_answer(code, said) or (DETECTED if code else HARMLESS)

    return judge


def _one(name: str) -> Callable[[Path], list[Path]]:
    return lambda folder: [folder / "inputs" / name]


CPU = "--device=cpu"
PROTECTED = (
    Subject("bundle", _inside("bundle"), _judge_bundle, True),
    Subject("token store", _inside("store"), _judge_store, True),
    Subject("checkpoint", _inside("unfinished/checkpoints/step-*"), _judge_checkpoint, True),
    Subject("job of a study", _inside("study/runs/*", "study/runs/base-*/bundle", leave=("metrics.jsonl",)), _judge_job,
            True),
    Subject("rows of a study", lambda folder: sorted((folder / "study/data").glob("t*.jsonl")), _judge_rows, True),
)  # fmt: skip
RESUMED = Subject("run that is resumed", _inside("resumable", "resumable/checkpoints/step-*"), _judge_resumed, True)
"""Slow, so there are fewer cases."""
INPUTS = tuple(
    Subject(name, _one(file), _command(*argv), False)
    for name, file, argv in (
        ("csv", "rows.csv", ("evaluate", "bundle", "inputs/rows.csv", CPU)),
        ("jsonl", "rows.jsonl", ("evaluate", "bundle", "inputs/rows.jsonl", CPU)),
        ("parquet", "rows.parquet", ("evaluate", "bundle", "inputs/rows.parquet", CPU)),
        ("text lines", "lines.txt", ("predict", "bundle", "--file=inputs/lines.txt", CPU)),
        ("labels", "labels.txt", ("evaluate", "bundle", "inputs/lines.txt", "--label-file=inputs/labels.txt", CPU)),
        ("corpus", "lines.txt", ("store", "inputs/lines.txt", "--tokenizer=base", "--out=out")),
        ("training set", "rows.csv", ("doctor", "--train=inputs/rows.csv")),
        ("questions", "squad.json", ("doctor", "--train=inputs/squad.json", "--task=span")),
        ("tags", "words.conll", ("doctor", "--train=inputs/words.conll", "--task=tag")),
        ("tokenizer", "tokenizer.json", ("store", "corpus.txt", "--tokenizer=inputs/tokenizer.json", "--out=out")),
        ("dictionary", "dict.txt", ("store", "inputs/pieces.txt", "--tokenizer=inputs/dict.txt", "--out=out")),
        ("recipe", "recipe.toml", ("pretrain", "absent.txt", "--config=inputs/recipe.toml", "--out=out", *SHAPE)),
    )
)


def remember(folder: Path) -> None:
    """Write what the judges compare with, before the first mutation."""
    _answers(folder)
    shutil.copytree(folder / "store", folder / "sound-store")
    plan = json.loads((folder / "study" / "plan.json").read_text())
    (folder / "kinds.json").write_text(json.dumps({job["folder"]: job["kind"] for job in plan["jobs"].values()}))
    rows = {file.stem: [json.loads(line) for line in file.read_text().splitlines()]
            for file in (folder / "study" / "data").glob("t*.jsonl")}  # fmt: skip
    (folder / "digests.json").write_text(json.dumps({role: rows_digest(found) for role, found in rows.items()}))
    assert find_checkpoints(folder / "unfinished" / "checkpoints")
    shutil.copytree(folder / "resumable", folder / "kept-run", symlinks=True)
    code, said = answer_of(RESUME, folder)
    assert code == 0, said
    shutil.copy(folder / "resumable" / "bundle" / "model.safetensors", folder / "weights")
    restore_run(folder)


def restore_run(folder: Path) -> None:
    """The unfinished run as it was."""
    shutil.rmtree(folder / "resumable")
    shutil.copytree(folder / "kept-run", folder / "resumable", symlinks=True)
