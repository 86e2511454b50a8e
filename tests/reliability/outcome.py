"""The outcome of a command of the catalogue: exit code, message, and changes on the disk."""

import contextlib
import hashlib
import io
import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import headswap as hs
from headswap.cli.exit_codes import run
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import build_store
from headswap.tokens.train_tokenizer import train_tokenizer
from reliability.bad_inputs import CSV, UNFINISHED, Case, Good
from reliability.runs import SMALLEST, Crash, as_flags
from tiny import sentences, write_labelled

SENTENCE = re.compile(r"^headswap: \S.*(?:[.?]|with: \S+ [^\n]+)\s*\Z", re.MULTILINE | re.DOTALL)
"""A message that ends with a full stop, a question mark, or a command to copy."""


@dataclass
class Outcome:
    """Exit code, output and changed files of one command."""

    code: int | None
    out: str
    err: str
    changed: list[str] = field(default_factory=list)

    def problems(self, case: Case) -> list[str]:
        """The differences from the expected outcome of a malformed input."""
        found = []
        if self.code != 2:
            found.append(f"exit code {self.code}")
        if "Traceback" in self.err:
            found.append("a traceback")
        if self.out:
            found.append(f"standard output: {self.out[:200]!r}")
        if not SENTENCE.search(self.err):
            found.append("no sentence")
        found += [f"message without {words!r}" for words in case.says if words not in self.err]
        found += [f"changed {name}" for name in self.changed if not (case.may_fill_cache and name.startswith("cache"))]
        return [*found, self.err] if found else []


def make_good(folder: Path) -> Good:
    """Create the valid files that the cases damage."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(40)), encoding="utf-8")
    (folder / "train.csv").write_text(CSV)
    write_labelled(folder / "train.jsonl", 40)
    base = hs.pretrain(folder / "corpus.txt", out=folder / "base-run", max_steps=1, **SMALLEST)
    (base.path / "bundle").rename(folder / "base")
    run = hs.finetune(folder / "base", out=folder / "run", train=folder / "train.jsonl", max_steps=1, device="cpu")
    (run.path / "bundle").rename(folder / "bundle")
    documents = list(read_documents([str(folder / "corpus.txt")], ReadSettings()))
    build_store(documents, train_tokenizer(documents, TokenizerSettings(vocab_size=300)), folder / "store")
    numbers = {"max_steps": 6, "save_steps": 2, "logging_steps": 1, "batch_size": 8}
    assert set(as_flags(numbers)) <= set(UNFINISHED)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.suppress(MemoryError):
            hs.pretrain("corpus.txt", out="unfinished", observer=Crash(5), **SMALLEST, **numbers)
    finally:
        os.chdir(before)
    return Good(folder)


def outcome_of(case: Case, folder: Path, good: Good) -> Outcome:
    """Run one case in an empty folder."""
    folder.mkdir(parents=True)
    argv = case.make(folder, good)
    before = Path.cwd(), sys.stdin, os.environ.get("HEADSWAP_CACHE")
    out, err = io.StringIO(), io.StringIO()
    os.environ["HEADSWAP_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    was = snapshot(folder)
    sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin or b""), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(argv)
    except BaseException:  # any exception is a bug and is counted
        code = None
        err.write(traceback.format_exc())
    finally:
        os.chdir(before[0])
        sys.stdin = before[1]
        os.environ.pop("HEADSWAP_CACHE")
        if before[2] is not None:
            os.environ["HEADSWAP_CACHE"] = before[2]
    now = snapshot(folder)
    changed = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    return Outcome(code, out.getvalue(), err.getvalue(), changed)


def snapshot(folder: Path) -> dict[str, str]:
    """All files and folders below a folder, with a hash of their content."""
    return {
        str(path.relative_to(folder)): f"-> {os.readlink(path)}" if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip
