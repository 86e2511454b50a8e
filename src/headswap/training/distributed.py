"""Processes: one or many, and a run that does not care.

Under `torchrun` the environment says who we are. All processes compute the same global batch: it is cut into
micro-batches, and process r takes number r, r + world, and so on. Rank 0 writes; the others wait for it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")
PATIENCE = timedelta(hours=12)  # others wait while rank 0 tokenises; the default half hour kills large corpora


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among its peers."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def from_first(self, make: Callable[[], T]) -> T:
        """Let rank 0 make a value and give it to all."""
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
        """Let rank 0 do the work, then the others, who find it in the cache."""
        if self.world == 1:
            return make()
        made: list[T] = []
        self.from_first(lambda: made.append(make()))
        return made[0] if self.is_first else make()

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with its gradients summed over processes in the backward pass.

        It gets a group of its own, because it never lets go of its group (torch 2.13). Were that the group which sends
        our tensors, its threads would outlive Python, and one that drops such a tensor then aborts the process: exit
        code 134 with all work done, seen in one run of five.
        """
        if self.world == 1:
            return module
        return nn.parallel.DistributedDataParallel(module, process_group=dist.new_group(timeout=PATIENCE))


def start_processes(device: torch.device) -> Processes:
    """Join the group that torchrun started, if it did."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return Processes()
    if not dist.is_initialized():
        # gloo beside nccl, so that objects can be sent between hosts while the devices train
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE)
    return Processes(dist.get_rank(), world)


def stop_processes() -> None:
    """Leave the groups; the threads of the one that sent our tensors end here."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
