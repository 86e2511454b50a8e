"""What a study needs before it starts: time, memory and disk, and where most of its time goes."""

from collections.abc import Iterable
from dataclasses import dataclass

from headswap.core.errors import counted
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import Job

BYTES_PER_PARAMETER = 4
COPIES_WHILE_TRAINING = 5  # the bundle, a checkpoint with two moments, the best weights
COPIES_KEPT = {"bundles": 1, "results": 0}
LONG = 30 * 60
"""So many seconds make a study long: it says what takes the time and which settings shorten it."""
SMALL_PART = 0.1
"""Kinds of jobs with a smaller share of the time are not named."""
SHORTER = {
    "pretrain": ("pre-training", "--pretrain.max-minutes"),
    "adapt": ("adaptation", "--adapt.max-minutes"),
    "finetune": ("fine-tuning", "--seeds, --budgets, --arms or --max-length"),
    "embed": ("vector computation", "--max-length"),
    "baseline": ("baseline", "--seeds, --budgets or --arms"),
}
"""Per kind of job: what it is called, and the settings that shorten it."""


@dataclass(frozen=True)
class Part:
    """The jobs of one kind that are left."""

    kind: str
    num_jobs: int
    seconds: float
    """The sum of all of them, as if one ran after the other."""

    def __str__(self) -> str:
        name, settings = SHORTER[self.kind]
        return f"{counted(self.num_jobs, name)} {minutes(self.seconds)} (shorten with {settings})"


@dataclass(frozen=True)
class Preflight:
    """The estimated jobs, time, memory and disk of a study."""

    num_jobs: int
    num_done: int
    seconds: float
    memory_bytes: int | None
    disk_bytes: int | None
    device: str | None
    parts: tuple[Part, ...] = ()
    """The kinds of jobs that take the most time, longest first."""

    def sentence(self) -> str:
        """The estimate as one sentence."""
        done = f", {self.num_done} of them done; the others need" if self.num_done else "; they need"
        memory = f", {size(self.memory_bytes)} of memory" if self.memory_bytes else ""
        disk = f", {size(self.disk_bytes)} of disk" if self.disk_bytes else ""
        where, how = (
            (f" on {self.device}", "estimated from a short test run") if self.device else ("", "rough estimate")
        )
        return f"{counted(self.num_jobs, 'job')}{done} about {minutes(self.seconds)}{memory}{disk}{where} ({how})."

    def advice(self) -> str | None:
        """What takes the time of a long study, and how to shorten it."""
        if self.seconds < LONG or not self.parts:
            return None
        parts = ", ".join(map(str, self.parts))
        return (
            f"Most of the time, added up over jobs: {parts}. With --max-minutes the study ends in time, and the same "
            "command runs the rest later."
        )


def estimate_study(
    jobs: Iterable[Job], estimator: Estimator, *, parallel: int, keep: str, by_stages: bool = True
) -> Preflight:
    """Time, memory and disk of the jobs that are not done."""
    every = list(jobs)
    left = [job for job in every if not job.is_done]
    each = {job.id: estimator.seconds(job) for job in left}
    by_stage: dict[int, list[float]] = {}
    for job in left:
        by_stage.setdefault(job.stage, []).append(each[job.id])
    seconds = sum(max(max(part), sum(part) / parallel) for part in by_stage.values())
    if not by_stages and left:
        ends: dict[str, float] = {}
        for job in left:  # a job comes after the jobs that it needs
            ends[job.id] = each[job.id] + max((ends.get(need, 0.0) for need in job.needs), default=0.0)
        seconds = max(*ends.values(), sum(each.values()) / parallel)
    probe = estimator.probe
    if probe is None:
        return Preflight(len(every), len(every) - len(left), seconds, None, None, None)
    model = probe["num_parameters"] * BYTES_PER_PARAMETER
    kept = sum({"pretrain": 1, "adapt": 1, "finetune": COPIES_KEPT[keep]}.get(job.kind, 0) for job in left)
    memory = probe["peak_memory_bytes"]
    return Preflight(
        num_jobs=len(every),
        num_done=len(every) - len(left),
        seconds=seconds,
        memory_bytes=memory * parallel if memory else None,
        disk_bytes=model * (kept + COPIES_WHILE_TRAINING * parallel) if left else 0,
        device=probe["device"],
        parts=_longest_parts(left, each),
    )


def _longest_parts(left: list[Job], seconds: dict[str, float]) -> tuple[Part, ...]:
    """The kinds of jobs with a large share of the time, longest first."""
    total = sum(seconds.values())
    parts = []
    for kind in SHORTER:
        own = [seconds[job.id] for job in left if job.kind == kind]
        if own and sum(own) >= SMALL_PART * total:
            parts.append(Part(kind, len(own), sum(own)))
    return tuple(sorted(parts, key=lambda part: -part.seconds))


def minutes(seconds: float) -> str:
    """`40 s`, `12 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def size(num_bytes: float) -> str:
    """`1.3 GB`, `240 MB`."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
