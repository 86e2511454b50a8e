"""Exported models load with plain AutoModel classes and compute the same; pipelines use them with our labels."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")

import huggingface_hub

from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.fill import Filler
from headswap.inference.generate.generator import Generator
from headswap.inference.predict import predict_texts
from headswap.interop.config import ExportSettings
from headswap.interop.hf_out import HuggingFace, auto_class
from headswap.model.shape import HeadShape
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer

LAST = HeadShape(pooling="last", head_bias=False)
FIRST, MEAN = HeadShape(pooling="first", head_hidden="tanh"), HeadShape(pooling="mean", head_hidden="gelu")
SHAPES: dict[str, Any] = {
    "llama": ("llama", "causal", {"num_key_value_heads": 1}, LAST),
    "gpt2": ("gpt2-small", "causal", {}, LAST),
    "bert": ("bert-base", "bidirectional", {"lm_head_transform": "gelu"}, FIRST),
    "eurobert": ("llama", "bidirectional", {"tied_head": False}, MEAN),
    "distilbert": (
        "bert-base", "bidirectional", {"lm_head_transform": "gelu", "type_vocab_size": 0},
        HeadShape(pooling="first", head_hidden="relu"),
    ),
}  # fmt: skip
TEXTS = ["the film was warm .", "the ending was cold and the music was grey .", "a"]
CASES = [
    (name, head)
    for name in SHAPES
    for head in ("lm", "classify", "tag", "span")
    if (name, head) != ("eurobert", "span")  # there is no such class
]


def export(folder: Path, tokenizer: Tokenizer, name: str, head: str, task: TaskState | None = None) -> Bundle:
    """A model of a shape, with random weights that are not small, exported into a folder."""
    preset, direction, changes, classifier = SHAPES[name]
    given = {"classifier": classifier} if head == "classify" else {}
    bundle = make_bundle(tokenizer, head, preset, direction=direction, **changes, **given)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in bundle.model.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
    if task is not None:
        bundle = Bundle(bundle.model, tokenizer, bundle.labels[: bundle.model.shape.num_labels], "none", task=task)
    HuggingFace().export(bundle, folder, ExportSettings())
    return bundle


@pytest.mark.parametrize(("name", "head"), CASES)
@torch.no_grad()
def test_a_stock_class_computes_the_same_logits_in_a_padded_batch(
    name: str, head: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    bundle = export(tmp_path / "hf", tokenizer, name, head)
    auto = getattr(transformers, auto_class(bundle.model.shape))
    model, info = auto.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not info["missing_keys"], info
    assert not info["unexpected_keys"], info
    given = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")(TEXTS, padding=True, return_tensors="pt")
    found = model.eval()(**given)
    frame = bundle.tokenizer.frame
    rows = [frame.around(ids) for ids in bundle.tokenizer.encode_batch(TEXTS)]
    for number, ids in enumerate(rows):
        assert given["input_ids"][number, : len(ids)].tolist() == ids.tolist()
        ours = bundle.model(flat_batch([ids]))
        if head == "classify":
            theirs = found.logits[number : number + 1]
        elif head == "span":  # ours are log-probabilities
            both = torch.stack((found.start_logits[number], found.end_logits[number]), 1)[: len(ids)]
            theirs = both.log_softmax(0)
        else:
            theirs = found.logits[number, : len(ids)]
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def test_pipelines_use_exported_models_with_our_labels(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = export(tmp_path / "classify", tokenizer, "llama", "classify")
    classify = transformers.pipeline("text-classification", str(tmp_path / "classify"), device="cpu")
    answers = classify(TEXTS, batch_size=3)
    ours = predict_texts(bundle, TEXTS)
    assert [answer["label"] for answer in answers] == [one.label for one in ours]
    np.testing.assert_allclose(
        [answer["score"] for answer in answers], [one.scores[one.label] for one in ours], atol=1e-5
    )
    tagger = export(tmp_path / "tag", tokenizer, "bert", "tag")
    tags = transformers.pipeline("token-classification", str(tmp_path / "tag"), device="cpu", ignore_labels=[])(TEXTS)
    for text, found in zip(TEXTS, tags, strict=True):
        ids = tagger.tokenizer.frame.around(tagger.tokenizer.encode_batch([text])[0])
        scores = tagger.model(flat_batch([ids])).detach().softmax(1)[-len(found) :]
        assert [one["entity"] for one in found] == [tagger.labels[best] for best in scores.argmax(1).tolist()]
        np.testing.assert_allclose([one["score"] for one in found], scores.amax(1).numpy(), atol=1e-5)
    causal = export(tmp_path / "causal", tokenizer, "llama", "lm")
    made = transformers.pipeline("text-generation", str(tmp_path / "causal"), device="cpu")(
        "the film", max_new_tokens=5, do_sample=False, return_full_text=False
    )[0]["generated_text"]
    assert made.strip() == Generator(causal).continue_text("the film", SamplingSettings(max_new_tokens=5)).text.strip()
    masked = tokenizer.with_mask_and_sep()
    filled = export(tmp_path / "masked", masked, "bert", "lm")
    top = transformers.pipeline("fill-mask", str(tmp_path / "masked"), device="cpu", top_k=20)("the <mask> was warm")
    best = next(one for one in top if one["token"] not in masked.special_ids)
    assert best["token_str"].strip() == Filler(filled).fill("the <mask> was warm").masks[0][0].token.strip()


@pytest.mark.parametrize("name", ["bert", "eurobert", "distilbert"])
def test_a_regression_has_the_unit_of_its_targets(name: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    preset, direction, changes, classifier = SHAPES[name]
    bundle = make_bundle(tokenizer, "classify", preset, direction=direction, classifier=classifier, **changes)
    model = build_model(bundle.model.shape.changed(num_labels=1), seed=4)
    task = TaskState(task="regress", target_mean=3.5, target_std=2.25, max_length=30)
    bundle = Bundle(model, tokenizer, ("score",), "none", task=task, problem_type="regression")
    HuggingFace().export(bundle, tmp_path / "hf", ExportSettings())
    answers = transformers.pipeline("text-classification", str(tmp_path / "hf"), device="cpu")(TEXTS)
    ours = [one.short for one in predict_texts(bundle, TEXTS)]
    np.testing.assert_allclose([answer["score"] for answer in answers], ours, atol=1e-4)


def test_several_labels_are_scored_one_by_one(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = export(tmp_path / "hf", tokenizer, "bert", "classify", TaskState(task="multilabel", thresholds=(0.5,) * 3))
    bundle = replace(bundle, problem_type="multi_label_classification")
    HuggingFace().export(bundle, tmp_path / "labels", ExportSettings())
    answers = transformers.pipeline("text-classification", str(tmp_path / "labels"), device="cpu", top_k=None)(TEXTS)
    ours = predict_texts(bundle, TEXTS)
    for theirs, one in zip(answers, ours, strict=True):
        found = {answer["label"]: answer["score"] for answer in theirs}
        assert found == pytest.approx({label: one.scores[label] for label in bundle.labels}, abs=1e-5)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "labels")
    assert config.thresholds == [0.5] * 3, "a key of ours that transformers keeps"


@pytest.mark.parametrize(
    ("name", "head"), [("llama", "lm"), ("bert", "lm"), ("llama", "classify"), ("bert", "tag"), ("bert", "span")]
)
def test_the_code_of_an_exported_card_runs_and_the_hub_reads_its_metadata(
    name: str, head: str, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    export(tmp_path / "hf", tokenizer.with_mask_and_sep(), name, head)
    card = huggingface_hub.ModelCard.load(tmp_path / "hf" / "README.md")
    assert card.data.library_name == "transformers"
    monkeypatch.chdir(tmp_path / "hf")
    (code,) = re.findall(r"```python\n(.*?)```", card.content, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(("head", "task"), [("classify", TaskState(temperature=2.5))])
def test_a_temperature_is_part_of_the_exported_scores(
    head: str, task: TaskState, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    bundle = export(tmp_path / "hf", tokenizer, "bert", head, task)
    answers = transformers.pipeline("text-classification", str(tmp_path / "hf"), device="cpu")(TEXTS)
    ours = predict_texts(bundle, TEXTS)
    np.testing.assert_allclose(
        [answer["score"] for answer in answers], [one.scores[one.label] for one in ours], atol=1e-5
    )
