"""What `pretrain`, `adapt` and `finetune` share: a training run with its display."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from headswap.cli.display import Display, is_first_process, start_messages
from headswap.cli.flags import TrainingFlags
from headswap.training.run_folder import RunFolder


def run_training_command(
    train: Callable[..., RunFolder], out: Path, flags: TrainingFlags, sections: Mapping[str, Any]
) -> tuple[RunFolder | None, Console]:
    """Train; returns the run (None in all but the first process of torchrun) and the console for messages."""
    console = start_messages(quiet=flags.quiet)
    with Display(console, quiet=flags.quiet) as display:
        run = train(
            out=out,
            config=flags.config,
            sections=sections,
            overwrite=flags.overwrite,
            resume=flags.resume,
            observer=display,
            report_to=flags.report_to,
        )
    return (run if is_first_process() else None), console
