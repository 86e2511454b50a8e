"""Saving and loading a model's weights as a safetensors file, never as a pickle.

A file that is missing, damaged or belongs to another model is an error that names the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file

from headswap.core.errors import InputError, raise_problems
from headswap.model.text_model import TextModel


def save_model(model: TextModel, path: Path, *, dtype: torch.dtype | None = None) -> None:
    """Write the weights; a tied head has no weights of its own, so nothing is stored twice."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if dtype is not None:
        whole, state = state, {name: tensor.to(dtype) for name, tensor in state.items()}
        assert all(torch.equal(state[name].to(tensor.dtype), tensor) for name, tensor in whole.items()), "not exact"
    save_file(state, path, metadata={"format": "pt"})


@contextmanager
def open_weights(path: Path, *, device: torch.device | str = "cpu") -> Iterator[Any]:
    """Open a safetensors file; a missing or damaged file is an error that names it."""
    try:
        with safetensors.safe_open(path, framework="pt", device=str(device)) as file:
            yield file
    except FileNotFoundError:
        pickles = [name for name in ("pytorch_model.bin", "model.pt", "model.bin") if (path.parent / name).exists()]
        pickled = f" {pickles[0]} is a pickle, which can run code and is never unpickled." if pickles else ""
        raise InputError(
            f"{path} does not exist, so the model has no weights.{pickled} Restore it from a copy."
        ) from None
    except (safetensors.SafetensorError, OSError) as problem:
        raise InputError(f"{path} is damaged or not a safetensors file ({problem}). Restore it from a copy.") from None


def load_weights(model: TextModel, path: Path, *, device: torch.device | str) -> None:
    """Load exactly the tensors of a file into a model, which may be on the meta device.

    Weights stored in 16 bits are converted to fp32, which is exact; the precision of computation is a machine setting.
    """
    with open_weights(path, device=device) as file:
        state = {name: _widened(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - no mapping
    expected = model.state_dict()
    problems = [f"{path}: the tensor {name} is missing." for name in expected if name not in state]
    problems += [f"{path}: the tensor {name} does not belong to this model." for name in state if name not in expected]
    problems += [
        f"{path}: {name} has the dtype {str(tensor.dtype).removeprefix('torch.')}, which is not floating-point."
        for name, tensor in state.items()
        if not tensor.is_floating_point()
    ]
    problems += [
        f"{path}: {name} has shape {tuple(state[name].shape)}, expected is {tuple(expected[name].shape)}."
        for name in expected
        if name in state and state[name].shape != expected[name].shape
    ]
    raise_problems([*problems[:-1], f"{problems[-1]} Restore the file from a copy."] if problems else [])
    assign_weights(model, state)


def assign_weights(model: TextModel, state: dict[str, torch.Tensor]) -> None:
    """Make tensors the weights of a model, without a copy; what is trained stays the same."""
    is_trainable = {name: tensor.requires_grad for name, tensor in model.named_parameters()}
    model.load_state_dict(state, assign=True)
    for name, tensor in model.named_parameters():
        tensor.requires_grad_(is_trainable[name])


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
