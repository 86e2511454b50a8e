"""The scores of a study by arm, budget and seed, and what follows from them: means, comparisons, worth in labels.

Means and differences are taken over seeds; differences are paired, since arms share labels and order at a seed. The
sampling error of the test set is given apart.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headswap.metrics.classification import scores
from headswap.study.arms import BASELINES, SCRATCH
from headswap.study.label_worth import Worth, catch_up, label_worth
from headswap.study.runs import Material
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
Values = dict[str, Any]


class ScoreTable:
    """Every run of a study, scored once; each method reads one kind of finding off, as plain values."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.measured = {
            run.folder: scores(run.predictions.probabilities, run.predictions.targets) for run in material.runs
        }
        self.budgets = [labels for _, labels in material.budgets]
        self.one_text = max((1 / len(run.predictions.targets) for run in material.runs), default=0.0)
        """A share of the test set: seeds that agree to the text agree by chance."""

    def values(self, arm: str, labels: int, seeds: Sequence[int] | None = None) -> list[float]:
        """The scores of an arm on a budget, of some seeds or of all."""
        runs = self.material.of(arm, labels)
        return [self.measured[runs[seed].folder][self.material.metric] for seed in (seeds or sorted(runs))]

    def cells(self) -> list[Values]:
        """Mean, spread and single scores of every arm on every budget."""
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
                spread = mean_interval(self.values(arm, labels))
                found.append(
                    {"arm": arm, "labels": labels}
                    | asdict(spread)
                    | {"low": _share(spread.low), "high": _share(spread.high)}
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
        """Every arm against scratch and TF-IDF (against the first arm where there are neither), paired by seed, with
        Holm's correction over all of them."""
        found = []
        references = [arm for arm in REFERENCES if arm in self.material.arms] or self.material.arms[:1]
        for labels in self.budgets:
            for arm in self.material.arms:
                for other in references:
                    if arm == "majority" or arm == other or (arm == "tfidf" and other == SCRATCH):
                        continue
                    if seeds := self.paired(arm, other, labels):
                        found.append(self._comparison(arm, other, labels, seeds))
        adjusted = holm([comparison["p"] for comparison in found])
        for comparison, p in zip(found, adjusted, strict=True):
            comparison["p_holm"] = p
            comparison["num_comparisons"] = sum(known is not None for known in adjusted)
            comparison["verdict"] = _verdict(comparison)
            differences = comparison.pop("differences")
            if comparison["verdict"] == "none":
                # Corrected as the smallest p of the family would be.
                alpha = ALPHA / comparison["num_comparisons"]
                comparison["seeds_needed"] = seeds_needed(differences, alpha=alpha, least_spread=self.one_text)
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
            **asdict(paired_difference(ours, theirs, least_spread=self.one_text)),
            "p": paired_p_value(ours, theirs, least_spread=self.one_text),
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
        """How many times as many labels scratch needs for what an arm reaches."""
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


def _share(bound: float | None) -> float | None:
    """The end of an interval of a share: Student's t knows nothing of 0 and 1."""
    return None if bound is None else min(1.0, max(0.0, bound))
