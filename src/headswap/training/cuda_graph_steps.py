"""Training steps as CUDA graphs: captured once per batch size, then replayed.

On CUDA a step of a small model is hundreds of short kernels, and the host takes longer to launch them than the device
takes to run them. So losses and gradients are captured as a CUDA graph, one per batch size. Batches are padded to a few
sizes; padding changes no loss. A graph is used only after a second batch was computed both by replay and eagerly with
the same result. A step that cannot be captured runs eagerly, with one logged line.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from headswap.batches.batch import Batch, pad_batch, to_device
from headswap.kernels.cuda_graph import GraphCapture, relative_distance, root_cause
from headswap.kernels.policy import WIDEST_HEAD
from headswap.model.parameter_count import num_parameters
from headswap.model.text_model import TextModel
from headswap.training.device import Machine

log = logging.getLogger("headswap")
MAX_PARAMETERS = 60_000_000
"""Larger models keep the device busy without a graph."""
EAGER_STEPS = 2
"""A batch size is captured when it occurs more often than this; a capture costs a few eager steps."""
MAX_GRAPHS = 24
TOKEN_GRAIN, LEAST_GRAIN = 1024, 64
SHARE = 8
"""Sizes are rounded up by at most about one part in this number."""
NUM_PADDING_SEQUENCES = 3
"""Padding tokens are divided among this many sequences, so that none is longer than the base's limit."""
MEMORY_FACTOR = 3
"""A capture needs free memory for this many steps: one captured, one eager, and one captured of a larger size."""
TOLERANCE = 0.05
"""Largest relative distance of losses and of gradients between a bf16 step that is replayed and one in eager mode."""


Shapes = tuple[bool | torch.Size | None, ...]
"""Attention direction and shapes of all tensors of a batch; one graph is captured per value."""


class Sizes(NamedTuple):
    """The sizes that a batch is padded to."""

    num_tokens: int
    num_sequences: int
    num_targets: int


def can_capture(model: TextModel, machine: Machine, *, num_micro: int) -> bool:
    """Whether steps of this model can be captured on this machine and become faster by it.

    Flash attention is required, since it needs no lengths on the host. Steps of several micro-batches are not captured:
    a graph writes its gradients to one place, so they would not add up.
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
        and shape.head in ("lm", "classify", "compare")
        and not shape.pair_head
        and num_parameters(model) <= MAX_PARAMETERS
    )


def sizes_of(batch: Batch, model: TextModel) -> Sizes:
    """The sizes that a batch is padded to: few different ones, and a function of the batch alone.

    Packed windows all have the same number of tokens; only the numbers of pieces and of masked tokens differ. Whole
    texts have any number of tokens and are padded by sequences within the base's limit. Where sequences are pooled, no
    padding sequence may be empty.
    """
    num_sequences, num_tokens = len(batch.lengths), batch.num_tokens
    is_lm = model.shape.head == "lm"
    if not is_lm or num_tokens % LEAST_GRAIN:
        grain = min(TOKEN_GRAIN, 2 * model.shape.base.max_position_embeddings)
        num_tokens = -(-(num_tokens + NUM_PADDING_SEQUENCES) // grain) * grain
    if not is_lm:
        return Sizes(num_tokens, num_sequences + NUM_PADDING_SEQUENCES, batch.num_targets)
    is_whole = batch.has_all_targets and num_tokens == batch.num_tokens
    num_targets = batch.num_targets if is_whole else _rounded_up(batch.num_targets)
    return Sizes(num_tokens, _rounded_up(num_sequences + NUM_PADDING_SEQUENCES), num_targets)


def pad_to_few_sizes(batch: Batch, model: TextModel) -> Batch:
    """The padded batch; eager steps use it too, so that dropout draws the same numbers."""
    return pad_batch(batch, **sizes_of(batch, model)._asdict())


def _rounded_up(number: int) -> int:
    """The next larger number of a coarse scale."""
    grain = max(LEAST_GRAIN, 2 ** number.bit_length() // (2 * SHARE))
    return (number // grain + 1) * grain


class StaticInputs:
    """The tensors that a graph reads, as views of one buffer per dtype, so that a batch is copied in few transfers."""

    def __init__(self, tensors: Sequence[Tensor], device: torch.device) -> None:
        types = {tensor.dtype for tensor in tensors}
        self.buffers = {
            dtype: torch.cat([tensor.flatten() for tensor in tensors if tensor.dtype == dtype]).to(device)
            for dtype in types
        }
        rest = dict(self.buffers)
        self.tensors: list[Tensor] = []
        for tensor in tensors:
            view, rest[tensor.dtype] = rest[tensor.dtype].tensor_split([tensor.numel()])
            self.tensors.append(view.view(tensor.shape))

    def fill(self, tensors: Sequence[Tensor]) -> None:
        """Copy other tensors of the same dtypes and shapes into the buffers, without waiting for the device."""
        for dtype, buffer in self.buffers.items():
            packed = torch.empty(buffer.shape, dtype=dtype, pin_memory=buffer.is_cuda)
            torch.cat([tensor.flatten() for tensor in tensors if tensor.dtype == dtype], out=packed)
            buffer.copy_(packed, non_blocking=True)


@dataclass
class CapturedStep:
    """The graph of a step of one size: its inputs, how it is replayed, and where its losses are."""

    inputs: StaticInputs
    sums_K: Tensor
    replay: Callable[[], object]

    def __call__(self, batch: Batch, weights_K: Tensor) -> Tensor:
        """The summed losses of a batch of this size; the gradients are in `CapturedSteps.gradients`."""
        self.inputs.fill((weights_K, *_tensors(batch)))
        self.replay()
        return self.sums_K.clone()


class CapturedSteps:
    """Losses and gradients of a batch by replay, if there is a graph for its size."""

    def __init__(self, module: nn.Module, machine: Machine) -> None:
        self.module, self.machine, self.graph_capture = module, machine, GraphCapture(machine.device)
        self.parameters = {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}
        self.gradients: dict[str, Tensor] = {}
        """One tensor per parameter; every graph, of whatever size, writes its gradients here."""
        self.seen: Counter[Shapes] = Counter()
        self.graphs: dict[Shapes, CapturedStep] = {}
        self.unchecked: set[Shapes] = set()
        self.is_enabled, self.is_logged = True, False

    def __call__(self, padded: Batch, divisors: Sequence[int]) -> Tensor | None:
        """The summed losses of a padded batch, with the gradients of their means in `.grad`.

        None if the caller has to compute the step eagerly.
        """
        shapes = (padded.is_causal, *(tensor.shape for tensor in _tensors(padded)))
        weights_K = torch.tensor([1.0 / divisor for divisor in divisors])
        if self.is_enabled and shapes not in self.graphs:
            self._capture_if_due(padded, weights_K, shapes)
            return None  # a graph is checked on a batch other than the captured one
        if not self.is_enabled or (shapes in self.unchecked and not self._equals_eager(padded, weights_K, shapes)):
            return None
        sums_K = self.graphs[shapes](padded, weights_K)
        for name, tensor in self.parameters.items():
            tensor.grad = self.gradients.get(name)
        return sums_K

    def _capture_if_due(self, padded: Batch, weights_K: Tensor, shapes: Shapes) -> None:
        """Capture a step of this size if the size has occurred often enough."""
        self.seen[shapes] += 1
        if self.seen[shapes] <= EAGER_STEPS or len(self.graphs) == MAX_GRAPHS:
            return
        if not self.graphs and not self._has_memory():
            self._disable("not enough free memory: a graph keeps the memory of a step")
            return
        seed = torch.initial_seed()
        inputs = StaticInputs((weights_K, *_tensors(padded)), self.machine.device)
        sums_K = torch.zeros_like(inputs.tensors[0])
        try:
            replay = self.graph_capture.capture(lambda: self._compute(inputs, sums_K, padded))
        except Exception as error:  # from a compiler or the device; a real fault occurs again in the eager step
            self._disable(root_cause(error))
            return
        finally:
            self.machine.seed(seed)  # the capture drew random numbers for dropout
        self.graphs[shapes] = CapturedStep(inputs, sums_K, replay)
        self.unchecked.add(shapes)

    def _compute(self, inputs: StaticInputs, into_K: Tensor, like: Batch) -> None:
        """Write the losses of the batch in `inputs` to `into_K` and their gradients to `self.gradients`.

        The weights are passed as aliases of the same memory: autograd ties the model's own parameters to the stream of
        the eager steps, and a capture must not wait for another stream.
        """
        weights_K, *tensors = inputs.tensors
        aliases: dict[str, Tensor] = {name: nn.Parameter(tensor.detach()) for name, tensor in self.parameters.items()}
        with self.machine.autocast():
            sums_K = functional_call(self.module, aliases, (_batch(tensors, like),)).reshape(-1)
        gradients = torch.autograd.grad((sums_K * weights_K).sum(), list(aliases.values()), allow_unused=True)
        used = {name: gradient for name, gradient in zip(aliases, gradients, strict=True) if gradient is not None}
        if not self.gradients:
            self.gradients = {name: torch.zeros_like(tensor) for name, tensor in used.items()}
        torch._foreach_copy_([self.gradients[name] for name in used], list(used.values()))
        into_K.copy_(sums_K.detach())

    def _has_memory(self) -> bool:
        """Whether the device has memory for a graph in addition to eager steps, evaluation and a larger graph."""
        device = self.machine.device
        if device.type != "cuda":
            return True
        held = torch.cuda.memory_allocated(device)
        step = torch.cuda.max_memory_allocated(device) - held
        free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - held
        return free >= MEMORY_FACTOR * step

    def _equals_eager(self, padded: Batch, weights_K: Tensor, shapes: Shapes) -> bool:
        """Compute a batch by replay and eagerly and compare; it is not the captured batch, so stale inputs show."""
        seed = torch.initial_seed()
        with self.machine.autocast():
            sums_K = self.module(padded.to(self.machine.device)).reshape(-1)
        weighted = (sums_K * to_device(weights_K, self.machine.device)).sum()
        gradients = torch.autograd.grad(weighted, list(self.parameters.values()), allow_unused=True)
        eager = {name: one for name, one in zip(self.parameters, gradients, strict=True) if one is not None}
        self.machine.seed(seed)
        replayed_K = self.graphs[shapes](padded, weights_K)
        self.machine.seed(seed)
        if eager.keys() != self.gradients.keys():
            self._disable("the replay gives gradients for other weights than the eager step")
            return False
        flat = [torch.cat([one[name].flatten() for name in eager]) for one in (eager, self.gradients)]
        if not (sums_K.isfinite().all() and flat[0].isfinite().all()):
            return False  # undecided: checked again with the next batch
        self.unchecked.discard(shapes)
        distance = max(relative_distance(sums_K.detach(), replayed_K), relative_distance(*flat))
        if not distance <= TOLERANCE:
            self._disable(f"a replayed step differs from the eager one by {distance:.2g}")
            return False
        if not self.is_logged:
            log.info("Using CUDA graphs: training steps are captured and replayed; disable with --fast off.")
            self.is_logged = True
        return True

    def _disable(self, why: str) -> None:
        log.info("Training steps cannot be captured as CUDA graphs (%s); they run eagerly.", why)
        self.is_enabled = False
        self.graphs.clear()
        self.gradients.clear()


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    always = (batch.ids_N, batch.lengths_B, batch.target_index_T, batch.target_value_T)
    others = (batch.segments_N, batch.counts_T, batch.views_2P, batch.view_weights_P)
    return always + tuple(tensor for tensor in others if tensor is not None)


def _batch(tensors: Sequence[Tensor], like: Batch) -> Batch:
    """A batch whose lengths are on the device only."""
    ids_N, lengths_B, index_T, value_T, *rest = tensors
    return Batch(
        ids_N, (), lengths_B, index_T, value_T,
        segments_N=rest.pop(0) if like.segments_N is not None else None,
        counts_T=rest.pop(0) if like.counts_T is not None else None,
        views_2P=rest.pop(0) if like.views_2P is not None else None,
        view_weights_P=rest.pop(0) if like.view_weights_P is not None else None,
        is_causal=like.is_causal,
    )  # fmt: skip
