"""Initialize a study: check everything that can be checked before training, then write its data, recipe and plan.

Data, budgets, arms, bases and the tokenizer are checked while the new data are in a temporary folder. An error leaves
every byte of a study that is already in the folder unchanged.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from headswap.core.errors import SettingError
from headswap.core.files import atomic_folder, write_json
from headswap.core.installed_bases import is_boxed
from headswap.core.lock import FolderLock
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.model.shape import DEFAULT_PRESET
from headswap.pretraining.config import PretrainRecipe
from headswap.study.arms import SCRATCH, Arm
from headswap.study.config import ALL, StudyRecipe
from headswap.study.design import record_design
from headswap.study.folder import (
    DATA,
    DATA_LAYOUT,
    PLAN,
    RECIPE,
    check_corpus_outside,
    check_replaceable,
    holds_study,
    replacement,
)
from headswap.study.plan import Job, Plan, make_plan, usable_budgets
from headswap.study.prepare import Prepared, find_prepared, prepare

log = logging.getLogger("headswap")


def initialize(
    recipe: StudyRecipe, arms: list[Arm], out: Path, lock: FolderLock, *, overwrite: bool
) -> tuple[Prepared, Plan]:
    """Prepare and plan a study in a locked folder; with `overwrite` it replaces the study that is there."""
    check_corpus_outside(out, recipe.study.corpus)
    if holds_study(out, overwrite=overwrite) and overwrite:
        check_replaceable(out, _inputs(recipe, arms))
        with replacement(out, lock) as folder:
            prepared = prepare(recipe, out, staged=folder / DATA)
            plan = _checked_plan(recipe, arms, prepared, out)
            _write(recipe, arms, prepared, plan, folder)
        return prepared, plan
    if found := find_prepared(recipe, out):
        prepared, plan = found, _checked_plan(recipe, arms, found, out)
    else:
        with atomic_folder(out.resolve() / DATA, DATA_LAYOUT) as folder:
            prepared = prepare(recipe, out, staged=folder)
            plan = _checked_plan(recipe, arms, prepared, out)
    _write(recipe, arms, prepared, plan, out)
    return prepared, plan


def _write(recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, plan: Plan, folder: Path) -> None:
    """Save the recipe with the budgets that fit the training set, the plan, and the planned tests."""
    fit, _ = usable_budgets(recipe, prepared)
    recipe.changed(study=recipe.study.changed(budgets=tuple(fit))).save(folder / RECIPE)
    write_json(folder / PLAN, plan.as_json())
    record_design(recipe, [arm.name for arm in arms], folder)


def _inputs(recipe: StudyRecipe, arms: list[Arm]) -> list[str]:
    """Every file and folder that the study reads, as given in the settings."""
    data = recipe.data
    files = [data.train, data.validation, data.test, data.label_file, data.validation_label_file, data.test_label_file]
    names = [*files, *recipe.study.corpus, recipe.tokenizer.tokenizer, *(arm.bundle for arm in arms)]
    return [name for name in names if name]


def _checked_plan(recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, out: Path) -> Plan:
    _, over = usable_budgets(recipe, prepared)
    for budget in over:
        log.warning(
            "The budget of %s labels is left out: the training set has only %d.", budget, prepared.num_rows["train"]
        )
    _check_budgets(recipe, prepared)
    _check_tokenizer(recipe)
    plan = make_plan(recipe, arms, prepared, out)
    _check_jobs(plan.jobs.values())
    return plan


def _check_budgets(recipe: StudyRecipe, prepared: Prepared) -> None:
    """Refuse budgets with fewer labels than classes: every such job would fail."""
    least = len(prepared.labels)
    if small := [budget for budget in recipe.study.budgets if budget != ALL and int(budget) < least]:
        raise SettingError(
            f"A budget of {small[0]} labels is too small for one label of each of the {least} classes. "
            f"Use --budgets with {least} or more."
        )


def _check_tokenizer(recipe: StudyRecipe) -> None:
    from headswap.tokens.tokenizer import Tokenizer

    if (named := recipe.tokenizer.tokenizer) is not None:
        Tokenizer.load(named if is_boxed(named) else Path(os.path.expanduser(named)))


def _check_jobs(jobs: Iterable[Job]) -> None:
    """Check the settings and the base of one job per arm; they are the same for all seeds and budgets."""
    seen: set[tuple[str, str]] = set()
    for job in jobs:
        key = (job.kind, job.arm or job.name)
        if key in seen or job.kind not in ("pretrain", "finetune"):
            continue
        seen.add(key)
        try:
            _check_pretraining(job) if job.kind == "pretrain" else _check_finetuning(job)
        except SettingError as problem:
            raise SettingError(f"'{job.arm or job.name}' cannot be trained: {problem}") from None


def _check_pretraining(job: Job) -> None:
    recipe = load_recipe(PretrainRecipe, None, job.sections)
    recipe.model.shape(vocab_size=1, max_length=recipe.training.max_length)


def _check_finetuning(job: Job) -> None:
    recipe = load_recipe(FinetuneRecipe, None, job.sections)
    length = recipe.training.max_length
    is_scratch = recipe.model.base == SCRATCH
    recipe.adaptation.check(is_scratch=is_scratch)
    if is_scratch:
        recipe.model.laid_over(recipe.model.preset or DEFAULT_PRESET, vocab_size=1, max_length=length)
    elif not job.needs:  # a base that the study does not pre-train
        from headswap.bundle.bundle import Bundle  # imports torch

        assert recipe.model.base is not None
        bundle = Bundle.load(recipe.model.base)
        if length is not None and length > bundle.max_length:
            raise SettingError(
                f"max_length is {length}, but the base {recipe.model.base} takes at most {bundle.max_length} tokens."
            )
