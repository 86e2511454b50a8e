"""Trials of a fine-tuning job: several learning rates, of which the best one on validation is scored on test.

Every trained arm of a study has the same trials: its default learning rate times the factors below. The losing
trials never see the test set. Trials are runs in `trials/` of the job's folder, so a stopped job resumes with the trial
that it was stopped in. At the end the files of the chosen run become those of the job, and `result.json` lists all
trials. Without a validation set nothing is tried.
"""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headswap.core.atomic_folder import discard_folder
from headswap.core.errors import HeadswapError
from headswap.core.files import atomic_file, remove_folder, write_json
from headswap.core.lock import LOCK_FILE
from headswap.core.settings import load_recipe
from headswap.data.config import FEWEST_FOR_CHOOSING
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import num_for_choosing
from headswap.training.run_folder import RunFolder

log = logging.getLogger("headswap")
TRIALS, RESULT = "trials", "result.json"
TRIAL_RATE_FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0)
"""Factors of the default learning rate, in the order in which they are tried; the first one is the default."""


def trial_factors(
    num_trials: int, num_labels: int, *, has_validation: bool, hold_out_from: int = FEWEST_FOR_CHOOSING
) -> tuple[float, ...]:
    """Factors of the default learning rate that are tried with so many labels; one factor if nothing can be chosen."""
    can_choose = has_validation or num_for_choosing(num_labels, hold_out_from) > 0
    return TRIAL_RATE_FACTORS[: num_trials if can_choose else 1]


def finetune_with_trials(
    folder: Path, sections: Mapping[str, Any], factors: Sequence[float], *, reloads_in_fresh_process: bool
) -> None:
    """Run the trials of a job, score the best one on test, and make its files those of the job."""
    from headswap.finetuning.finetune import finetune

    def run(factor: float, *, scores_test: bool) -> RunFolder:
        training = dict(sections["training"])
        if factor != 1:
            training["learning_rate"] = float(f"{factor * _rate(_place(folder, 1.0)):.3g}")
        return finetune(
            out=_place(folder, factor), sections={**sections, "training": training}, resume=True, with_baselines=False,
            reloads_in_fresh_process=scores_test and reloads_in_fresh_process, scores_test=scores_test,
        )  # fmt: skip

    results: dict[float, dict[str, Any]] = {}
    for factor in factors:  # the first one is 1, the default
        _discard_broken(_place(folder, factor))
        results[factor] = run(factor, scores_test=False).result
    best = max(factors, key=lambda factor: results[factor]["validation_score"])  # of equal ones the first
    chosen = RunFolder(_place(folder, best))
    if "test" not in chosen.result:
        (chosen.path / RESULT).unlink()  # its training is resumed at its last step
        run(best, scores_test=True)
    trials = [
        {
            "factor": factor,
            "learning_rate": _rate(_place(folder, factor)),
            "validation_score": results[factor]["validation_score"],
            "is_chosen": factor == best,
        }
        for factor in factors
    ]
    log.info("Chosen on validation: the learning rate times %g (of %s).", best, ", ".join(f"{f:g}" for f in factors))
    costs = {name: sum(result[name] for result in results.values()) for name in ("seconds", "tokens")}
    _adopt(chosen, folder, chosen.result | costs | {"trials": trials})


def _place(folder: Path, factor: float) -> Path:
    return folder / TRIALS / f"rate-x{factor:g}"


def _rate(run: Path) -> float:
    """The learning rate of a run, given or default."""
    rate = load_recipe(FinetuneRecipe, run / "recipe.toml").training.learning_rate
    assert rate is not None
    return rate


def _discard_broken(place: Path) -> None:
    """Remove a finished trial whose result cannot be read; it is run again."""
    if not (place / RESULT).exists():
        return
    try:
        is_whole = isinstance(RunFolder(place).result.get("validation_score"), list) and _rate(place) > 0
    except HeadswapError:
        is_whole = False
    if not is_whole:
        log.warning("The trial %s was found damaged and is run again.", place)
        discard_folder(place)


def _adopt(run: RunFolder, folder: Path, result: Mapping[str, Any]) -> None:
    """Make the files of the chosen trial those of the job; the result comes last, as in every run."""
    for file in sorted(run.path.iterdir()):
        if file.is_file() and file.name not in (RESULT, LOCK_FILE):
            with atomic_file(folder / file.name) as temporary:
                shutil.copyfile(file, temporary)
    if (run.path / "bundle").exists():
        discard_folder(folder / "bundle")
        os.rename(run.path / "bundle", folder / "bundle")
    write_json(folder / RESULT, dict(result))
    remove_folder(folder / TRIALS)
