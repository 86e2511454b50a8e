"""Rows 1 to 3: one step of pre-training, forward, backward, clip and AdamW, on rectangles without padding."""

from collections.abc import Callable

import torch
from torch import Tensor

from headswap.model.shape import BaseShape

from .contest import Side, Work, again
from .floor import Cost, floor_of
from .memory import peak_bytes
from .ours import pretraining
from .peers import LabModel, hf_causal, hf_masked, stepper
from .row import Measured, Setting, Target, contest
from .shapes import FIRST_WORD, gpt2_small, lab_shape, random_ids

MASKED_SHARE = 0.15
STEPS = {"cpu": 1, "cuda": 10}
"""Steps per measurement."""


def causal(setting: Setting) -> list[Measured]:
    """Row 1: the lab's shape, both vocabularies."""
    large = _causal(setting, 50_001, [
        Target("HF best", 1.0), Target("HF default", 2.5), Target("the lab's code", 2.5),
        Target("memory, share of the lab's", 0.25, is_most=True),
    ], [Target("headswap", 2.3e6, of_rate=True)])  # fmt: skip
    batch = _rows(setting)
    where = {"vocab_size": _vocabulary(setting, 50_001), "batch": batch, "device": setting.device}
    own = peak_bytes("bench.row_pretrain:our_work", objective="causal", **where)
    lab = peak_bytes("bench.row_pretrain:lab_work", **where)
    large.measures = {
        "peak memory, MB": own / 1e6, "peak memory of the lab's code, MB": lab / 1e6,
        "memory, share of the lab's": own / lab,
    }  # fmt: skip
    return [large, _causal(setting, 8_000, [Target("HF best", 1.0)], [])]


def masked(setting: Setting) -> list[Measured]:
    """Row 2: the same shapes, 15 % of the tokens masked."""
    return [_masked(setting, 50_001, 2.5), _masked(setting, 8_000, 1.2)]


def gpt2(setting: Setting) -> list[Measured]:
    """Row 3: GPT-2 small, 64 x 1024, on a GPU."""
    if setting.device != "cuda":
        return []
    base = gpt2_small()
    batch, length = 64, 1024
    sides = [
        Side("headswap", lambda: our_gpt2(base, batch, length), 3),
        Side("HF best", lambda: hf_work("causal", base.vocab_size, 16, "cuda", "bf16", True, length, base), 3),
        Side("HF bf16", lambda: hf_work("causal", base.vocab_size, 16, "cuda", "bf16", False, length, base), 3),
    ]
    found = contest("GPT-2 small shape, 64 x 1024 (HF: 16 x 1024)", sides, setting)
    cost = Cost.of_step(base, batch * length, length=length, targets=batch * length)
    ceiling = floor_of(setting.device).flops_bf16
    found.measures = {"share of the bf16 ceiling": found.sides[0]["median"] * cost.flops / (batch * length) / ceiling}
    found.targets = [Target("share of the bf16 ceiling", 0.5)]
    found.floor = cost.sentence(setting.device, batch * length)
    return [found]


def our_gpt2(base: BaseShape, batch: int, length: int) -> Work:
    """Steps of ours in GPT-2's shape."""
    return pretraining(base, objective="causal", batch=batch, length=length, device="cuda", steps=STEPS["cuda"])


def our_work(vocab_size: int, batch: int, device: str, objective: str = "causal", fast: str = "auto") -> Work:
    """A step of ours in the lab's shape."""
    base = lab_shape(vocab_size)
    steps = STEPS[device]
    return pretraining(base, objective=objective, batch=batch, length=256, device=device, fast=fast, steps=steps)


def lab_work(vocab_size: int, batch: int, device: str) -> Work:
    """A step of the lab's code."""
    model = LabModel(lab_shape(vocab_size))
    step, data = stepper(model, model.loss, device=device, precision="fp32"), _rectangles(vocab_size, batch, device)

    def work() -> float:
        ids, target = data()
        step(ids, target)
        return float(ids.numel())

    return again(work, STEPS[device])


def hf_work(
    objective: str, vocab_size: int, batch: int, device: str, precision: str, is_compiled: bool, length: int = 256,
    base: object = None,
) -> Work:  # fmt: skip
    """A step of transformers; its causal class shifts the labels itself."""
    shape = base or lab_shape(vocab_size)
    model = (hf_causal if objective == "causal" else hf_masked)(shape)  # type: ignore[arg-type]
    called = torch.compile(model) if is_compiled else model
    step = stepper(
        model, lambda ids, labels: called(input_ids=ids, labels=labels).loss, device=device, precision=precision
    )
    data = _rectangles(vocab_size, batch, device, length)

    def work() -> float:
        ids, _ = data()
        labels = ids
        if objective == "masked":
            is_masked = torch.rand(ids.shape, device=device) < MASKED_SHARE
            labels = torch.where(is_masked, ids, -100)
            ids = torch.where(is_masked, 4, ids)
        step(ids, labels)
        return float(ids.numel())

    return again(work, STEPS[device])


def _causal(setting: Setting, vocab_size: int, on_cpu: list[Target], on_gpu: list[Target]) -> Measured:
    batch, size, device = _rows(setting), _vocabulary(setting, vocab_size), setting.device
    sides = [
        Side("headswap", lambda: our_work(size, batch, device), 2),
        Side("HF best", lambda: hf_work("causal", size, batch, device, "bf16", True), 2),
        Side("HF default", lambda: hf_work("causal", size, batch, device, "fp32", False)),
        Side("the lab's code", lambda: lab_work(size, batch, device)),
    ]
    cost = Cost.of_step(lab_shape(size), batch * 256, length=256, targets=batch * 256)
    title = f"causal, V = {size:,}, {batch} x 256"
    targets = on_gpu if device == "cuda" else on_cpu
    return contest(title, sides, setting, targets=targets, floor=cost.sentence(device, batch * 256))


def _masked(setting: Setting, vocab_size: int, wanted: float) -> Measured:
    batch, size, device = _rows(setting), _vocabulary(setting, vocab_size), setting.device
    sides = [
        Side("headswap", lambda: our_work(size, batch, device, "masked"), 2),
        Side("HF best", lambda: hf_work("masked", size, batch, device, "bf16", True), 2),
        Side("HF default", lambda: hf_work("masked", size, batch, device, "fp32", False)),
    ]
    tokens = batch * 256
    cost = Cost.of_step(lab_shape(size), tokens, length=256, targets=int(tokens * MASKED_SHARE), causal=False)
    targets = [Target("headswap", 4e6, of_rate=True)] if device == "cuda" else [Target("HF best", wanted)]
    title = f"masked, V = {size:,}, {batch} x 256"
    return contest(title, sides, setting, targets=targets, floor=cost.sentence(device, tokens))


def _rectangles(vocab_size: int, batch: int, device: str, length: int = 256) -> Callable[[], tuple[Tensor, Tensor]]:
    """New inputs and targets at every call, cut from one long text."""
    text = torch.from_numpy(random_ids([batch * length * 8 + 1], vocab_size)[0])
    assert int(text.min()) >= FIRST_WORD
    at = 0

    def data() -> tuple[Tensor, Tensor]:
        nonlocal at
        begin = (at % 8) * batch * length
        at += 1
        piece = text[begin : begin + batch * length + 1]
        ids, target = piece[:-1].view(batch, length), piece[1:].reshape(batch, length)
        return ids.to(device), target.to(device)

    return data


def _rows(setting: Setting) -> int:
    return 2 if setting.is_tiny else 256 if setting.device == "cuda" else 16


def _vocabulary(setting: Setting, size: int) -> int:
    return size // 50 if setting.is_tiny else size
