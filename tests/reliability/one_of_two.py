"""One process of a torchrun that is killed: a headswap command that prints its process number and its step.

`hold N`: the writing process pauses after the first line of metrics at step N or later. `die N`: the other process ends
itself with SIGKILL before the batch of step N. The package contains none of this code.
"""

import os
import signal
import sys
from typing import Any


def main(what: str, step: int, argv: list[str]) -> None:
    """Run the command with the hooks installed."""
    from headswap.cli.main import main as headswap
    from headswap.pretraining.corpus import RowBatches
    from headswap.training.run_folder import RunFolder

    append, micro_batches = RunFolder.append_metrics, RowBatches.micro_batches

    def held(self: RunFolder, line: dict[str, Any]) -> None:
        append(self, line)
        if line["step"] >= step:
            report(f"at {line['step']}")
            while True:
                signal.pause()

    def dying(self: RowBatches, at: int, *, count: int) -> Any:
        if at >= step:
            os.kill(os.getpid(), signal.SIGKILL)
        return micro_batches(self, at, count=count)

    if what == "hold":
        RunFolder.append_metrics = held  # type: ignore[method-assign]
    elif os.environ["RANK"] == "1":
        RowBatches.micro_batches = dying  # type: ignore[method-assign]
    report(f"process {os.getpid()}")
    sys.argv = ["headswap", *argv]
    headswap()


def report(line: str) -> None:
    """Print in one write, so that the lines of two processes do not mix."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
