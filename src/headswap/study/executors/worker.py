"""The program of a warm worker: `python -m headswap.study.executors.worker`.

It reads one line per job from standard input, runs the job as `python -m headswap.study.jobs.job FILE` would, and
writes one line with the exit code. During a job everything that is printed goes to the job's log. When standard input
is closed, the study has ended, and the worker asks itself to stop with SIGTERM: a training saves first. Between jobs
the state of the process is made as it was before the first job (clean_state.py), so that a job has the same result as
one that is run alone. A worker ends after a job that failed, after many jobs, and when it keeps too much memory.
"""

import gc
import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any

from headswap.core.kept_inputs import keep_inputs
from headswap.study.executors.clean_state import CleanState

MOST_JOBS = 500
MOST_GROWTH = 2 * 2**30
"""A worker ends when it keeps this many bytes more than after its first job, on the host or on the GPU."""


def main() -> None:
    """Run jobs until standard input is closed."""
    # The pipes are moved away from 0 and 1, so that no job and no program that a job starts reads or writes them.
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    from headswap.study.jobs.job import start_log  # imports take seconds; a closed pipe ends them

    start_log()
    keep_inputs()
    gc.collect()
    gc.freeze()  # what was imported stays, and is not searched after every job
    state = CleanState()
    while (line := lines.get()) is not None:
        state.restore(line["file"])
        code = _run(line["file"], line["log"], line["gpu"], nothing)
        is_last = code != 0 or line["number"] >= MOST_JOBS or state.growth() > MOST_GROWTH
        os.write(answers, json.dumps({"number": line["number"], "code": code, "is_last": is_last}).encode() + b"\n")
        if is_last:
            return


def _read(requests: int, lines: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """Put every request into the queue; when the pipe is closed, ask this process to stop."""
    with os.fdopen(requests, encoding="utf-8") as file:
        for line in file:
            lines.put(json.loads(line))
    lines.put(None)
    os.kill(os.getpid(), signal.SIGTERM)


def missing_gpu(name: str | None) -> str | None:
    """Why this process must not run a job that was given a GPU: with device = auto it would use the CPU."""
    if name is None:
        return None
    import torch

    if torch.cuda.is_available():
        return None
    return (
        f"The job was given the GPU {name} (CUDA_VISIBLE_DEVICES), but its process finds no GPU, so it was not "
        "started. Check the GPU with nvidia-smi, or pass --device cpu."
    )


def _run(file: str, log: str, gpu: str | None, nothing: int) -> int:
    """Run a job with its log as standard output and standard error; return its exit code."""
    from headswap.study.jobs.job import run_file

    messages = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(messages, 1)
    os.dup2(messages, 2)
    os.close(messages)
    try:
        if (why := missing_gpu(gpu)) is not None:
            print(why, file=sys.stderr)
            return 1
        return run_file(file)
    except BaseException:  # also SystemExit: a process of its own would print it and end
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)


if __name__ == "__main__":
    main()
