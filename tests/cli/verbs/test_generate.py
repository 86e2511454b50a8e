"""`headswap generate`."""

import io
import json
from pathlib import Path

import pytest

from cli_calls import call, call_json, call_wrong
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.generator import Continuation, Generator


def test_generate_continues_a_prompt(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    found = call_json(capsys, "generate", shared / "base", "the film", "--max-new-tokens", "5")
    assert set(found) == {"prompt", "text", "num_tokens", "ended"}
    assert found["num_tokens"] <= 5
    plain = call(capsys, "generate", shared / "base", "the film", "--max-new-tokens", "5")
    assert plain == f"the film{found['text']}\n"
    assert "--temperature" in call_wrong(capsys, "generate", shared / "base", "x", "--temperature", "-1")


def test_generate_reads_prompts_from_standard_input_as_one_batch(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ["the film", "the story was"]
    expected = "\n".join(call(capsys, "generate", shared / "base", one, "--max-new-tokens", "5") for one in prompts)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(prompts) + "\n"))
    assert call(capsys, "generate", shared / "base", "-", "--max-new-tokens", "5") == expected


def test_several_prompts_are_one_batch(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []
    generate = Generator.continue_texts

    def recorded(self: Generator, prompts: list[str], settings: SamplingSettings) -> list[Continuation]:
        batches.append(list(prompts))
        return generate(self, prompts, settings)

    monkeypatch.setattr(Generator, "continue_texts", recorded)
    monkeypatch.setattr("sys.stdin", io.StringIO("the film\nthe story was\n"))
    lines = call(capsys, "generate", shared / "base", "-", "--max-new-tokens", "4", "--json").splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["the film", "the story was"]
    assert batches == [["the film", "the story was"]]
