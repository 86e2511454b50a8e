"""The jobs of a study and the runs that they make, as data; plan.py makes them.

A job knows its folder, and so whether it is done, and whether its outputs are damaged. Nothing is run here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headswap.baselines.linear import METRIC as DEFAULT_METRIC
from headswap.study.jobs.job_outputs import damage, has_finished
from headswap.study.setup.answer_file import Answers
from headswap.study.setup.arms import Sections

STAGES = {
    "probe": 0, "tokenizer": 0, "space": 0, "sample": 0, "pretrain": 1, "adapt": 1, "embed": 1, "answers": 2,
    "baseline": 2, "finetune": 2, "linear": 2,
}  # fmt: skip
INPUTS = ("space", "embeddings")
"""Sections with the folder of another job that a baseline or a linear arm reads."""
BASE_KINDS = ("pretrain", "adapt")
"""Jobs that make a base."""


@dataclass(frozen=True)
class Job:
    """One job with its own folder."""

    id: str
    kind: str
    name: str
    folder: str
    sections: Sections
    needs: tuple[str, ...] = ()
    arm: str | None = None
    labels: int | None = None
    seed: int | None = None
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of the rows and the corpus that it reads; they are checked when it starts."""
    trials: tuple[float, ...] = ()
    """Factors of the learning rate that a fine-tuning tries (trials.py); empty if it tries none."""

    @property
    def stage(self) -> int:
        """Tokenizer, space and sample of texts 0, pre-training and adaptation 1, all others 2."""
        return STAGES[self.kind]

    @property
    def is_done(self) -> bool:
        """Whether it has finished and its outputs are intact."""
        return has_finished(Path(self.folder)) and self.damage is None

    @property
    def made_base(self) -> str | None:
        """The folder of its base, if another job of the study makes that."""
        base = self.sections.get("model", {}).get("base") if self.needs else None
        return base if base and Path(base).parent == Path(self.folder).parent else None

    @property
    def damage(self) -> str | None:
        """What is wrong with its folder, so that it must be run again; None if nothing is."""
        base = self.made_base if self.kind in ("finetune", "embed") else None
        base = base or next((part["folder"] for name in INPUTS if (part := self.sections.get(name))), None)
        test = self.sections.get("data", {}).get("test")
        return damage(
            self.kind,
            Path(self.folder),
            base=Path(base) if base else None,
            test=Path(test) if test else None,
        )


@dataclass(frozen=True)
class Entry:
    """One run of the study (arm, budget, seed) and the job that makes it."""

    arm: str
    budget: str
    labels: int
    seed: int
    job: str
    base: str | None = None
    """The job that pre-trains or adapts its base."""


@dataclass(frozen=True)
class Plan:
    """All jobs per id, in the order in which they are run, and the runs that they make."""

    jobs: dict[str, Job]
    entries: list[Entry]
    metric: str = DEFAULT_METRIC
    """What is compared, and what chooses epochs and the strength of TF-IDF."""
    answers: Mapping[str, Answers] = field(default_factory=dict)
    """Per arm that is another system: its file of answers, read and checked."""

    def as_json(self) -> dict[str, Any]:
        """The content of `plan.json`; it has folder names without paths, so that a study can be moved."""
        jobs = {id: {**asdict(job), "folder": Path(job.folder).name, "sections": None} for id, job in self.jobs.items()}
        return {"metric": self.metric, "jobs": jobs, "entries": [asdict(entry) for entry in self.entries]}
