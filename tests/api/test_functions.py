"""The Python functions: the same results as the command line, an object that answers, editors that complete."""

import json
from pathlib import Path
from typing import Any

import headswap as hs
from headswap.cli.exit_codes import run as run_command
from tiny import SMALL, sentences, write_labelled

VARYING = {"seconds", "tokens_per_second", "peak_memory_bytes"}


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in VARYING}


def test_the_command_line_and_python_write_the_same_result(tmp_path: Path) -> None:
    train, test = write_labelled(tmp_path / "train.jsonl", 60), write_labelled(tmp_path / "test.jsonl", 20, seed=2)
    settings = {"num_train_epochs": 1, **SMALL}
    hs.finetune("scratch", train=train, test=test, out=tmp_path / "python", **settings)
    flags = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    files = ["--base", "scratch", "--train", str(train), "--test", str(test), "--out", str(tmp_path / "command")]
    assert run_command(["finetune", *files, *flags, "--quiet"]) == 0
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("python", "command")]
    assert without_times(results[0]) == without_times(results[1])
    assert results[0]["baselines"].keys() == {"majority", "tfidf"}
    recipes = [(tmp_path / name / "recipe.toml").read_text() for name in ("python", "command")]
    assert recipes[0] == recipes[1]


def test_rows_in_memory_give_the_same_run_as_a_file(tmp_path: Path, classifier: hs.Run) -> None:
    rows = [{"text": text, "label": label} for text, label in sentences(60, seed=1)]
    test = [(text, label) for text, label in sentences(20, seed=2)]
    run = hs.finetune("scratch", train=rows, test=test, out=tmp_path / "run", num_train_epochs=2, **SMALL)
    assert without_times(run.result) == without_times(classifier.result)


def test_the_call_on_every_card_works(bases: dict[str, hs.Run], classifier: hs.Run) -> None:
    for run, call in ((bases["causal"], "generate"), (bases["masked"], "fill"), (classifier, "predict")):
        card = (run.path / "bundle" / "README.md").read_text(encoding="utf-8")
        assert f".{call}(" in card
        assert callable(getattr(hs.load(run.path, device="cpu"), call))
        assert str(run.path) not in card
