"""A study from its recipe to its finished jobs: begin (see begin.py), probe, run. What it found is left to results.py.

The folder: `study.toml` (the recipe), `plan.json` (jobs and cells), `data/` (the rows that every job reads, and what
the guard found), `runs/` (one folder a job), `logs/`. The same command goes on where it was.
"""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headswap.core.errors import SettingError
from headswap.core.files import read_json
from headswap.core.settings import Settings, load_recipe
from headswap.study.arms import read_arms
from headswap.study.begin import begin
from headswap.study.config import StudyRecipe
from headswap.study.estimate import Estimator, Preflight, look_ahead
from headswap.study.executor import Outcome, Scheduler, Watcher
from headswap.study.folder import alone_in
from headswap.study.plan import Job, Plan
from headswap.study.prepare import Prepared

log = logging.getLogger("headswap")
PRETRAINING_SHARE = 0.4
"""Of `--max-minutes`, for pre-training that has no limit of its own."""
ROOM_TO_SPARE = 1.1


@dataclass(frozen=True)
class Study:
    """What was planned, and what became of it."""

    out: Path
    recipe: StudyRecipe
    plan: Plan
    prepared: Prepared
    preflight: Preflight
    outcome: Outcome


def conduct(
    *,
    out: Path,
    config: Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    jobs: int = 1,
    max_minutes: float | None = None,
    overwrite: bool = False,
    watcher: Watcher | None = None,
    on_preflight: Callable[[Preflight], None] = lambda preflight: None,
) -> Study:
    """Run a study, or go on with it."""
    began = time.monotonic()
    if jobs < 1 or (max_minutes is not None and max_minutes <= 0):
        raise SettingError("jobs must be at least 1 and max_minutes above 0.")
    recipe = load_recipe(StudyRecipe, config, sections)
    if recipe.study.base_seeds > recipe.study.seeds:
        raise SettingError(
            f"base_seeds is {recipe.study.base_seeds}, more than the {recipe.study.seeds} seeds to deal them out to."
        )
    arms = read_arms(recipe)
    if recipe.machine.device == "cuda":  # or every job would say it
        from headswap.training.device import device_of

        device_of(recipe.machine.device)
    recipe = _with_limit(recipe, max_minutes)
    with alone_in(out) as lock:
        prepared, plan = begin(recipe, arms, out, lock, overwrite=overwrite)
        every = list(plan.jobs.values())
        threads = recipe.machine.threads
        estimator = Estimator(None, prepared)
        scheduler = Scheduler(
            out, estimator, parallel=jobs, threads=threads, keep=recipe.study.keep, watcher=watcher or Watcher()
        )
        estimator.probe = _probe(every, scheduler, out)
        deadline = None if max_minutes is None else began + max_minutes * 60
        by_stages = scheduler.goes_by_stages(every, deadline=deadline)
        preflight = look_ahead(every, estimator, parallel=jobs, keep=recipe.study.keep, by_stages=by_stages)
        on_preflight(preflight)
        _check_room(out, preflight)
        outcome = scheduler.run(every, deadline=deadline)
    return Study(out, recipe, plan, prepared, preflight, outcome)


def _with_limit(recipe: StudyRecipe, max_minutes: float | None) -> StudyRecipe:
    """Pre-training without a limit of its own gets a share of the study's."""
    pretrain = recipe.pretrain
    has_limit = any(getattr(pretrain, name) is not None for name in pretrain.exclusive)
    if max_minutes is None or has_limit:
        return recipe
    share = round(max_minutes * PRETRAINING_SHARE / recipe.study.base_seeds, 2)
    return recipe.changed(pretrain=pretrain.changed(max_minutes=max(0.05, share)))


def _probe(jobs: list[Job], scheduler: Scheduler, out: Path) -> dict[str, Any] | None:
    """Times of a step and of a score, measured once a study on the smallest job that starts from scratch."""
    left = [job for job in jobs if not job.is_done]
    scratch = [job for job in jobs if job.kind == "finetune" and job.sections["model"].get("base") == "scratch"]
    chosen = next(iter(scratch or [job for job in jobs if job.kind == "finetune" and not job.needs]), None)
    if chosen is None or not any(job.kind in ("pretrain", "finetune") for job in left):
        return None
    tokenizers = [job for job in jobs if job.id in chosen.needs]
    if scheduler.run(tokenizers).failed:
        return None  # told when its turn comes
    name = f"probe-{chosen.id}-{scheduler.threads_of(scheduler.parallel)}"  # another number of threads, other times
    probe = Job(name, "probe", "probe", str(out.resolve() / "logs" / name), chosen.sections)
    outcome = scheduler.run([probe], sharing=scheduler.parallel)
    if outcome.failed:
        log.warning("The probe failed, so times are not estimated.")
    if outcome.failed or outcome.was_stopped:
        return None
    return read_json(Path(probe.folder) / "result.json")


def _check_room(out: Path, preflight: Preflight) -> None:
    free = shutil.disk_usage(out).free
    if preflight.disk_bytes and preflight.disk_bytes * ROOM_TO_SPARE > free:
        raise SettingError(
            f"The study needs about {preflight.disk_bytes / 1e9:.1f} GB and the disk of {out} has {free / 1e9:.1f} GB "
            "free. Use --keep results, fewer seeds or arms, or another --out."
        )
