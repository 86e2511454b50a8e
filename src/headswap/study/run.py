"""Run a study: initialize its folder, probe the speed, run the jobs. Results are computed afterwards (statistics/).

The folder has `study.toml` (the recipe), `plan.json` (jobs and runs), `data/` (the rows that every job reads, and the
result of the overlap check), `runs/` (one folder per job) and `logs/`. The same command resumes a stopped study.
"""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headswap.core.errors import SettingError
from headswap.core.files import read_json
from headswap.core.settings import Settings, load_recipe
from headswap.pretraining.config import PretrainRecipe
from headswap.study.executors.backend import Backend
from headswap.study.executors.choose import default_jobs, make_backend
from headswap.study.executors.job_queue import Executor, Outcome, Watcher, cores
from headswap.study.initialize import initialize
from headswap.study.jobs.answer_runs import import_answers
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import BASE_KINDS, Job, Plan
from headswap.study.jobs.preflight import Preflight, estimate_study
from headswap.study.setup.arms import LINEAR, read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.setup.folder import locked_folder
from headswap.study.setup.prepare import Prepared
from headswap.study.setup.time_budget import with_limits

log = logging.getLogger("headswap")
DISK_MARGIN = 1.1


@dataclass(frozen=True)
class Study:
    """A study that was run: its plan, its estimate, and the outcome of its jobs."""

    out: Path
    recipe: StudyRecipe
    plan: Plan
    prepared: Prepared
    preflight: Preflight
    outcome: Outcome


def run_study(
    *,
    out: Path,
    config: Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    jobs: int | None = None,
    max_minutes: float | None = None,
    overwrite: bool = False,
    watcher: Watcher | None = None,
    on_preflight: Callable[[Preflight], None] = lambda preflight: None,
    executor: str = "local",
    backend: Backend | None = None,
) -> Study:
    """Run a study, or resume it. A back end runs the jobs: the given one, or the one that `executor` names.

    Without `jobs` there is one job at a time; with several GPUs in this machine, one per GPU.
    """
    started = time.monotonic()
    if (jobs is not None and jobs < 1) or (max_minutes is not None and max_minutes <= 0):
        raise SettingError("jobs must be at least 1 and max_minutes above 0.")
    recipe = load_recipe(StudyRecipe, config, sections)
    if recipe.study.base_seeds > recipe.study.seeds:
        raise SettingError(
            f"base_seeds is {recipe.study.base_seeds}, more than seeds ({recipe.study.seeds}): each base needs a seed. "
            "Lower base_seeds or raise seeds."
        )
    recipe = with_default_arms(recipe)
    arms = read_arms(recipe)
    if recipe.study.trials == 1 and any(arm.start not in ("answers", "baseline", LINEAR) for arm in arms):
        log.info(
            "Each trained model (arm) has its default learning rate. With headswap study --trials 3 each arm tries "
            "three learning rates."
        )
    if recipe.machine.device == "cuda":  # checked once here, not in every job
        from headswap.training.device import device_of

        device_of(recipe.machine.device)
    recipe = with_limits(recipe, arms, max_minutes)
    device = recipe.machine.device
    jobs = jobs or default_jobs(executor, device)
    backend = backend or make_backend(executor, parallel=jobs, cores=cores(), device=device)
    with closing(backend), locked_folder(out) as lock:
        prepared, plan = initialize(recipe, arms, out, lock, overwrite=overwrite)
        import_answers(plan)
        every = list(plan.jobs.values())
        threads, keep = recipe.machine.threads, recipe.study.keep
        estimator = Estimator(None, prepared, adapted=_adapted_bases(every), shapes=_shapes(every))
        with Executor(
            out, estimator, parallel=jobs, threads=threads, keep=keep, watcher=watcher or Watcher(),
            backend=backend,
        ) as runner:  # fmt: skip
            estimator.probe = _probe(every, runner, out)
            deadline = None if max_minutes is None else started + max_minutes * 60
            by_stages = runner.runs_by_stages(every, deadline=deadline)
            preflight = estimate_study(every, estimator, parallel=jobs, keep=keep, by_stages=by_stages)
            on_preflight(preflight)
            _check_disk_space(out, preflight)
            outcome = runner.run(every, deadline=deadline)
    return Study(out, recipe, plan, prepared, preflight, outcome)


def _adapted_bases(jobs: list[Job]) -> dict[str, str]:
    """Per folder of an adaptation, the base that is adapted; the two have the same shape."""
    return {job.folder: job.sections["model"]["base"] for job in jobs if job.kind == "adapt"}


def _shapes(jobs: list[Job]) -> dict[str, dict[str, Any]]:
    """Per folder of a pre-training, the shape of its base."""
    recipes = {job.folder: load_recipe(PretrainRecipe, None, job.sections) for job in jobs if job.kind == "pretrain"}
    return {
        folder: recipe.model.shape(vocab_size=1, max_length=recipe.training.max_length).model_dump()
        for folder, recipe in recipes.items()
    }


def _probe(jobs: list[Job], executor: Executor, out: Path) -> dict[str, Any] | None:
    """Seconds per step and per scored text, measured once per study on its first fine-tuning job from scratch."""
    left = [job for job in jobs if not job.is_done]
    scratch = [job for job in jobs if job.kind == "finetune" and job.sections["model"].get("base") == "scratch"]
    chosen = next(iter(scratch or [job for job in jobs if job.kind == "finetune" and job.made_base is None]), None)
    chosen = chosen or _before_adaptation(jobs)
    if chosen is None or not any(job.kind in (*BASE_KINDS, "finetune") for job in left):
        return None
    tokenizers = [job for job in jobs if job.id in chosen.needs]
    if executor.run(tokenizers).failed:
        return None  # reported when the jobs are run
    name = f"probe-{chosen.id}-{executor.threads_per_job(executor.parallel)}"  # times depend on the threads
    probe = Job(name, "probe", "probe", str(out.resolve() / "logs" / name), chosen.sections)
    outcome = executor.run([probe], num_sharing_cores=executor.parallel)
    if outcome.failed:
        log.warning("The short test run failed, so there is no estimate of time, memory and disk.")
    if outcome.failed or outcome.was_stopped:
        return None
    return read_json(Path(probe.folder) / "result.json")


def _before_adaptation(jobs: list[Job]) -> Job | None:
    """The first fine-tuning job of an adapted base, with the base before adaptation; only its speed is measured."""
    bases = _adapted_bases(jobs)
    for job in jobs:
        model = job.sections.get("model", {})
        if job.kind == "finetune" and model.get("base") in bases:
            return replace(job, needs=(), sections=job.sections | {"model": model | {"base": bases[model["base"]]}})
    return None


def _check_disk_space(out: Path, preflight: Preflight) -> None:
    free = shutil.disk_usage(out).free
    if preflight.disk_bytes and preflight.disk_bytes * DISK_MARGIN > free:
        raise SettingError(
            f"The study needs about {preflight.disk_bytes / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free on the "
            f"disk of {out}. Use --keep results, fewer seeds or arms, or another --out."
        )
