"""The arms of a study that names none, and the base of the arm `consistency`: what the corpus and the bases allow.

The choice is written into `study.toml` and logged, together with what is left out and why.
"""

import logging

from headswap.core.errors import HeadswapError
from headswap.core.files import read_json
from headswap.core.installed_bases import CONFIG, OWN_BASE, PREFIX, checked_base
from headswap.study.setup.arms import ADAPTED, CONSISTENCY, OF_CONSISTENCY, SCRATCH, baselines_of, default_baselines
from headswap.study.setup.config import StudyRecipe
from headswap.tasks.choose import DEFAULT_TASK, chosen_task, named_task
from headswap.tokens.store import is_store

log = logging.getLogger("headswap")


def with_default_arms(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe with its task, its metric and its arms; those that are given are kept."""
    recipe = with_task(recipe)
    study = recipe.study
    if study.arms is not None:
        return _with_base_of_consistency(recipe)
    stores = [source for source in study.corpus if is_store(source)]
    has_space = "lsa" in baselines_of(recipe.data.task)
    arms = default_baselines(recipe.data.task, reads_pairs=recipe.data.text_pair_column is not None)
    arms += [*(["lsa"] if study.corpus and not stores and has_space else []), SCRATCH]
    if study.corpus:
        arms.append("pretrained")
    why_not = _why_not_adapted(recipe)
    if why_not is None:
        arms.append(ADAPTED)
    log.info("Arms: %s (--arms selects others).", ", ".join(arms))
    if not study.corpus:
        without = "arms lsa and pretrained are" if has_space else "arm pretrained is"
        log.info("The %s left out: there is no corpus (--corpus).", without)
    if stores and has_space:
        log.info("The arm lsa is left out: %s is a token store, which has no texts.", stores[0])
    if why_not is not None:
        log.info("The arm %s is left out: %s", ADAPTED, why_not)
    elif not study.corpus:
        log.info("The arm %s reads the training texts only: there is no corpus.", ADAPTED)
    return recipe.changed(study=study.changed(arms=tuple(arms)))


def with_task(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe with the task of its training set, and with the metric of that task if none is given."""
    data, study = recipe.data, recipe.study
    if data.train is None:
        return recipe
    try:
        task = chosen_task(data)
    except HeadswapError:
        return recipe  # the error is found again when the sets are read
    if task.name == DEFAULT_TASK or not task.study_metrics:
        return recipe
    if "metric" not in study.model_fields_set:
        study = study.changed(metric=task.study_metrics[0])
    return recipe.changed(data=data.changed(task=task.name), study=study)


def _with_base_of_consistency(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe with the base of the arm `consistency` in its name: adapted if that can be, else pretrained."""
    study = recipe.study
    if CONSISTENCY not in (study.arms or ()):
        return recipe
    why_not = _why_not_adapted(recipe)
    chosen = f"{OF_CONSISTENCY}{ADAPTED if why_not is None else 'pretrained'}"
    log.info("The arm %s is %s%s.", CONSISTENCY, chosen, "" if why_not is None else f": {why_not.rstrip('.')}")
    arms = tuple(dict.fromkeys(chosen if arm == CONSISTENCY else arm for arm in study.arms or ()))
    primary = chosen if study.primary_arm == CONSISTENCY else study.primary_arm
    return recipe.changed(study=study.changed(arms=arms, **({"primary_arm": primary} if primary else {})))


def _why_not_adapted(recipe: StudyRecipe) -> str | None:
    """Why the installed base is not adapted by default; None if it is."""
    base = f"{PREFIX}{OWN_BASE}"
    task = named_task(recipe.data.task)
    if not task.knows_installed_base:
        return f"the task {task.name} was not measured with {base} ({ADAPTED} among --arms adds it)."
    if stores := [source for source in recipe.study.corpus if is_store(source)]:
        return f"{stores[0]} is a token store, and {base} has a tokenizer of its own."
    try:
        longest = read_json(checked_base(base) / CONFIG)["max_position_embeddings"]
    except (HeadswapError, KeyError, TypeError):
        return f"{base} cannot be used (see headswap bases)."
    wanted = [recipe.study.max_length, recipe.adapt.max_length, recipe.finetune.max_length, recipe.pretrain.max_length]
    if too_long := [length for length in wanted if length is not None and length > longest]:
        return f"max_length is {too_long[0]}, and {base} reads at most {longest} tokens."
    return None
