"""The bundle: a saved model is loaded bit for bit, and a damaged one is refused with a sentence."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.data.records import Document
from headswap.model.shape import PRESETS
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import random_sequences, sentences

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("head", ["lm", "classify", "tag", "span"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_bundle_is_loaded_bit_for_bit(
    tokenizer: Tokenizer, tmp_path: Path, preset: str, head: str, tied: bool
) -> None:
    before = make_bundle(tokenizer, head, preset, tied_head=tied)
    before.save(tmp_path / "bundle")
    after = Bundle.load(tmp_path / "bundle")
    old, new = before.model.state_dict(), after.model.state_dict()
    assert old.keys() == new.keys()
    assert all(torch.equal(old[name], new[name]) for name in old)
    if head != "lm":
        assert after.model.shape == before.model.shape
        assert after.task == before.task
    assert after.model.shape.base == before.model.shape.base
    assert after.model.shape.direction == before.model.shape.direction
    assert (after.labels, after.objective, after.card) == (before.labels, before.objective, before.card)
    assert after.tokenizer.fingerprint == tokenizer.fingerprint
    batch = flat_batch(random_sequences([3, 9], vocab_size=300))
    assert torch.equal(before.model(batch), after.model(batch))
    assert after.verify() == []


def test_tied_weights_are_stored_once(tokenizer: Tokenizer, tmp_path: Path) -> None:
    names = {}
    for tied in (True, False):
        make_bundle(tokenizer, "lm", tied_head=tied).save(tmp_path / str(tied))
        names[tied] = set(load_file(tmp_path / str(tied) / "model.safetensors"))
    assert names[False] - names[True] == {"head.weight"}


def test_a_run_folder_can_be_given_for_its_bundle(tokenizer: Tokenizer, tmp_path: Path) -> None:
    make_bundle(tokenizer).save(tmp_path / "run" / "bundle")
    assert Bundle.load(tmp_path / "run").path == tmp_path / "run" / "bundle"


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a bundle nor a run folder"):
        Bundle.load(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        Bundle.load(tmp_path / "nothing")


def test_a_run_that_was_killed_before_its_first_checkpoint_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('verb = "finetune"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"has not finished and has no checkpoint yet\. Finish it with .* --resume"):
        Bundle.load(tmp_path)


def test_saving_over_a_bundle_replaces_it(tokenizer: Tokenizer, saved: Path) -> None:
    make_bundle(tokenizer, "lm").save(saved)
    assert Bundle.load(saved).model.shape.head == "lm"
    assert [path.name for path in saved.parent.iterdir() if path.name.startswith(".tmp-")] == []


def test_verify_catches_weights_that_were_changed(saved: Path) -> None:
    state = load_file(saved / "model.safetensors")
    state["head.output.bias"][0] += 0.01
    save_file(state, saved / "model.safetensors")
    problems = Bundle.load(saved).verify()
    assert len(problems) == 1
    assert "golden outputs differ" in problems[0]


def test_verify_catches_weights_that_are_not_numbers(saved: Path) -> None:
    state = load_file(saved / "model.safetensors")
    state["head.output.bias"][0] = float("nan")
    save_file(state, saved / "model.safetensors")
    assert Bundle.load(saved).verify()


def drop(state: dict[str, torch.Tensor]) -> None:
    del state["head.output.bias"]


def add(state: dict[str, torch.Tensor]) -> None:
    state["head.extra"] = torch.zeros(2)


def misshape(state: dict[str, torch.Tensor]) -> None:
    state["head.output.bias"] = torch.zeros(7)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (drop, "head.output.bias is missing"),
        (add, "head.extra does not belong"),
        (misshape, r"head.output.bias has shape \(7,\), expected is \(3,\)"),
    ],
)
def test_tensors_that_do_not_fit_are_named(saved: Path, damage: Callable[..., None], words: str) -> None:
    state = load_file(saved / "model.safetensors")
    damage(state)
    save_file(state, saved / "model.safetensors")
    with pytest.raises(InputError, match=words):
        Bundle.load(saved)


def test_all_problems_with_the_tensors_are_in_one_error(saved: Path) -> None:
    state = load_file(saved / "model.safetensors")
    drop(state)
    add(state)
    save_file(state, saved / "model.safetensors")
    with pytest.raises(InputError, match=r"(?s)is missing.*does not belong"):
        Bundle.load(saved)


def test_weights_cut_short_are_refused(saved: Path) -> None:
    data = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="damaged"):
        Bundle.load(saved)


def test_missing_weights_are_refused(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    with pytest.raises(InputError, match="does not exist"):
        Bundle.load(saved)


def test_a_pickle_under_the_weights_name_is_refused_and_never_run(saved: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path(tmp_path / "sprung").touch, ()  # type: ignore[return-value]

    (saved / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="not a safetensors file"):
        Bundle.load(saved)
    assert not (tmp_path / "sprung").exists()


def test_another_tokenizer_is_refused(saved: Path) -> None:
    documents = [Document("other words entirely", "tests", 1)]
    train_tokenizer(documents, TokenizerSettings(kind="bpe", vocab_size=290)).save(saved / "tokenizer.json")
    with pytest.raises(InputError, match="not the one this model was trained with"):
        Bundle.load(saved)


def test_no_text_of_the_user_is_in_a_bundle(saved: Path) -> None:
    assert {path.name for path in saved.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "README.md", "golden.json", "manifest.json",
    }  # fmt: skip
    for file in saved.iterdir():
        content = file.read_bytes()
        for text, _ in sentences(50):
            assert text.encode() not in content, file.name
            assert text[:20].encode() not in content, file.name
