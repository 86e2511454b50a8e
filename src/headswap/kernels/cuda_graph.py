"""Capturing work as a CUDA graph and replaying it.

For short kernels the host takes longer to launch them than the device takes to run them; a CUDA graph launches all of
them at once. A graph reads and writes the same memory at every replay, so the caller copies new inputs into the tensors
that were captured. The caller must also compare a replay with eager mode on inputs other than the captured ones before
it uses the results: `relative_distance` measures the difference.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

WARM_UPS = 2


class GraphCapture:
    """Captures CUDA graphs that share one memory pool, so only one of them may run at a time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def capture(self, compute: Callable[[], None]) -> Callable[[], object]:
        """Capture `compute` and return the function that replays it; after an error the device is as before."""
        main_stream = torch.cuda.current_stream(self.device)
        generator = torch.cuda.default_generators[self.device.index]
        before = generator.clone_state()
        self._side_stream.wait_stream(main_stream)
        with torch.cuda.stream(self._side_stream):  # compilation and autotuning happen here, before the capture
            for _ in range(WARM_UPS):
                compute()
        main_stream.wait_stream(self._side_stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._side_stream, capture_error_mode="thread_local"):
                compute()
        except Exception:
            torch.cuda.set_stream(main_stream)
            with suppress(Exception):  # raises if PyTorch has already ended the capture
                torch._C._cuda_endAllocateToPool(self.device.index, self._pool)
            generator.graphsafe_set_state(before)  # the generator's own state is still marked as captured
            raise
        return graph.replay

    @cached_property
    def _pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    @cached_property
    def _side_stream(self) -> torch.cuda.Stream:
        """One stream for all graphs: the memory pool is shared within one stream only."""
        return torch.cuda.Stream(self.device)


def relative_distance(one: Tensor, other: Tensor) -> float:
    """The norm of the difference of two vectors, divided by the norm of the first."""
    return float(torch.linalg.vector_norm(one - other) / torch.linalg.vector_norm(one).clamp(min=1e-12))


def root_cause(error: BaseException) -> str:
    """The message of the first error in the chain: the last one only reports that the capture failed."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
