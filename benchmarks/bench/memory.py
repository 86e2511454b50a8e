"""Peak memory of one side, measured in a process that does nothing else."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from headswap.core.current_folder import new_python

PROGRAM = "import sys; from bench.memory import answer; answer(sys.argv[1], sys.argv[2])"


def peak_bytes(function: str, **arguments: Any) -> int:
    """The peak memory of `module:function`, which gets the arguments and returns the work; the work is done twice."""
    command = new_python("-c", PROGRAM, function, json.dumps(arguments))
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"{function} failed: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout.strip().splitlines()[-1])


def answer(function: str, arguments: str) -> None:
    """The program of the process."""
    import importlib

    import torch

    module, _, name = function.partition(":")
    work = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    for _ in range(2):
        work()
    on_device = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
    print(on_device or most_resident())


def most_resident() -> int:
    """Peak resident bytes of this process; getrusage would include those of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
