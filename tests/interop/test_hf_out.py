"""`--to hf`: which shapes are written as a stock checkpoint, and what prevents the others."""

from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from bundles import make_bundle
from cli_calls import call_json, call_wrong
from headswap.core.files import read_json
from headswap.interop.config import ExportSettings
from headswap.interop.hf_out import HuggingFace
from headswap.interop.peft import Peft
from headswap.model.shape import HeadShape, LoraShape
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer


@pytest.fixture
def saved(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    make_bundle(tokenizer, "lm", "gpt2-small").save(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def test_a_gpt2_shape_is_written_with_their_names(
    capsys: pytest.CaptureFixture[str], saved: Path, tmp_path: Path
) -> None:
    found = call_json(capsys, "export", saved, "--to", "hf", "--out", tmp_path / "hf")
    assert (found["to"], found["model_type"], found["class"]) == ("hf", "gpt2", "AutoModelForCausalLM")
    config, ours = read_json(tmp_path / "hf" / "config.json"), read_json(saved / "config.json")
    assert (config["n_embd"], config["n_layer"]) == (ours["hidden_size"], ours["num_hidden_layers"])
    tensors, before = load_file(tmp_path / "hf" / "model.safetensors"), load_file(saved / "model.safetensors")
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(tensor.numel() for tensor in before.values())
    name = "base.layers.1.attention.qkv.weight"
    assert tensors["transformer.h.1.attn.c_attn.weight"].T.equal(before[name])


def test_an_export_is_replaced_only_on_request_and_foreign_files_stay(
    capsys: pytest.CaptureFixture[str], saved: Path, tmp_path: Path
) -> None:
    given = ("export", saved, "--to", "hf", "--out", tmp_path / "hf")
    first = call_json(capsys, *given)
    assert "already exists" in call_wrong(capsys, *given)
    assert call_json(capsys, *given, "--overwrite") == first
    (tmp_path / "hf" / "notes.txt").write_text("mine", encoding="utf-8")
    assert "notes.txt" in call_wrong(capsys, *given, "--overwrite")


def test_weights_can_be_rounded_to_half_the_size(
    capsys: pytest.CaptureFixture[str], saved: Path, tmp_path: Path
) -> None:
    call_json(capsys, "export", saved, "--to", "hf", "--out", tmp_path / "whole")
    call_json(capsys, "export", saved, "--to", "hf", "--out", tmp_path / "half", "--weights", "float16")
    whole, half = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "half"))
    assert all(half[name].equal(tensor.half()) for name, tensor in whole.items())
    assert read_json(tmp_path / "half" / "config.json")["dtype"] == "float16"


def test_settings_that_prevent_an_export_are_named(
    capsys: pytest.CaptureFixture[str], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    make_bundle(tokenizer, "classify", "gpt2-small").save(tmp_path / "bundle")
    said = call_wrong(capsys, "export", tmp_path / "bundle", "--to", "hf", "--out", tmp_path / "hf")
    assert "pooling is mean" in said
    assert "--pooling last" in said
    assert "--no-head-bias" in said
    assert "import headswap.interop.hf" in said
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize(
    ("setting", "value", "stock"), [("head_similarity", "cosine", "dot"), ("head_norm", "layer", "none")]
)
def test_a_head_with_a_setting_that_no_stock_class_has_is_refused(
    capsys: pytest.CaptureFixture[str], tokenizer: Tokenizer, tmp_path: Path, setting: str, value: str, stock: str
) -> None:
    head = HeadShape(pooling="last", head_bias=False).changed(**{setting: value})
    make_bundle(tokenizer, "classify", "gpt2-small", classifier=head).save(tmp_path / "bundle")
    said = call_wrong(capsys, "export", tmp_path / "bundle", "--to", "hf", "--out", tmp_path / "hf")
    flag = f"--{setting.replace('_', '-')}"
    assert f"prevented by 1 setting: {setting} is {value}; GPT-2 has {flag} {stock}" in said


def test_a_head_that_compares_two_texts_is_no_stock_class(
    capsys: pytest.CaptureFixture[str], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    bundle = make_bundle(tokenizer, "compare", "gpt2-small")
    bundle.save(tmp_path / "bundle")
    for to in ("hf", "peft"):
        said = call_wrong(capsys, "export", tmp_path / "bundle", "--to", to, "--out", tmp_path / to)
        assert not (tmp_path / to).exists()
        assert ("compares the vectors of two texts" if to == "hf" else "has no LoRA adapters") in said
    small = make_bundle(tokenizer, "compare")
    small.save(tmp_path / "small")
    said = call_wrong(
        capsys, "export", tmp_path / "small", "--to", "sentence-transformers", "--out", tmp_path / "vectors"
    )
    assert "No stock class" in said
    assert "--pair-encoding joined" in call_wrong(
        capsys, "export", tmp_path / "bundle", "--to", "hf", "--out", tmp_path / "hf"
    )


def test_every_export_with_labels_states_the_kind_of_the_problem(tokenizer: Tokenizer, tmp_path: Path) -> None:
    head = HeadShape(pooling="last", head_bias=False)
    bundle = replace(
        make_bundle(tokenizer, "classify", "gpt2-small", classifier=head), problem_type="multi_label_classification"
    )
    HuggingFace().export(bundle, tmp_path / "hf", ExportSettings())
    shape = bundle.model.shape.changed(lora=LoraShape(rank=2, alpha=4, targets=("qkv",)))
    Peft().export(replace(bundle, model=build_model(shape, seed=1)), tmp_path / "peft", ExportSettings())
    for config in (tmp_path / "hf" / "config.json", tmp_path / "peft" / "base" / "config.json"):
        assert read_json(config)["problem_type"] == "multi_label_classification"
        assert list(read_json(config)["id2label"].values()) == list(bundle.labels)
