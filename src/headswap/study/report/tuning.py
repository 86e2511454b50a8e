"""State how each arm of a study was tuned: the trials of trained arms, and the strengths that baselines chose."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from headswap.study.jobs.trials import TRIAL_RATE_FACTORS
from headswap.study.statistics.runs import StudyRuns


def tuning_sentences(study: StudyRuns) -> list[str]:
    """What was tuned, with how many trials, and what was chosen how often: trained arms, then baselines."""
    if study.recipe is None:
        return []
    number, found = study.recipe.study.trials, []
    if number == 1:
        found.append(
            "Tuning: every trained arm has one setting, its defaults, at all budgets (--trials 1). Validation selects "
            "the epoch only."
        )
    else:
        factors = ", ".join(f"{factor:g}" for factor in TRIAL_RATE_FACTORS[:number])
        found.append(
            "Tuning: without a validation set, below 200 labels, every trained arm has its fixed defaults. Otherwise "
            f"each trained arm has the same {number} trials per run, its default learning rate times {factors}. The "
            "validation set inside the budget selects the trial; only the selected one is scored on test."
        )
        if chosen := _chosen(study, _chosen_factor):
            found.append(f"Selected factors of the learning rate: {'; '.join(chosen)}.")
    if chosen := _chosen(study, lambda result: result.get("C")):
        found.append(f"C, selected by cross-validation on all labels of the budget: {'; '.join(chosen)}.")
    return found


def _chosen_factor(result: Mapping[str, Any]) -> float | None:
    return next((trial["factor"] for trial in result.get("trials", []) if trial["is_chosen"]), None)


def _chosen(study: StudyRuns, value_of: Callable[[Mapping[str, Any]], float | None]) -> list[str]:
    """Per arm, how often each value was chosen, over budgets and seeds."""
    found = []
    for arm in study.arms:
        values = [value for run in study.runs if run.arm == arm and (value := value_of(run.result)) is not None]
        if values:
            counts = ", ".join(f"{value:g} in {count}" for value, count in sorted(Counter(values).items()))
            found.append(f"{arm} {counts} of {len(values)} runs")
    return found
