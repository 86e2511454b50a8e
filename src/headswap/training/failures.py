"""What can end a run on its way, each as a sentence: numbers that are not finite, no memory, no room on the disk.

Nothing here mends anything: checkpoints are whole or not there, so what was saved stays saved, and the sentence says
where it is and how to go on.
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

MOST_NAMED = 8
MORE_SKIPPED = 5


@contextmanager
def explained(folder: Path, training: TrainingSettings, *, processes: int = 1) -> Iterator[None]:
    """Turn what the disk and the device refuse into a sentence that says what is saved and what to do."""
    try:
        yield
    except HeadswapError:
        raise
    except torch.OutOfMemoryError:
        raise RunError(out_of_memory(folder, training, processes=processes)) from None
    except (OSError, SafetensorError) as problem:
        raise RunError(_write_problem(folder, problem)) from None
    except RuntimeError as problem:
        if "can't allocate memory" not in str(problem):  # torch's words for a CPU without room
            raise
        raise RunError(out_of_memory(folder, training, processes=processes)) from None


def out_of_memory(folder: Path, training: TrainingSettings, *, processes: int = 1) -> str:
    """What to change so that a run fits and its results stay the same."""
    accumulation = training.gradient_accumulation_steps
    rows = math.ceil(training.batch_size / processes / accumulation)
    told = (
        f"Out of memory with batch_size {training.batch_size} in micro-batches of {rows}. {saved_so_far(folder)} "
        "Nothing that was saved is lost. "
    )
    if rows == 1:
        return told + (
            "One row at a time is too much: use a shorter --max-length, a smaller base, or --precision bf16."
        )
    fitting = accumulation * 2
    smaller = math.ceil(training.batch_size / processes / fitting)
    return told + (
        f"Keep --batch-size {training.batch_size} and pass --gradient-accumulation-steps {fitting} (micro-batches of "
        f"{smaller}): the results stay the same but for rounding and the dropout drawn."
    )


def _write_problem(folder: Path, problem: OSError | SafetensorError) -> str:
    reason = getattr(problem, "strerror", None) or str(problem)
    name = getattr(problem, "filename", None)
    what = f"{name} could not be read or written" if name else f"{folder} could not be written"
    return (
        f"{what} ({reason}). {saved_so_far(folder)} Free space or mend the folder, then go on with the same command "
        "and --resume."
    )


def saved_so_far(folder: Path) -> str:
    """Which checkpoint a run can go on from."""
    last = folder / "checkpoints" / "last"
    if last.exists():
        return f"The last checkpoint is {last.resolve()}."
    return "No checkpoint was written yet."


def broken_numbers(record: StepRecord, folder: Path, training: TrainingSettings, *, num_skipped: int) -> str:
    """What is said when a loss or gradient is not finite and no more may be skipped."""
    before = f" {counted(num_skipped, 'step')} had been skipped before." if training.most_skipped else ""
    return (
        f"{what_broke(record)} at step {record.step + 1} (seed {training.seed}, learning rate "
        f"{record.learning_rate:.3g}, documents {named(record.documents)}).{before} "
        f"No weight was changed by this step or after it. {saved_so_far(folder)} "
        "Try a lower learning rate, more warm-up or a smaller --max-grad-norm. Where a few documents are at fault, "
        f"go on with --resume --on-nan skip:{training.most_skipped + MORE_SKIPPED}."
    )


def broken_evaluation(metric: str, step: int, folder: Path) -> str:
    """What is said when a model's own scores are not finite: its weights are beyond use and are not saved."""
    return (
        f"{metric} is not finite at step {step}: the weights have grown beyond all numbers and are not saved. "
        f"{saved_so_far(folder)} Start anew with a lower learning rate or more warm-up."
    )


def what_broke(record: StepRecord) -> str:
    """`Loss became nan`, or the gradient where the loss is finite."""
    loss = record.loss.item()
    return "The gradient became non-finite" if math.isfinite(loss) else f"Loss became {loss}"


def named(documents: Sequence[int]) -> str:
    """The numbers of documents, for a sentence."""
    unique = list(dict.fromkeys(documents))
    more = f" and {len(unique) - MOST_NAMED:,} more" if len(unique) > MOST_NAMED else ""
    return ", ".join(map(str, unique[:MOST_NAMED])) + more
