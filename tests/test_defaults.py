"""Defaults that follow from the data and the base."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.core.settings import load_recipe
from headswap.defaults import finetuning_rate, unfreezes_gradually
from headswap.finetuning.config import FinetuneRecipe
from tiny import sentences

SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_length": 24}
RUN = {"device": "cpu", "threads": 1}


@pytest.mark.parametrize(
    ("tokens_per_parameter", "at_128"), [(0.0, 4.2e-4), (2.99, 8.5e-4), (3.0, 1.4e-4), (20.0, 1.4e-4), (None, 1.4e-4)]
)
def test_the_rate_fits_what_the_base_has_read(tokens_per_parameter: float | None, at_128: float) -> None:
    assert finetuning_rate(128, tokens_per_parameter=tokens_per_parameter) == at_128


def test_wider_bases_that_have_read_enough_take_no_smaller_steps() -> None:
    assert [finetuning_rate(width, tokens_per_parameter=5.0) for width in (256, 512)] == [1e-4, 1e-4]
    assert finetuning_rate(512, tokens_per_parameter=0.0) == 2.1e-4


@pytest.mark.parametrize(
    ("epochs", "layers", "read", "expected"),
    [
        (20, 6, 5.0, True),
        (14, 6, None, True),
        (13.9, 6, 5.0, False),
        (3, 6, 5.0, False),
        (20, 12, 5.0, False),
        (20, 6, 2.9, False),
        (20, 6, 0.0, False),
    ],
)
def test_layers_get_their_turn_one_by_one_where_the_run_is_long_enough(
    epochs: float, layers: int, read: float | None, expected: bool
) -> None:
    assert unfreezes_gradually(epochs, layers, tokens_per_parameter=read) == expected


def test_a_base_says_how_much_it_has_read_and_is_tuned_accordingly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two steps are less than three tokens a parameter; going on for hundreds makes it a base."""
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(60)), encoding="utf-8")
    rows = "".join(f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in sentences(24))
    (tmp_path / "train.jsonl").write_text(rows, encoding="utf-8")
    given = {"vocab_size": 280, "batch_size": 4, **RUN}
    weak = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "weak", max_steps=2, **given, **SHAPE)
    read = Bundle.load(weak.path).tokens_trained
    assert read == pytest.approx(2 * 4 * 24, rel=0.1)
    strong = hs.adapt(weak, tmp_path / "corpus.txt", out=tmp_path / "strong", max_steps=250, batch_size=4, **RUN)
    after = Bundle.load(strong.path).tokens_trained
    assert after == pytest.approx(read + 250 * 4 * 24, rel=0.1)
    rates = {}
    for name, base in (("weak", weak), ("strong", strong)):
        caplog.clear()
        with caplog.at_level("INFO", logger="headswap"):
            run = hs.finetune(
                base=base, train=tmp_path / "train.jsonl", out=tmp_path / f"tuned-{name}", max_steps=1, **RUN
            )
        rates[name] = load_recipe(FinetuneRecipe, run.path / "recipe.toml").training.learning_rate
        assert ("tokens a parameter, so it may move fast" in caplog.text) == (name == "weak")
    assert rates == {
        "weak": finetuning_rate(16, tokens_per_parameter=0.5),
        "strong": finetuning_rate(16, tokens_per_parameter=4),
    }
