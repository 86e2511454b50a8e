"""Row 13: a step with FSDP on one device beside the same step without it, neither captured nor compiled."""

import torch

from headswap.model.shape import PRESET_VOCAB_SIZES, ModelSettings

from .contest import Side, Work
from .ours import pretraining
from .row import Measured, Setting, Target, contest

CASES = (("gpt2-small", 32, 1024, True), ("small", 64, 512, False))
"""Preset, rows, length, and whether FSDP should cost at most 10 % of the speed."""
STEPS = {"cpu": 1, "cuda": 10}


def sharded(setting: Setting) -> list[Measured]:
    """One contest per preset."""
    found = [_contest(setting, *case) for case in CASES]
    torch.distributed.destroy_process_group()
    return found


def _contest(setting: Setting, preset: str, rows: int, length: int, has_target: bool) -> Measured:
    settings = ModelSettings(preset=preset)  # type: ignore[arg-type]
    vocabulary = PRESET_VOCAB_SIZES[preset]
    if setting.is_tiny:
        settings, vocabulary, rows, length = settings.changed(num_hidden_layers=2), 500, 2, 32
    base = settings.shape(vocab_size=vocabulary)

    def work(how: str) -> Work:
        return pretraining(
            base, objective="causal", batch=rows, length=length, device=setting.device, steps=STEPS[setting.device],
            how=how,
        )  # fmt: skip

    sides = [
        Side("fsdp", lambda: work("fsdp"), 2),
        Side("without fsdp", lambda: work("eager"), 2, is_ours=True),
    ]
    targets = [Target("without fsdp", 0.9)] if has_target else []
    measured = contest(f"{preset}, {rows} x {length}, one device", sides, setting, targets=targets)
    if not has_target:
        share = measured.ratios[0].median
        measured.note = f"fsdp has {share:.2f} of the speed. This model fits on every GPU: use --parallel ddp."
    return measured
