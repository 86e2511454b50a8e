"""Sequences that grow together by a token a step.

On CUDA such a step is a hundred short kernels, which the host launches more slowly than the device runs them: in longer
texts it is recorded once and played back (model/recorder.py). A recording is for a number of sequences, so those that
have ended stay in it and are looked at no more; elsewhere they leave the cache.

Shapes: B sequences in the cache, G of them that go on, V vocabulary.
"""

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headswap.inference.generate.cache import CacheLayout
from headswap.kernels.cuda_graph import Recorder, root_of
from headswap.kernels.policy import has_recordings

log = logging.getLogger("headswap")
LEAST_STEPS_TO_RECORD = 64
"""A recording costs several plain steps."""
TOLERANCE = 0.01
"""How much probability a recording may give to other tokens than a plain step does."""


class Growth:
    """The step from the sequences' last tokens to the logits of the next ones."""

    def __init__(self, cache: CacheLayout, logits_after: Callable[[Tensor], Tensor], *, num_steps: int) -> None:
        self.cache, self.logits_after = cache, logits_after
        self.rows = list(range(len(cache.lengths)))
        """Where the sequences that go on stand in the cache."""
        self.last = [0] * len(cache.lengths)
        self.is_recorded = has_recordings(cache.device) and num_steps >= LEAST_STEPS_TO_RECORD
        self.is_checked = False
        self.play: Callable[[], object] | None = None

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some of those that went on so far."""
        self.rows = [self.rows[place] for place in places]
        if self.play is None:
            self._leave_out_ended()

    def step(self, tokens_G: Sequence[int]) -> Tensor:
        """The logits after one more token of each sequence that goes on, G x V."""
        for row, token in zip(self.rows, tokens_G, strict=True):
            self.last[row] = token
            self.cache.lengths[row] += 1
        if not self.is_recorded:
            return self._plain()
        if self.play is None:
            logits_BV = self._plain()
            self._record(logits_BV)
            return logits_BV  # what is recorded on this step is tried on the next
        self._fill()
        self.play()
        logits_BV = self.logits_BV if self.is_checked else self._checked()
        logits_GV = logits_BV if len(self.rows) == len(self.last) else logits_BV[self.rows]
        if self.play is None:
            self._leave_out_ended()
        return logits_GV

    def _plain(self) -> Tensor:
        self.cache.grow()
        return self.logits_after(torch.tensor(self.last, device=self.cache.device))

    def _leave_out_ended(self) -> None:
        self.cache.keep(self.rows)
        self.last = [self.last[row] for row in self.rows]
        self.rows = list(range(len(self.rows)))

    def _fill(self) -> None:
        """The host has read the last step's logits, so nothing is under way that reads what is written here."""
        self.host_2B.copy_(torch.tensor([self.last, self.cache.lengths]))
        self.inputs_2B.copy_(self.host_2B, non_blocking=True)

    def _record(self, like_BV: Tensor) -> None:
        device = self.cache.device
        self.host_2B = torch.zeros(2, len(self.last), dtype=torch.long, pin_memory=device.type == "cuda")
        self.inputs_2B, self.logits_BV = self.host_2B.to(device), torch.empty_like(like_BV)
        self.recorded_BV = like_BV.clone()
        self._fill()
        try:
            self.play = Recorder(device).record(self._compute)
        except Exception as error:  # of the device: a plain step tells if it is more than that
            self._give_up(root_of(error))

    def _compute(self) -> None:
        self.cache.grow_unseen(self.inputs_2B[1])
        self.logits_BV.copy_(self.logits_after(self.inputs_2B[0]))

    def _checked(self) -> Tensor:
        """Logits of a step that was played back and is computed plainly too; the plain ones.

        A step whose answer is that of the recorded one proves nothing, and another is waited for.
        """
        plain_BV = self._plain()
        distance = _moved(plain_BV, self.logits_BV)
        if not distance <= TOLERANCE:
            self._give_up(f"it moved {distance:.2g} of the probability to other tokens")
        elif _moved(plain_BV, self.recorded_BV) > 2 * TOLERANCE:
            self.is_checked = True
            log.info("Fast: generation is recorded and played back; --fast off computes plainly.")
        return plain_BV

    def _give_up(self, why: str) -> None:
        log.info("Generation cannot be recorded here (%s), so every step is computed plainly.", why)
        self.is_recorded, self.play = False, None


def _moved(one_BV: Tensor, other_BV: Tensor) -> float:
    """How much probability other logits give to other tokens, for the text for which it is most."""
    first, second = (torch.softmax(logits_BV.float(), dim=1) for logits_BV in (one_BV, other_BV))
    return float((first - second).abs().sum(1).max() / 2)
