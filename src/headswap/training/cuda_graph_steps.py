"""Steps that are recorded once and played back.

On CUDA the step of a small model is hundreds of short kernels, and the host launches them more slowly than the device
runs them. So losses and gradients are recorded as a CUDA graph, one for each size of batch. Batches are filled up to
few sizes, which changes none of their losses. A recording is trusted only after another batch was computed both ways;
what cannot be recorded is computed plainly, with one logged line.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from headswap.batches.batch import Batch, pad_batch, sent
from headswap.kernels.cuda_graph import Recorder, apart, root_of
from headswap.kernels.policy import WIDEST_HEAD
from headswap.model.parameter_count import num_parameters
from headswap.model.text_model import TextModel
from headswap.training.device import Machine

log = logging.getLogger("headswap")
MOST_PARAMETERS = 60_000_000
"""Of larger models the device has work enough."""
SEEN_BEFORE = 2
"""How often a size must come before it is recorded; recording costs a few plain steps."""
MOST_RECORDINGS = 24
TOKEN_GRAIN, LEAST_GRAIN = 1024, 64
SHARE = 8
"""Sizes that only wander a little are filled up by at most one part in so many."""
NUM_FILLING = 3
"""Sequences that tokens are added as, so that none is longer than the base reads."""
ROOM = 3
"""Steps that free memory must hold for steps to be recorded: one recorded, one plain, and one for larger ones."""
TOLERANCE = 0.05
"""How far two ways to compute a bf16 step may lie apart, as a share of the gradient's norm and of the loss."""


Shapes = tuple[torch.Size, ...]
"""Of everything that is read from a batch: what a recording is made for."""


class Sizes(NamedTuple):
    """What a batch is filled up to."""

    num_tokens: int
    num_sequences: int
    num_targets: int


def can_capture(model: TextModel, machine: Machine, *, num_micro: int) -> bool:
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
        and num_parameters(model) <= MOST_PARAMETERS
    )


def sizes_of(batch: Batch, model: TextModel) -> Sizes:
    """The sizes that a batch is filled up to: few, so that they come again, and by the batch alone.

    Windows have all the same size: only how many pieces they hold and how many tokens they hide differs. Whole texts
    come in any size, and are filled up with sequences that are no longer than the base reads. Where sequences are
    pooled none may be empty.
    """
    num_sequences, num_tokens = len(batch.lengths), batch.num_tokens
    is_lm = model.shape.head == "lm"
    if not is_lm or num_tokens % LEAST_GRAIN:
        grain = min(TOKEN_GRAIN, 2 * model.shape.base.max_position_embeddings)
        num_tokens = -(-(num_tokens + NUM_FILLING) // grain) * grain
    if not is_lm:
        return Sizes(num_tokens, num_sequences + NUM_FILLING, batch.num_targets)
    is_whole = batch.has_all_targets and num_tokens == batch.num_tokens
    num_targets = batch.num_targets if is_whole else _more(batch.num_targets)
    return Sizes(num_tokens, _more(num_sequences + NUM_FILLING), num_targets)


def pad_to_few_sizes(batch: Batch, model: TextModel) -> Batch:
    """The batch filled up, also where it is computed plainly: dropout draws the same either way."""
    return pad_batch(batch, **sizes_of(batch, model)._asdict())


def _more(number: int) -> int:
    """The next larger number of a coarse scale."""
    grain = max(LEAST_GRAIN, 2 ** number.bit_length() // (2 * SHARE))
    return (number // grain + 1) * grain


class Inputs:
    """Where a recording reads its tensors: end to end, one stretch a type, so that a batch travels in few copies."""

    def __init__(self, tensors: Sequence[Tensor], device: torch.device) -> None:
        types = {tensor.dtype for tensor in tensors}
        self.stretches = {
            dtype: torch.cat([tensor.flatten() for tensor in tensors if tensor.dtype == dtype]).to(device)
            for dtype in types
        }
        rest = dict(self.stretches)
        self.places: list[Tensor] = []
        for tensor in tensors:
            place, rest[tensor.dtype] = rest[tensor.dtype].tensor_split([tensor.numel()])
            self.places.append(place.view(tensor.shape))

    def fill(self, tensors: Sequence[Tensor]) -> None:
        """Put other tensors of the same types and shapes there, without waiting."""
        for dtype, stretch in self.stretches.items():
            packed = torch.empty(stretch.shape, dtype=dtype, pin_memory=stretch.is_cuda)
            torch.cat([tensor.flatten() for tensor in tensors if tensor.dtype == dtype], out=packed)
            stretch.copy_(packed, non_blocking=True)


@dataclass
class Recording:
    """A step of one size: what it reads, how it is played, and its losses."""

    inputs: Inputs
    sums_K: Tensor
    play: Callable[[], object]

    def __call__(self, batch: Batch, weights_K: Tensor) -> Tensor:
        """The summed losses of a batch of this size; the gradients are where they always are."""
        self.inputs.fill((weights_K, *_tensors(batch)))
        self.play()
        return self.sums_K.clone()


class CapturedSteps:
    """The losses and gradients of a batch, by a recording where there is one."""

    def __init__(self, module: nn.Module, machine: Machine) -> None:
        self.module, self.machine, self.recorder = module, machine, Recorder(machine.device)
        self.parameters = {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}
        self.gradients: dict[str, Tensor] = {}
        """One place for each, whatever the size: a recording ends by writing there."""
        self.seen: Counter[Shapes] = Counter()
        self.recordings: dict[Shapes, Recording] = {}
        self.unchecked: set[Shapes] = set()
        self.is_on, self.is_told = True, False

    def __call__(self, full: Batch, divisors: Sequence[int]) -> Tensor | None:
        """The summed losses of a batch that is filled up, the gradients of their means left in place; or None."""
        shapes = tuple(tensor.shape for tensor in _tensors(full))
        weights_K = torch.tensor([1.0 / divisor for divisor in divisors])
        if self.is_on and shapes not in self.recordings:
            self._consider(full, weights_K, shapes)
            return None  # what is recorded on this batch is tried on another
        if not self.is_on or (shapes in self.unchecked and not self._is_true(full, weights_K, shapes)):
            return None
        sums_K = self.recordings[shapes](full, weights_K)
        for name, tensor in self.parameters.items():
            tensor.grad = self.gradients.get(name)
        return sums_K

    def _consider(self, full: Batch, weights_K: Tensor, shapes: Shapes) -> None:
        """Record a step of this size if it has come often enough."""
        self.seen[shapes] += 1
        if self.seen[shapes] <= SEEN_BEFORE or len(self.recordings) == MOST_RECORDINGS:
            return
        if not self.recordings and not self._has_room():
            self._give_up("a recording keeps the memory of a step, and there is too little")
            return
        seed = torch.initial_seed()
        inputs = Inputs((weights_K, *_tensors(full)), self.machine.device)
        sums_K = torch.zeros_like(inputs.places[0])
        try:
            play = self.recorder.record(lambda: self._compute(inputs, sums_K, full))
        except Exception as error:  # of a compiler, of the device: a plain step tells if it is more than that
            self._give_up(root_of(error))
            return
        finally:
            self.machine.seed(seed)  # recording drew from the stream of dropout
        self.recordings[shapes] = Recording(inputs, sums_K, play)
        self.unchecked.add(shapes)

    def _compute(self, inputs: Inputs, into_K: Tensor, like: Batch) -> None:
        """The losses of the batch that stands in `inputs`, and their gradients, each into its place.

        The weights take part under other names of the same memory: what autograd keeps with the model's own belongs to
        the stream of the plain steps, and a recording must not wait for another stream.
        """
        weights_K, *tensors = inputs.places
        aliases: dict[str, Tensor] = {name: nn.Parameter(tensor.detach()) for name, tensor in self.parameters.items()}
        with self.machine.autocast():
            sums_K = functional_call(self.module, aliases, (_batch(tensors, like),)).reshape(-1)
        found = torch.autograd.grad((sums_K * weights_K).sum(), list(aliases.values()), allow_unused=True)
        used = {name: gradient for name, gradient in zip(aliases, found, strict=True) if gradient is not None}
        if not self.gradients:
            self.gradients = {name: torch.zeros_like(tensor) for name, tensor in used.items()}
        torch._foreach_copy_([self.gradients[name] for name in used], list(used.values()))
        into_K.copy_(sums_K.detach())

    def _has_room(self) -> bool:
        """Whether the device has memory for a recording beside plain steps, scores, and a larger recording."""
        device = self.machine.device
        if device.type != "cuda":
            return True
        held = torch.cuda.memory_allocated(device)
        step = torch.cuda.max_memory_allocated(device) - held
        free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - held
        return free >= ROOM * step

    def _is_true(self, full: Batch, weights_K: Tensor, shapes: Shapes) -> bool:
        """Compute a batch both ways, other than the one that was recorded: nothing of that one may be left in it."""
        seed = torch.initial_seed()
        with self.machine.autocast():
            sums_K = self.module(full.to(self.machine.device)).reshape(-1)
        weighted = (sums_K * sent(weights_K, self.machine.device)).sum()
        found = torch.autograd.grad(weighted, list(self.parameters.values()), allow_unused=True)
        plain = {name: one for name, one in zip(self.parameters, found, strict=True) if one is not None}
        self.machine.seed(seed)
        played_K = self.recordings[shapes](full, weights_K)
        self.machine.seed(seed)
        if plain.keys() != self.gradients.keys():
            self._give_up("other weights have a gradient")
            return False
        ends = [torch.cat([one[name].flatten() for name in plain]) for one in (plain, self.gradients)]
        if not (sums_K.isfinite().all() and ends[0].isfinite().all()):
            return False  # no batch to judge by
        self.unchecked.discard(shapes)
        distance = max(apart(sums_K.detach(), played_K), apart(*ends))
        if not distance <= TOLERANCE:
            self._give_up(f"they lie {distance:.2g} apart from plain ones")
            return False
        if not self.is_told:
            log.info("Fast: steps are recorded and played back; --fast off computes plainly.")
            self.is_told = True
        return True

    def _give_up(self, why: str) -> None:
        log.info("Steps cannot be recorded here (%s), so they are computed plainly.", why)
        self.is_on = False
        self.recordings.clear()
        self.gradients.clear()


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    always = (batch.ids_N, batch.lengths_B, batch.target_index_T, batch.target_value_T)
    return always + tuple(tensor for tensor in (batch.segments_N, batch.counts_T) if tensor is not None)


def _batch(tensors: Sequence[Tensor], like: Batch) -> Batch:
    """A batch whose lengths the host does not know."""
    ids_N, lengths_B, index_T, value_T, *rest = tensors
    return Batch(
        ids_N, (), lengths_B, index_T, value_T,
        segments_N=rest.pop(0) if like.segments_N is not None else None,
        counts_T=rest.pop(0) if like.counts_T is not None else None,
    )  # fmt: skip
