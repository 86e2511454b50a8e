"""Work of a CUDA device that is recorded once and played back.

The host launches short kernels more slowly than the device runs them; a recording (a CUDA graph) is launched at once.
It reads and writes the same memory every time, so whoever records puts new inputs where the old ones were. It is to be
trusted only after other inputs were computed both ways: `apart` tells how far two results lie apart.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

WARM_UPS = 2


class Recorder:
    """Makes recordings that share their memory: they are played one at a time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def record(self, compute: Callable[[], None]) -> Callable[[], object]:
        """What plays back all that is computed; on an error nothing of the attempt is left behind."""
        plain = torch.cuda.current_stream(self.device)
        generator = torch.cuda.default_generators[self.device.index]
        before = generator.clone_state()
        self._side.wait_stream(plain)
        with torch.cuda.stream(self._side):  # what is compiled or chosen at the first call is so before the recording
            for _ in range(WARM_UPS):
                compute()
        plain.wait_stream(self._side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"):
                compute()
        except Exception:
            torch.cuda.set_stream(plain)
            with suppress(Exception):  # where the recording could still be ended, this is done already
                torch._C._cuda_endAllocateToPool(self.device.index, self._pool)
            generator.graphsafe_set_state(before)  # the old one goes on believing that it is recorded
            raise
        return graph.replay

    @cached_property
    def _pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    @cached_property
    def _side(self) -> torch.cuda.Stream:
        """One for all recordings: memory is shared within a stream alone."""
        return torch.cuda.Stream(self.device)


def apart(one: Tensor, other: Tensor) -> float:
    """The distance of two vectors as a share of the first one's length."""
    return float(torch.linalg.vector_norm(one - other) / torch.linalg.vector_norm(one).clamp(min=1e-12))


def root_of(error: BaseException) -> str:
    """What went wrong first: the end of a recording that failed tells only that it had."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
