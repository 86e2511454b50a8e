"""Plan a study: arms x budgets x seeds as a list of jobs, each identified by its content.

A job's id is a hash of its settings, of the defaults behind settings that are not given, of the rows it reads and of
the jobs it needs, never of paths or machines. So the same job is found again after a kill, and a changed setting or
default makes new jobs and keeps the others. Nothing is run here (see executor.py).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headswap.baselines.classify import METRIC as DEFAULT_METRIC
from headswap.baselines.classify import VERSION as BASELINE_VERSION
from headswap.core.errors import SettingError, counted
from headswap.core.installed_bases import is_boxed
from headswap.core.settings import load_recipe
from headswap.data.config import ReadSettings
from headswap.defaults import values_behind_finetuning, values_behind_pretraining
from headswap.finetuning.config import FinetuneRecipe, StartSettings
from headswap.pretraining.config import PretrainRecipe
from headswap.registry import OBJECTIVES
from headswap.study.arms import SCRATCH, Arm, Sections
from headswap.study.config import ALL, StudyRecipe
from headswap.study.job_id import bundle_content, job_id, recipe_content
from headswap.study.job_outputs import damage, has_finished
from headswap.study.prepare import Prepared
from headswap.study.row_files import CORPUS, GROUP
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import is_store
from headswap.tokens.tokenizer import Tokenizer

STAGES = {"probe": 0, "tokenizer": 0, "pretrain": 1, "baseline": 2, "finetune": 2}


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

    @property
    def stage(self) -> int:
        """Tokenizer 0, pre-training 1, fine-tuning and baselines 2."""
        return STAGES[self.kind]

    @property
    def is_done(self) -> bool:
        """Whether it has finished and its outputs are intact."""
        return has_finished(Path(self.folder)) and self.damage is None

    @property
    def damage(self) -> str | None:
        """What is wrong with its folder, so that it must be run again; None if nothing is."""
        base = self.sections.get("model", {}).get("base") if self.kind == "finetune" and self.needs else None
        test = self.sections.get("data", {}).get("test")
        return damage(
            self.kind,
            Path(self.folder),
            base=Path(base) if base and base != SCRATCH else None,
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
    """The job that pre-trains its base."""


@dataclass(frozen=True)
class Plan:
    """All jobs per id, in the order in which they are run, and the runs that they make."""

    jobs: dict[str, Job]
    entries: list[Entry]
    metric: str = DEFAULT_METRIC
    """What is compared, and what chooses epochs and the strength of TF-IDF."""

    def as_json(self) -> dict[str, Any]:
        """The content of `plan.json`; it has folder names without paths, so that a study can be moved."""
        jobs = {id: {**asdict(job), "folder": Path(job.folder).name, "sections": None} for id, job in self.jobs.items()}
        return {"metric": self.metric, "jobs": jobs, "entries": [asdict(entry) for entry in self.entries]}


def make_plan(recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, out: Path) -> Plan:
    """The jobs of a study, seed by seed, so that at a deadline whole seeds are left out."""
    return _Planner(recipe, arms, prepared, out).plan()


def usable_budgets(recipe: StudyRecipe, prepared: Prepared) -> tuple[list[str], list[str]]:
    """Budgets that fit the training set, and those that are too large; the latter are an error if set explicitly."""
    most = prepared.num_rows["train"]
    fit = [budget for budget in recipe.study.budgets if budget == ALL or int(budget) <= most]
    over = [budget for budget in recipe.study.budgets if budget not in fit]
    if ALL in fit and str(prepared.num_labels(ALL)) in fit:
        fit.remove(ALL)
    if over and ("budgets" in recipe.study.model_fields_set or not fit):
        raise SettingError(
            f"A budget of {int(over[0]):,} labels is too large: the training set has {counted(most, 'example')}. "
            "Give smaller --budgets, or all."
        )
    return fit, over


class _Planner:
    def __init__(self, recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, out: Path) -> None:
        self.recipe, self.arms, self.prepared, self.out = recipe, arms, prepared, out.resolve()
        self.jobs: dict[str, Job] = {}
        self.machine = recipe.machine.model_dump(exclude_unset=True)
        study = recipe.study
        reading = ReadSettings() if CORPUS in prepared.dropped else ReadSettings(
            documents=study.documents, text_column=study.corpus_text_column
        )  # fmt: skip
        self.corpus = {"corpus": prepared.corpus, **reading.model_dump(exclude_defaults=True)}
        own = recipe.finetune.max_length
        self.max_length = own or study.max_length or recipe.pretrain.max_length

    def plan(self) -> Plan:
        recipe = self.recipe
        budgets, _ = usable_budgets(recipe, self.prepared)
        self.tokenizer, tokenizer_id = self._tokenizer()
        entries = []
        for seed in range(1, recipe.study.seeds + 1):
            base_seed = (seed - 1) % recipe.study.base_seeds + 1
            bases = {arm.name: self._base(arm, base_seed, tokenizer_id) for arm in self.arms if arm.start == "base"}
            for budget in budgets:
                for arm in self.arms:
                    base = bases.get(arm.name)
                    job = (
                        self._baseline(arm, budget, seed)
                        if arm.start == "baseline"
                        else self._finetune(arm, budget, seed, base, tokenizer_id)
                    )
                    labels = self.prepared.num_labels(budget)
                    entries.append(Entry(arm.name, budget, labels, seed, job.id, base.id if base else None))
        return Plan(dict(sorted(self.jobs.items(), key=lambda item: item[1].stage)), entries, recipe.study.metric)

    def _tokenizer(self) -> tuple[str | None, str | None]:
        """The tokenizer that scratch arms and bases share, and the job that trains it."""
        named = self.recipe.tokenizer.tokenizer
        if named is not None:
            return named if is_boxed(named) else str(Path(os.path.expanduser(named)).resolve()), None
        sources = self.prepared.corpus
        if len(sources) == 1 and is_store(sources[0]):
            return sources[0], None
        if not sources or all(arm.start in ("baseline", "bundle") for arm in self.arms):
            return None, None
        settings = self.recipe.tokenizer.model_dump(exclude_unset=True)
        content = [TokenizerSettings(**settings).model_dump(), self.prepared.digests["corpus"], self._reading()]
        job = self._add("tokenizer", "tokenizer", content, {"corpus": self.corpus, "tokenizer": settings})
        return str(Path(job.folder) / "tokenizer.json"), job.id

    def _reading(self) -> dict[str, Any]:
        return {name: value for name, value in self.corpus.items() if name != "corpus"}

    def _base(self, arm: Arm, base_seed: int, tokenizer_id: str | None) -> Job:
        training = self.recipe.pretrain.model_dump(exclude_unset=True) | {"seed": base_seed}
        if self.recipe.study.max_length is not None:
            training.setdefault("max_length", self.recipe.study.max_length)
        sections: Sections = {
            "corpus": self.corpus,
            "tokenizer": {"tokenizer": self.tokenizer},
            "model": self.recipe.model.model_dump(exclude_unset=True),
            "training": training,
            "machine": self.machine,
        }
        sections = _merged(sections, arm.pretrain)
        recipe = load_recipe(PretrainRecipe, None, sections)
        if OBJECTIVES.load(recipe.training.objective).masks_tokens:
            own = sections.get("masking", {})
            sections["masking"] = self.recipe.masking.model_dump(mode="json", exclude_unset=True) | own
            recipe = load_recipe(PretrainRecipe, None, sections)
        recipe.training.check()
        tokenizer = self._tokenizer_content(tokenizer_id)
        content = [recipe_content(recipe), self.prepared.digests["corpus"], self._reading(), tokenizer]
        content.append(values_behind_pretraining())
        needs = (tokenizer_id,) if tokenizer_id else ()
        name = "base" if recipe.training.objective == "causal" else f"base-{recipe.training.objective}"
        return self._add("pretrain", f"{name}-seed{base_seed}", content, sections, needs=needs, seed=base_seed)

    def _tokenizer_content(self, tokenizer_id: str | None) -> Any:
        """The fingerprint of a given tokenizer or of that of a token store; else the settings to train one."""
        if self.tokenizer is None or tokenizer_id is not None:
            return self.recipe.tokenizer.model_dump()
        return Tokenizer.load(self.tokenizer).fingerprint

    def _data(self, budget: str) -> dict[str, Any]:
        """Budget all has train and validation as given; other budgets are drawn from train, a fifth for validation."""
        prepared = self.prepared
        data: dict[str, Any] = {"train": prepared.train, "test": prepared.test}
        if self.recipe.data.group_column is not None:
            data["group_column"] = GROUP
        if budget != ALL:
            return data | {"num_train": int(budget)}
        return data | ({"validation": prepared.validation} if prepared.validation else {})

    def _rows_content(self, budget: str) -> list[str | None]:
        digests = self.prepared.digests
        return [digests["train"], digests["test"], digests.get("validation") if budget == ALL else None]

    def _metric(self) -> dict[str, str]:
        """The metric as a setting of fine-tuning and baselines, if it is not the default."""
        metric = self.recipe.study.metric
        return {} if metric == DEFAULT_METRIC else {"metric": metric}

    def _baseline(self, arm: Arm, budget: str, seed: int) -> Job:
        is_whole = budget == ALL  # the same labels for all seeds: one job is enough
        sections: Sections = {"data": self._data(budget), "training": {} if is_whole else {"seed": seed}}
        content = [arm.name, BASELINE_VERSION, self._rows_content(budget), budget, None if is_whole else seed]
        if metric := self._metric():
            sections["training"] |= metric
            content.append(metric)
        labels = self.prepared.num_labels(budget)
        name = f"{arm.name}-{labels}" if is_whole else f"{arm.name}-{labels}-seed{seed}"
        return self._add("baseline", name, content, sections, arm=arm.name, labels=labels, seed=seed)

    def _finetune(self, arm: Arm, budget: str, seed: int, base: Job | None, tokenizer_id: str | None) -> Job:
        recipe = self.recipe
        training = recipe.finetune.model_dump(exclude_unset=True, exclude={"dropout"})
        training = (
            self._metric() | training | {"seed": seed} | ({"max_length": self.max_length} if self.max_length else {})
        )
        sections: Sections = {
            "data": self._data(budget),
            "model": {"dropout": recipe.finetune.dropout},
            "head": recipe.head.model_dump(exclude_unset=True),
            "training": training,
            "machine": self.machine,
        }
        needs: tuple[str, ...] = ()
        start: Any = SCRATCH
        if arm.start == SCRATCH:
            shape = recipe.model.model_dump(exclude_unset=True, exclude={"dropout"})
            known = {name: value for name, value in shape.items() if name in StartSettings.model_fields}
            sections["model"] |= {"base": SCRATCH, "preset": recipe.model.preset, **known}
            given = {"tokenizer": self.tokenizer} if self.tokenizer else recipe.tokenizer.model_dump(exclude_unset=True)
            sections["tokenizer"] = given
            needs = (tokenizer_id,) if tokenizer_id else ()
            start = [SCRATCH, tokenizer_id or self._tokenizer_content(None)]
        elif base is not None:
            sections["model"]["base"] = base.folder
            needs, start = (base.id,), base.id
        else:
            assert arm.bundle is not None
            sections["model"]["base"] = arm.bundle
            start = bundle_content(arm.bundle)
        if arm.start != SCRATCH:
            sections["adaptation"] = recipe.adaptation.model_dump(mode="json", exclude_unset=True)
        sections = _merged(sections, arm.finetune)
        content = [recipe_content(load_recipe(FinetuneRecipe, None, sections)), self._rows_content(budget), start]
        content.append(values_behind_finetuning())
        labels = self.prepared.num_labels(budget)
        name = f"{arm.name}-{labels}-seed{seed}"
        return self._add(
            "finetune", name, content, sections, needs=needs, arm=arm.name, labels=labels, seed=seed
        )  # fmt: skip

    def _add(self, kind: str, name: str, content: Any, sections: Sections, **more: Any) -> Job:
        id = job_id(kind, content)
        folder = self.out / "runs" / f"{re.sub(r'[^A-Za-z0-9_.+-]', '_', name)}-{id[:8]}"
        reads = {*sections.get("data", {}), *({CORPUS} & sections.keys())}
        digests = {role: digest for role, digest in self.prepared.digests.items() if role in reads}
        return self.jobs.setdefault(id, Job(id, kind, name, str(folder), sections, **more, digests=digests))


def _merged(sections: Sections, changes: Mapping[str, Mapping[str, Any]]) -> Sections:
    """The sections with an arm's changes."""
    result = {name: dict(values) for name, values in sections.items()}
    for name, values in changes.items():
        result[name] = result.get(name, {}) | dict(values)
    return result
