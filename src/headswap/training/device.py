"""The machine of a run: device, precision, threads, and what `environment.json` records about them."""

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
from headswap.core.local_paths import local_command
from headswap.kernels.policy import allow_fast_kernels
from headswap.training.config import DeviceName, FastName, MachineSettings

log = logging.getLogger("headswap")
LEAST_WIDTH_FOR_BF16 = 128
"""In narrower bases the conversions cost more than the bf16 products save (docs/decisions/0004-bf16-on-a-cpu.md)."""
RECORDED = ("headswap", "torch", "numpy", "tokenizers", "safetensors", "scikit-learn", "pydantic")


def device_of(name: DeviceName) -> torch.device:
    """The device of a setting, set as the current one; under torchrun each process has its own GPU."""
    if name not in get_args(DeviceName):
        raise SettingError(f"device = '{name}' is not allowed. Allowed: {', '.join(get_args(DeviceName))}.")
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise SettingError("device = 'cuda', but PyTorch finds no CUDA device. Use --device cpu or auto.")
    if name == "cpu" or not has_cuda:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    torch.backends.cuda.enable_cudnn_sdp(False)  # docs/decisions/0006-no-cudnn-attention.md
    return device


def device_with(name: DeviceName, *, fast: FastName) -> torch.device:
    """The device of a setting; also allows or forbids fast kernels in this process."""
    allow_fast_kernels(fast == "auto")
    return device_of(name)


class Machine:
    """Device, number format and threads of a run."""

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

    def resolve_precision(self, hidden_size: int) -> None:
        """Resolve `precision = auto` on a CPU from the width of the base: bf16 for training where it saves time.

        Evaluation stays in fp32. Logs one line about the fast kernels that a CPU uses.
        """
        if self.is_precision_open and hidden_size >= LEAST_WIDTH_FOR_BF16 and has_native_bf16():
            self.precision = "bf16"
        if self.is_fast and self.device.type == "cpu":
            in_bf16 = ", training in bf16, evaluation in fp32" if self.precision != self.scoring_precision else ""
            log.info("Using fast CPU kernels (tiled loss, unpadded attention%s); disable with --fast off.", in_bf16)

    def autocast(self) -> AbstractContextManager:
        """Autocast context of the forward passes in training."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16")

    def scoring(self) -> AbstractContextManager:
        """Autocast context of evaluation."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.scoring_precision == "bf16")

    def seed(self, seed: int) -> None:
        """Seed the generators of the CPU and of this device; `torch.manual_seed` would seed all device types."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)

    def peak_memory(self) -> int | None:
        """Peak memory in bytes, of the GPU if one is used, else of this process; None where it cannot be measured."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_reserved(self.device)  # includes the memory of CUDA graphs
        try:
            import resource
        except ModuleNotFoundError:  # Windows
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def cost(self, steps: int, tokens: int, seconds: float) -> dict[str, Any]:
        """Steps, tokens, time and memory of a run, for `result.json`."""
        return {
            "steps": steps,
            "tokens": tokens,
            "seconds": seconds,
            "tokens_per_second": tokens / seconds if seconds else None,
            "peak_memory_bytes": self.peak_memory(),
            "device": self.describe(),
        }

    def describe(self) -> str:
        """`2 CPU threads, fp32`, or the name of the GPU and the precision."""
        where = (
            torch.cuda.get_device_name(self.device)
            if self.device.type == "cuda"
            else counted(self.threads, "CPU thread")
        )
        return f"{where}, {self.precision}"

    def environment(self, seed: int) -> dict[str, Any]:
        """The content of `environment.json`."""
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
            "command": local_command(sys.argv),
        }


def has_native_bf16() -> bool:
    """Whether the CPU has bf16 instructions (AVX512-BF16 or AMX); emulated bf16 is slower than fp32."""
    try:
        return bool(torch.cpu._is_avx512_bf16_supported())
    except (AttributeError, RuntimeError):
        return False


def use_deterministic_kernels() -> None:
    """Make torch use only deterministic kernels; it raises an error where there is none."""
    # cuBLAS reads this when its first handle is created; without it, products on several streams may differ.
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
        log.debug("There is no /proc/cpuinfo on this system.")
    return platform.processor() or platform.machine()


def _git_revision() -> str | None:
    """The git revision of the current folder; None if it is not in a repository."""
    try:
        answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
