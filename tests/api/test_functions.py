"""The Python functions: the same results as the command line, an object that answers, editors that complete."""

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from api.write_options import FILE, text
from headswap.cli.exit_codes import run as run_command
from headswap.core.errors import HeadswapError, InputError
from tiny import sentences, write_labelled

SHAPE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "max_length": 24}
MACHINE = {"device": "cpu", "threads": 1}
VARYING = {"seconds", "tokens_per_second", "peak_memory_bytes"}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> hs.Run:
    folder = tmp_path_factory.mktemp("classifier")
    train, test = write_labelled(folder / "train.jsonl", 60), write_labelled(folder / "test.jsonl", 20, seed=2)
    return hs.finetune("scratch", train=train, test=test, out=folder / "run", num_train_epochs=2, **SHAPE, **MACHINE)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, hs.Run]:
    texts = hs.Texts(text for text, _ in sentences(60))
    folder = tmp_path_factory.mktemp("bases")
    return {
        objective: hs.pretrain(
            texts, out=folder / objective, objective=objective, vocab_size=300, max_steps=2, **SHAPE, **MACHINE
        )
        for objective in ("causal", "masked")
    }


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in VARYING}


def test_the_command_line_and_python_write_the_same_result(tmp_path: Path) -> None:
    train, test = write_labelled(tmp_path / "train.jsonl", 60), write_labelled(tmp_path / "test.jsonl", 20, seed=2)
    settings = {"num_train_epochs": 1, **SHAPE, **MACHINE}
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
    run = hs.finetune("scratch", train=rows, test=test, out=tmp_path / "run", num_train_epochs=2, **SHAPE, **MACHINE)
    assert without_times(run.result) == without_times(classifier.result)


def test_a_loaded_model_answers(classifier: hs.Run) -> None:
    model = hs.load(classifier.path, device="cpu")
    texts = ["the film was superb .", "the film was dull ."]
    labels, probabilities = model.predict(texts), model.predict_proba(texts)
    assert model.labels == ("neg", "pos")
    assert probabilities.shape == (2, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert [model.labels[number] for number in probabilities.argmax(axis=1)] == labels
    assert model.predict_proba([]).shape == (0, 2)
    assert model.embed(texts).shape == (2, 32)
    metrics = model.evaluate(write_labelled(classifier.path.parent / "again.jsonl", 20, seed=2))
    assert metrics["accuracy"] == classifier.result["test"]["accuracy"]
    assert model.name == "run"
    assert repr(model) == "Model('run': a classifier)"


def test_a_causal_base_generates_and_a_masked_one_fills(bases: dict[str, hs.Run]) -> None:
    causal, masked = hs.load(bases["causal"], device="cpu"), hs.load(bases["masked"], device="cpu")
    alone = causal.generate("the film", max_new_tokens=4)
    assert causal.generate(["the film", "the story"], max_new_tokens=4)[0] == alone
    filled = masked.fill("the <mask> was fine .", top_k=3)
    assert len(filled.masks[0]) == 3
    assert masked.fill(["the <mask> was fine ."], top_k=3) == [filled]
    with pytest.raises(InputError, match="only a causal language model can generate"):
        masked.generate("the film")
    with pytest.raises(InputError, match="only a masked language model can fill"):
        causal.fill("the <mask>")
    assert causal.evaluate(Path(as_text_file(bases["causal"].path.parent)))["loss"] > 0


def as_text_file(folder: Path) -> str:
    (folder / "more.txt").write_text("".join(f"{text}\n" for text, _ in sentences(10, seed=5)), encoding="utf-8")
    return str(folder / "more.txt")


def test_the_call_on_every_card_works(bases: dict[str, hs.Run], classifier: hs.Run) -> None:
    for run, call in ((bases["causal"], "generate"), (bases["masked"], "fill"), (classifier, "predict")):
        card = (run.path / "bundle" / "README.md").read_text(encoding="utf-8")
        assert f".{call}(" in card
        assert callable(getattr(hs.load(run.path, device="cpu"), call))
        assert str(run.path) not in card


def test_probabilities_of_a_model_without_labels_are_refused(bases: dict[str, hs.Run]) -> None:
    with pytest.raises(HeadswapError):
        hs.load(bases["causal"], device="cpu").predict_proba(["a text"])


def test_a_run_is_folder_result_model_and_plot(classifier: hs.Run, bases: dict[str, hs.Run], tmp_path: Path) -> None:
    assert classifier.result["task"] == "classify"
    assert classifier.model.labels == ("neg", "pos")
    assert not {"begin", "cut_metrics", "release"} & set(dir(classifier))
    assert "/" not in repr(classifier)
    classifier.plot(path=tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    figure = bases["causal"].plot()
    assert [axis.get_xlabel() for axis in figure.axes] == ["step"] * len(figure.axes)


def test_the_options_that_editors_complete_are_those_of_the_settings() -> None:
    written, wanted = (ast.dump(ast.parse(content)) for content in (FILE.read_text(encoding="utf-8"), text()))
    assert written == wanted, "run python tests/api/write_options.py"


def test_a_wrong_keyword_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(HeadswapError, match=r"learning_rat is not a setting\. Did you mean 'learning_rate'"):
        hs.pretrain("corpus.txt", out=tmp_path / "run", learning_rat=1e-4)  # type: ignore[call-arg]
