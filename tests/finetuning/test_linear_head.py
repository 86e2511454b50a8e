"""The first weights of a head from a linear model of the base's vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headswap as hs
from headswap.baselines.linear import chosen_logistic
from headswap.baselines.regress import chosen_ridge
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.data.records import Example
from headswap.finetuning.linear_head import linear_layer
from headswap.tokens.tokenizer import Tokenizer
from task_data import paired, tiny_bundle, valued, write_rows
from tiny import ONE_THREAD, SCRATCH, sentences


def scaled(vectors: np.ndarray, like: np.ndarray) -> np.ndarray:
    return (vectors - like.mean(axis=0)) / like.std(axis=0) / np.sqrt(like.shape[1])


@pytest.fixture
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Vectors of 60 training and 20 other texts whose dimensions differ in place and size."""
    draw = np.random.default_rng(0)
    return tuple(5 + draw.normal(size=(rows, 8)) * np.logspace(-2, 2, 8) for rows in (60, 20))


@pytest.mark.parametrize("labels", [("neg", "pos"), ("a", "b", "c")])
def test_the_class_layer_has_the_probabilities_of_the_logistic_regression(
    tokenizer: Tokenizer, drawn: tuple[np.ndarray, np.ndarray], labels: tuple[str, ...]
) -> None:
    train, other = drawn
    noise = np.random.default_rng(1).normal(size=60)
    places = np.digitize(scaled(train, train)[:, 3] * 3 + noise, np.linspace(-0.5, 0.5, len(labels) - 1))
    examples = [Example("x", labels[place], "x", 1) for place in places]
    bundle = Bundle(tiny_bundle(tokenizer, "classify").model, tokenizer, labels)
    weight, bias = linear_layer(train, examples, "classes", bundle, "accuracy")
    expected, _ = chosen_logistic(scaled(train, train), scaled(other, train), examples, labels, "accuracy")
    logits = torch.from_numpy(other @ weight.T + bias)
    np.testing.assert_allclose(torch.softmax(logits, dim=1).numpy(), expected, atol=1e-6)


def test_the_layer_of_a_regression_has_the_standardised_values_of_the_ridge_regression(
    tokenizer: Tokenizer, drawn: tuple[np.ndarray, np.ndarray]
) -> None:
    train, other = drawn
    values = 1000 + 50 * scaled(train, train)[:, 2] + np.random.default_rng(1).normal(size=60)
    examples = [Example("x", "", "x", 1, value=float(value)) for value in values]
    bundle = tiny_bundle(tokenizer, "regress", target_mean=float(values.mean()), target_std=float(values.std()))
    weight, bias = linear_layer(train, examples, "values", bundle, "mse")
    expected, _ = chosen_ridge(scaled(train, train), scaled(other, train), examples, (), "mse")
    np.testing.assert_allclose((other @ weight.T + bias)[:, 0] * values.std() + values.mean(), expected, rtol=1e-6)


def test_a_class_layer_with_large_weights_has_the_probabilities_of_the_logistic_regression(
    tokenizer: Tokenizer,
) -> None:
    """At a vector of length 1 they are 0 and 1 within the precision of a float."""
    draw = np.random.default_rng(0)
    train, other = draw.normal(size=(2_000, 128)), draw.normal(size=(50, 128))
    examples = [Example("x", "ab"[int(value > 0)], "x", 1) for value in train[:, 0]]
    bundle = Bundle(tiny_bundle(tokenizer, "classify").model, tokenizer, ("a", "b"))
    weight, bias = linear_layer(train, examples, "classes", bundle, "accuracy")
    expected, _ = chosen_logistic(scaled(train, train), scaled(other, train), examples, ("a", "b"), "accuracy")
    logits = torch.from_numpy(other @ weight.T + bias)
    np.testing.assert_allclose(torch.softmax(logits, dim=1).numpy(), expected, atol=1e-6)


def test_a_linear_head_scores_by_dot_products_also_with_many_classes(tiny_runs: Path, tmp_path: Path) -> None:
    rows = [(f"film {number % 110} superb {number % 110} fine", f"label{number % 110}") for number in range(330)]
    base = tiny_runs / "base"
    run = hs.finetune(base, train=rows, head_init="linear", max_steps=1, out=tmp_path / "run", **ONE_THREAD)
    assert run.model.bundle.model.head.cosine_scale is None
    again = hs.finetune(config=run.path / "recipe.toml", out=tmp_path / "again")
    assert again.result["history"][0] == run.result["history"][0]


def test_a_constant_dimension_and_a_class_without_texts_give_finite_weights(tokenizer: Tokenizer) -> None:
    vectors = np.ones((12, 3))
    vectors[:, 0] = np.arange(12)
    examples = [Example("x", "ab"[row // 6], "x", 1) for row in range(12)]
    bundle = Bundle(tiny_bundle(tokenizer, "classify").model, tokenizer, ("a", "b", "never"))
    weight, bias = linear_layer(vectors, examples, "classes", bundle, "accuracy")
    assert np.isfinite(weight).all()
    assert np.isfinite(bias).all()
    assert ((vectors @ weight.T + bias).argmax(axis=1) == np.arange(12) // 6).all()


@pytest.mark.parametrize("task", ["classify", "regress", "pairs"])
def test_fine_tuning_begins_with_the_scores_of_the_linear_model_and_can_be_resumed(
    tiny_runs: Path, tmp_path: Path, task: str
) -> None:
    rows: Any = {"classify": sentences(150, seed=3), "regress": valued(80, seed=3), "pairs": paired(120, seed=3)}[task]
    given: dict[str, Any] = {"base": tiny_runs / "base", "max_steps": 4, "save_steps": 2, **ONE_THREAD}
    given["train"] = rows if task == "classify" else write_rows(tmp_path / "train.jsonl", rows)
    given |= {"regress": {"task": "regress"}, "pairs": {"text_pair_column": "text_pair"}}.get(task, {})
    linear = hs.finetune(**given, head_init="linear", out=tmp_path / "linear")
    random = hs.finetune(**given, head_init="random", out=tmp_path / "random")
    first = [run.result["history"][0] for run in (linear, random)]
    if task == "regress":
        assert first[0]["train_mse"] < 0.6 * first[1]["train_mse"]
    else:
        assert first[0]["train_accuracy"] > first[1]["train_accuracy"] + 0.2
    ledgers = [(run.path / "ledger.json").read_text() for run in (linear, random)]
    assert ledgers[0] != ledgers[1]
    again = hs.finetune(config=linear.path / "recipe.toml", out=tmp_path / "again")
    assert (again.path / "bundle/model.safetensors").read_bytes() == (
        linear.path / "bundle/model.safetensors"
    ).read_bytes()


def test_windows_of_a_text_have_one_label(tiny_runs: Path, tmp_path: Path) -> None:
    rows = [(" ".join([text] * 12), label) for text, label in sentences(60, seed=3)]
    given: dict[str, Any] = {"train": rows, "long": "windows", "max_length": 20, "doc_stride": 5, "max_steps": 1}
    found = hs.finetune(tiny_runs / "base", **given, head_init="linear", out=tmp_path / "run", **ONE_THREAD)
    assert found.result["history"][0]["train_accuracy"] > 0.8


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "multilabel"}, "the task multilabel has neither one class nor one value per text"),
        ({"head_hidden": "tanh"}, "needs a class layer with a bias that reads the vector of a text"),
        ({"head_bias": False}, "needs a class layer with a bias"),
        ({"head_similarity": "cosine"}, "needs a class layer with a bias"),
    ],
)
def test_heads_that_cannot_be_a_linear_model_are_refused(
    tiny_runs: Path, tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    rows = [{"text": text, "label": [label] if given.get("task") else label} for text, label in sentences(30)]
    train = write_rows(tmp_path / "train.jsonl", rows)
    with pytest.raises(SettingError, match=words):
        hs.finetune(tiny_runs / "base", train=train, head_init="linear", out=tmp_path / "run", **given, **ONE_THREAD)
    with pytest.raises(SettingError, match="head_init cannot be used with --base scratch"):
        hs.finetune(train=sentences(20), head_init="linear", out=tmp_path / "c", **SCRATCH)
