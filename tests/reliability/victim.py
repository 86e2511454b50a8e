"""The process that is killed: a real command, with hooks on all its disk operations.

Each write, rename, flush and removal, each line of metrics and each batch of a token store is a numbered event. At the
chosen event the process reports it to the watcher and pauses, so that it is killed exactly there; or it continues when
the watcher answers, and is killed while it runs. The package contains none of this code.
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
    """When the process is killed: at the n-th event of a kind, or at the n-th event of all kinds (`any`)."""

    kind: str
    number: int
    is_held: bool = True
    """Whether the process pauses until it is killed, or continues."""
    match: str = ""
    """Count only events whose detail contains this text."""

    def fits(self, kind: str, detail: str) -> bool:
        """Whether an event is counted."""
        return self.kind in (kind, "any") and self.match in detail


class Hooks:
    """Counts events and pauses at the chosen one."""

    def __init__(self, pipe: Connection, trigger: Trigger | None) -> None:
        self.pipe, self.trigger = pipe, trigger
        self.counts: Counter[str] = Counter()
        self.num_fitting = 0

    def report(self, kind: str, detail: object = "") -> None:
        """Count an event that has happened or will happen next."""
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
        """Report an event before each call of a function."""
        function = getattr(owner, name)

        def hooked(*arguments: Any, **settings: Any) -> Any:
            self.report(kind, arguments[:1])
            return function(*arguments, **settings)

        setattr(owner, name, hooked)

    def after(self, owner: Any, name: str, kind: str, detail: Callable[..., object] = lambda *_: "") -> None:
        """Report an event after each call of a function."""
        function = getattr(owner, name)

        def hooked(*arguments: Any, **settings: Any) -> Any:
            answer = function(*arguments, **settings)
            self.report(kind, detail(*arguments))
            return answer

        setattr(owner, name, hooked)

    def halfway(self, owner: Any, name: str) -> None:
        """Report an event in the middle of a writer of tensors, when half of the file is written."""
        function = getattr(owner, name)

        def hooked(tensors: Any, path: Path, **settings: Any) -> None:
            function(tensors, path, **settings)
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2])
            self.report("half-written file", path)
            path.write_bytes(content)

        setattr(owner, name, hooked)


def step_of_line(_: object, line: dict[str, Any]) -> object:
    """The step of a line of metrics."""
    return line["step"]


def install(hooks: Hooks) -> None:
    """Install the hooks on everything that writes."""
    import headswap.core.atomic_folder
    import headswap.model.weights
    import headswap.tokens.store_writer
    import headswap.training.checkpoint
    import headswap.training.run_folder

    hooks.before(os, "replace", "rename")
    hooks.before(os, "fsync", "flush")
    hooks.before(os, "symlink", "link")
    hooks.before(shutil, "rmtree", "removal")
    hooks.before(headswap.core.atomic_folder, "exchange", "folder replaced")
    hooks.after(headswap.core.atomic_folder, "exchange", "folder replaced")
    hooks.after(headswap.training.run_folder.RunFolder, "append_metrics", "line of metrics", step_of_line)
    hooks.after(headswap.tokens.store_writer.StoreWriter, "add", "token store growing")
    hooks.halfway(headswap.model.weights, "save_file")
    hooks.halfway(headswap.training.checkpoint, "save_file")


def main(argv: list[str], environment: dict[str, str], pipe: Connection, trigger: Trigger | None, log: str) -> None:
    """Run a headswap command with the hooks; the exit code is that of the command."""
    os.environ.update(environment)
    with open(log, "ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    from headswap.cli.main import main as headswap

    hooks = Hooks(pipe, trigger)
    install(hooks)
    sys.argv = ["headswap", *argv]
    try:
        headswap()
    finally:
        pipe.send((FINISHED, dict(hooks.counts)))
