"""The head swap and its ledger.

A swap returns a *new* model and a ledger that lists for every tensor whether it was kept from the base ("carried"), is
new, or was dropped, with checksums. If any base tensor is not kept, it is an error: otherwise a "pre-trained" arm could
silently start from scratch.
"""

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from headswap.core.errors import RunError
from headswap.core.local_paths import shared_name
from headswap.model.lora import is_adapter
from headswap.model.text_model import ModelShape, TextModel, build_model, merged


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The status of one tensor after a swap."""

    tensor: str
    status: Literal["carried", "new", "dropped"]
    parameters: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Which tensors of a model were kept from another one."""

    source: str
    rows: tuple[LedgerRow, ...]

    def count(self, status: str, *, part: str = "") -> tuple[int, int]:
        """Number of tensors and of parameters with a status, in all parts or in those whose names start with `part`."""
        rows = [row for row in self.rows if row.status == status and row.tensor.startswith(part)]
        return len(rows), sum(row.parameters for row in rows)

    def sentence(self) -> str:
        """One line: how many tensors are from the base, are new, and were dropped."""
        carried, carried_parameters = self.count("carried")
        new, new_parameters = self.count("new")
        dropped, dropped_parameters = self.count("dropped")
        if not carried:
            return f"all {new} tensors ({new_parameters:,} parameters) are new (from scratch)"
        base = len([row for row in self.rows if row.tensor.startswith("base.") and not is_adapter(row.tensor)])
        what = "head and adapters" if any(is_adapter(row.tensor) for row in self.rows) else "head"
        return (
            f"{carried} of {base} base tensors ({carried_parameters:,} parameters) kept from {self.source}; "
            f"new {what}: {new} tensors ({new_parameters:,} parameters); "
            f"old head dropped: {dropped} tensors ({dropped_parameters:,} parameters)"
        )

    def with_new_weights(self, model: TextModel) -> "Ledger":
        """The same ledger after the new tensors of the model got other values."""
        state = model.state_dict()
        return replace(
            self,
            rows=tuple(
                replace(row, checksum=checksum(state[row.tensor])) if row.status == "new" else row for row in self.rows
            ),
        )

    def as_json(self) -> dict[str, object]:
        """The object kept in `ledger.json`."""
        counts = {
            status: dict(zip(("tensors", "parameters"), self.count(status), strict=True))
            for status in ("carried", "new", "dropped")
        }
        return {"source": shared_name(self.source), **counts, "tensors": [asdict(row) for row in self.rows]}


def swap_head(model: TextModel, shape: ModelShape, *, seed: int, source: str) -> tuple[TextModel, Ledger]:
    """A new model of `shape` with the base of `model` and a new head; `model` is not changed."""
    model = merged(model) if model.shape.lora is not None else model
    new = build_model(shape, seed=seed)
    old_state, state = model.state_dict(), new.state_dict()
    with torch.no_grad():
        for name, tensor in state.items():
            if name.startswith("base.") and name in old_state and old_state[name].shape == tensor.shape:
                tensor.copy_(old_state[name])
    ledger = Ledger(source, tuple(_rows(old_state, new.state_dict())))
    check_ledger(ledger, shape)
    return new, ledger


def reshaped(model: TextModel, shape: ModelShape, *, seed: int) -> TextModel:
    """A new model with all weights of `model`; new rows of the vocabulary and a new pair head are initialised."""
    new, state = build_model(shape, seed=seed), model.state_dict()
    with torch.no_grad():
        for name, tensor in new.state_dict().items():
            if name in state:
                tensor[: len(state[name])] = state[name]
    return new


def scratch_ledger(model: TextModel) -> Ledger:
    """The ledger of a model in which every tensor is new."""
    rows = (LedgerRow(name, "new", tensor.numel(), checksum(tensor)) for name, tensor in model.state_dict().items())
    return Ledger("scratch", tuple(rows))


def check_ledger(ledger: Ledger, shape: ModelShape) -> None:
    """Raise unless the whole base was kept, bit for bit; adapters are new."""
    base = [row for row in ledger.rows if row.tensor.startswith("base.") and not is_adapter(row.tensor)]
    lost = [row.tensor for row in base if row.status != "carried"]
    if lost:
        total = len(base)
        raise RunError(
            f"Only {total - len(lost)} of the base's {total} tensors could be kept from {ledger.source}; "
            f"{lost[0]} is the first that was not. The shapes differ (wanted: {shape.base.num_hidden_layers} layers of "
            f"{shape.base.hidden_size}, vocabulary {shape.base.vocab_size}). Nothing was trained."
        )


def checksum(tensor: Tensor) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a tensor's bytes."""
    data = tensor.detach().cpu().contiguous().view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16]


def _rows(old: dict[str, Tensor], new: dict[str, Tensor]) -> list[LedgerRow]:
    rows = []
    for name, tensor in new.items():
        own = checksum(tensor)
        carried = name.startswith("base.") and name in old and checksum(old[name]) == own
        rows.append(LedgerRow(name, "carried" if carried else "new", tensor.numel(), own))
    gone = [name for name in old if name not in new or name.startswith("head.")]
    rows += [LedgerRow(name, "dropped", old[name].numel(), checksum(old[name])) for name in gone]
    return rows
