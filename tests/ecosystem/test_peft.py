"""Exported adapters load in PEFT onto the exported base and compute the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")
peft = pytest.importorskip("peft", reason="pip install -c constraints.txt peft")

from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError
from headswap.inference.predict import predict_texts
from headswap.interop.config import ExportSettings
from headswap.interop.hf_out import auto_class
from headswap.interop.peft import Peft
from headswap.model.shape import HeadShape, LoraShape
from headswap.model.text_model import build_model
from headswap.tasks.choose import named_task
from headswap.tokens.tokenizer import Tokenizer
from tiny import random_sequences

LAST, FIRST = HeadShape(pooling="last", head_bias=False), HeadShape(pooling="first", head_hidden="tanh")
SHAPES: dict[str, Any] = {
    "llama": ("llama", "causal", {"num_key_value_heads": 1}, LAST),
    "gpt2": ("gpt2-small", "causal", {}, LAST),
    "bert": ("bert-base", "bidirectional", {}, FIRST),
}


@pytest.mark.parametrize("head", ["classify", "tag", "span"])
@pytest.mark.parametrize("name", SHAPES)
def test_adapters_and_head_compute_the_same_in_peft(name: str, head: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    preset, direction, changes, classifier = SHAPES[name]
    given = {"classifier": classifier} if head == "classify" else {}
    bundle = make_bundle(tokenizer, head, preset, direction=direction, **changes, **given)
    targets = ("qkv", "down") if name == "bert" else ("qkv", "output", "gate", "up", "down")
    model = build_model(bundle.model.shape.changed(lora=LoraShape(rank=3, alpha=5, targets=targets)), seed=2)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
    object.__setattr__(bundle, "model", model)
    Peft().export(bundle, tmp_path / "peft", ExportSettings())
    base = getattr(transformers, auto_class(model.shape)).from_pretrained(tmp_path / "peft" / "base")
    loaded = peft.PeftModel.from_pretrained(base, str(tmp_path / "peft")).eval()
    ids = random_sequences([9], vocab_size=tokenizer.vocab_size)
    with torch.no_grad():
        found = loaded(input_ids=torch.tensor(ids[0])[None])
        ours = model(flat_batch(ids))
    if head == "span":
        theirs = torch.stack((found.start_logits[0], found.end_logits[0]), 1).log_softmax(0)
    else:
        theirs = found.logits if head == "classify" else found.logits[0]
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)
    assert "library_name: peft" in (tmp_path / "peft" / "README.md").read_text(encoding="utf-8")
    if head != "span":
        assert [base.config.id2label[number] for number in range(3)] == list(bundle.labels)


@pytest.mark.parametrize("task", ["multilabel", "regress"])
def test_a_pipeline_answers_as_the_task_needs(task: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Not with a softmax over several labels, and not with the sigmoid of a value."""
    single = make_bundle(tokenizer, "classify", "llama", classifier=LAST)
    labels = single.labels if task == "multilabel" else ("value",)
    shape = single.model.shape.changed(num_labels=len(labels), lora=LoraShape(rank=2, alpha=4, targets=("qkv",)))
    bundle = replace(
        single, model=build_model(shape, seed=2), labels=labels, task=TaskState(task=task),
        problem_type=named_task(task).problem_type,
    )  # fmt: skip
    Peft().export(bundle, tmp_path / "peft", ExportSettings())
    folder = tmp_path / "peft" / "base"
    base = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    model = peft.PeftModel.from_pretrained(base, str(tmp_path / "peft")).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=words, device="cpu", top_k=None)
    (ours,) = predict_texts(bundle, ["the film was warm ."])
    found = {answer["label"]: answer["score"] for answer in pipe(["the film was warm ."])[0]}
    expected = {"value": ours.short} if task == "regress" else {label: ours.scores[label] for label in labels}
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_model_without_adapters_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"no LoRA adapters.*--to hf"):
        Peft().export(make_bundle(tokenizer, "classify", "llama"), tmp_path / "peft", ExportSettings())
