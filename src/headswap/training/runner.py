"""The runner: the steps that all trainings share, and everything between optimizer steps.

`run_training` sets up the machine, the processes and the run folder, in one order for all of them. `run_steps` runs the
loop: it reads the loop's records a few steps late, writes `metrics.jsonl`, evaluates, keeps the best weights, saves
checkpoints, and stops on request, after `patience` evaluations without improvement, or on non-finite numbers.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

import torch

from headswap.bundle.bundle import Bundle
from headswap.core.errors import RunError
from headswap.core.stop_requests import stop_requests
from headswap.objectives.objective import Objective
from headswap.training.checkpoint import (
    Progress,
    drop_other_bests,
    is_save_due,
    newest_complete,
    point_at,
    save_best,
)
from headswap.training.config import ProcessSettings, TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes, start_processes, stop_processes
from headswap.training.failures import broken_evaluation, broken_numbers, explained, listed_documents, what_broke
from headswap.training.gradients import BatchSource
from headswap.training.late_records import Late, late_record
from headswap.training.loop import StepRecord, train
from headswap.training.observer import Observer
from headswap.training.parameter_groups import GroupRate
from headswap.training.placement import place
from headswap.training.run_folder import RunFolder, open_run
from headswap.training.tracker import check_trackers, tracking

log = logging.getLogger("headswap")
LATE = {"cpu": 0, "cuda": 8}
"""How many steps later a record is read, so that the host does not wait for the GPU."""


class StoppedError(RunError):
    """The run was stopped by the user after a checkpoint was saved."""

    exit_code = 130


@dataclass
class TrainingSpec:
    """Model, objective, data, length and evaluation of a training run."""

    bundle: Bundle
    objective: Objective
    source: BatchSource
    settings: TrainingSettings
    machine: Machine
    processes: Processes
    total_steps: int
    steps_per_epoch: int
    evaluate: Callable[[int], dict[str, Any]]
    """Metrics after a step; called on every process, with the whole model."""
    evaluate_every: int
    save_every: int | None
    score: Callable[[dict[str, Any]], list[float]] | None = None
    patience: int | None = None
    losses: tuple[str, ...] = ("loss",)
    rates: Mapping[str, GroupRate] | None = None
    after_evaluation: Callable[[Mapping[str, Any]], None] | None = None
    """Called on every process with each evaluation, and in a resumed run first with those of the run so far."""
    observer: Observer = field(default_factory=Observer)


@dataclass(frozen=True)
class Context:
    """Folder, machine, processes and observer of a training run."""

    run: RunFolder
    machine: Machine
    processes: Processes
    observer: Observer


class Training(Protocol):
    """A pre-training or fine-tuning run whose inputs were read."""

    def checksums(self) -> dict[str, str]:
        """Checksums of the data, the tokenizer and the base."""

    def work(self) -> None:
        """Train and write the results into the run folder."""


class TrainingRecipe(Protocol):
    """The part of a recipe that the runner reads."""

    @property
    def machine(self) -> ProcessSettings: ...

    @property
    def training(self) -> TrainingSettings: ...


class HowToRun(TypedDict, total=False):
    """Arguments that every training passes to `run_training`."""

    overwrite: bool
    resume: bool
    observer: Observer | None
    report_to: Sequence[str]


def run_training(
    recipe: TrainingRecipe,
    make: Callable[[Context], Training],
    *,
    out: str | Path,
    reads: Sequence[str | None],
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    report_to: Sequence[str] = (),
) -> RunFolder:
    """Run a training and return its folder. If a finished run is resumed, only its inputs are compared."""
    check_trackers(report_to)
    machine = Machine(recipe.machine)
    processes = start_processes(machine.device, recipe.machine.parallel)
    try:
        inputs = [name for name in reads if name]
        run = processes.from_first(lambda: open_run(out, recipe, overwrite=overwrite, resume=resume, reads=inputs))
        try:
            with (
                tracking(report_to, run, observer or Observer(), is_first=processes.is_first) as tracked,
                explained(run.path, recipe.training, processes=processes.world),
            ):
                training = make(Context(run, machine, processes, tracked))
                if resume and run.is_finished:
                    run.check_data(training.checksums())
                    log.info("%s is already finished; nothing to do.", run.path)
                else:
                    training.work()
                    tracked.finish()
                return run
        finally:
            run.release()
    finally:
        stop_processes()


def run_steps(spec: TrainingSpec, run: RunFolder) -> Progress:
    """Train from the newest checkpoint, or from the start, to the last step."""
    return _Steps(spec, run).run_all()


class _Steps:
    def __init__(self, spec: TrainingSpec, run: RunFolder) -> None:
        self.spec, self.run_folder = spec, run
        self.folder = run.path / "checkpoints"
        self.model = spec.bundle.model
        checkpoint = spec.processes.from_first(lambda: newest_complete(self.folder))
        self.placement = place(spec.bundle, spec.objective, spec.machine, spec.processes, spec.settings)
        self.optimizer, self.progress = self.placement.resume(checkpoint, spec.settings, spec.rates)
        if checkpoint is not None and spec.processes.is_first:
            point_at(checkpoint)
        if spec.after_evaluation is not None:
            for line in self.progress.history:
                spec.after_evaluation(line)
        self.unread: deque[Late] = deque()
        self.started = time.perf_counter() - self.progress.seconds
        self.last_save = time.perf_counter()
        self.best: dict[str, torch.Tensor] | None = None

    def run_all(self) -> Progress:
        spec, progress = self.spec, self.progress
        if spec.processes.is_first:
            self.run_folder.cut_metrics(progress.step if progress.step else -1)
        if progress.step:
            log.info("Resuming at step %d of %d.", progress.step, spec.total_steps)
        spec.observer.on_start(total_steps=spec.total_steps, first_step=progress.step)
        if progress.step == 0:
            self._evaluate()
        # The generator is closed on every exit: an exception would keep its frame and the tensors in it alive.
        with stop_requests(_log_request) as request, closing(self._records()) as records:
            for record in records:
                self.unread.append(late_record(record))
                progress.step = record.step + 1
                self._read(keep=LATE[spec.machine.device.type])
                if progress.step % spec.evaluate_every == 0 or progress.step == spec.total_steps:
                    self._read(keep=0)
                    self._evaluate()
                is_done = progress.step == spec.total_steps or progress.has_stopped_early
                wants_stop = self._is_stop_agreed(request.is_set(), progress.step)
                if is_done or wants_stop or self._is_save_due():
                    self._read(keep=0)
                    self._save()
                if progress.has_stopped_early:
                    break
                if wants_stop and not is_done:
                    raise StoppedError(
                        f"Stopped at step {progress.step} of {spec.total_steps}; all steps are saved. "
                        "Resume with the same command and --resume."
                    )
        self.placement.finish()
        return progress

    def _records(self) -> Generator[StepRecord]:
        spec, progress = self.spec, self.progress
        return train(
            self.placement.module,
            self.optimizer,
            spec.source,
            settings=spec.settings,
            machine=spec.machine,
            processes=spec.processes,
            first_step=progress.step,
            total_steps=progress.step if progress.has_stopped_early else spec.total_steps,
            num_skipped=len(progress.skipped),
        )

    def _is_save_due(self) -> bool:
        """Whether a checkpoint is due. Clocks differ between processes, so the first one decides where time counts."""
        spec, step = self.spec, self.progress.step
        possible_every = min(spec.evaluate_every, spec.steps_per_epoch)

        def due() -> bool:
            return is_save_due(step, spec.save_every, possible_every, time.perf_counter() - self.last_save)

        by_time = spec.save_every is None and step % possible_every == 0
        return spec.processes.from_first(due) if by_time else due()

    def _is_stop_agreed(self, wants_stop: bool, step: int) -> bool:
        """Several processes must stop at the same step; they exchange stop requests at logging steps only."""
        if self.spec.processes.world == 1:
            return wants_stop
        if step % self.spec.settings.logging_steps:
            return False
        return bool(self.spec.processes.sum(torch.tensor(int(wants_stop))).item())

    def _read(self, *, keep: int) -> None:
        """Read the records that are more than `keep` steps old."""
        while len(self.unread) > keep:
            self._read_one(self.unread.popleft().read())

    def _read_one(self, record: StepRecord) -> None:
        progress, settings = self.progress, self.spec.settings
        if record.is_broken.item():
            self._stop_broken(record)
        progress.tokens += int(record.num_tokens)
        is_skipped = bool(record.is_skipped.item())
        if is_skipped:
            self._record_skipped(record)
        else:
            progress.add(record.losses_K.tolist(), record.num_targets_K.tolist())
        step = record.step + 1
        is_line_due = step % settings.logging_steps == 0 or step == self.spec.total_steps
        if not is_line_due or not any(progress.window_targets):
            return
        line = {
            "step": step,
            "epoch": step / self.spec.steps_per_epoch,
            **{f"train_{name}": loss for name, loss in zip(self.spec.losses, progress.window_means(), strict=True)},
            "learning_rate": record.learning_rate,
            "grad_norm": None if is_skipped else record.grad_norm.item(),
            "tokens": progress.tokens,
            "seconds": self._seconds(),
        }
        progress.window_losses, progress.window_targets = [], []
        self._write(line)
        self.spec.observer.on_step(line)

    def _seconds(self) -> float:
        return round(time.perf_counter() - self.started, 3)

    def _write(self, line: dict[str, Any]) -> None:
        if self.spec.processes.is_first:
            self.run_folder.append_metrics(line)

    def _evaluate(self) -> None:
        with self.placement.whole():
            self._evaluate_whole()

    def _evaluate_whole(self) -> None:
        spec, progress = self.spec, self.progress
        metrics = spec.evaluate(progress.step)  # all processes share the work
        metrics = spec.processes.from_first(lambda: metrics)
        if broken := [name for name, value in metrics.items() if isinstance(value, float) and not math.isfinite(value)]:
            raise RunError(broken_evaluation(broken[0], progress.step, self.run_folder.path))
        line = {
            "step": progress.step,
            "epoch": progress.step / spec.steps_per_epoch,
            **metrics,
            "seconds": self._seconds(),
        }
        progress.history.append({key: value for key, value in line.items() if key != "seconds"})
        if spec.after_evaluation is not None:
            spec.after_evaluation(line)
        if spec.score is not None and metrics and progress.step:
            self._compare_with_best(spec.score(metrics))
        self._write(line)
        spec.observer.on_evaluation(line)

    def _compare_with_best(self, score: list[float]) -> None:
        """Keep the weights if they are the best so far; otherwise count the evaluation for early stopping."""
        progress = self.progress
        if progress.best_score is None or score > progress.best_score:
            progress.best_score, progress.best_step = score, progress.step
            progress.evaluations_without_gain = 0
            if self.spec.processes.is_first:
                self.best = {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}
        else:
            progress.evaluations_without_gain += 1
            patience = self.spec.patience
            progress.has_stopped_early = patience is not None and progress.evaluations_without_gain >= patience

    def _save(self) -> None:
        self.progress.seconds = self._seconds()
        self.last_save = time.perf_counter()
        is_first = self.spec.processes.is_first
        if is_first:
            self.run_folder.flush_metrics()  # before the checkpoint, so that no line before it can be lost
            if self.best is not None:
                save_best(self.folder, self.spec.bundle, self.best, self.progress)
                self.best = None
        self.placement.save(self.folder, self.optimizer, self.progress, keep=self.spec.settings.save_total_limit)
        if is_first:
            drop_other_bests(self.folder, self.progress)

    def _record_skipped(self, record: StepRecord) -> None:
        """Record a step that changed no weight because its loss or gradient was not finite."""
        line = {
            "step": record.step + 1,
            "skipped": what_broke(record),
            "learning_rate": record.learning_rate,
            "documents": list(record.documents),
        }
        self.progress.skipped.append(line)
        self._write(line)
        log.warning(
            "%s at step %d (learning rate %.3g, documents %s); the step is skipped (%d of at most %d).",
            line["skipped"], record.step + 1, record.learning_rate, listed_documents(record.documents),
            len(self.progress.skipped), self.spec.settings.most_skipped,
        )  # fmt: skip

    def _stop_broken(self, record: StepRecord) -> None:
        num_skipped = len(self.progress.skipped)
        raise RunError(broken_numbers(record, self.run_folder.path, self.spec.settings, num_skipped=num_skipped))


def _log_request() -> None:
    log.warning("Stopping after this step; a checkpoint is saved first. Press Ctrl-C again to stop at once.")
