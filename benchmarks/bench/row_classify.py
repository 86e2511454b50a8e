"""Row 5: classifying reviews of different lengths, from text to label."""

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.inference.predict import predict_texts
from headswap.model.text_model import build_model

from .contest import Side, Work
from .floor import Cost
from .peers import hf_classifier, padded
from .row import Measured, Setting, Target, contest
from .shapes import LENGTHS, LIMIT, lab_shape, model_shape
from .texts import text_of, tokenizer

BATCH = 32


def classify(setting: Setting) -> list[Measured]:
    """1,000 reviews in one part per round; all sides get the same part in a round."""
    device, count = setting.device, 20 if setting.is_tiny else 1_000
    texts = [text_of(length, seed) for seed, length in enumerate(LENGTHS[:count])]
    words = tokenizer(2_000 if setting.is_tiny else 16_000)
    base = lab_shape(words.vocab_size)
    parts = [texts[number :: setting.rounds] for number in range(setting.rounds)]
    parts = [parts[-1], *parts]  # the first is the warm-up
    sides = [
        Side("headswap", lambda: our_labels(base, parts, device)),
        Side("HF default", lambda: pipeline_labels(base, parts, device)),
        Side("HF best", lambda: best_labels(base, parts, device)),
    ]
    if device == "cpu":
        sides += [
            Side("ONNX Runtime", lambda: onnx_labels(base, parts)),
            Side("headswap --precision bf16", lambda: our_labels(base, parts, device, precision="bf16")),
        ]
    targets = [Target("HF default", 3.0)] if device == "cuda" else [
        Target("HF default", 2.5), Target("ONNX Runtime", 1.2)
    ]  # fmt: skip
    lengths = [min(len(ids) + 1, LIMIT) for ids in words.encode_batch(texts)]
    floor = Cost.of_reading(base, lengths).sentence(device, count, "texts")
    note = "HF best: its model in bf16, sorted by length, batches of 32; ONNX Runtime: float32, sorted by length."
    return [contest(f"{count:,} reviews", sides, setting, unit="texts/s", targets=targets, floor=floor, note=note)]


def our_labels(base: Any, parts: list[list[str]], device: str, precision: str = "fp32") -> Work:
    """As `Model.predict` does it."""
    model = build_model(model_shape(base, head="classify"), seed=0).to(device)
    bundle = Bundle(model, tokenizer(_size(base)), ("neg", "pos"), task=TaskState(max_length=LIMIT))
    options = {} if precision == "fp32" else {"precision": precision}
    return _each(parts, lambda texts: predict_texts(bundle, texts, **options))


def pipeline_labels(base: Any, parts: list[list[str]], device: str) -> Work:
    """transformers' pipeline without flags: one text at a time."""
    from transformers import pipeline

    ask = pipeline("text-classification", model=hf_classifier(base).eval(), tokenizer=_hf_words(base), device=device)
    return _each(parts, lambda texts: ask(texts, truncation=True, max_length=LIMIT))


@torch.no_grad()
def best_labels(base: Any, parts: list[list[str]], device: str) -> Work:
    """The fastest loop around transformers: bf16 weights, sorted by length, batches padded to their longest."""
    model, words = hf_classifier(base).eval().to(device, torch.bfloat16), _hf_words(base)

    def label(texts: list[str]) -> None:
        with torch.inference_mode():
            for ids, mask in _sorted_batches(texts, words, device):
                model(input_ids=ids, attention_mask=mask).logits.float().softmax(-1).cpu()

    return _each(parts, label)


def onnx_labels(base: Any, parts: list[list[str]]) -> Work:
    """The same model under ONNX Runtime, float32, all cores, sorted by length."""
    import onnxruntime

    words = _hf_words(base)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(exported(base), options, providers=["CPUExecutionProvider"])

    def label(texts: list[str]) -> None:
        for ids, mask in _sorted_batches(texts, words, "cpu"):
            session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})

    return _each(parts, label)


def exported(base: Any) -> bytes:
    """The Hugging Face classifier as ONNX, with dynamic batch and length."""
    model = hf_classifier(base).eval()
    ids, mask = padded([np.arange(10, 30), np.arange(10, 22)], pad=1, device="cpu")
    free = {0: "batch", 1: "length"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        torch.onnx.export(
            _Logits(model), (ids, mask), str(file), input_names=["input_ids", "attention_mask"],
            output_names=["logits"], dynamic_axes={"input_ids": free, "attention_mask": free}, dynamo=False,
            opset_version=17,
        )  # fmt: skip
        return io.BytesIO(file.read_bytes()).getvalue()


class _Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def _sorted_batches(texts: list[str], words: Any, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    ids = words(texts, truncation=True, max_length=LIMIT)["input_ids"]
    ids = sorted(ids, key=len)
    return [
        padded([np.array(row) for row in ids[start : start + BATCH]], pad=1, device=device)
        for start in range(0, len(ids), BATCH)
    ]


def _hf_words(base: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    plain = tokenizer(_size(base))._hf
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", bos_token="<sos>")


def _size(base: Any) -> int:
    return 16_000 if base.vocab_size > 2_000 else 2_000


def _each(parts: list[list[str]], label: Any) -> Work:
    """One part per call, in order."""
    at = 0

    def work() -> float:
        nonlocal at
        texts = parts[at % len(parts)]
        at += 1
        label(texts)
        return float(len(texts))

    return work
