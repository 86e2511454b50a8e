"""The process that is killed: a real command, with a wire across everything it does to the disk.

Each write, rename, flush and removal, each line of metrics and each batch of a token store is an event with a number.
At the chosen one the process tells its watcher and stands still, so that it is killed exactly there; or it goes on when
it is told to and is killed while it runs. Nothing of this is in the package.
"""

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

FINISHED = "finished"


@dataclass(frozen=True)
class Trigger:
    """When the process is to be killed: at the n-th event of a kind, or at the n-th of all kinds (`any`)."""

    kind: str
    number: int
    is_held: bool = True
    """Whether it stands still until it is dead, or runs on."""
    match: str = ""
    """Count only events about this name."""

    def fits(self, kind: str, detail: str) -> bool:
        """Whether an event is one of those that are counted."""
        return self.kind in (kind, "any") and self.match in detail


class Wire:
    """Counts events and stops at the chosen one."""

    def __init__(self, pipe: Connection, trigger: Trigger | None) -> None:
        self.pipe, self.trigger = pipe, trigger
        self.counts: Counter[str] = Counter()
        self.num_fitting = 0

    def touch(self, kind: str, detail: object = "") -> None:
        """An event has happened, or is about to."""
        self.counts[kind] += 1
        self.counts["any"] += 1
        trigger = self.trigger
        if trigger is None or not trigger.fits(kind, str(detail)):
            return
        self.num_fitting += 1
        if self.num_fitting != trigger.number:
            return
        self.trigger = None
        self.pipe.send((kind, str(detail)))
        if trigger.is_held:
            while True:
                signal.pause()
        self.pipe.recv()

    def before(self, owner: Any, name: str, kind: str) -> None:
        """Lay the wire in front of a function."""
        function = getattr(owner, name)

        def wired(*arguments: Any, **settings: Any) -> Any:
            self.touch(kind, arguments[:1])
            return function(*arguments, **settings)

        setattr(owner, name, wired)

    def after(self, owner: Any, name: str, kind: str, detail: Callable[..., object] = lambda *_: "") -> None:
        """Lay the wire behind a function."""
        function = getattr(owner, name)

        def wired(*arguments: Any, **settings: Any) -> Any:
            answer = function(*arguments, **settings)
            self.touch(kind, detail(*arguments))
            return answer

        setattr(owner, name, wired)

    def tear(self, owner: Any, name: str) -> None:
        """Lay the wire into the middle of a writer of tensors: half of the file is there."""
        function = getattr(owner, name)

        def wired(tensors: Any, path: Path, **settings: Any) -> None:
            function(tensors, path, **settings)
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2])
            self.touch("half-written file", path)
            path.write_bytes(content)

        setattr(owner, name, wired)


def lay(wire: Wire) -> None:
    """The wire across everything that writes."""
    import headswap.core.files
    import headswap.model.weights
    import headswap.tokens.store_writer
    import headswap.training.checkpoint
    import headswap.training.run_folder

    wire.before(os, "replace", "rename")
    wire.before(os, "fsync", "flush")
    wire.before(os, "symlink", "link")
    wire.before(shutil, "rmtree", "removal")
    wire.before(headswap.core.files, "exchange", "folder replaced")
    wire.after(headswap.core.files, "exchange", "folder replaced")
    wire.after(
        headswap.training.run_folder.RunFolder, "append_metrics", "line of metrics", lambda _, line: line["step"]
    )
    wire.after(headswap.tokens.store_writer.StoreWriter, "add", "token store growing")
    wire.tear(headswap.model.weights, "save_file")
    wire.tear(headswap.training.checkpoint, "save_file")


def main(argv: list[str], environment: dict[str, str], pipe: Connection, trigger: Trigger | None, log: str) -> None:
    """Run a command of headswap with the wire laid; leaves with the command's exit code."""
    os.environ.update(environment)
    with open(log, "ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    from headswap.cli.main import main as headswap

    wire = Wire(pipe, trigger)
    lay(wire)
    sys.argv = ["headswap", *argv]
    try:
        headswap()
    finally:
        pipe.send((FINISHED, dict(wire.counts)))
