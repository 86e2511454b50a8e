"""Held-out text so short that none of its tokens is masked: it has no masked loss, not one of 0."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import headswap as hs
from cli_calls import FLAGS, MACHINE
from headswap.batches.config import MaskingSettings
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.data.config import ReadSettings
from headswap.inference.language_model import scored_parts
from headswap.objectives.objective import make_objective
from headswap.pretraining.pack import pack
from headswap.tokens.cache import cached_store
from headswap.tokens.tokenizer import Tokenizer
from tiny import ONE_THREAD, PRETRAIN


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """titles.txt, of which one document of two tokens is held out, and film.txt, a text without a masked token."""
    folder = tmp_path_factory.mktemp("titles")
    (folder / "titles.txt").write_text("".join(f"film {'abcdefghij'[number % 10]}\n" for number in range(40)))
    (folder / "film.txt").write_text("film\n")
    return folder


@pytest.fixture(scope="module")
def masked(folder: Path) -> hs.Run:
    """A masked base without a held-out loss."""
    return pretrained(folder, folder / "masked", "masked")


def pretrained(folder: Path, out: Path, objective: str) -> hs.Run:
    settings = PRETRAIN | {"objective": objective, "documents": "line", "vocab_size": 300, "max_steps": 3}
    return hs.pretrain(folder / "titles.txt", out=out, **settings)


def test_a_masked_base_has_no_held_out_loss(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = pretrained(folder, tmp_path / "run", "masked")
    assert found.result["loss"] is None
    assert found.result["perplexity"] is None
    assert not any("eval_loss" in line for line in found.metrics())
    assert "There is no held-out loss: none of the 3 held-out tokens is masked." in caplog.text


def test_the_held_out_loss_of_both_objectives_is_then_the_causal_one(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = pretrained(folder, tmp_path / "run", "causal+masked")
    assert found.result["loss"] == found.result["causal_loss"] > 1
    assert "masked_loss" not in found.result
    assert "The held-out loss is causal only: none of the 3 held-out tokens is masked." in caplog.text
    caplog.clear()
    scores = found.model.evaluate(folder / "film.txt")
    assert scores["loss"] == scores["causal_loss"] > 1
    assert "is causal only" in caplog.text


def test_both_commands_print_a_loss_without_its_masked_part(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, base = str(folder / "titles.txt"), str(tmp_path / "run")
    how = ["--documents=line", "--max-steps=1", *MACHINE]
    new = ["--objective=causal+masked", "--preset=lab", "--vocab-size=300", "--max-length=24", *FLAGS]
    for argv in (["pretrain", corpus, "--out", base, *new], ["adapt", base, corpus, "--out", f"{base}-adapted"]):
        assert run([*argv, *how]) == 0
        shown = capsys.readouterr().err
        assert "Held-out loss " in shown
        assert "for masked tokens" not in shown


def test_evaluation_of_such_a_text_by_a_masked_base_is_an_error(folder: Path, masked: hs.Run) -> None:
    with pytest.raises(InputError, match=r"There is no loss on .*film.txt: none of its 2 tokens is masked"):
        masked.model.evaluate(folder / "film.txt")
    assert masked.model.evaluate(folder / "titles.txt")["loss"] > 1


def test_an_adaptation_without_a_masked_token_keeps_the_last_weights(
    folder: Path, masked: hs.Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = hs.adapt(
        masked, folder / "titles.txt", out=tmp_path / "run", max_steps=4, documents="line",
        reference=folder / "film.txt", load_best_model_at_end=True, **ONE_THREAD,
    )  # fmt: skip
    assert found.result["loss"] is None
    assert found.result["best_epoch"] == found.result["epochs"]
    assert "reference" not in found.result
    assert "There is no loss on the reference text: none of its 2 tokens is masked." in caplog.text


def test_a_run_of_an_earlier_version_with_a_loss_of_0_is_not_packed(masked: hs.Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(masked.path, tmp_path / "run"))
    about = {"name": "titles", "licence": "MIT", "limits": "ten letters"}
    for loss in (None, 0.0):
        write_json(copy / "result.json", read_json(copy / "result.json") | {"loss": loss})
        with pytest.raises(InputError, match="has no held-out loss for the card"):
            pack(copy, tmp_path / "package", about=about, sentences=["the film was warm ."])


def test_the_weights_of_the_scored_parts_add_up_to_1(folder: Path, masked: hs.Run) -> None:
    tokenizer = Tokenizer.load(masked.path / "bundle")
    objective = make_objective("causal+masked", tokenizer, MaskingSettings(masked_share=0.3))
    for name, weights in (("film", {"causal_": 1.0}), ("titles", {"masked_": 0.3, "causal_": 0.7})):
        store = cached_store([str(folder / f"{name}.txt")], ReadSettings(documents="line"), tokenizer)
        rows = objective.rows(store, np.arange(store.num_documents), max_length=8, layout="packed")
        assert {prefix: part.weight for prefix, part in scored_parts(objective, rows).items()} == weights
