"""Standard streams that are closed, full, broken, or that encode ASCII only."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_calls import FLAGS, MACHINE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs bash")

ONLY_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A bash line in which `headswap` is the command; the exit code is that of the command, not of a pipe after it."""
    script = f'headswap() {{ "{sys.executable}" -m headswap "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ | environment)


@pytest.mark.parametrize(
    ("streams", "code", "out", "err"),
    [
        ("<&-", 0, "neg", ""),
        ("2>&-", 0, "neg", ""),
        ("2>/dev/full", 0, "neg", ""),
        (">&-", 1, "", "headswap: Standard output: Bad file descriptor.\n"),
        (">/dev/full", 1, "", "headswap: Standard output: No space left on device.\n"),
        ("<&- >&- 2>&-", 1, "", ""),
        ("| true", 0, "", ""),
        ("2>&1 | true", 0, "", ""),
    ],
)
def test_a_closed_or_full_stream_ends_in_a_sentence(shared: Path, streams: str, code: int, out: str, err: str) -> None:
    done = shell(f"headswap predict {shared / 'classifier'} 'boring' {streams}")
    assert (done.returncode, done.stdout.partition("\t")[0] if out else done.stdout, done.stderr) == (code, out, err)


@pytest.mark.parametrize("verb", ["predict {}/classifier", "embed {}/base", "pretrain - --out {}/nothing"])
def test_a_closed_standard_input_is_an_empty_one(shared: Path, verb: str) -> None:
    done = shell(f"headswap {verb.format(shared)} <&-")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("headswap: Standard input ")
    assert "Traceback" not in done.stderr


def test_a_training_without_any_stream_is_finished(shared: Path, tmp_path: Path) -> None:
    flags = " ".join([*FLAGS, *MACHINE, "--max-steps=2", "--max-length=24"])
    done = shell(f"headswap pretrain {shared / 'corpus.txt'} --out {tmp_path / 'run'} {flags} <&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 2
    texts = [file for file in (tmp_path / "run").iterdir() if file.suffix in (".json", ".jsonl", ".toml")]
    assert not any("step 1/2" in file.read_text() for file in texts), "no message was written into a file of the run"


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, ONLY_ASCII],
    ids=["PYTHONIOENCODING", "LC_ALL", "everything"],
)
def test_an_ascii_terminal_gets_escapes(shared: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "texts.txt").write_text("un film été ▁\n", encoding="utf-8")
    done = shell(f"headswap embed {shared / 'base'} --file {tmp_path / 'texts.txt'}", **environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "un film été ▁"
    (tmp_path / "livres.csv").write_text("texte,étiquette\na,b\n", encoding="utf-8")
    done = shell(f"headswap finetune --base scratch --train {tmp_path}/livres.csv --out {tmp_path}/run", **environment)
    assert done.returncode == 2, done.stderr
    assert "has no column 'text'" in done.stderr
    assert ("étiquette" if environment == {"LC_ALL": "C"} else r"\xe9tiquette") in done.stderr


def test_an_argument_that_ascii_cannot_decode_is_a_sentence(shared: Path) -> None:
    done = shell(f"headswap predict {shared / 'classifier'} été", **ONLY_ASCII)
    assert done.returncode == 2
    assert "this environment encodes arguments as ascii. Set the environment variable PYTHONUTF8=1" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_not_utf_8_is_read_and_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    with open(os.path.join(os.fsencode(tmp_path), b"shelf", b"b\xff.txt"), "wb") as file:
        file.write(b"a film\n\xe9\n")
    done = shell(f"headswap tokenizer {tmp_path / 'shelf'} --out {tmp_path / 'tokenizer.json'}")
    assert done.returncode == 2
    assert r"b\udcff.txt, line 2: byte 0xE9 is not UTF-8" in done.stderr
