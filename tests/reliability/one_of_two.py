"""One of the processes of a torchrun that is killed: a command of headswap that says who it is and where it has come.

`hold N`: the process that writes stands still behind the first line of metrics at step N or later. `die N`: the other
one ends itself with SIGKILL when it is to make the batch of step N. Nothing of this is in the package.
"""

import os
import signal
import sys
from typing import Any


def main(what: str, step: int, argv: list[str]) -> None:
    """Run the command with the trap laid."""
    from headswap.cli.main import main as headswap
    from headswap.pretraining.corpus import RowBatches
    from headswap.training.run_folder import Run

    append, micro_batches = Run.append_metrics, RowBatches.micro_batches

    def held(self: Run, line: dict[str, Any]) -> None:
        append(self, line)
        if line["step"] >= step:
            say(f"at {line['step']}")
            while True:
                signal.pause()

    def dying(self: RowBatches, at: int, *, count: int) -> Any:
        if at >= step:
            os.kill(os.getpid(), signal.SIGKILL)
        return micro_batches(self, at, count=count)

    if what == "hold":
        Run.append_metrics = held  # type: ignore[method-assign]
    elif os.environ["RANK"] == "1":
        RowBatches.micro_batches = dying  # type: ignore[method-assign]
    say(f"process {os.getpid()}")
    sys.argv = ["headswap", *argv]
    headswap()


def say(line: str) -> None:
    """In one write, so that the lines of two processes do not mix."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
