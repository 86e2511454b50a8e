"""The first weights of a head from the mean vectors of the classes."""

from pathlib import Path

import pytest
import torch

import headswap as hs
from headswap.core.errors import SettingError
from headswap.core.settings import read_toml
from headswap.finetuning.class_means import nearest_mean, of_length_one
from tiny import ONE_THREAD, SCRATCH, sentences


def test_vectors_around_class_means_get_the_label_of_their_class() -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(30, 16, generator=generator, dtype=torch.float64)
    classes = torch.arange(30).repeat(2)
    scales = torch.logspace(-3, 3, 16, dtype=torch.float64)  # dimensions of very different size
    noise = 0.2 * torch.randn(60, 16, generator=generator, dtype=torch.float64)
    vectors = (5 + centres[classes] + noise) * scales
    weight, bias = nearest_mean(vectors, classes, num_classes=30)
    others = (5 + centres + 0.2 * torch.randn(30, 16, generator=generator, dtype=torch.float64)) * scales
    assert ((others @ weight.T + bias).argmax(dim=1) == torch.arange(30)).double().mean() > 0.9
    logits = vectors @ weight.T + bias
    assert (logits - logits.mean(dim=1, keepdim=True)).square().mean().sqrt() == pytest.approx(1)


@pytest.mark.parametrize("per_class", [1, 3])
def test_classes_with_one_row_equal_vectors_and_missing_classes_give_finite_weights(per_class: int) -> None:
    classes = torch.arange(4).repeat(per_class)
    for vectors in (torch.ones(len(classes), 3), torch.randn(len(classes), 3)):
        weight, bias = nearest_mean(vectors.double(), classes, num_classes=6)
        assert weight.isfinite().all()
        assert bias.isfinite().all()
        assert weight.shape == (6, 3)


def test_the_head_classifies_before_the_first_step_and_the_ledger_has_its_checksums(
    tiny_runs: Path, tmp_path: Path
) -> None:
    settings = {"base": tiny_runs / "base", "train": sentences(150, seed=3), "max_steps": 1, **ONE_THREAD}
    means = hs.finetune(**settings, head_init="class-means", out=tmp_path / "means")
    random = hs.finetune(**settings, out=tmp_path / "random")
    assert means.result["history"][0]["train_accuracy"] > random.result["history"][0]["train_accuracy"] + 0.2
    ledgers = [(run.path / "ledger.json").read_text() for run in (means, random)]
    assert ledgers[0] != ledgers[1]


def test_class_means_without_classes_or_with_a_hidden_layer_are_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    base, rows = tiny_runs / "base", sentences(20)
    with pytest.raises(SettingError, match="head_hidden = tanh"):
        hs.finetune(base, train=rows, head_init="class-means", head_hidden="tanh", out=tmp_path / "a", **ONE_THREAD)
    numbers = [(text, str(len(text))) for text, _ in rows]
    with pytest.raises(SettingError, match="the task regress has no classes"):
        hs.finetune(base, train=numbers, task="regress", head_init="class-means", out=tmp_path / "b", **ONE_THREAD)
    with pytest.raises(SettingError, match="head_init cannot be used with --base scratch"):
        hs.finetune(train=rows, head_init="class-means", out=tmp_path / "c", **SCRATCH)


def test_a_head_without_a_bias_is_refused_class_means_and_has_random_weights_by_default(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.defaults.finetuning.LEAST_TOKENS_PER_PARAMETER", 0.1)
    rows = [(f"{text} {number % 10}", f"label {number % 10}") for number, (text, _) in enumerate(sentences(40))]
    settings = {"base": tiny_runs / "base", "train": rows, "max_steps": 1, "head_bias": False, **ONE_THREAD}
    with pytest.raises(SettingError, match="with head_bias = false the class layer has no bias, which the distances"):
        hs.finetune(**settings, head_init="class-means", out=tmp_path / "a")
    found = hs.finetune(**settings, out=tmp_path / "b")
    assert read_toml(found.path / "recipe.toml")["adaptation"]["head_init"] == "random"
    biased = hs.finetune(**settings | {"head_bias": True}, out=tmp_path / "c")
    assert read_toml(biased.path / "recipe.toml")["adaptation"]["head_init"] == "class-means"


def test_weights_of_length_one_give_the_same_label_and_weights_of_zero_are_replaced() -> None:
    weight, bias = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]]), torch.tensor([10.0, 0.0, 1.0])
    found, found_bias = of_length_one(weight, bias, otherwise_CP=torch.full((3, 2), 0.1))
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.8], [0.1, 0.1], [0.0, -1.0]]))
    torch.testing.assert_close(found_bias, torch.tensor([2.0, 0.0, 0.5]))


def test_a_cosine_head_starts_from_class_means_too(tiny_runs: Path, tmp_path: Path) -> None:
    settings = {"base": tiny_runs / "base", "train": sentences(150, seed=3), "max_steps": 1, **ONE_THREAD}
    settings["head_similarity"] = "cosine"
    means = hs.finetune(**settings, head_init="class-means", out=tmp_path / "means")
    random = hs.finetune(**settings, out=tmp_path / "random")
    assert means.result["history"][0]["train_accuracy"] > random.result["history"][0]["train_accuracy"] + 0.2
