"""Row 4: fine-tuning a classifier for an epoch on reviews of different lengths, batches of 16."""

import torch

from .contest import Side, Work
from .floor import Cost
from .ours import finetuning
from .peers import hf_classifier, padded, stepper
from .row import Measured, Setting, Target, contest
from .shapes import lab_shape, ragged_lengths, random_ids

VOCABULARY, BATCH = 16_000, 16
MEGA = 50  # batches that transformers' length grouping sorts together


def finetune(setting: Setting) -> list[Measured]:
    """The lab's shape; every side sees each review once per round."""
    on_gpu = setting.device == "cuda"
    batch = 4 if setting.is_tiny else BATCH
    count = 8 if setting.is_tiny else 960 if on_gpu else 96
    lengths, device = ragged_lengths(count), setting.device
    base = lab_shape(VOCABULARY if not setting.is_tiny else 500)
    sides = [
        Side("headswap", lambda: finetuning(base, lengths, batch=batch, device=device)),
        Side("HF grouped, bf16", lambda: hf_epoch(base, lengths, batch, device, is_grouped=True, precision="bf16")),
        Side("HF grouped", lambda: hf_epoch(base, lengths, batch, device, is_grouped=True)),
        Side("HF default", lambda: hf_epoch(base, lengths, batch, device)),
    ]
    targets = [Target("HF default", 4.0 if on_gpu else 3.0)] + ([] if on_gpu else [Target("HF grouped", 1.5)])
    step = Cost.of_step(base, sum(lengths), length=sum(n * n for n in lengths) // sum(lengths), targets=0)
    title = f"an epoch of {count} reviews, {sum(lengths):,} tokens, batches of {batch}"
    return [contest(title, sides, setting, targets=targets, floor=step.sentence(device, sum(lengths)))]


def hf_epoch(
    base: object, lengths: list[int], batch: int, device: str, *, is_grouped: bool = False, precision: str = "fp32"
) -> Work:
    """Batches padded to their longest text; if grouped, of similar lengths, as transformers' sampler makes them."""
    model = hf_classifier(base)  # type: ignore[arg-type]
    step = stepper(
        model,
        lambda ids, mask, labels: model(input_ids=ids, attention_mask=mask, labels=labels).loss,
        device=device,
        precision=precision,
    )
    sequences = random_ids(lengths, base.vocab_size)  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(0)

    def work() -> float:
        order = torch.randperm(len(sequences), generator=generator).tolist()
        if is_grouped:
            order = grouped(order, lengths, batch)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            ids, mask = padded([sequences[index] for index in chosen], pad=1, device=device)
            labels = torch.tensor([index % 2 for index in chosen], device=device)
            step(ids, mask, labels)
        return float(sum(lengths))

    return work


def grouped(order: list[int], lengths: list[int], batch: int) -> list[int]:
    """A random order, sorted by length within groups of 50 batches (transformers' LengthGroupedSampler)."""
    size = min(len(order), MEGA * batch)
    stretches = [order[start : start + size] for start in range(0, len(order), size)]
    return [index for part in stretches for index in sorted(part, key=lambda index: -lengths[index])]
