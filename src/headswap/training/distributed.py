"""Distributed training: one process, or several under `torchrun`.

Rank and world size are read from the environment that `torchrun` sets. All processes share one global batch: it is
split into micro-batches, and process r takes the micro-batches r, r + world, and so on. Only rank 0 writes files; the
others wait for it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from headswap.training.config import ParallelName

T = TypeVar("T")
R = TypeVar("R")
TIMEOUT = timedelta(hours=12)
"""The other processes wait while rank 0 tokenises; with PyTorch's default of 30 minutes a large corpus fails."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Rank of this process and number of processes."""

    rank: int = 0
    world: int = 1
    is_sharded: bool = False
    """Whether each process has only a part of the weights (FSDP)."""

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def from_first(self, make: Callable[[], T]) -> T:
        """Call `make` on rank 0 and send its value, or its exception, to all processes."""
        if self.world == 1:
            return make()
        parcel: list[T | BaseException | None] = [None]
        if self.is_first:
            try:
                parcel[0] = make()
            except Exception as problem:
                dist.broadcast_object_list([problem], src=0)
                raise
        dist.broadcast_object_list(parcel, src=0)
        if isinstance(parcel[0], BaseException):
            raise parcel[0]
        return parcel[0]  # type: ignore[return-value]

    def first_then_all(self, make: Callable[[], T]) -> T:
        """Call `make` on rank 0 first, then on the others, which find the result in the cache."""
        if self.world == 1:
            return make()
        made: list[T] = []
        self.from_first(lambda: made.append(make()))
        return made[0] if self.is_first else make()

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`work` of each item, in their order: process r does the items r, r + world, ..., and all get every result.

        An exception in one process is raised in all of them.
        """
        if self.world == 1:
            return [work(item) for item in items]
        own: list[R] | BaseException
        try:
            own = [work(item) for item in items[self.rank :: self.world]]
        except Exception as problem:
            own = problem
        parts: list[list[R] | BaseException] = [[]] * self.world
        dist.all_gather_object(parts, own)
        found: list[list[R]] = []
        for part in (own, *parts):
            if isinstance(part, BaseException):
                raise part
            found.append(part)
        return [found[1 + place % self.world][place // self.world] for place in range(len(items))]

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module under DDP: gradients are averaged over processes in the backward pass.

        DDP gets a process group of its own because it never releases its group (torch 2.13). With the default group,
        the threads that send our tensors would still run when Python exits, and freeing a tensor there aborts the
        process with exit code 134 after all work is done (seen in one run of five).
        """
        if self.world == 1:
            return module
        return nn.parallel.DistributedDataParallel(module, process_group=dist.new_group(timeout=TIMEOUT))


def start_processes(device: torch.device, parallel: ParallelName = "ddp") -> Processes:
    """Join the process group of torchrun; a single process if there is none. FSDP needs a group even for one."""
    world, is_sharded = int(os.environ.get("WORLD_SIZE", "1")), parallel == "fsdp"
    if world == 1 and not is_sharded:
        return Processes()
    if not dist.is_initialized():
        # gloo in addition to nccl: objects are sent between hosts while the GPUs train
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        if world == 1:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        else:
            dist.init_process_group(backend, timeout=TIMEOUT)
    return Processes(dist.get_rank(), world, is_sharded)


def stop_processes() -> None:
    """Destroy the process groups, which ends the threads of the default group."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
