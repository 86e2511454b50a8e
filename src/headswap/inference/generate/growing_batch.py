"""A batch of sequences that grow together by one token per step.

On CUDA such a step is about a hundred short kernels, and the host takes longer to launch them than the device takes to
run them. For longer texts the step is captured once as a CUDA graph and replayed (kernels/cuda_graph.py). A graph has a
fixed number of sequences, so sequences that have ended stay in it and their logits are ignored; in eager mode they are
removed from the cache.

Shapes: B sequences in the cache, G of them still growing, V vocabulary.
"""

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headswap.inference.generate.cache import CacheLayout
from headswap.kernels.cuda_graph import GraphCapture, root_cause
from headswap.kernels.policy import has_cuda_graphs

log = logging.getLogger("headswap")
MIN_STEPS_TO_CAPTURE = 64
"""Shorter generations run eagerly: a capture costs several eager steps."""
TOLERANCE = 0.01
"""Largest total variation distance between the next-token distributions of a replayed and an eager step."""


class GrowingBatch:
    """Computes the logits of the next tokens from the last token of each sequence."""

    def __init__(self, cache: CacheLayout, logits_after: Callable[[Tensor], Tensor], *, num_steps: int) -> None:
        self.cache, self.logits_after = cache, logits_after
        self.rows = list(range(len(cache.lengths)))
        """Rows of the cache with the sequences that still grow."""
        self.last = [0] * len(cache.lengths)
        self.is_captured = has_cuda_graphs(cache.device) and num_steps >= MIN_STEPS_TO_CAPTURE
        self.is_checked = False
        self.replay: Callable[[], object] | None = None

    def keep(self, places: Sequence[int]) -> None:
        """Continue with some of the sequences that still grow, given by their index among them."""
        self.rows = [self.rows[place] for place in places]
        if self.replay is None:
            self._remove_ended()

    def step(self, tokens_G: Sequence[int]) -> Tensor:
        """The logits after one more token of each growing sequence, G x V."""
        for row, token in zip(self.rows, tokens_G, strict=True):
            self.last[row] = token
            self.cache.lengths[row] += 1
        if not self.is_captured:
            return self._eager()
        if self.replay is None:
            logits_BV = self._eager()
            self._capture(logits_BV)
            return logits_BV  # the graph captured here is checked in the next step
        self._fill()
        self.replay()
        logits_BV = self.logits_BV if self.is_checked else self._checked()
        logits_GV = logits_BV if len(self.rows) == len(self.last) else logits_BV[self.rows]
        if self.replay is None:
            self._remove_ended()
        return logits_GV

    def _eager(self) -> Tensor:
        self.cache.grow()
        return self.logits_after(torch.tensor(self.last, device=self.cache.device))

    def _remove_ended(self) -> None:
        self.cache.keep(self.rows)
        self.last = [self.last[row] for row in self.rows]
        self.rows = list(range(len(self.rows)))

    def _fill(self) -> None:
        """Copy tokens and lengths into the graph's inputs; the host has the last logits, so no replay is running."""
        self.host_2B.copy_(torch.tensor([self.last, self.cache.lengths]))
        self.inputs_2B.copy_(self.host_2B, non_blocking=True)

    def _capture(self, like_BV: Tensor) -> None:
        device = self.cache.device
        self.host_2B = torch.zeros(2, len(self.last), dtype=torch.long, pin_memory=device.type == "cuda")
        self.inputs_2B, self.logits_BV = self.host_2B.to(device), torch.empty_like(like_BV)
        self.captured_BV = like_BV.clone()
        self._fill()
        try:
            self.replay = GraphCapture(device).capture(self._compute)
        except Exception as error:  # from the device; a real fault occurs again in the eager step
            self._disable(root_cause(error))

    def _compute(self) -> None:
        self.cache.grow_on_device(self.inputs_2B[1])
        self.logits_BV.copy_(self.logits_after(self.inputs_2B[0]))

    def _checked(self) -> Tensor:
        """Compute the replayed step eagerly too, compare, and return the eager logits.

        A step whose logits are close to those of the captured step shows nothing; then the next step is checked as
        well.
        """
        eager_BV = self._eager()
        distance = _distance(eager_BV, self.logits_BV)
        if not distance <= TOLERANCE:
            self._disable(f"replayed and eager probabilities differ by {distance:.2g}")
        elif _distance(eager_BV, self.captured_BV) > 2 * TOLERANCE:
            self.is_checked = True
            log.info("Using CUDA graphs: generation steps are captured and replayed; disable with --fast off.")
        return eager_BV

    def _disable(self, why: str) -> None:
        log.info("Generation steps cannot be captured as CUDA graphs (%s); they run eagerly.", why)
        self.is_captured, self.replay = False, None


def _distance(one_BV: Tensor, other_BV: Tensor) -> float:
    """The total variation distance of the two next-token distributions, the largest over the sequences."""
    first, second = (torch.softmax(logits_BV.float(), dim=1) for logits_BV in (one_BV, other_BV))
    return float((first - second).abs().sum(1).max() / 2)
