"""Defaults that follow from the data and the base."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.bundle import Bundle
from headswap.core.config import load_recipe
from headswap.training.config import FinetuneRecipe
from headswap.training.fitted import finetuning_rate, has_little_to_lose
from tiny import sentences

SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_length": 24}
RUN = {"device": "cpu", "threads": 1}


@pytest.mark.parametrize(("tokens_read", "wanted"), [(0, True), (999, True), (1_000, False), (None, False)])
def test_a_base_that_has_read_less_than_a_token_a_parameter_has_little_to_lose(
    tokens_read: int | None, wanted: bool
) -> None:
    assert has_little_to_lose(tokens_read, 1_000) == wanted


def test_a_base_says_how_much_it_has_read_and_is_tuned_accordingly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two steps are less than a token a parameter; going on for hundreds makes it a base."""
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(60)), encoding="utf-8")
    rows = "".join(f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in sentences(24))
    (tmp_path / "train.jsonl").write_text(rows, encoding="utf-8")
    given = {"vocab_size": 280, "batch_size": 4, **RUN}
    weak = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "weak", max_steps=2, **given, **SHAPE)
    read = Bundle.load(weak.path).tokens_read
    assert read == pytest.approx(2 * 4 * 24, rel=0.1)
    strong = hs.adapt(weak, tmp_path / "corpus.txt", out=tmp_path / "strong", max_steps=100, batch_size=4, **RUN)
    after = Bundle.load(strong.path).tokens_read
    assert after == pytest.approx(read + 100 * 4 * 24, rel=0.1)
    rates = {}
    for name, base in (("weak", weak), ("strong", strong)):
        caplog.clear()
        with caplog.at_level("INFO", logger="headswap"):
            run = hs.finetune(
                base=base, train=tmp_path / "train.jsonl", out=tmp_path / f"tuned-{name}", max_steps=1, **RUN
            )
        rates[name] = load_recipe(FinetuneRecipe, run.path / "recipe.toml").training.learning_rate
        assert ("tokens a parameter: it is tuned at the learning rate of a new one" in caplog.text) == (name == "weak")
    assert rates == {name: finetuning_rate(16, is_new=name == "weak") for name in rates}
    assert rates["weak"] > rates["strong"]
