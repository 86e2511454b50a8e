"""A baseline as an arm of a study; those of classification and regression have more (classify.py, regress.py).

Also the linear model of a task: its TF-IDF baseline without the features, for vectors of any origin.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headswap.baselines.lsa_space import TextSpace

Outputs = Callable[..., tuple[Any, dict[str, Any]]]
CROSS_VALIDATION = "cross_validation"
"""The score by cross-validation on train among what a baseline chose; the best baseline of a study is found by it."""


@dataclass(frozen=True)
class LinearModel:
    """A linear model whose settings are chosen by cross-validation on train alone."""

    name: str
    selected: str
    """The settings that are chosen, for the methods of a study."""
    fit: Outputs
    """From the features of train and test, train, the labels and the metric: as `ArmBaseline.outputs`."""
    seconds_per_label: float
    """Time of one fit per text, for the estimate of a study."""


@dataclass(frozen=True)
class ArmBaseline:
    """A baseline that predicts the test set; what its outputs are depends on the task (`PREDICTIONS`, registry.py)."""

    meaning: str
    """What it is, for the table of a study's arms."""
    outputs: Outputs
    """From train, test, the labels and the metric: the outputs on test, and what was chosen on train."""
    seconds_per_text: float = 0.0
    """Time of one fit per text, for the estimate of a study."""
    version: int = 1
    """Part of a study's job ids: raise it when the scores change."""
    is_constant: bool = False
    """Whether it predicts the same for every example, so that its score is a property of the test set."""
    needs_space: bool = False
    """Whether it needs a space of texts that was fitted on an unlabelled corpus (lsa_space.py)."""
    reads_pairs: bool = False
    """Whether it is for pairs of texts only, and gets both; other baselines get the two texts joined."""

    def fit(
        self,
        train: Sequence[Any],
        test: Sequence[Any],
        labels: Sequence[str],
        metric: str,
        *,
        space: TextSpace | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """The outputs on test, and what was chosen on train by the metric, with its score by cross-validation."""
        del space
        return self.outputs(train, test, labels, metric)
