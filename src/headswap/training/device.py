"""The machine a run is computed on: device, precision, threads, and what is recorded of them."""

import logging
import os
import platform
import subprocess
import sys
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import torch

from headswap.core.errors import SettingError, counted
from headswap.kernels.policy import allow_fast_kernels
from headswap.training.config import DeviceName, FastName, MachineSettings

log = logging.getLogger("headswap")
LEAST_WIDTH_FOR_BF16 = 128
"""Narrower bases lose to the conversions what the products gain (docs/decisions/0004-bf16-on-a-cpu.md)."""
RECORDED = ("headswap", "torch", "numpy", "tokenizers", "safetensors", "scikit-learn", "pydantic")


def device_of(name: DeviceName) -> torch.device:
    """The device that a setting names, ready to be used; under torchrun each process has its own."""
    if name not in get_args(DeviceName):
        raise SettingError(f"device = '{name}' is not allowed: it is {' or '.join(get_args(DeviceName))}.")
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise SettingError("device = 'cuda', but PyTorch sees no CUDA device here. Use --device cpu or auto.")
    if name == "cpu" or not has_cuda:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    torch.backends.cuda.enable_cudnn_sdp(False)  # docs/decisions/0006-no-cudnn-attention.md
    return device


def device_with(name: DeviceName, *, fast: FastName) -> torch.device:
    """The same, and from now on the process uses fast kernels or does not."""
    allow_fast_kernels(fast == "auto")
    return device_of(name)


class Machine:
    """Where and in which number format a run computes."""

    def __init__(self, settings: MachineSettings) -> None:
        self.threads = settings.threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
        if settings.threads or "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(self.threads)
        self.threads = torch.get_num_threads()
        self.device = device_of(settings.device)
        name = self.device.type
        self.is_deterministic = settings.deterministic or name == "cpu"
        if settings.deterministic:
            use_deterministic_kernels()
        self.is_fast = settings.fast == "auto"
        allow_fast_kernels(self.is_fast)
        can_bf16 = name == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        self.precision = settings.precision if settings.precision != "auto" else ("bf16" if can_bf16 else "fp32")
        self.scoring_precision = self.precision
        self.is_precision_open = settings.precision == "auto" and name == "cpu" and self.is_fast

    def settle_precision(self, hidden_size: int) -> None:
        """What `auto` is for training a base of some width on a CPU: bf16 where that pays off. Scores stay in fp32.

        Says in one line which fast paths are taken there.
        """
        if self.is_precision_open and hidden_size >= LEAST_WIDTH_FOR_BF16 and has_native_bf16():
            self.precision = "bf16"
        if self.is_fast and self.device.type == "cpu":
            in_bf16 = ", steps in bf16 (scores in fp32)" if self.precision != self.scoring_precision else ""
            log.info("Fast: head and loss in tiles, attention without padding%s; --fast off computes plainly.", in_bf16)

    def autocast(self) -> AbstractContextManager:
        """The context in which the forward passes of training run."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16")

    def scoring(self) -> AbstractContextManager:
        """The context in which held-out text and labelled sets are scored."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.scoring_precision == "bf16")

    def seed(self, seed: int) -> None:
        """Begin a stream of dropout here and on the host; `torch.manual_seed` would ask every kind of device."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)

    def peak_memory(self) -> int | None:
        """Most bytes held so far: of the device if there is one, else of this process; None where none can be read."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_reserved(self.device)  # with what recordings keep
        try:
            import resource
        except ModuleNotFoundError:  # Windows
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def cost(self, steps: int, tokens: int, seconds: float) -> dict[str, Any]:
        """What a run cost, for `result.json`."""
        return {
            "steps": steps,
            "tokens": tokens,
            "seconds": seconds,
            "tokens_per_second": tokens / seconds if seconds else None,
            "peak_memory_bytes": self.peak_memory(),
            "device": self.describe(),
        }

    def describe(self) -> str:
        """`2 CPU threads, fp32` or the device's name."""
        where = (
            torch.cuda.get_device_name(self.device)
            if self.device.type == "cuda"
            else counted(self.threads, "CPU thread")
        )
        return f"{where}, {self.precision}"

    def environment(self, seed: int) -> dict[str, Any]:
        """What `environment.json` records."""
        return {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "processor": _processor(),
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            "precision": self.precision,
            "deterministic": self.is_deterministic,
            "threads": self.threads,
            "processes": int(os.environ.get("WORLD_SIZE", "1")),
            "seed": seed,
            "versions": {name: _version(name) for name in RECORDED},
            "git_revision": _git_revision(),
            "command": sys.argv,
        }


def has_native_bf16() -> bool:
    """Whether the CPU multiplies bf16 itself (AVX512-BF16 or AMX); elsewhere it is emulated, and slower than fp32."""
    try:
        return bool(torch.cpu._is_avx512_bf16_supported())
    except (AttributeError, RuntimeError):
        return False


def use_deterministic_kernels() -> None:
    """From now on torch uses only kernels that give the same bits every time, or raises."""
    # cuBLAS reads this when its first handle is made; without it products on several streams may differ.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        log.debug("no /proc/cpuinfo here")
    return platform.processor() or platform.machine()


def _git_revision() -> str | None:
    """The revision of the folder the command was started in, if it is a checkout."""
    try:
        answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
