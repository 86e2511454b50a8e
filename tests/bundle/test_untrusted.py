"""A bundle from somebody else: sizes are compared with the tensors before memory is allocated, the config with the
manifest."""

import json
import tracemalloc
from pathlib import Path

import pytest
import torch

from bundles import edit_config, make_bundle
from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.model.shape import LoraShape
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer
from tiny import random_sequences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
MANY = 10**8


@pytest.mark.parametrize(
    ("preset", "changes", "words"),
    [
        ("small", {"vocab_size": MANY}, "vocab_size is 100,000,000, but base.embedding.weight .* has"),
        ("small", {"hidden_size": MANY}, "hidden_size is 100,000,000, but base.embedding.weight .* has 32"),
        ("small", {"num_hidden_layers": 10_000}, "num_hidden_layers is 10,000, but .* has 2 layers"),
        ("small", {"num_hidden_layers": 1}, "num_hidden_layers is 1, but model.safetensors has 2 layers"),
        ("small", {"intermediate_size": MANY}, "intermediate_size is 100,000,000, but .* has 48"),
        ("small", {"intermediate_size": 10**30}, "intermediate_size"),
        ("small", {"type_vocab_size": MANY}, "base.segment_embedding.weight is missing"),
        ("bert-base", {"type_vocab_size": MANY}, "type_vocab_size is 100,000,000, but .* has 2"),
        ("bert-base", {"max_position_embeddings": MANY}, "max_position_embeddings is 100,000,000, but .* has 40"),
        ("small", {"num_labels": MANY}, "id2label does not name the 100000000 labels"),
        ("small", {"num_attention_heads": MANY}, "num_attention_heads"),
        ("small", {"lora": {"rank": MANY, "alpha": 1.0}}, "lora_down is missing"),
    ],
)
def test_a_size_that_differs_from_the_tensors_is_refused_and_named(
    tokenizer: Tokenizer, tmp_path: Path, preset: str, changes: dict, words: str
) -> None:
    make_bundle(tokenizer, "classify", preset).save(tmp_path / "bundle")
    edit_config(tmp_path / "bundle", **changes)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=words) as caught:
            Bundle.load(tmp_path / "bundle")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "config.json" in str(caught.value) or "model.safetensors" in str(caught.value)
    assert peak < 20_000_000


def test_labels_that_the_head_does_not_have_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    make_bundle(tokenizer).save(tmp_path / "bundle")
    names = [f"label {number}" for number in range(50)]
    edit_config(tmp_path / "bundle", num_labels=50, id2label={str(at): name for at, name in enumerate(names)})
    with pytest.raises(InputError, match=r"num_labels is 50, but head.output.weight in model.safetensors has 3"):
        Bundle.load(tmp_path / "bundle")


def test_the_rank_of_adapters_is_compared_with_theirs(tokenizer: Tokenizer, tmp_path: Path) -> None:
    plain = make_bundle(tokenizer)
    shape = plain.model.shape.changed(lora=LoraShape(rank=2, alpha=4))
    bundle = Bundle(build_model(shape, seed=1), tokenizer, plain.labels, task=plain.task)
    bundle.save(tmp_path / "bundle")
    assert Bundle.load(tmp_path / "bundle").model.shape.lora == LoraShape(rank=2, alpha=4)
    edit_config(tmp_path / "bundle", lora={"rank": MANY, "alpha": 4.0})
    with pytest.raises(InputError, match=r"lora.rank is 100,000,000, but .*lora_down in .* has 2"):
        Bundle.load(tmp_path / "bundle")


@pytest.mark.parametrize("preset", ["small", "lab"])
def test_positions_without_a_tensor_need_memory_only_for_the_sequences_that_are_read(
    tokenizer: Tokenizer, tmp_path: Path, preset: str
) -> None:
    before = make_bundle(tokenizer, "classify", preset)
    before.save(tmp_path / "bundle")
    edit_config(tmp_path / "bundle", max_position_embeddings=MANY)
    batch = flat_batch(random_sequences([3, 30]))
    with torch.no_grad():
        assert torch.equal(Bundle.load(tmp_path / "bundle").model(batch), before.model(batch))


def test_a_long_sequence_has_a_longer_table(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = flat_batch(random_sequences([5, 40]))
    for preset in ("small", "lab"):
        model = build_model(tiny_model_shape(preset, head="classify"), seed=1)
        with torch.no_grad():
            whole = model(batch)
            monkeypatch.setattr("headswap.model.base.LONGEST_TABLE", 4)
            assert torch.equal(model(batch), whole)
        monkeypatch.undo()


def test_swapped_labels_are_refused_and_the_message_names_the_command(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    swapped = {"0": "good", "1": "bad", "2": "middling"}
    (saved / "config.json").write_text(json.dumps(config | {"id2label": swapped}))
    with pytest.raises(InputError, match=r"config.json was changed after .* headswap labels \S+ OLD=NEW"):
        Bundle.load(saved)


def test_a_bundle_without_a_manifest_or_without_its_entry_is_loaded(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    del manifest["files"]["config.json"]
    (saved / "manifest.json").write_text(json.dumps(manifest))
    assert Bundle.load(saved).labels == ("bad", "good", "middling")
    (saved / "manifest.json").unlink()
    assert Bundle.load(saved).labels == ("bad", "good", "middling")


def test_a_manifest_that_is_damaged_is_refused(saved: Path) -> None:
    (saved / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match=r"manifest.json is not a manifest"):
        Bundle.load(saved)
