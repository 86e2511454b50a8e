"""What a study found: numbers computed from run folders, as plain values. Words, tables and charts are left to others.

The scores and what follows from them come from score_table.py. Here they are put together with what else the runs tell:
curves, bases, calibration, disagreements, cost. Everything can be computed again from the run folders at any time.
"""

from typing import Any

import numpy as np

from headswap.metrics.classification import calibration, confusion_matrix, f1_scores
from headswap.study.runs import Material, Scored
from headswap.study.score_table import ScoreTable

MOST_DISAGREEMENTS = 10
TEXT_LENGTH = 300
Values = dict[str, Any]


def analyse(material: Material, *, with_texts: bool = True) -> Values:
    """Cells, comparisons, label worth, curves, calibration, disagreements and cost, as plain values."""
    table = ScoreTable(material)
    first = material.runs[0].predictions
    seeds = sorted({run.seed for run in material.runs})
    overlap = material.prepared.get("overlap", [])
    if not with_texts:
        hidden = ("from_text", "to_text")
        overlap = [
            row | {"examples": [{k: v for k, v in found.items() if k not in hidden} for found in row["examples"]]}
            for row in overlap
        ]
    return {
        "metric": material.metric,
        "arms": material.arms,
        "budgets": [{"name": name, "labels": labels} for name, labels in material.budgets],
        "seeds": seeds,
        "labels": list(first.labels),
        "num_test": len(first.targets),
        "num_bases": max((len(bases) for bases in material.bases.values()), default=0),
        "parameters": _parameters(material),
        "cells": table.cells(),
        "comparisons": table.comparisons(),
        "label_worth": table.worth(),
        "break_even": table.break_even(),
        "catch_up": table.catch_up(),
        "curves": _curves(material),
        "bases": _bases(material),
        "details": _details(material),
        "disagreements": _disagreements(material, with_texts=with_texts),
        "cost": _cost(material),
        "overlap": overlap,
        "dropped": material.prepared.get("dropped", {}),
        "collapsed": _collapsed(material),
        "notes": list(material.prepared.get("notes", [])),
        "missing": material.missing,
        "with_texts": with_texts,
    }


def _parameters(material: Material) -> dict[str, int]:
    """Numbers in the model of each arm that has one."""
    found: dict[str, int] = {}
    for run in material.runs:
        if count := run.result.get("parameters"):
            found.setdefault(run.arm, count["total"])
    return found


def _collapsed(material: Material) -> list[Values]:
    """Arms with runs that say the same of every text, though there is more than one thing to say."""
    found = []
    for arm in material.arms:
        runs = [run for run in material.runs if run.arm == arm and arm != "majority"]
        open_runs = [run.predictions for run in runs if len(set(run.predictions.targets.tolist())) > 1]
        if count := sum(len(set(one.probabilities.argmax(1).tolist())) == 1 for one in open_runs):
            found.append({"arm": arm, "count": count, "of": len(runs)})
    return found


def _curves(material: Material) -> list[Values]:
    """By arm, budget and measure: every seed's points by epoch, epoch 0 included."""
    found = []
    for labels in [labels for _, labels in material.budgets]:
        for arm in material.arms:
            runs = material.of(arm, labels)
            for key in ("eval_accuracy", "train_accuracy", "eval_loss"):
                seeds = {
                    seed: [(line["epoch"], line[key]) for line in runs[seed].history if line.get(key) is not None]
                    for seed in sorted(runs)
                }
                if any(seeds.values()):
                    found.append({"arm": arm, "labels": labels, "measure": key, "seeds": seeds})
    return found


def _bases(material: Material) -> list[Values]:
    found: dict[str, Values] = {}
    for arm, bases in material.bases.items():
        for base in bases:
            entry = found.setdefault(base.name, {
                "name": base.name, "arms": [], "folder": base.folder.name,
                **{name: base.result.get(name) for name in (
                    "objective", "loss", "perplexity", "bits_per_byte", "epochs", "steps", "tokens", "seconds",
                    "tokens_per_second", "peak_memory_bytes", "device", "references",
                )},
                "curve": [
                    {"epoch": line["epoch"], "loss": line.get("eval_loss"), "perplexity": line.get("eval_perplexity")}
                    for line in base.history
                ],
            })  # fmt: skip
            entry["arms"].append(arm)
    return list(found.values())


def _details(material: Material) -> list[Values]:
    """Calibration, confusion and F1 by label of every arm at the fullest budget, over all its seeds."""
    labels = material.fullest_budget
    found = []
    for arm in material.arms:
        runs = list(material.of(arm, labels).values())
        if not runs:
            continue
        counts = [confusion_matrix(run.predictions.probabilities, run.predictions.targets) for run in runs]
        pooled = np.concatenate([run.predictions.probabilities for run in runs])
        truth = np.concatenate([run.predictions.targets for run in runs])
        f1 = np.array([f1_scores(count) for count in counts])
        found.append({
            "arm": arm, "labels": labels, "confusion": np.mean(counts, axis=0).round(1).tolist(),
            "f1": [None if np.isnan(value).all() else float(np.nanmean(value)) for value in f1.T],
            **calibration(pooled, truth),
        })  # fmt: skip
    return found


def _disagreements(material: Material, *, with_texts: bool) -> list[Values]:
    """The test texts on which the arms' trust in the true label differs most, at the fullest budget."""
    trust: dict[str, np.ndarray] = {}
    for arm in material.arms:
        runs = list(material.of(arm, material.fullest_budget).values())
        if runs and arm != "majority":
            trust[arm] = np.mean([_trust(run) for run in runs], axis=0)
    if len(trust) < 2:
        return []
    stacked = np.stack(list(trust.values()))
    spread = stacked.max(axis=0) - stacked.min(axis=0)
    first = material.runs[0].predictions
    texts = material.texts if with_texts else None
    return [
        {
            "row": int(row),
            "label": first.labels[first.targets[row]],
            "trust": {arm: float(values[row]) for arm, values in trust.items()},
        }
        | ({"text": _shortened(texts[row])} if texts else {})
        for row in np.argsort(-spread, kind="stable")[:MOST_DISAGREEMENTS]
    ]


def _trust(run: Scored) -> np.ndarray:
    predictions = run.predictions
    return predictions.probabilities[np.arange(len(predictions.targets)), predictions.targets]


def _shortened(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= TEXT_LENGTH else f"{plain[:TEXT_LENGTH].rstrip()} ..."


def _cost(material: Material) -> list[Values]:
    found = []
    for arm in material.arms:
        for _, labels in material.budgets:
            runs = list(material.of(arm, labels).values())
            if not runs:
                continue
            peaks = [run.result["peak_memory_bytes"] for run in runs if run.result.get("peak_memory_bytes")]
            tokens = [run.result["tokens"] for run in runs if run.result.get("tokens")]
            found.append({
                "arm": arm, "labels": labels,
                "seconds": float(np.mean([run.result["seconds"] for run in runs])),
                "tokens": float(np.mean(tokens)) if tokens else None,
                "peak_memory_bytes": max(peaks) if peaks else None,
            })  # fmt: skip
    return found
