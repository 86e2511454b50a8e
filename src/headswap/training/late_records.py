"""Records of steps on their way to the host, so that reading an old one does not wait for the newest step.

`tensor.item()` on CUDA copies behind all work that was launched before, so it waits for steps that began long after
the record was made. Here the scalars of a record are copied into pinned memory right after their step, without
waiting, and an event marks the end of the copy. Where several processes share a GPU, each wait is a turn of the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from headswap.training.loop import StepRecord


class Late(Protocol):
    """A record that is read some steps later."""

    def read(self) -> StepRecord:
        """The record, with its scalars on the host or cheap to read."""


def late_record(record: StepRecord) -> Late:
    """Start to copy the scalars of a record to the host; on a CPU there is nothing to copy."""
    return _OnItsWay(record) if record.is_broken.is_cuda else _Here(record)


class _Here:
    def __init__(self, record: StepRecord) -> None:
        self.record = record

    def read(self) -> StepRecord:
        return self.record


class _OnItsWay:
    def __init__(self, record: StepRecord) -> None:
        self.record = record
        packed = packed_scalars(record)
        self.host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        self.host.copy_(packed, non_blocking=True)
        self.copied = torch.cuda.Event()
        self.copied.record()

    def read(self) -> StepRecord:
        self.copied.synchronize()
        return unpacked(self.record, self.host)


def packed_scalars(record: StepRecord) -> Tensor:
    """All device scalars of a record as one vector, in a number format that holds each of them exactly."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in _scalars(record)])


def unpacked(record: StepRecord, values: Tensor) -> StepRecord:
    """The record with the values of `packed_scalars`."""
    like = _scalars(record)
    parts = values.split([tensor.numel() for tensor in like])
    shaped = [part.to(one.dtype).view(one.shape) for part, one in zip(parts, like, strict=True)]
    losses_K, loss, grad_norm, is_skipped, is_broken = shaped
    return replace(
        record, losses_K=losses_K, loss=loss, grad_norm=grad_norm, is_skipped=is_skipped, is_broken=is_broken
    )


def _scalars(record: StepRecord) -> Sequence[Tensor]:
    return record.losses_K, record.loss, record.grad_norm, record.is_skipped, record.is_broken
