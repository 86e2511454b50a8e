"""Row 10: peak memory and CPU time of commands on large inputs, each in a process of its own.

Peak memory is the largest resident size of the child, from getrusage. The inputs are generated: short rows of invented
words, of which 1 % repeat an earlier row and 1 % change one word of an earlier row.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headswap.core.current_folder import new_python

from .row import Measured, Setting, Target
from .texts import tokenizer, words

WORDS_PER_ROW = 10
GIGABYTE = 1e9
HEADSWAP = ("-m", "headswap")
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)
sys.exit(code not in (0, 1))  # the doctor leaves with 1 where it finds problems
"""
PREPARE = """
import sys
from pathlib import Path
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.prepare import prepare
train, test, out = sys.argv[1:]
prepare(StudyRecipe.model_validate({"data": {"train": train, "test": test}}), Path(out))
"""


def large_inputs(setting: Setting) -> list[Measured]:
    """predict, doctor and study preparation on short rows, a large document, and how the doctor's time grows."""
    small, large = (2_000, 20_000) if setting.is_tiny else (100_000, 1_000_000)
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        classifier = make_classifier(folder)
        for size in (small, large):
            write_rows(folder, size)
            found.append(_measured(folder, size, classifier, is_large=not setting.is_tiny and size == large))
        growth = Measured("growth of time from the smaller to the larger set", "times")
        for what in ("predict", "doctor", "study preparation"):
            growth.measures[what] = found[1].measures[f"{what}: seconds"] / found[0].measures[f"{what}: seconds"]
        growth.targets = [Target("doctor", 12, is_most=True), Target("study preparation", 12, is_most=True)]
        found.append(growth)
        found.append(_document(folder, 1 if setting.is_tiny else 60, is_large=not setting.is_tiny))
    return found


def _measured(folder: Path, size: int, classifier: Path, *, is_large: bool) -> Measured:
    rows = {name: str(folder / name) for name in ("lines.txt", "train.csv", "test.csv")}
    out = folder / f"study-{size}"
    commands = {
        "predict": (*HEADSWAP, "predict", str(classifier), "--file", rows["lines.txt"], "--quiet"),
        "doctor": (*HEADSWAP, "doctor", "--train", rows["train.csv"], "--test", rows["test.csv"]),
        "study preparation": ("-c", PREPARE, rows["train.csv"], rows["test.csv"], str(out)),
    }
    measured = Measured(f"{size:,} short rows", "GB and CPU seconds")
    for what, command in commands.items():
        seconds, peak = run(*command)
        measured.measures |= {f"{what}: GB": peak / GIGABYTE, f"{what}: seconds": seconds}
    if is_large:
        limits = {"predict": 0.7, "doctor": 1.5, "study preparation": 1.5}
        measured.targets = [Target(f"{what}: GB", most, is_most=True) for what, most in limits.items()]
    return measured


def _document(folder: Path, megabytes: int, *, is_large: bool) -> Measured:
    """A token store of one document."""
    text, vocabulary = folder / "document.txt", folder / "tokenizer.json"
    tokenizer().save(vocabulary)
    lines = "\n".join(short_rows(20_000))
    with text.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(f"{lines}\n")
    command = (
        "store",
        str(text),
        "--documents",
        "file",
        "--tokenizer",
        str(vocabulary),
        "--out",
        str(folder / "store"),
    )
    seconds, peak = run(*HEADSWAP, *command)
    measured = Measured(f"a token store of one document of {megabytes} MB", "GB and CPU seconds")
    measured.measures = {"store: GB": peak / GIGABYTE, "store: seconds": seconds}
    measured.targets = [Target("store: GB", 0.5, is_most=True)] if is_large else []
    return measured


def short_rows(count: int) -> Iterator[str]:
    """Rows of ten words; one in a hundred repeats an earlier row, one in a hundred repeats all but a word of one."""
    rng = np.random.default_rng(0)
    kept: list[str] = []
    for start in range(0, count, 10_000):
        drawn = words(WORDS_PER_ROW * min(10_000, count - start), seed=start)
        for at in range(0, len(drawn), WORDS_PER_ROW):
            row, kind = drawn[at : at + WORDS_PER_ROW], rng.integers(100)
            if kind < 2 and kept:
                row = kept[rng.integers(len(kept))].split()
                row[-1] = row[-1] if kind else "changed"
            elif len(kept) < 10_000:
                kept.append(" ".join(row))
            yield " ".join(row)


def write_rows(folder: Path, count: int) -> None:
    """`lines.txt`, and nine tenths of it as `train.csv`, the rest as `test.csv`."""
    with (
        (folder / "lines.txt").open("w") as lines,
        (folder / "train.csv").open("w") as train,
        (folder / "test.csv").open("w") as test,
    ):
        for file in (train, test):
            file.write("text,label\n")
        for number, row in enumerate(short_rows(count)):
            lines.write(f"{row}\n")
            (test if number % 10 == 9 else train).write(f"{row},{('neg', 'pos')[number % 7 % 2]}\n")


def make_classifier(folder: Path) -> Path:
    """A small classifier, fine-tuned for one step."""
    file = folder / "labelled.jsonl"
    rows = [{"text": row, "label": ("neg", "pos")[number % 2]} for number, row in enumerate(short_rows(64))]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    shape = (
        "--hidden-size",
        "32",
        "--num-hidden-layers",
        "2",
        "--num-attention-heads",
        "2",
        "--intermediate-size",
        "48",
    )
    limits = ("--preset", "lab", "--max-length", "64", "--max-steps", "1", "--device", "cpu", "--quiet")
    run(
        *HEADSWAP,
        "finetune",
        "--base",
        "scratch",
        "--train",
        str(file),
        *shape,
        *limits,
        "--out",
        str(folder / "classifier"),
    )
    return folder / "classifier"


def run(*command: str) -> tuple[float, int]:
    """CPU seconds and peak resident bytes of a process, which a small process starts: a parent's size would count."""
    done = subprocess.run(new_python("-c", LAUNCHER, *new_python(*command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-500:]}")
    seconds, peak = done.stdout.split()
    return float(seconds), int(peak)
