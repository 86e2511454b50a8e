"""The bundle: what is saved comes back to the bit, and a damaged one is refused with a sentence."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError
from headswap.data.records import Document
from headswap.model.shape import PRESETS
from headswap.model.text_model import build_model
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import random_sequences, sentences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")


def make(tokenizer: Tokenizer, head: str = "classify", preset: str = "small", **changes: object) -> Bundle:
    shape = tiny_model_shape(preset, head=head, vocab_size=tokenizer.vocab_size, **changes)
    labels = {"lm": (), "span": ("start", "end")}.get(head, ("bad", "good", "middling"))
    state = TaskState(task="classify" if head == "lm" else head, max_length=30)
    return Bundle(build_model(shape, seed=3), tokenizer, labels, "causal", {"seed": 3}, task=state)


@pytest.fixture
def saved(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """A classifier on disk."""
    make(tokenizer).save(tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("head", ["lm", "classify", "tag", "span"])
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_saved_comes_back_bit_equal(
    tokenizer: Tokenizer, tmp_path: Path, preset: str, head: str, tied: bool
) -> None:
    before = make(tokenizer, head, preset, tied_head=tied)
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
        make(tokenizer, "lm", tied_head=tied).save(tmp_path / str(tied))
        names[tied] = set(load_file(tmp_path / str(tied) / "model.safetensors"))
    assert names[False] - names[True] == {"head.weight"}


def test_a_run_folder_works_where_a_bundle_does(tokenizer: Tokenizer, tmp_path: Path) -> None:
    make(tokenizer).save(tmp_path / "run" / "bundle")
    assert Bundle.load(tmp_path / "run").path == tmp_path / "run" / "bundle"


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a bundle nor a run folder"):
        Bundle.load(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        Bundle.load(tmp_path / "nothing")


def test_saving_over_a_bundle_replaces_it(tokenizer: Tokenizer, saved: Path) -> None:
    make(tokenizer, "lm").save(saved)
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


def test_all_that_is_wrong_with_the_tensors_is_said_at_once(saved: Path) -> None:
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bert"}, "'bert', not a headswap bundle"),
        ({"headswap_format": 99}, "format 99"),
        ({"id2label": {"0": "bad", "1": "good"}}, "id2label does not name the 3 labels"),
        ({"num_labels": None}, "id2label"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"head": "wings"}, "head"),
        ({"task": {"task": "dance"}}, "task = 'dance' is not allowed"),
        ({"task": {"limit": 1}}, "limit is not a setting"),
        ({"task": {"task": "multilabel", "thresholds": [0.5]}}, "1 thresholds for 3 labels"),
        ({"task": "tag"}, "task is not an object"),
    ],
)
def test_a_config_that_is_wrong_is_refused_and_named(saved: Path, changes: dict, words: str) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(InputError, match=words) as caught:
        Bundle.load(saved)
    assert "config.json" in str(caught.value)


def test_a_config_that_is_not_json_is_refused(saved: Path) -> None:
    (saved / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not valid JSON"):
        Bundle.load(saved)


def test_the_config_speaks_hugging_face(saved: Path, tokenizer: Tokenizer) -> None:
    config = json.loads((saved / "config.json").read_text())
    assert config["architectures"] == ["HeadswapForSequenceClassification"]
    assert config["id2label"] == {"0": "bad", "1": "good", "2": "middling"}
    assert config["label2id"] == {"bad": 0, "good": 1, "middling": 2}
    assert config["vocab_size"] == tokenizer.vocab_size
    assert (config["bos_token_id"], config["pad_token_id"], config["eos_token_id"]) == (0, 1, 2)
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                 "max_position_embeddings", "tie_word_embeddings", "is_decoder", "problem_type"):  # fmt: skip
        assert name in config


def test_a_bundle_from_before_there_were_tasks_is_a_plain_classifier(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    del config["task"]
    (saved / "config.json").write_text(json.dumps(config))
    assert Bundle.load(saved).task == TaskState()


def test_the_card_names_the_labels_and_how_it_was_made(saved: Path) -> None:
    card = (saved / "README.md").read_text()
    assert "labels: bad, good, middling" in card
    assert "- seed: 3" in card
    assert "library_name: headswap" in card


def test_no_text_of_the_user_stands_in_a_bundle(saved: Path) -> None:
    assert {path.name for path in saved.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "README.md", "golden.json", "manifest.json",
    }  # fmt: skip
    for file in saved.iterdir():
        content = file.read_bytes()
        for text, _ in sentences(50):
            assert text.encode() not in content, file.name
            assert text[:20].encode() not in content, file.name
