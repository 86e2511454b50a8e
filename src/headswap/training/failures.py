"""Error messages for failures during a run: non-finite numbers, no memory, a full or broken disk.

Nothing is repaired here. Checkpoints are written atomically, so those that exist can be used; each message states the
last checkpoint and how to resume.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError

from headswap.core.errors import HeadswapError, RunError, counted
from headswap.training.config import TrainingSettings
from headswap.training.loop import StepRecord

MOST_LISTED = 8
MORE_SKIPPED = 5


@contextmanager
def explained(folder: Path, training: TrainingSettings, *, processes: int = 1) -> Iterator[None]:
    """Turn errors of the disk and of memory into a RunError that states the last checkpoint and what to do."""
    try:
        yield
    except HeadswapError:
        raise
    except torch.OutOfMemoryError:
        raise RunError(out_of_memory(folder, training, processes=processes)) from None
    except (OSError, SafetensorError) as problem:
        raise RunError(_write_problem(folder, problem)) from None
    except RuntimeError as problem:
        if "can't allocate memory" not in str(problem):  # torch's message when the CPU has no memory left
            raise
        raise RunError(out_of_memory(folder, training, processes=processes)) from None


def out_of_memory(folder: Path, training: TrainingSettings, *, processes: int = 1) -> str:
    """The message for a run without enough memory: which settings need less and keep the results."""
    accumulation = training.gradient_accumulation_steps
    rows = math.ceil(training.batch_size / processes / accumulation)
    problem = (
        f"Out of memory with batch_size {training.batch_size} in micro-batches of {rows}. {last_checkpoint(folder)} "
    )
    if rows == 1:
        return (
            problem + "Micro-batches cannot be smaller: use a shorter --max-length, a smaller base or --precision bf16."
        )
    doubled = accumulation * 2
    smaller = math.ceil(training.batch_size / processes / doubled)
    return problem + (
        f"Keep --batch-size {training.batch_size} and pass --gradient-accumulation-steps {doubled} (micro-batches of "
        f"{smaller}): the results differ only by rounding and by the random dropout masks."
    )


def _write_problem(folder: Path, problem: OSError | SafetensorError) -> str:
    reason = getattr(problem, "strerror", None) or str(problem)
    name = getattr(problem, "filename", None)
    what = f"{name} could not be read or written" if name else f"{folder} could not be written"
    return (
        f"{what} ({reason}). {last_checkpoint(folder)} Free disk space or repair the folder, then resume with the same "
        "command and --resume."
    )


def last_checkpoint(folder: Path) -> str:
    """A sentence that states the checkpoint from which a run can be resumed."""
    last = folder / "checkpoints" / "last"
    if last.exists():
        return f"The last checkpoint is {last.resolve()}."
    return "No checkpoint was written yet."


def broken_numbers(record: StepRecord, folder: Path, training: TrainingSettings, *, num_skipped: int) -> str:
    """The message when a loss or gradient is not finite and no more steps may be skipped."""
    before = f" {counted(num_skipped, 'step')} had been skipped before." if training.most_skipped else ""
    return (
        f"{what_broke(record)} at step {record.step + 1} (seed {training.seed}, learning rate "
        f"{record.learning_rate:.3g}, documents {listed_documents(record.documents)}).{before} "
        f"No weight was changed by this step or after it. {last_checkpoint(folder)} "
        "Try a lower learning rate, more warm-up or a smaller --max-grad-norm. If a few documents are the cause, "
        f"resume with --resume --on-nan skip:{training.most_skipped + MORE_SKIPPED}."
    )


def broken_evaluation(metric: str, step: int, folder: Path) -> str:
    """The message when a metric of an evaluation is not finite."""
    return (
        f"{metric} is not finite at step {step}: the weights overflowed. They were not saved. "
        f"{last_checkpoint(folder)} Start again with a lower learning rate or more warm-up."
    )


def what_broke(record: StepRecord) -> str:
    """`Loss became nan`, or that the gradient is not finite if the loss is."""
    loss = record.loss.item()
    return "The gradient became non-finite" if math.isfinite(loss) else f"Loss became {loss}"


def listed_documents(documents: Sequence[int]) -> str:
    """The first document numbers, and how many more there are."""
    unique = list(dict.fromkeys(documents))
    more = f" and {len(unique) - MOST_LISTED:,} more" if len(unique) > MOST_LISTED else ""
    return ", ".join(map(str, unique[:MOST_LISTED])) + more
