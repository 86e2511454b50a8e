"""What a study found: numbers computed from run folders, as plain values. Words, tables and charts are left to others.

Means and differences are taken over seeds; differences are paired, since arms share labels and order at a seed. The
sampling error of the test set is given apart. Everything here can be computed again from the run folders at any time.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headswap.study.arms import BASELINES, SCRATCH
from headswap.study.label_worth import Worth, catch_up, label_worth
from headswap.study.material import Material, Scored
from headswap.study.measures import calibration, confusion_matrix, f1_scores, scores
from headswap.study.statistics import (
    ALPHA,
    FEWEST_SEEDS_FOR_A_CLAIM,
    bootstrap_interval,
    holm,
    mean_interval,
    paired_difference,
    paired_p_value,
    permutation_p_value,
    seeds_needed,
)

REFERENCES = (SCRATCH, "tfidf")
MOST_DISAGREEMENTS = 10
TEXT_LENGTH = 300
Values = dict[str, Any]


def analyse(material: Material, *, with_texts: bool = True) -> Values:
    """Cells, comparisons, label worth, curves, calibration, disagreements and cost, as plain values."""
    measured = {run.folder: scores(run.predictions.probabilities, run.predictions.targets) for run in material.runs}
    table = _Table(material, measured)
    comparisons = table.comparisons()
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
        "comparisons": comparisons,
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


class _Table:
    def __init__(self, material: Material, measured: dict[Any, dict[str, float]]) -> None:
        self.material, self.measured = material, measured
        self.budgets = [labels for _, labels in material.budgets]

    def values(self, arm: str, labels: int, seeds: Sequence[int] | None = None) -> list[float]:
        runs = self.material.of(arm, labels)
        return [self.measured[runs[seed].folder][self.material.metric] for seed in (seeds or sorted(runs))]

    def cells(self) -> list[Values]:
        found = []
        for arm in self.material.arms:
            for labels in self.budgets:
                runs = self.material.of(arm, labels)
                if not runs:
                    continue
                ordered = [runs[seed] for seed in sorted(runs)]
                right = np.mean([run.predictions.is_right for run in ordered], axis=0)
                low, high = bootstrap_interval(right)
                more = {
                    name: float(np.mean([self.measured[run.folder][name] for run in ordered]))
                    for name in ("accuracy", "macro_f1", "loss", "ece")
                }
                found.append(
                    {"arm": arm, "labels": labels}
                    | asdict(mean_interval(self.values(arm, labels)))
                    | {"values": dict(zip(sorted(runs), self.values(arm, labels), strict=True))}
                    | {"test_low": low, "test_high": high}
                    | {f"mean_{name}": value for name, value in more.items()}
                )
        return found

    def paired(self, arm: str, other: str, labels: int) -> list[int]:
        """Seeds of which both arms have a run on the same labels."""
        ours, theirs = self.material.of(arm, labels), self.material.of(other, labels)
        # TF-IDF learns from the labels that others choose on too, so only Transformers can be compared by checksum.
        has_same = {
            seed
            for seed in ours.keys() & theirs.keys()
            if {arm, other} & set(BASELINES) or ours[seed].rows == theirs[seed].rows
        }
        return sorted(has_same)

    def comparisons(self) -> list[Values]:
        found = []
        for labels in self.budgets:
            for arm in self.material.arms:
                for other in REFERENCES:
                    if arm == "majority" or arm == other or (arm == "tfidf" and other == SCRATCH):
                        continue
                    if other in self.material.arms and (seeds := self.paired(arm, other, labels)):
                        found.append(self._comparison(arm, other, labels, seeds))
        adjusted = holm([comparison["p"] for comparison in found])
        for comparison, p in zip(found, adjusted, strict=True):
            comparison["p_holm"] = p
            comparison["num_comparisons"] = sum(known is not None for known in adjusted)
            comparison["verdict"] = _verdict(comparison)
            differences = comparison.pop("differences")
            if comparison["verdict"] == "none":
                # Corrected as the smallest p of the family would be.
                comparison["seeds_needed"] = seeds_needed(differences, alpha=ALPHA / comparison["num_comparisons"])
        return found

    def _comparison(self, arm: str, other: str, labels: int, seeds: list[int]) -> Values:
        ours, theirs = self.values(arm, labels, seeds), self.values(other, labels, seeds)
        left, right = self.material.of(arm, labels), self.material.of(other, labels)
        hits = np.mean(
            [left[s].predictions.is_right.astype(float) - right[s].predictions.is_right for s in seeds], axis=0
        )
        low, high = bootstrap_interval(hits)
        return {
            "arm": arm,
            "other": other,
            "labels": labels,
            **asdict(paired_difference(ours, theirs)),
            "p": paired_p_value(ours, theirs),
            "p_permutation": permutation_p_value(ours, theirs),
            "test_low": low,
            "test_high": high,
            "differences": [one - two for one, two in zip(ours, theirs, strict=True)],
        }

    def _worths(self) -> list[tuple[str, Worth]]:
        if SCRATCH not in self.material.arms or len(self.budgets) < 2:
            return []
        whole = [set(self.material.of(SCRATCH, labels)) for labels in self.budgets]
        found = []
        for arm in self.material.arms:
            if arm in (*BASELINES, SCRATCH):
                continue
            for labels in self.budgets:
                seeds = sorted(set.intersection(set(self.material.of(arm, labels)), *whole))
                if seeds:
                    curve = {budget: self.values(SCRATCH, budget, seeds) for budget in self.budgets}
                    found.append((arm, label_worth(self.values(arm, labels, seeds), curve, labels=labels)))
        return found

    def worth(self) -> list[Values]:
        return [{"arm": arm, **worth.as_json()} for arm, worth in self._worths()]

    def catch_up(self) -> list[Values]:
        """With how many labels scratch has caught up with an arm, on the seeds that all budgets have."""
        found = []
        for arm in self.material.arms:
            cells = [set(self.material.of(name, labels)) for name in (arm, SCRATCH) for labels in self.budgets]
            seeds = sorted(set.intersection(*cells))
            if arm in (*BASELINES, SCRATCH) or not seeds:
                continue
            ours, theirs = (
                {labels: self.values(name, labels, seeds) for labels in self.budgets} for name in (arm, SCRATCH)
            )
            if (point := catch_up(ours, theirs)) is not None:
                found.append({"arm": arm, **asdict(point)})
        return found

    def break_even(self) -> list[Values]:
        """Seconds of pre-training for each label that it is shown to save: what a label may cost before it pays."""
        found = []
        for arm, worth in self._worths():
            bases = self.material.bases.get(arm, [])
            if not bases or worth.low is None or worth.low <= 1:
                continue
            seconds = float(np.mean([base.result["seconds"] for base in bases]))
            times = worth.largest if worth.is_beyond else worth.times
            saved = ((times or worth.low) - 1) * worth.labels
            found.append({
                "arm": arm, "labels": worth.labels, "base_seconds": seconds, "saved": saved,
                "saved_low": (worth.low - 1) * worth.labels, "is_beyond": worth.is_beyond,
                "seconds_a_label": seconds / saved,
            })  # fmt: skip
        return found


def _verdict(comparison: Values) -> str:
    """`better`, `worse`, `none` (no difference shown) or `no claim` (too few seeds); after Holm's correction."""
    if comparison["count"] < FEWEST_SEEDS_FOR_A_CLAIM or comparison["p_holm"] is None:
        return "no claim"
    if comparison["p_holm"] >= ALPHA:
        return "none"
    return "better" if comparison["mean"] > 0 else "worse"


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
