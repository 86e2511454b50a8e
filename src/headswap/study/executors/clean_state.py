"""Make the state of a worker process as it was before its first job, so that no job changes the results of the next.

What a job may change for the whole process: environment variables, the number of threads, random states, number
formats, deterministic and fast kernels, warnings that were already shown, compiled code, and memory that is kept. The
test `tests/study/executors/test_workers.py` compares weights and predictions with those of a job that was run alone.
"""

import gc
import os
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headswap.kernels.policy import allow_fast_kernels

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.get_rng_state, torch.set_rng_state),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    (lambda: torch.backends.cudnn.benchmark, lambda value: setattr(torch.backends.cudnn, "benchmark", value)),
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
)
"""Functions that read and set a state of the process."""


class CleanState:
    """The state of this process before the first job."""

    def __init__(self) -> None:
        self.values = [read() for read, _ in SETTINGS]
        self.threads = torch.get_num_threads()
        self.environment = dict(os.environ)
        self.filters = list(warnings.filters)
        self.folder = os.getcwd()
        self.seed = torch.initial_seed()
        self.kept: int | None = None

    def restore(self, job_file: str) -> None:
        """Make the process ready for a job."""
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)  # also changes how MKL divides its work
        for (_, change), value in zip(SETTINGS, self.values, strict=True):
            change(value)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        sys.argv[1:] = [job_file]
        allow_fast_kernels(True)
        warnings.resetwarnings()  # also forgets which warnings were shown
        warnings.filters[:] = self.filters  # type: ignore[index]
        torch.clear_autocast_cache()
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()
        self._release_memory()

    def _release_memory(self) -> None:
        """Free what earlier jobs left behind, and measure the peak memory of the next job from here."""
        gc.collect()
        if torch.cuda.is_initialized():
            for generator in torch.cuda.default_generators:
                generator.manual_seed(self.seed)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of resident memory

    def growth(self) -> int:
        """How many bytes this process keeps more than after its first job."""
        gc.collect()
        kept = _resident_bytes()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
            kept += torch.cuda.memory_reserved()
        self.kept = kept if self.kept is None else self.kept
        return kept - self.kept


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except OSError:  # not on Linux
        return 0
