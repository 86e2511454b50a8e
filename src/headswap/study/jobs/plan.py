"""Plan a study: arms x budgets x seeds as a list of jobs, each identified by its content.

A job's id is a hash of its settings, of the defaults behind settings that are not given, of the rows it reads and of
the jobs it needs, never of paths or machines. So the same job is found again after a kill, and a changed setting or
default makes new jobs and keeps the others. Nothing is run here (see executors/job_queue.py).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headswap.baselines.lsa_space import VERSION as SPACE_VERSION
from headswap.core.errors import InputError
from headswap.core.installed_bases import PREFIX, is_boxed
from headswap.core.local_paths import CHECKPOINT
from headswap.core.settings import load_recipe
from headswap.data.config import ReadSettings
from headswap.defaults.finetuning import SCRATCH_HOLD_OUT_FROM, values_behind_finetuning, with_scratch_settings
from headswap.defaults.pretraining import values_behind_adaptation, values_behind_pretraining
from headswap.finetuning.config import FinetuneRecipe, StartSettings
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.registry import OBJECTIVES
from headswap.study.jobs.answer_runs import VERSION as ANSWERS_VERSION
from headswap.study.jobs.answer_runs import predictions_digest
from headswap.study.jobs.embeddings import VERSION as EMBEDDINGS_VERSION
from headswap.study.jobs.job_id import bundle_content, job_id, recipe_content
from headswap.study.jobs.planned_jobs import Entry, Job, Plan
from headswap.study.jobs.trials import trial_factors
from headswap.study.setup.answer_file import SINGLE, Answers
from headswap.study.setup.arm_bases import base_of
from headswap.study.setup.arms import ADAPTED, LINEAR, OF_BASE, SCRATCH, Arm, Sections, baselines_of, needs_space
from headswap.study.setup.budgets import data_section, usable_budgets
from headswap.study.setup.config import ALL, StudyRecipe
from headswap.study.setup.prepare import Prepared
from headswap.study.setup.row_files import CORPUS, TEXTS
from headswap.study.setup.unlabelled_sample import FILE as SAMPLE_FILE
from headswap.study.setup.unlabelled_sample import VERSION as SAMPLE_VERSION
from headswap.tasks.choose import DEFAULT_TASK, named_task
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import is_store
from headswap.tokens.tokenizer import Tokenizer

WITHOUT_TOKENIZER = ("answers", "baseline", "bundle", ADAPTED)
"""Where arms start that need no tokenizer of the study."""


def make_plan(
    recipe: StudyRecipe,
    arms: list[Arm],
    prepared: Prepared,
    out: Path,
    *,
    answers: Mapping[str, Answers] | None = None,
) -> Plan:
    """The jobs of a study, seed by seed, so that at a deadline whole seeds are left out.

    `answers` are those of every arm that is another system.
    """
    return _Planner(recipe, arms, prepared, out, answers or {}).plan()


class _Planner:
    def __init__(
        self, recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, out: Path, answers: Mapping[str, Answers]
    ) -> None:
        self.recipe, self.arms, self.prepared, self.out = recipe, arms, prepared, out.resolve()
        self.answers, self.task = answers, named_task(recipe.data.task)
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
        entries: list[Entry] = []
        for seed in range(1, recipe.study.seeds + 1):
            base_seed = (seed - 1) % recipe.study.base_seeds + 1
            bases = {arm.name: self._base(arm, base_seed, tokenizer_id) for arm in self.arms if arm.start == "base"}
            bases |= {arm.name: self._adapted(arm, base_seed) for arm in self.arms if arm.start == ADAPTED}
            bases |= {
                arm.name: made for arm in self.arms if arm.of and (made := self._made(arm.of, base_seed, tokenizer_id))
            }
            for budget in budgets:
                for arm in self.arms:
                    if arm.start == "answers":
                        entries += self._answers(arm, budget, seed)
                        continue
                    base = bases.get(arm.name)
                    if arm.start == "baseline":
                        job = self._baseline(arm, budget, seed)
                    elif arm.start == LINEAR:
                        job = self._linear(arm, budget, seed, base)
                    else:
                        job = self._finetune(arm, budget, seed, base, tokenizer_id)
                    labels = self.prepared.num_labels(budget)
                    entries.append(Entry(arm.name, budget, labels, seed, job.id, base.id if base else None))
        jobs = dict(sorted(self.jobs.items(), key=lambda item: item[1].stage))
        return Plan(jobs, entries, recipe.study.metric, self.answers)

    def _answers(self, arm: Arm, budget: str, seed: int) -> list[Entry]:
        """The run of another system at a budget and seed; one with one answer per text has one run per budget."""
        found = []
        labels = self.prepared.num_labels(budget)
        for cell, predictions in self.answers[arm.name].cells.items():
            if cell[0] not in (None, budget) or cell[1] not in (seed, *([SINGLE] if seed == 1 else [])):
                continue
            of_cell = [str(labels)] if cell[0] is not None else []
            of_cell += [f"seed{seed}"] if cell[1] != SINGLE else []
            name = "-".join([arm.name, *of_cell])
            content = [arm.name, ANSWERS_VERSION, self.prepared.digests["test"], predictions_digest(predictions)]
            more = {"arm": arm.name, "labels": labels if cell[0] is not None else None, "seed": cell[1]}
            job = self._add("answers", name, [*content, *cell], {"data": {"test": self.prepared.test}}, **more)
            found.append(Entry(arm.name, budget, labels, cell[1], job.id))
        return found

    def _tokenizer(self) -> tuple[str | None, str | None]:
        """The tokenizer that scratch arms and bases share, and the job that trains it."""
        named = self.recipe.tokenizer.tokenizer
        if named is not None:
            return named if is_boxed(named) else str(Path(os.path.expanduser(named)).resolve()), None
        sources = self.prepared.corpus
        if len(sources) == 1 and is_store(sources[0]):
            return sources[0], None
        if not sources or all((arm.of or arm).start in WITHOUT_TOKENIZER for arm in self.arms):
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
        objective = OBJECTIVES.load(recipe.training.objective)
        if objective.masks_tokens:
            own = sections.get("masking", {})
            sections["masking"] = self.recipe.masking.model_dump(mode="json", exclude_unset=True) | own
            recipe = load_recipe(PretrainRecipe, None, sections)
        recipe.training.check()
        tokenizer = self._tokenizer_content(tokenizer_id)
        resolved = recipe.changed(masking=objective.masking_of(recipe.masking))
        content = [recipe_content(resolved), self.prepared.digests["corpus"], self._reading(), tokenizer]
        content.append(values_behind_pretraining())
        needs = (tokenizer_id,) if tokenizer_id else ()
        name = "base" if recipe.training.objective == "causal" else f"base-{recipe.training.objective}"
        return self._add("pretrain", f"{name}-seed{base_seed}", content, sections, needs=needs, seed=base_seed)

    def _adapted(self, arm: Arm, base_seed: int) -> Job:
        """The job that trains an existing base on the corpus and on the training texts that are not in it."""
        assert arm.bundle is not None
        training = self.recipe.adapt.model_dump(exclude_unset=True) | {"seed": base_seed}
        if self.recipe.study.max_length is not None:
            training.setdefault("max_length", self.recipe.study.max_length)
        texts, digests = self._texts()
        sections: Sections = {
            "corpus": texts,
            "model": {"base": arm.bundle},
            "training": training,
            "machine": self.machine,
        }
        recipe = load_recipe(AdaptRecipe, None, sections)
        recipe.training.check()
        start = [bundle_content(arm.bundle), digests, self._reading()]
        content = [recipe_content(recipe), start, values_behind_adaptation()]
        base = arm.bundle.removeprefix(PREFIX) if is_boxed(arm.bundle) else base_of(arm.name).removeprefix(OF_BASE)
        base = base.removeprefix(CHECKPOINT)
        return self._add("adapt", f"adapted-{base}-seed{base_seed}", content, sections, seed=base_seed)

    def _texts(self) -> tuple[dict[str, Any], list[str]]:
        """The corpus and the training texts that are not in it, as a section of a job, and their digests."""
        has_texts = self.prepared.num_rows[TEXTS] > 0
        sources = (*self.prepared.corpus, *([self.prepared.texts] if has_texts else []))
        if not sources:
            raise InputError(
                "Nothing is left for an adaptation to read: there is no corpus, and every training text is also in "
                "test or validation. Give --corpus, or leave the adapted arms out with --arms."
            )
        digests = [self.prepared.digests[role] for role in (CORPUS, *([TEXTS] if has_texts else []))]
        return {**self.corpus, "corpus": sources}, digests

    def _sample(self) -> Job:
        """The job that draws the texts for consistency training, once per study."""
        texts, digests = self._texts()
        return self._add("sample", "unlabelled", [SAMPLE_VERSION, digests, self._reading()], {"corpus": texts})

    def _made(self, arm: Arm, base_seed: int, tokenizer_id: str | None) -> Job | None:
        """The job that makes the base of an arm; None for an existing base."""
        if arm.start == "bundle":
            return None
        return self._adapted(arm, base_seed) if arm.start == ADAPTED else self._base(arm, base_seed, tokenizer_id)

    def _embeddings(self, arm: Arm, base: Job | None) -> Job:
        """The job that computes the vectors of all rows with a base, for all budgets and seeds."""
        assert arm.of is not None
        place = base.folder if base else arm.of.bundle
        assert place is not None
        start: Any = base.id if base else bundle_content(place)
        settings = {"pooling": self.recipe.head.pooling, "max_length": self.max_length}
        data = self._data(ALL)
        sections: Sections = {"data": data, "model": {"base": place}, "embed": settings, "machine": self.machine}
        content = [EMBEDDINGS_VERSION, start, self._rows_content(ALL), settings]
        name = f"vectors-{Path(place).name if base else arm.of.name}"
        return self._add("embed", name, content, sections, needs=(base.id,) if base else ())

    def _linear(self, arm: Arm, budget: str, seed: int, base: Job | None) -> Job:
        """The linear model on the vectors; each seed has a job, as its labels have the split of that seed."""
        embeddings = self._embeddings(arm, base)
        sections: Sections = {
            "data": self._data(budget),
            "training": {"seed": seed} | self._metric(),
            "embeddings": {"folder": embeddings.folder},
        }
        rows = self._rows_content(budget)
        content: list[Any] = [EMBEDDINGS_VERSION, embeddings.id, rows, budget, seed, self._metric()]
        if self.task.name != DEFAULT_TASK:  # ids of earlier versions, which had no other task, stay the same
            content.append({"task": self.task.name})
        labels = self.prepared.num_labels(budget)
        name = f"{arm.name}-{labels}-seed{seed}"
        return self._add(
            "linear", name, content, sections, needs=(embeddings.id,), arm=arm.name, labels=labels, seed=seed
        )  # fmt: skip

    def _tokenizer_content(self, tokenizer_id: str | None) -> Any:
        """The fingerprint of a given tokenizer or of that of a token store; else the settings to train one."""
        if self.tokenizer is None or tokenizer_id is not None:
            return self.recipe.tokenizer.model_dump()
        return Tokenizer.load(self.tokenizer).fingerprint

    def _data(self, budget: str) -> dict[str, Any]:
        return data_section(self.recipe, self.prepared, budget)

    def _rows_content(self, budget: str) -> list[str | None]:
        digests = self.prepared.digests
        return [digests["train"], digests["test"], digests.get("validation") if budget == ALL else None]

    def _metric(self) -> dict[str, str]:
        """The metric as a setting of fine-tuning and baselines, if it is not the default."""
        metric = self.recipe.study.metric
        return {} if metric == self.task.study_metrics[0] else {"metric": metric}

    def _baseline(self, arm: Arm, budget: str, seed: int) -> Job:
        is_whole = budget == ALL  # the same labels for all seeds: one job is enough
        sections: Sections = {"data": self._data(budget), "training": {} if is_whole else {"seed": seed}}
        version = baselines_of(self.recipe.data.task).load(arm.name).version
        needs: tuple[str, ...] = ()
        content = [arm.name, version, self._rows_content(budget), budget, None if is_whole else seed]
        if needs_space(arm):
            space = self._space()
            sections["space"], needs = {"folder": space.folder}, (space.id,)
            content.append(space.id)
        if metric := self._metric():
            sections["training"] |= metric
            content.append(metric)
        labels = self.prepared.num_labels(budget)
        name = f"{arm.name}-{labels}" if is_whole else f"{arm.name}-{labels}-seed{seed}"
        return self._add("baseline", name, content, sections, needs=needs, arm=arm.name, labels=labels, seed=seed)

    def _space(self) -> Job:
        """The job that fits a space of texts on the corpus, once per study."""
        content = [SPACE_VERSION, self.prepared.digests["corpus"], self._reading()]
        return self._add("space", "lsa-space", content, {"corpus": self.corpus})

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
            own = {"dropout": recipe.finetune.dropout} if "dropout" in recipe.finetune.model_fields_set else {}
            sections["model"] = {"base": SCRATCH, **known, **own}
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
        labels = self.prepared.num_labels(budget)
        trials = trial_factors(
            recipe.study.trials, labels, has_validation="validation" in sections["data"],
            hold_out_from=recipe.data.hold_out_from,
        )  # fmt: skip
        if arm.start == SCRATCH:
            sections = with_scratch_settings(sections)
            if len(trials) == 1 and self._scratch_needs_no_validation(sections):
                sections["data"].setdefault("hold_out_from", SCRATCH_HOLD_OUT_FROM)
            default = {"dropout": recipe.finetune.dropout, "preset": recipe.model.preset}
            sections["model"] = default | sections["model"]
        content = [recipe_content(load_recipe(FinetuneRecipe, None, sections)), self._rows_content(budget), start]
        content.append(values_behind_finetuning(labels, len(self.prepared.labels)))
        if self.task.version > 1:
            content.append({"task": self.task.version})
        if len(trials) == 1:
            trials = ()
        else:
            content.append({"trials": trials})
        if arm.is_consistent:
            sample = self._sample()
            sections["consistency"] = {"unlabelled": (str(Path(sample.folder) / SAMPLE_FILE),)}
            needs = (*needs, sample.id)
            content.append({"unlabelled": sample.id})
        name = f"{arm.name}-{labels}-seed{seed}"
        return self._add(
            "finetune", name, content, sections, needs=needs, arm=arm.name, labels=labels, seed=seed, trials=trials
        )

    def _scratch_needs_no_validation(self, sections: Sections) -> bool:
        """Whether scratch may use all its labels for training: other tasks, the lab and some settings need the rest."""
        is_classify = self.recipe.data.task in (None, DEFAULT_TASK)
        needs = any(sections["training"].get(name) for name in ("calibrate", "early_stopping_patience"))
        return is_classify and not needs and sections["model"].get("preset") != "lab"

    def _add(self, kind: str, name: str, content: Any, sections: Sections, **more: Any) -> Job:
        id = job_id(kind, content)
        folder = self.out / "runs" / f"{re.sub(r'[^A-Za-z0-9_.+-]', '_', name)}-{id[:8]}"
        reads = {*sections.get("data", {}), *({CORPUS} & sections.keys())}
        if self.prepared.texts in sections.get(CORPUS, {}).get(CORPUS, ()):
            reads.add(TEXTS)
        digests = {role: digest for role, digest in self.prepared.digests.items() if role in reads}
        return self.jobs.setdefault(id, Job(id, kind, name, str(folder), sections, **more, digests=digests))


def _merged(sections: Sections, changes: Mapping[str, Mapping[str, Any]]) -> Sections:
    """The sections with an arm's changes."""
    result = {name: dict(values) for name, values in sections.items()}
    for name, values in changes.items():
        result[name] = result.get(name, {}) | dict(values)
    return result
