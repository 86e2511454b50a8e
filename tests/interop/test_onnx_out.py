"""`--to onnx`: the graph computes what the model computes, for padded batches of mixed lengths."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.core.errors import HeadswapError
from headswap.interop.config import ExportSettings
from headswap.interop.onnx_out import MODEL, Onnx, exported_model
from headswap.interop.padded_model import PaddedModel
from headswap.model.shape import PRESETS, HeadShape
from headswap.tokens.tokenizer import Tokenizer
from tiny import random_sequences

LENGTHS = [5, 1, 17, 30]
WAYS = ("causal", "bidirectional")
POOLINGS = ["last", "mean", "first", "max", "mean+max", "weighted-mean"]
SHAPES: list[dict[str, Any]] = [
    *({"head": "classify", "pooling": pooling, "direction": way} for pooling in POOLINGS for way in WAYS),
    *({"head": head, "direction": way} for head in ("lm", "tag", "span") for way in WAYS),
    *({"head": "classify", "preset": preset} for preset in PRESETS),
    *({"head": "compare", "pooling": pooling} for pooling in POOLINGS),
    {"head": "compare", "type_vocab_size": 2},
    {"head": "compare", "classifier": HeadShape(head_norm="layer")},
    {"head": "classify", "classifier": HeadShape(head_norm="layer")},
    {"head": "classify", "type_vocab_size": 2},
    {"head": "classify", "classifier": HeadShape(head_similarity="cosine")},
]  # fmt: skip


def padded(sequences: list[np.ndarray], segments: bool) -> dict[str, torch.Tensor]:
    longest = max(map(len, sequences))
    ids, mask, types = (torch.zeros(len(sequences), longest, dtype=torch.int64) for _ in range(3))
    for number, one in enumerate(sequences):
        ids[number, : len(one)], mask[number, : len(one)] = torch.from_numpy(one), 1
    return {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if segments else {})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_padding_changes_no_output(tokenizer: Tokenizer, shape: dict[str, Any]) -> None:
    model = make_bundle(tokenizer, **shape).model
    sequences = random_sequences(LENGTHS, vocab_size=tokenizer.vocab_size)
    with torch.no_grad():
        ours = model(flat_batch(sequences))
        theirs = PaddedModel(model)(**padded(sequences, "type_vocab_size" in shape))
    if theirs.ndim == 3:
        theirs = torch.cat([part[:length] for part, length in zip(theirs, LENGTHS, strict=True)])
    torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@torch.no_grad()
def test_the_temperature_is_part_of_the_exported_scores(tokenizer: Tokenizer, similarity: str) -> None:
    bundle = make_bundle(tokenizer, classifier=HeadShape(head_similarity=similarity, head_dropout=0.0))
    bundle = replace(bundle, task=bundle.task.changed(temperature=2.5))
    batch = flat_batch(random_sequences(LENGTHS, vocab_size=tokenizer.vocab_size))
    torch.testing.assert_close(exported_model(bundle)(batch), bundle.model(batch) / 2.5)


@pytest.mark.parametrize(
    ("head", "settings", "words"),
    [
        ("classify", {"quantize": "int8"}, "must be measured. Pass --test"),
        ("lm", {"test": "test.csv"}, "this is a language model"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, tokenizer: Tokenizer, head: str, settings: dict[str, Any], words: str
) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: make test-ecosystem")
    with pytest.raises(HeadswapError, match=words):
        Onnx().export(make_bundle(tokenizer, head), tmp_path / "onnx", ExportSettings(**settings))
    assert not (tmp_path / "onnx").exists()


def test_a_missing_package_is_a_sentence(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(HeadswapError, match=r"needs the package 'onnx'.*pip install 'headswap\[onnx\]'"):
        Onnx().export(make_bundle(tokenizer), tmp_path / "onnx", ExportSettings())


def test_the_graph_has_a_known_name() -> None:
    assert any(__import__("re").fullmatch(pattern, MODEL) for pattern in Onnx.files)
