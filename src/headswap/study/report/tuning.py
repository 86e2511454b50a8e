"""State how each arm of a study was tuned: the trials of trained arms, and the strengths that baselines chose."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headswap.core.errors import counted
from headswap.study.jobs.trials import TRIAL_RATE_FACTORS
from headswap.study.statistics.budget_words import budget_words
from headswap.study.statistics.runs import StudyRuns

SELECTED = {
    "C": "C",
    "alpha": "The penalty of ridge regression (alpha)",
    "threshold": "The threshold of probabilities",
}
"""The settings that baselines choose, by their names in `result.json`."""
MOST_LISTED = 9
"""Of more different values the smallest and the largest are shown."""


def tuning_sentences(study: StudyRuns) -> list[str]:
    """What was tuned, with how many trials, and what was chosen how often: trained arms, then baselines."""
    if study.recipe is None:
        return []
    number, found = study.recipe.study.trials, []
    many = budget_words(study.task, study.unit).many
    if number == 1:
        found.append(
            "Tuning: every trained arm has one setting, its defaults, at all budgets (--trials 1). Validation selects "
            "the epoch only."
        )
    else:
        factors = ", ".join(f"{factor:g}" for factor in TRIAL_RATE_FACTORS[:number])
        found.append(
            f"Tuning: without a validation set, below {study.recipe.data.hold_out_from:,} {many}, every trained arm "
            f"has its fixed defaults. Otherwise each trained arm has the same {number} trials per run, its default "
            f"learning rate times {factors}. The validation set inside the budget selects the trial; only the selected "
            "one is scored on test."
        )
        if chosen := _chosen(study, _chosen_factor):
            found.append(f"Selected factors of the learning rate: {'; '.join(chosen)}.")
    for name, what in SELECTED.items():
        if chosen := _chosen(study, partial(_settings, name)):
            found.append(f"{what}, selected by cross-validation on all labels of the budget: {'; '.join(chosen)}.")
    return found


def _chosen_factor(result: Mapping[str, Any]) -> list[float]:
    return [trial["factor"] for trial in result.get("trials", []) if trial["is_chosen"]]


def _settings(name: str, result: Mapping[str, Any]) -> list[float]:
    """The values of a setting that a run chose: one, or one per label."""
    value = result.get(name)
    return [] if value is None else list(value.values()) if isinstance(value, Mapping) else [value]


def _chosen(study: StudyRuns, values_of: Callable[[Mapping[str, Any]], list[float]]) -> list[str]:
    """Per arm, how often each value was chosen, over budgets, seeds and labels with a setting of their own."""
    found = []
    for arm in study.arms:
        per_run = [values for run in study.runs if run.arm == arm and (values := values_of(run.result))]
        counts = Counter(_short(value) for values in per_run for value in values)
        if total := counts.total():
            runs = "runs" if total == len(per_run) else f"labels in {counted(len(per_run), 'run')}"
            names = sorted(counts, key=_number)
            shown = f"{', '.join(f'{name} in {counts[name]}' for name in names)} of"
            if len(names) > MOST_LISTED:
                shown = f"{names[0]} to {names[-1]} in"
            found.append(f"{arm} {shown} {total} {runs}")
    return found


def _short(value: float) -> str:
    """A number with three digits, as in 0.001 and 1,000."""
    return f"{float(f'{value:.3g}'):,g}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))
