"""Peak memory of one side, measured in a process that does nothing else."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from headswap.core.current_folder import new_python

PROGRAM = "import sys; from bench.memory import answer; answer(sys.argv[1], sys.argv[2])"


def peak_bytes(function: str, **arguments: Any) -> int:
    """The most memory that `module:function` held; it gets the arguments and returns a piece of work, done twice."""
    command = new_python("-c", PROGRAM, function, json.dumps(arguments))
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"{function} failed: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout.strip().splitlines()[-1])


def answer(function: str, arguments: str) -> None:
    """What the process does."""
    import importlib

    import torch

    module, _, name = function.partition(":")
    work = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    for _ in range(2):
        work()
    on_device = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
    print(on_device or most_resident())


def most_resident() -> int:
    """The most bytes this process had; getrusage would tell those of the one that started it too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
