"""Steps that are recorded once and played back.

On CUDA the step of a small model is hundreds of short kernels, and the host launches them more slowly than the device
runs them. So the forward and the backward pass are recorded as CUDA graphs, one pair for each size of batch. Batches
are filled up to few sizes, which changes none of their losses. A recording is trusted only after another batch was
computed both ways; what cannot be recorded is computed plainly, with one logged line.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from headswap.model.kernels import WIDEST_HEAD
from headswap.model.text_model import TextModel
from headswap.text.batch import Batch, filled_up
from headswap.training.machine import Machine

log = logging.getLogger("headswap")
MOST_PARAMETERS = 60_000_000
"""Of larger models the device has work enough."""
SEEN_BEFORE = 4
"""How often a size must come before it is recorded; recording costs about ten steps."""
MOST_RECORDINGS = 24
TOKEN_GRAIN, SEQUENCE_GRAIN, TARGET_GRAIN = 256, 64, 256
TOLERANCE = 0.05
"""How far two ways to compute a bf16 step may lie apart, as a share of the gradient's norm and of the loss."""


class Sizes(NamedTuple):
    """What a recording is made for."""

    num_tokens: int
    num_sequences: int
    num_targets: int


Recording = Callable[..., Tensor]


def can_record(model: TextModel, machine: Machine, *, num_micro: int) -> bool:
    """Whether steps of this model are worth recording here, and can be: flash attention needs no host in between.

    A step of several micro-batches is not: the gradients of a recording stand in one place and would not add up.
    """
    if machine.device.type != "cuda" or not machine.is_fast or machine.is_deterministic or num_micro > 1:
        return False
    shape = model.shape
    dropout = shape.base.dropout if shape.base.attention_dropout is None else shape.base.attention_dropout
    return (
        machine.precision == "bf16"
        and torch.cuda.get_device_capability(machine.device) >= (8, 0)
        and dropout == 0
        and shape.base.head_dim <= WIDEST_HEAD
        and shape.head in ("lm", "classify")
        and not shape.pair_head
        and sum(tensor.numel() for tensor in model.parameters()) <= MOST_PARAMETERS
    )


def sizes_of(batch: Batch, model: TextModel) -> Sizes:
    """The sizes that a batch is filled up to: few, so that they come again."""
    num_sequences = len(batch.lengths)
    if model.shape.head == "lm":  # windows have all the same size; only how many pieces they hold differs
        is_each = batch.num_targets == batch.num_tokens
        targets = batch.num_targets if is_each else _up(batch.num_targets, TARGET_GRAIN)
        return Sizes(batch.num_tokens, _up(num_sequences, SEQUENCE_GRAIN), targets)
    # Never an empty sequence where sequences are pooled: it has no mean.
    grain = min(TOKEN_GRAIN, model.shape.base.max_position_embeddings)
    return Sizes((batch.num_tokens // grain + 1) * grain, num_sequences + 1, batch.num_targets)


def _up(number: int, grain: int) -> int:
    return -(-number // grain) * grain


class RecordedSteps:
    """The trainee's losses of a batch, by a recording where there is one."""

    def __init__(self, trainee: nn.Module, model: TextModel, machine: Machine) -> None:
        self.trainee, self.model, self.machine = trainee, model, machine
        self.parameters = [tensor for tensor in trainee.parameters() if tensor.requires_grad]
        self.seen: Counter[Sizes] = Counter()
        self.recordings: dict[Sizes, Recording] = {}
        self.unchecked: set[Sizes] = set()
        self.pool = torch.cuda.graph_pool_handle()
        self.is_on = True

    def __call__(self, batch: Batch) -> Tensor:
        """The summed losses of a batch of the host, ready to go back through."""
        sizes = sizes_of(batch, self.model)
        full = filled_up(batch, **sizes._asdict()).to(self.machine.device)
        if not self.is_on:
            return self.trainee(full)
        if sizes not in self.recordings:
            self.seen[sizes] += 1
            if self.seen[sizes] <= SEEN_BEFORE or len(self.recordings) == MOST_RECORDINGS:
                return self.trainee(full)
            if not self._record(full, sizes):
                return self.trainee(full)
        elif sizes in self.unchecked and not self._is_true(full, sizes):
            return self.trainee(full)
        return self.recordings[sizes](*_tensors(full))

    def _record(self, full: Batch, sizes: Sizes) -> bool:
        seed = torch.initial_seed()
        try:
            torch.cuda.empty_cache()
            with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
                made = torch.cuda.make_graphed_callables(
                    _OnTensors(self.trainee, full), _tensors(full), allow_unused_input=True, pool=self.pool
                )
            self.recordings[sizes] = cast(Recording, made)
        except RuntimeError as error:
            self._give_up(str(error).splitlines()[0][:200])
            return False
        finally:
            torch.manual_seed(seed)  # recording drew from the stream of dropout
        self.unchecked.add(sizes)
        return True

    def _is_true(self, full: Batch, sizes: Sizes) -> bool:
        """Compute a batch both ways, other than the one that was recorded: nothing of that one may be left in it."""
        seed = torch.initial_seed()
        plain = self._with_gradients(lambda: self.trainee(full))
        torch.manual_seed(seed)
        played = self._with_gradients(lambda: self.recordings[sizes](*_tensors(full)))
        torch.manual_seed(seed)
        self.unchecked.discard(sizes)
        apart = [
            torch.linalg.vector_norm(one - other) / torch.linalg.vector_norm(one).clamp(min=1e-12)
            for one, other in zip(plain, played, strict=True)
        ]
        if max(float(share) for share in apart) <= TOLERANCE:
            if not self.unchecked and len(self.recordings) == 1:
                log.info("Fast: steps are recorded and played back; --fast off computes plainly.")
            return True
        self._give_up(f"they lie {max(float(share) for share in apart):.2g} apart from plain ones")
        return False

    def _with_gradients(self, losses: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        """The losses, and all their gradients end to end."""
        sums = losses()
        found = torch.autograd.grad(sums.sum(), self.parameters, allow_unused=True)
        return sums.detach().clone(), torch.cat([tensor.detach().flatten() for tensor in found if tensor is not None])

    def _give_up(self, why: str) -> None:
        log.info("Steps cannot be recorded here (%s), so they are computed plainly.", why)
        self.is_on = False
        self.recordings.clear()


class _OnTensors(nn.Module):
    """The trainee as a function of tensors alone, which is what can be recorded."""

    def __init__(self, trainee: nn.Module, like: Batch) -> None:
        super().__init__()
        self.trainee = trainee
        self.has_segments, self.has_counts = like.segments_N is not None, like.counts_T is not None

    def forward(self, ids_N: Tensor, lengths_B: Tensor, index_T: Tensor, value_T: Tensor, *more: Tensor) -> Tensor:
        """The losses of a batch whose lengths the host does not know."""
        rest = list(more)
        return self.trainee(
            Batch(
                ids_N, (), lengths_B, index_T, value_T,
                segments_N=rest.pop(0) if self.has_segments else None,
                counts_T=rest.pop(0) if self.has_counts else None,
            )
        )  # fmt: skip


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    always = (batch.ids_N, batch.lengths_B, batch.target_index_T, batch.target_value_T)
    return always + tuple(tensor for tensor in (batch.segments_N, batch.counts_T) if tensor is not None)
