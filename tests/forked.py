"""Several training processes without torchrun: forks of one process, so that PyTorch is imported only once.

`run_forks` is for scripts that have no threads when they call it.
"""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable

KILLED = -signal.SIGKILL


def run_forks(world: int, work: Callable[[], object]) -> list[int]:
    """Call `work` in each of `world` processes; their exit codes. When one fails, the others are killed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = {_fork(rank, world, port, work): rank for rank in range(world)}
    left, codes = set(children), [0] * world
    while left:
        process, status = os.wait()
        left.discard(process)
        codes[children[process]] = os.waitstatus_to_exitcode(status)
        if status:
            for other in left:
                os.kill(other, signal.SIGKILL)
    return codes


def _fork(rank: int, world: int, port: int, work: Callable[[], object]) -> int:
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.environ |= {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }  # fmt: skip
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
