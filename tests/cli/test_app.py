"""The command `headswap`: exit codes, standard input, wrong use, closed pipes."""

import io
from pathlib import Path

import pytest
import torch

import headswap as hs
from cli_calls import call, call_json, call_wrong
from headswap.cli.exit_codes import run
from headswap.core.errors import SettingError


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version").strip() == hs.__version__


def test_missing_input_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "nothing.txt" in call_wrong(capsys, "pretrain", tmp_path / "nothing.txt", "--out", tmp_path / "run")
    assert "No corpus is given" in call_wrong(capsys, "pretrain", "--out", tmp_path / "run")
    assert "No training set is given" in call_wrong(capsys, "finetune", "--out", tmp_path / "run")
    assert "No corpus is given" in call_wrong(capsys, "tokenizer", "--out", tmp_path / "t.json")


def test_wrong_kind_of_model_is_refused_with_the_right_verb(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    assert "headswap generate" in call_wrong(capsys, "predict", shared / "base", "text")
    assert "headswap predict" in call_wrong(capsys, "generate", shared / "classifier", "text")
    assert "does not exist" in call_wrong(capsys, "predict", tmp_path / "nothing", "text")


@pytest.mark.skipif(torch.cuda.is_available(), reason="here --device cuda is no mistake")
@pytest.mark.parametrize(("verb", "folder"), [("predict", "classifier"), ("embed", "base"), ("generate", "base")])
def test_missing_device_is_refused_and_fast_kernels_can_be_disabled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path, verb: str, folder: str
) -> None:
    assert "no CUDA device" in call_wrong(capsys, verb, shared / folder, "the film", "--device", "cuda")
    with pytest.raises(SettingError, match=r"'cuda:1' is not allowed. Allowed: auto, cpu, cuda"):
        _ = hs.load(shared / folder, device="cuda:1").bundle
    on_cpu = call(capsys, verb, shared / folder, "the film", "--device", "cpu", "--json")
    assert on_cpu == call(capsys, verb, shared / folder, "the film", "--json")
    seen = []
    monkeypatch.setattr("headswap.training.device.allow_fast_kernels", seen.append)
    assert call(capsys, verb, shared / folder, "the film", "--fast", "off")
    assert seen == [False]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run the tests on a machine with one")
def test_cuda_device_is_used_if_present_and_gives_the_same_output(
    capsys: pytest.CaptureFixture[str], shared: Path
) -> None:
    for verb, folder in (("predict", "classifier"), ("embed", "base"), ("generate", "base")):
        found = []
        for device in ("cpu", "cuda", "auto"):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.max_memory_allocated()
            found.append(call_json(capsys, verb, shared / folder, "the film was", "--device", device))
            assert (torch.cuda.max_memory_allocated() > before) == (device != "cpu"), (verb, device)
        assert found[1] == found[2]
        for name, value in found[0].items():
            assert found[1][name] == (value if isinstance(value, str) else pytest.approx(value, abs=1e-3))
    assert hs.load(shared / "classifier").bundle.model.device.type == "cuda"
    assert hs.load(shared / "classifier", device="cpu").bundle.model.device.type == "cpu"


def test_file_dash_is_standard_input(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb, code in (("embed", 0), ("fill", 2)):
        monkeypatch.setattr("sys.stdin", io.StringIO("a <mask> film\n"))
        assert run([verb, str(shared / "base"), "--file", "-"]) == code
    assert "masked language model" in capsys.readouterr().err, "the text was read, the model is another"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("evaluate", "base", "corpus.txt", "--label-column", "x"), "--label-column cannot be used: the model is a"),
        (("evaluate", "classifier", "test.jsonl", "--documents", "file"), "--documents cannot be used"),
        (("predict", "classifier", "a film", "--text-column", "x"), "--text-column is for a file with columns"),
        (("predict", "classifier", "--file", "corpus.txt", "--text-column", "x"), "corpus.txt has no columns"),
        (("params", "base", "--num-labels", "3"), "A bundle has its own shape and head"),
        (("params", "base", "--max-length", "3"), "A bundle has its own shape and head"),
        (("evaluate", "classifier", "test.jsonl", "more"), "'more' is not expected. See headswap evaluate --help."),
        (("predict",), "The argument MODEL is missing. See headswap predict --help."),
        (("predict", "classifier", "x", "--device", "gpu"), "A GPU is called cuda."),
        (("study", "movies", "--out", "x", "--max-steps=3"), "--pretrain.max-steps or --adapt.max-steps"),
        (("study", "movies", "--out", "x", "--max-minuts", "3"), "Did you mean --max-minutes?"),
        (("generate", "base", "one", "two", "three"), "'two', 'three' are not expected. generate takes one prompt"),
    ],
)  # fmt: skip
def test_flags_without_effect_are_refused(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(shared)
    assert words in call_wrong(capsys, *argv)
