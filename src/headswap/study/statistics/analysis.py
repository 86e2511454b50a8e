"""Compute the results of a study from its runs: scores and statistics, curves, calibration, disagreements, cost.

Errors are analysed in error_analysis.py.
Scores and statistics are computed in score_table.py. Everything can be computed again from the run folders.
"""

from contextlib import suppress
from typing import Any

import numpy as np

from headswap.core.errors import SettingError
from headswap.core.installed_bases import PREFIX
from headswap.core.local_paths import CHECKPOINT
from headswap.core.settings import read_toml
from headswap.metrics.classification import MOST_CLASSES_OF_CONFUSION, calibration, confusion_matrix, f1_scores
from headswap.study.setup.answer_file import SINGLE
from headswap.study.setup.arm_bases import base_of, is_from_box
from headswap.study.setup.arms import OF_BASE, is_constant
from headswap.study.statistics.design import design_changes
from headswap.study.statistics.error_analysis import analyse_errors, shortened
from headswap.study.statistics.part_scores import analyse_parts
from headswap.study.statistics.results import (
    EPOCH_METRICS,
    ArmDetails,
    BasePoint,
    BaseResult,
    CalibrationBin,
    CollapsedRuns,
    ConsistencyRun,
    Cost,
    Curve,
    Disagreement,
    ExternalArm,
    SetOverlap,
    StudyResults,
)
from headswap.study.statistics.runs import PretrainedBase, ScoredRun, StudyRuns
from headswap.study.statistics.score_table import ScoreTable

MOST_DISAGREEMENTS = 10
COPIED = (
    "objective", "loss", "perplexity", "bits_per_byte", "epochs", "steps", "tokens", "seconds", "tokens_per_second",
    "peak_memory_bytes", "device", "references",
)  # fmt: skip
"""Fields of a pre-training's `result.json` that are fields of `BaseResult`."""


def analyse(study: StudyRuns, *, with_texts: bool = True) -> StudyResults:
    """Compute all results; without `with_texts` they hold no text of the data."""
    table = ScoreTable(study)
    first = study.runs[0].predictions
    overall, comparisons = table.overall(), table.comparisons()
    worth = table.label_worth(comparisons)
    return StudyResults(
        metric=study.metric,
        arms=list(study.arms),
        budgets=study.budgets,
        seeds=sorted({run.seed for run in study.runs} - {SINGLE}),
        labels=list(first.labels),
        num_test=len(first.text_ids),
        num_bases=max((len(bases) for bases in study.bases.values()), default=0),
        primary=study.primary,
        baselines=table.baselines,
        design_changes=design_changes(study.designs),
        error_rate=table.error_rate(comparisons, overall),
        overall=overall,
        last_step=table.last_step(),
        parameters=_parameters(study),
        public=_public(study),
        given_bases=study.given_bases,
        installed=_installed(study),
        cells=table.cells(),
        comparisons=comparisons,
        label_worth=worth,
        break_even=table.break_even(worth),
        catch_up=table.catch_up(comparisons),
        curves=_curves(study),
        bases=_bases(study),
        details=_details(study),
        disagreements=_disagreements(study, with_texts=with_texts),
        errors=analyse_errors(study, table.baselines, with_texts=with_texts) or analyse_parts(study, table.baselines),
        cost=_cost(study),
        overlap=[SetOverlap.from_json(row, with_texts=with_texts) for row in study.prepared.get("overlap", [])],
        dropped=study.prepared.get("dropped", {}),
        collapsed=_collapsed(study),
        consistency=_consistency(study),
        notes=list(study.prepared.get("notes", [])),
        missing=list(study.missing),
        external=_external(study),
        with_texts=with_texts,
        task=study.task,
        unit=study.unit,
    )


def _parameters(study: StudyRuns) -> dict[str, int]:
    found: dict[str, int] = {}
    for run in study.runs:
        if count := run.result.get("parameters"):
            found.setdefault(run.arm, count["total"])
    return found


def _external(study: StudyRuns) -> dict[str, ExternalArm]:
    """The arms that are other systems."""
    found: dict[str, ExternalArm] = {}
    for run in study.runs:
        if run.is_external:
            has_scores, file, digest = run.predictions.has_scores, run.result["file"], run.result["sha256"]
            found.setdefault(run.arm, ExternalArm(file, digest, has_scores, run.seed == SINGLE))
    return found


def _public(study: StudyRuns) -> dict[str, str]:
    """The arms that start from a public checkpoint. Linear and adapted arms have it only in their names."""
    found = {}
    for run in study.runs:
        if run.is_external:
            continue
        names = (str(run.result.get("base")), base_of(run.arm).removeprefix(OF_BASE))
        if public := [name for name in names if name.startswith(CHECKPOINT)]:
            found[run.arm] = public[0]
    return found


def _installed(study: StudyRuns) -> dict[str, str]:
    """The installed base of every arm whose runs name it, or whose adaptation does; linear arms have that of their arm.

    The arms `box` and `adapted` do not tell it: they had other bases in earlier versions.
    """
    found: dict[str, str] = {}
    for run in [run for run in study.runs if is_from_box(run.arm)]:
        base = str(run.result.get("base"))
        adaptation = run.folder.parent / base / "recipe.toml"
        if not base.startswith(PREFIX) and adaptation.exists():
            with suppress(SettingError):  # a damaged job is reported as such
                base = str(read_toml(adaptation).get("model", {}).get("base"))
        if base.startswith(PREFIX):
            found.setdefault(run.arm, base)
    return found | {arm: found[base_of(arm)] for arm in study.arms if base_of(arm) in found}


def _collapsed(study: StudyRuns) -> list[CollapsedRuns]:
    """Arms with runs that predict the same for every text (or word) although the test set has different targets."""
    found = []
    for arm in study.arms:
        runs = [run for run in study.runs if run.arm == arm and not is_constant(arm, study.task)]
        if count := sum(is_constant_prediction(run.predictions) for run in runs):
            found.append(CollapsedRuns(arm, count, len(runs)))
    return found


def is_constant_prediction(predictions: Any) -> bool:
    """Whether all predictions are equal and the targets are not; answers are parts of different contexts."""
    if predictions.kind == "answers":
        return False
    outputs = {"classes": lambda: predictions.probabilities.argmax(axis=1), "values": lambda: predictions.values}
    predicted = outputs.get(predictions.kind, lambda: predictions.predicted)()
    return len(np.unique(predictions.targets, axis=0)) > 1 and len(np.unique(predicted, axis=0)) == 1


def _consistency(study: StudyRuns) -> list[ConsistencyRun]:
    """The runs with unlabelled texts."""
    return [
        ConsistencyRun(run.arm, run.labels, run.seed, found["rows"], found["turned_off"])
        for run in study.runs
        if (found := run.result.get("unlabelled"))
    ]


def _curves(study: StudyRuns) -> list[Curve]:
    """The metric of the study and the loss per epoch; if no run logged this metric, all that were logged."""
    own = (f"eval_{study.metric}", f"train_{study.metric}")
    has_own = any(_points(run, name) for run in study.runs for name in own)
    metrics = (*own, "eval_loss") if has_own else EPOCH_METRICS
    found = []
    for budget in study.budgets:
        for arm in study.arms:
            runs = study.by_seed(arm, budget.labels)
            for metric in metrics:
                seeds = {seed: _points(runs[seed], metric) for seed in sorted(runs)}
                if any(seeds.values()):
                    found.append(Curve(arm, budget.labels, metric, seeds))
    return found


def _points(run: ScoredRun, metric: str) -> list[tuple[float, float]]:
    return [(line["epoch"], line[metric]) for line in run.history if line.get(metric) is not None]


def _bases(study: StudyRuns) -> list[BaseResult]:
    """One result per base; arms that start from the same base share it."""
    by_name: dict[str, PretrainedBase] = {}
    arms: dict[str, list[str]] = {}
    for arm, bases in study.bases.items():
        for base in bases:
            by_name.setdefault(base.name, base)
            arms.setdefault(base.name, []).append(arm)
    return [
        BaseResult(
            name=name,
            arms=arms[name],
            folder=base.folder.name,
            **_copied(base.result),
            curve=[
                BasePoint(line["epoch"], line.get("eval_loss"), line.get("eval_perplexity")) for line in base.history
            ],
        )
        for name, base in by_name.items()
    ]


def _copied(result: dict[str, Any]) -> dict[str, Any]:
    return {field: result.get(field) for field in COPIED}


def _details(study: StudyRuns) -> list[ArmDetails]:
    """Calibration, confusion matrix and F1 of every arm at the fullest budget, over all its seeds."""
    labels = study.fullest_budget
    found = []
    for arm in study.arms if study.runs[0].predictions.has_classes else ():
        runs = list(study.by_seed(arm, labels).values())
        if not runs:
            continue
        size = len(runs[0].classes.labels)
        guesses = [(run.classes.probabilities.argmax(axis=1), run.classes.targets) for run in runs]
        f1 = np.array([f1_scores(predicted, targets, size) for predicted, targets in guesses])
        confusion = None
        if size <= MOST_CLASSES_OF_CONFUSION:
            counts = [confusion_matrix(predicted, targets, size) for predicted, targets in guesses]
            confusion = np.mean(counts, axis=0).round(1).tolist()
        pooled: dict[str, Any] = {"ece": None, "bins": []}
        if all(run.predictions.has_scores for run in runs):
            pooled = calibration(
                np.concatenate([run.classes.probabilities for run in runs]),
                np.concatenate([run.classes.targets for run in runs]),
            )
        found.append(
            ArmDetails(
                arm=arm,
                labels=labels,
                confusion=confusion,
                f1=[None if np.isnan(value).all() else float(np.nanmean(value)) for value in f1.T],
                ece=pooled["ece"],
                bins=[CalibrationBin(**one) for one in pooled["bins"]],
            )
        )
    return found


def _disagreements(study: StudyRuns, *, with_texts: bool) -> list[Disagreement]:
    """The test texts for which the arms' probabilities of the true label differ most, at the fullest budget."""
    trust: dict[str, np.ndarray] = {}
    for arm in study.arms:
        runs = list(study.by_seed(arm, study.fullest_budget).values())
        if runs and arm != "majority" and all(run.predictions.has_scores for run in runs):
            trust[arm] = np.mean([_probability_of_truth(run) for run in runs], axis=0)
    if len(trust) < 2:
        return []
    stacked = np.stack(list(trust.values()))
    spread = stacked.max(axis=0) - stacked.min(axis=0)
    first = study.runs[0].classes
    texts = study.texts if with_texts else None
    return [
        Disagreement(
            row=int(row),
            label=first.labels[first.targets[row]],
            trust={arm: float(values[row]) for arm, values in trust.items()},
            text=shortened(texts[row]) if texts else None,
        )
        for row in np.argsort(-spread, kind="stable")[:MOST_DISAGREEMENTS]
    ]


def _probability_of_truth(run: ScoredRun) -> np.ndarray:
    predictions = run.classes
    return predictions.probabilities[np.arange(len(predictions.targets)), predictions.targets]


def _cost(study: StudyRuns) -> list[Cost]:
    found = []
    for arm in study.arms:
        for budget in study.budgets:
            runs = list(study.by_seed(arm, budget.labels).values())
            if not runs or runs[0].is_external:  # what another system cost is not known
                continue
            peaks = [run.result["peak_memory_bytes"] for run in runs if run.result.get("peak_memory_bytes")]
            tokens = [run.result["tokens"] for run in runs if run.result.get("tokens")]
            found.append(
                Cost(
                    arm=arm,
                    labels=budget.labels,
                    seconds=float(np.mean([run.result["seconds"] for run in runs])),
                    tokens=float(np.mean(tokens)) if tokens else None,
                    peak_memory_bytes=max(peaks) if peaks else None,
                )
            )
    return found
