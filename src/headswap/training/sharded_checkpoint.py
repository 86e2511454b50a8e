"""Checkpoints of a sharded run: every process writes and reads its own part, by `torch.distributed.checkpoint`.

The parts are safetensors files whose headers say which rows of a tensor they hold, so a run can be resumed on another
number of processes, or without FSDP. There is no pickle. Weights have the names of the parameters, optimizer state the
names that `optimizer_tensors` gives it. The folder is on a file system that all processes share.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter

from headswap.core.errors import RunError
from headswap.training.optimizer import STATE
from headswap.training.parameter_groups import Optimizer
from headswap.training.sharded import ShardedModule


def write_shards(folder: Path, module: ShardedModule, optimizer: Optimizer) -> None:
    """Write weights and optimizer state; all processes call it."""
    tensors: dict[str, Tensor] = {}
    for name, shard in module.shards.items():
        tensors[name] = module.parameter(name).detach()
        for key, value in optimizer.state.get(shard, {}).items():
            tensors[f"{name}:{key}"] = _divided(module, name, value)
    with _ordinary_errors(folder):
        dcp.save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))


def read_shards(folder: Path, module: ShardedModule, optimizer: Optimizer) -> None:
    """Read each process's part of the weights and of the optimizer state; all processes call it."""
    saved = _sizes(folder)
    tensors: dict[str, Tensor] = {}
    for name, shard in module.shards.items():
        tensors[name] = module.parameter(name).detach()
        state: dict[str, Tensor] = {}
        for key in STATE:
            if (size := saved.get(f"{name}:{key}")) is not None:
                state[key] = torch.zeros_like(shard) if size.shape else torch.zeros((), device=shard.device)
                tensors[f"{name}:{key}"] = _divided(module, name, state[key])
        if state:
            optimizer.state[shard] = state
    with _ordinary_errors(folder):
        dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)))


def read_whole(folder: Path) -> dict[str, Tensor]:
    """All tensors of a sharded checkpoint, whole, in one process."""
    tensors = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in _sizes(folder).items()}
    with warnings.catch_warnings(), _ordinary_errors(folder):
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return tensors


@contextmanager
def _ordinary_errors(folder: Path) -> Iterator[None]:
    """Raise what failed in one of the processes in all of them; PyTorch's own exception is not an `Exception`."""
    try:
        yield
    except dcp.CheckpointException as problem:
        found = [failure[0] for failure in problem.failures.values()]
        raise next(
            (one for one in found if isinstance(one, OSError)),
            RunError(f"{folder} could not be written or read: {found[0]!r}. Resume from an older checkpoint."),
        ) from None


def _sizes(folder: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint without their values."""
    found = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    return {
        name: torch.empty(entry.size, dtype=entry.properties.dtype, device="meta")  # type: ignore[union-attr]
        for name, entry in found.items()
    }


def _divided(module: ShardedModule, name: str, value: Tensor) -> Tensor:
    """State of a parameter as DTensor; the number of steps is the same on all processes."""
    return value if value.ndim == 0 else module.as_divided(name, value)
