"""Reading checkpoints: what is refused and how, and that an exported model is read back equal.

The comparison with transformers is in tests/ecosystem.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.inference.predict import predict_texts
from headswap.interop.config import ExportSettings
from headswap.interop.hf_out import HuggingFace
from headswap.model.shape import HeadShape
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer
from tiny import random_sequences

SHAPES = {
    "llama": ("llama", "causal", {}),
    "llama with shared keys": ("llama", "causal", {"num_key_value_heads": 1, "tied_head": False}),
    "llama in both directions": ("llama", "bidirectional", {}),
    "gpt2": ("gpt2-small", "causal", {}),
    "bert": ("bert-base", "bidirectional", {"lm_head_transform": "gelu"}),
    "bert without segments": ("bert-base", "bidirectional", {"lm_head_transform": "gelu", "type_vocab_size": 0}),
}
LAST, FIRST = HeadShape(pooling="last", head_bias=False), HeadShape(pooling="first", head_hidden="tanh")
MEAN = HeadShape(pooling="mean", head_hidden="gelu")
HEADS = {"llama": LAST, "llama with shared keys": LAST, "llama in both directions": MEAN, "gpt2": LAST}


def exported(folder: Path, tokenizer: Tokenizer, name: str, head: str = "lm") -> Bundle:
    """A model of a shape, written as a stock checkpoint into a folder."""
    preset, direction, changes = SHAPES[name]
    classifier = {"classifier": HEADS.get(name, FIRST)} if head == "classify" else {}
    bundle = make_bundle(tokenizer, head, preset, direction=direction, **changes, **classifier)
    HuggingFace().export(bundle, folder, ExportSettings())
    return bundle


EXPORTED = [
    (name, head)
    for name in SHAPES
    for head in ("lm", "classify", "tag", "span")
    if (name, head) != ("llama in both directions", "span")
]
"""EuroBERT has no class for question answering."""


@pytest.mark.parametrize(("name", "head"), EXPORTED)
@torch.no_grad()
def test_an_exported_model_is_read_back_equal(name: str, head: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    before = exported(tmp_path / "hf", tokenizer, name, head)
    after = Bundle.load(f"hf:{tmp_path / 'hf'}")
    batch = flat_batch(random_sequences([5, 12, 3], vocab_size=tokenizer.vocab_size))
    torch.testing.assert_close(after.model(batch), before.model(batch), atol=1e-6, rtol=0)
    assert after.labels == before.labels
    assert after.model.shape.direction == before.model.shape.direction
    texts = ["the film was warm .", "<mask> é 7"]
    for one, other in zip(*(t.encode_batch(texts) for t in (before.tokenizer, after.tokenizer)), strict=True):
        assert before.tokenizer.frame.around(one).tolist() == after.tokenizer.frame.around(other).tolist()


def edit(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | changes
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("labels", "problem", "task"),
    [
        (("LABEL_0",), None, "regress"),
        (("LABEL_0",), "single_label_classification", "classify"),
        (("bad", "good"), None, "classify"),
        (("bad", "good"), "multi_label_classification", "multilabel"),
    ],
)
def test_one_output_without_a_problem_is_a_value(
    labels: tuple[str, ...], problem: str | None, task: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    bundle = make_bundle(tokenizer, "classify", "llama", classifier=LAST)
    model = build_model(bundle.model.shape.changed(num_labels=len(labels)), seed=2)
    changed = replace(bundle, model=model, labels=labels, problem_type=problem)
    HuggingFace().export(changed, tmp_path / "hf", ExportSettings())
    found = Bundle.load(f"hf:{tmp_path / 'hf'}")
    assert found.task.task == task
    assert found.problem_type == ("regression" if task == "regress" else problem)
    if task == "regress":
        values = [one.short for one in predict_texts(found, ["the film was warm .", "a"])]
        assert values[0] != values[1], "the scores of the head, which were probabilities of 1"


def test_thresholds_are_exported_and_read_back(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = make_bundle(tokenizer, "classify", "llama", classifier=LAST)
    state = bundle.task.changed(task="multilabel", thresholds=(0.1, 0.5, 0.9))
    bundle = replace(bundle, task=state, problem_type="multi_label_classification")
    HuggingFace().export(bundle, tmp_path / "hf", ExportSettings())
    config = json.loads((tmp_path / "hf" / "config.json").read_text(encoding="utf-8"))
    assert config["thresholds"] == [0.1, 0.5, 0.9]
    found = Bundle.load(f"hf:{tmp_path / 'hf'}")
    assert found.task.thresholds == (0.1, 0.5, 0.9)
    texts = ["the film was warm .", "a"]
    assert [one.labels for one in predict_texts(found, texts)] == [one.labels for one in predict_texts(bundle, texts)]
    for other in ([0.5], "half", [None] * 3, None):
        edit(tmp_path / "hf", thresholds=other)
        assert Bundle.load(f"hf:{tmp_path / 'hf'}").task.thresholds == (), "not ours"


def test_what_cannot_be_read_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "hf"
    exported(folder, tokenizer, "llama")
    before = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for changes, said in (
        ({"model_type": "t5"}, r"model_type is 't5'.*Known are 'llama'"),
        ({"architectures": ["LlamaForRewards"]}, "names LlamaForRewards"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling is"),
        ({"rope_parameters": {"rope_type": "llama3"}, "rope_theta": None}, "rope_type is 'llama3'"),
        ({"head_dim": 64}, "head_dim is 64"),
        ({"hidden_size": "x"}, "hidden_size is 'x'"),
        ({"num_attention_heads": 3}, "not a multiple of num_attention_heads 3"),
        ({"model_type": "headswap"}, "is a bundle of headswap"),
    ):
        edit(folder, **changes)
        with pytest.raises(InputError, match=said):
            Bundle.load(f"hf:{folder}")
        (folder / "config.json").write_text(json.dumps(before), encoding="utf-8")
    assert Bundle.load(f"hf:{folder}").objective == "causal"


def test_missing_and_left_over_tensors_are_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "hf"
    exported(folder, tokenizer, "llama")
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.0.extra.weight": torch.ones(2)}, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"the tensor model\.layers\.0\.extra\.weight has no place"):
        Bundle.load(f"hf:{folder}")
    save_file(tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"] + 1}, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"lm_head\.weight differs from model\.embed_tokens\.weight"):
        Bundle.load(f"hf:{folder}")
    save_file(tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, folder / "model.safetensors")
    assert Bundle.load(f"hf:{folder}").model.shape.base.tied_head
    tensors.pop("model.norm.weight")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"the tensor model\.norm\.weight is missing"):
        Bundle.load(f"hf:{folder}")


def test_pickled_weights_are_refused_with_the_command_that_converts_them(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "hf"
    exported(folder, tokenizer, "gpt2")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin is a pickle.*t\.GPT2LMHeadModel\.from_pretrained"):
        Bundle.load(f"hf:{folder}")
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match="has no weights"):
        Bundle.load(f"hf:{folder}")


def test_weights_in_several_files_and_old_names_are_read(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "hf"
    bundle = exported(folder, tokenizer, "bert")
    tensors = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    names = sorted(old)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, own in parts.items():
        save_file({name: old[name] for name in own}, folder / file)
    index = {"weight_map": {name: file for file, own in parts.items() for name in own}}
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    loaded = Bundle.load(f"hf:{folder}").model.state_dict()
    assert all(loaded[name].equal(tensor) for name, tensor in bundle.model.state_dict().items())


def test_a_checkpoint_without_a_head_is_a_base_and_no_language_model(tmp_path: Path, tokenizer: Tokenizer) -> None:
    from headswap.inference.generate.fill import Filler

    folder = tmp_path / "hf"
    bundle = exported(folder, tokenizer, "bert")
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("bert."): tensor for name, tensor in tensors.items() if name.startswith("bert.")}
    save_file(bare, folder / "model.safetensors")
    edit(folder, architectures=["BertModel"])
    loaded = Bundle.load(f"hf:{folder}")
    assert loaded.objective == "none"
    ours = bundle.model.base.state_dict()
    assert all(ours[name].equal(tensor) for name, tensor in loaded.model.base.state_dict().items())
    with pytest.raises(InputError, match=r"no language modelling head.*headswap adapt"):
        Filler(loaded)
