"""How a command ends: exit codes and sentences instead of tracebacks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import headswap as hs
from cli_calls import FLAGS, MACHINE, call_wrong


def test_closed_pipe_is_no_error(shared: Path) -> None:
    line = f"{sys.executable} -m headswap datasets | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""


def test_lone_dash_is_standard_input(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    text = (shared / "corpus.txt").read_bytes()
    for line in (
        ["tokenizer", "-", "--out", str(tmp_path / "tokenizer.json"), "--vocab-size", "300"],
        ["pretrain", "-", "--out", str(tmp_path / "run"), "--max-steps=1", "--max-length=24", *FLAGS, *MACHINE],
    ):
        done = subprocess.run([sys.executable, "-m", "headswap", *line, "--json"], input=text, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout)
    piped = hs.load(tmp_path / "run").bundle.tokenizer.fingerprint
    assert piped == hs.load(shared / "base").bundle.tokenizer.fingerprint, "the same text gives the same tokenizer"


def test_out_of_memory_prints_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:

    import headswap.inference.predict as module

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "outputs_of", full)
    assert "Out of memory" in call_wrong(capsys, "predict", shared / "classifier", "a fine film", code=1)
