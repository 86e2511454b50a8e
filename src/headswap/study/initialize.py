"""Initialize a study: check everything that can be checked before training, then write its data, recipe and plan.

Data, budgets, arms, bases and the tokenizer are checked while the new data are in a temporary folder. An error leaves
every byte of a study that is already in the folder unchanged.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import HeadswapError, InputError, SettingError, counted
from headswap.core.files import read_json, write_json
from headswap.core.installed_bases import is_boxed
from headswap.core.lock import FolderLock
from headswap.core.settings import load_recipe
from headswap.data.config import FEWEST_FOR_CHOOSING
from headswap.defaults.finetuning import pair_encoding
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import num_for_choosing
from headswap.finetuning.starting_point import knows_pairs
from headswap.model.shape import DEFAULT_PRESET
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.study.jobs.answer_runs import read_arm_answers
from headswap.study.jobs.plan import make_plan
from headswap.study.jobs.planned_jobs import Job, Plan
from headswap.study.setup.arms import SCRATCH, Arm, saved_name
from headswap.study.setup.budgets import usable_budgets
from headswap.study.setup.config import ALL, StudyRecipe
from headswap.study.setup.folder import (
    DATA,
    DATA_FILES,
    PLAN,
    RECIPE,
    check_corpus_outside,
    check_replaceable,
    holds_study,
    replacement,
)
from headswap.study.setup.prepare import Prepared, find_prepared, prepare, rows_file
from headswap.study.statistics.design import record_design
from headswap.tasks.choose import named_task

if TYPE_CHECKING:
    from headswap.bundle.bundle import Bundle

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
            plan = _checked_plan(recipe, arms, prepared, out, folder / DATA)
            _write(recipe, arms, prepared, plan, folder)
        return prepared, plan
    if found := find_prepared(recipe, out):
        prepared, plan = found, _checked_plan(recipe, arms, found, out, out / DATA)
        _check_same_study(recipe, plan, out)
    else:
        with atomic_folder(out.resolve() / DATA, DATA_FILES) as folder:
            prepared = prepare(recipe, out, staged=folder)
            plan = _checked_plan(recipe, arms, prepared, out, folder)
            _check_same_study(recipe, plan, out)
    _write(recipe, arms, prepared, plan, out)
    return prepared, plan


def _write(recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, plan: Plan, folder: Path) -> None:
    """Save the recipe with the budgets that fit the training set, the plan, and the planned tests."""
    _log_repeated_jobs(plan, folder)
    fit, _ = usable_budgets(recipe, prepared)
    names = tuple(map(saved_name, recipe.study.arms or ()))
    recipe.changed(study=recipe.study.changed(budgets=tuple(fit), arms=names)).save(folder / RECIPE)
    write_json(folder / PLAN, plan.as_json())
    record_design(recipe, [arm.name for arm in arms], folder)


def _check_same_study(recipe: StudyRecipe, plan: Plan, folder: Path) -> None:
    """Refuse to continue a study of another task, or of another training and another test set, in its folder."""
    try:
        before = read_json(folder / PLAN)["jobs"].values() if (folder / PLAN).exists() else ()
        digests = [job["digests"] for job in before if {"train", "test"} <= set(job["digests"])]
        task = load_recipe(StudyRecipe, folder / RECIPE).data.task if digests else None
    except (HeadswapError, KeyError, TypeError):  # they are written anew
        return
    now = [job.digests for job in plan.jobs.values() if {"train", "test"} <= set(job.digests)]
    if not digests or not now:
        return
    is_other_task = named_task(task).name != named_task(recipe.data.task).name
    has_other_data = all(
        {one[name] for one in digests}.isdisjoint(one[name] for one in now) for name in ("train", "test")
    )
    if is_other_task or has_other_data:
        what = f"the task {named_task(task).name}" if is_other_task else "another training set and another test set"
        raise SettingError(
            f"--out {folder} holds a study of {what}. Choose another folder, or replace the study with --overwrite."
        )


def _log_repeated_jobs(plan: Plan, folder: Path) -> None:
    """State how many jobs of the plan in the folder have other settings now; their former results are not used."""
    try:
        before = read_json(folder / PLAN)["jobs"] if (folder / PLAN).exists() else {}
        names = {job.name for job in plan.jobs.values()}
        changed = [id for id, one in before.items() if id not in plan.jobs and one["name"] in names]
    except (InputError, KeyError, TypeError):  # it is written anew
        return
    if changed:
        verb = "is" if len(changed) == 1 else "are"
        log.info("%s of this study %s run again: settings or versions changed.", counted(len(changed), "job"), verb)


def _inputs(recipe: StudyRecipe, arms: list[Arm]) -> list[str]:
    """Every file and folder that the study reads, as given in the settings."""
    data = recipe.data
    files = [data.train, data.validation, data.test, data.label_file, data.validation_label_file, data.test_label_file]
    names = [*files, *recipe.study.corpus, recipe.tokenizer.tokenizer, *map(_reads, arms)]
    return [name for name in names if name]


def _reads(arm: Arm) -> str | None:
    """The base or the file of answers of an arm."""
    return (arm.of or arm).bundle or arm.answers


def _checked_plan(recipe: StudyRecipe, arms: list[Arm], prepared: Prepared, out: Path, data: Path) -> Plan:
    """The plan; `data` is the folder in which the rows are now."""
    fit, over = usable_budgets(recipe, prepared)
    for budget in over:
        log.warning(
            "The budget of %s labels is left out: the training set has only %d.", budget, prepared.num_rows["train"]
        )
    _check_budgets(recipe, prepared)
    _check_tokenizer(recipe)
    answers = read_arm_answers(arms, prepared, fit, recipe, rows_file(data, "test"))
    plan = make_plan(recipe, arms, prepared, out, answers=answers)
    _check_jobs(plan.jobs)
    _check_calibration(plan.jobs.values())
    return plan


def _check_budgets(recipe: StudyRecipe, prepared: Prepared) -> None:
    """Refuse budgets with fewer labels than classes, if every class must have one: every such job would fail."""
    if named_task(recipe.data.task).knows_all_labels:
        return
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


def _check_jobs(jobs: Mapping[str, Job]) -> None:
    """Check the settings and the base of one job per arm; they are the same for all seeds and budgets."""
    seen: set[tuple[str, str]] = set()
    for job in jobs.values():
        key = (job.kind, job.arm or job.name)
        if key in seen or job.kind not in CHECKS:
            continue
        seen.add(key)
        try:
            CHECKS[job.kind](job)
            if job.kind == "finetune":
                _check_separator(job, jobs)
        except SettingError as problem:
            raise SettingError(f"'{job.arm or job.name}' cannot be trained: {problem}") from None


def _check_calibration(jobs: Iterable[Job]) -> None:
    """Refuse to calibrate runs without a validation set: every such job would fail."""
    small: set[int] = set()
    least = 0
    for job in jobs:
        if job.kind != "finetune" or not job.sections["training"].get("calibrate"):
            continue
        labels, data = job.labels or 0, job.sections["data"]
        hold_out_from = data.get("hold_out_from", FEWEST_FOR_CHOOSING)
        if not data.get("validation") and not num_for_choosing(labels, hold_out_from):
            small.add(labels)
            least = max(least, hold_out_from)
    if small:
        budgets = ", ".join(f"{labels:,}" for labels in sorted(small))
        raise SettingError(
            f"finetune.calibrate needs a validation set, and budgets below {least:,} labels have none (here: "
            f"{budgets}). Leave --finetune.calibrate out, use --budgets with {least:,} or more, or a smaller "
            "--hold-out-from."
        )


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
    elif job.made_base is None:  # a base that the study does not make
        _check_existing_base(recipe.model.base, length)


def _check_separator(job: Job, jobs: Mapping[str, Job]) -> None:
    """Refuse an existing base that cannot read two texts in one sequence, adapted or not, where they are read so; the
    study's own bases are not checked."""
    recipe = load_recipe(FinetuneRecipe, None, job.sections)
    base = recipe.model.base
    if job.made_base is not None:
        (made,) = [jobs[id] for id in job.needs if jobs[id].folder == job.made_base]
        # An adaptation with another objective may append the separator to the vocabulary.
        is_kept = made.kind == "adapt" and made.sections["training"].get("objective") is None
        base = made.sections["model"]["base"] if is_kept else SCRATCH
    if base == SCRATCH or not named_task(recipe.data.task).needs_sep(recipe.data):
        return
    bundle = _check_existing_base(base, None)
    reads_pairs = recipe.data.text_pair_column is not None
    is_joined = pair_encoding(recipe.head, knows_pairs=knows_pairs(bundle)) == "joined"
    if (is_joined or not reads_pairs) and not bundle.tokenizer.frame.between:
        raise SettingError(
            f"two texts in one sequence need a separator such as <sep>, which the tokenizer of {base} does not have. "
            + ("Pass --pair-encoding separate, or leave" if reads_pairs else "Leave")
            + " the arm out with --arms."
        )


def _check_adaptation(job: Job) -> None:
    recipe = load_recipe(AdaptRecipe, None, job.sections)
    _check_existing_base(recipe.model.base, recipe.training.max_length)


def _check_existing_base(base: str | None, length: int | None) -> "Bundle":
    from headswap.bundle.bundle import Bundle  # imports torch

    assert base is not None
    bundle = Bundle.load(base)
    if length is not None and length > bundle.max_length:
        raise SettingError(f"max_length is {length}, but the base {base} takes at most {bundle.max_length} tokens.")
    return bundle


def _check_embedding(job: Job) -> None:
    if not job.needs:
        _check_existing_base(job.sections["model"]["base"], job.sections["embed"]["max_length"])


CHECKS = {
    "embed": _check_embedding,
    "pretrain": _check_pretraining,
    "adapt": _check_adaptation,
    "finetune": _check_finetuning,
}
