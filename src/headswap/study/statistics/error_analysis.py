"""Error analysis of one arm: accuracy per label and per length, confusions, confident errors, possible label errors.

The arm is the primary one at the fullest budget, next to the best baseline there. Accuracies of a part of the test set
have 95 % intervals like the scores of the table. A text is a possible label error if all runs give it the same other
label, and give that label on average at least the probability that texts of that label get for it (the threshold of
confident learning, Northcutt et al. 2021). The test texts were not trained on, so these predictions are out of sample.
Its probability must also be one from which at least nine of ten such predictions are the label: a model that is often
wrong with a high probability says nothing about labels. Nor does an arm that is not clearly better than the most
frequent label, by two standard errors.
"""

from collections.abc import Sequence

import numpy as np

from headswap.data.checks import WORD
from headswap.study.statistics.cell_quality import STANDARD_ERRORS
from headswap.study.statistics.error_results import ConfidentError, Confusion, ErrorAnalysis, SliceScore, TestSlice
from headswap.study.statistics.groups import groups_of_test
from headswap.study.statistics.runs import StudyRuns
from headswap.study.statistics.significance import crossed_mean, texts_only

MOST_ERRORS, MOST_CONFUSIONS = 10, 8
NUM_LENGTHS = 4
TEXT_LENGTH = 300
RELIABLE = 0.9
"""Share of predictions that must be right for the others to be possible label errors."""


def analyse_errors(study: StudyRuns, baselines: dict[int, str], *, with_texts: bool) -> ErrorAnalysis | None:
    """The errors of the primary arm; without one, of the last arm that has a run. None without classes or such runs."""
    labels = study.fullest_budget
    if not study.runs[0].predictions.has_classes:
        return None
    trained = [arm for arm in study.arms if arm != "majority" and study.by_seed(arm, labels)]
    if not trained:
        return None
    arm = study.primary if study.primary in trained else trained[-1]
    arms = [arm, baselines[labels]] if baselines.get(labels) in trained and baselines.get(labels) != arm else [arm]
    runs = [run.classes for run in study.by_seed(arm, labels).values()]
    probabilities, targets, names = np.stack([run.probabilities for run in runs]), runs[0].targets, runs[0].labels
    has_scores = all(run.has_scores for run in runs)  # labels alone have no confidence
    is_better = _is_above_majority(probabilities.argmax(axis=2), targets)
    possible = _possible_label_errors(probabilities, targets) if has_scores and is_better else []
    texts = study.texts if with_texts else None
    return ErrorAnalysis(
        arm=arm,
        labels=labels,
        num_runs=len(runs),
        slices=_slices(study, arms, labels),
        confusions=_confusions(probabilities.argmax(axis=2), targets, names),
        errors=_errors(probabilities, targets, names, set(possible), texts) if has_scores else [],
        possible_label_errors=possible,
        is_above_majority=is_better,
    )


def _is_above_majority(predicted: np.ndarray, targets: np.ndarray) -> bool:
    """Whether the mean accuracy of the runs is clearly above the share of the most frequent label."""
    share = np.bincount(targets).max() / len(targets)
    error = np.sqrt(share * (1 - share) / len(targets))
    return bool((predicted == targets).mean() > share + STANDARD_ERRORS * error)


def _slices(study: StudyRuns, arms: Sequence[str], labels: int) -> list[TestSlice]:
    runs = {arm: list(study.by_seed(arm, labels).values()) for arm in arms}
    right = {arm: np.stack([run.classes.is_right for run in found]) for arm, found in runs.items()}
    first, groups = runs[arms[0]][0].classes, groups_of_test(study)
    parts = [("label", name, first.targets == number) for number, name in enumerate(first.labels)]
    if study.texts:
        words = np.array([len(WORD.findall(text)) for text in study.texts])
        parts += [("words", name, is_inside) for name, is_inside in length_ranges(words)]
    return [
        TestSlice(by, name, int(inside.sum()), [_score(arm, right[arm], inside, groups) for arm in arms])
        for by, name, inside in parts
        if inside.any()
    ]


def length_ranges(words: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Four ranges of lengths with about the same number of texts; fewer if many texts have the same length."""
    edges = np.unique(np.quantile(words, np.linspace(0, 1, NUM_LENGTHS + 1)[1:], method="higher"))
    found, low = [], int(words.min())
    for edge in edges.astype(int).tolist():
        name = f"{low:,} to {edge:,}" if low < edge else f"{edge:,}"
        found.append((name, (words >= low) & (words <= edge)))
        low = edge + 1
    return found


def _score(arm: str, right: np.ndarray, inside: np.ndarray, groups: np.ndarray | None) -> SliceScore:
    """The accuracy on a part of the test set; with groups the interval is over seeds and groups."""
    values = right[:, inside].astype(float)
    if groups is not None:
        numbers = np.unique(groups[inside], return_inverse=True)[1]
        factor = (numbers.max() + 1) / values.shape[1]
        means = values.mean(axis=1, keepdims=True)
        values = np.stack([np.bincount(numbers, weights=row) for row in values - means]) * factor + means
    least = 1 / int(inside.sum())
    found = crossed_mean(values, least_error=least)
    interval = found.interval() if found.can_be_tested else texts_only(values, least_error=least)
    if interval.low is None or interval.high is None:
        return SliceScore(arm, interval.mean, None, None)
    return SliceScore(arm, interval.mean, max(0.0, interval.low), min(1.0, interval.high))


def _confusions(predicted: np.ndarray, targets: np.ndarray, names: Sequence[str]) -> list[Confusion]:
    """The most frequent pairs of a true label and a wrong one."""
    size = len(names)
    codes = targets.astype(np.int64) * size + predicted  # runs x texts: the pair of labels as one number
    pairs, places = np.unique(codes[predicted != targets], return_inverse=True)
    runs = np.nonzero(predicted != targets)[0]
    counts = np.zeros((len(predicted), len(pairs)), dtype=np.int64)
    np.add.at(counts, (runs, places), 1)
    means, sizes = counts.mean(axis=0), np.bincount(targets, minlength=size)
    found = []
    for place in np.argsort(-means, kind="stable")[:MOST_CONFUSIONS].tolist():
        true, other = divmod(int(pairs[place]), size)
        numbers = counts[:, place]
        found.append(
            Confusion(
                names[true],
                names[other],
                float(means[place]),
                int(numbers.min()),
                int(numbers.max()),
                int(sizes[true]),
            )
        )
    return found


def _possible_label_errors(probabilities: np.ndarray, targets: np.ndarray) -> list[int]:
    """Texts for which all runs agree on another label with enough confidence, the most confident first."""
    mean, predicted = probabilities.mean(axis=0), probabilities.argmax(axis=2)
    size = mean.shape[1]
    thresholds = np.array(
        [mean[targets == number, number].mean() if (targets == number).any() else np.inf for number in range(size)]
    )
    chosen = predicted[0]
    confidence = mean[np.arange(len(targets)), chosen]
    is_agreed, is_right = (predicted == chosen).all(axis=0), chosen == targets
    least = _reliable_from(confidence[is_agreed], is_right[is_agreed])
    is_possible = is_agreed & ~is_right & (confidence >= np.maximum(thresholds[chosen], least))
    rows = np.flatnonzero(is_possible)
    return rows[np.argsort(-confidence[rows], kind="stable")].tolist()


def _reliable_from(confidence: np.ndarray, is_right: np.ndarray) -> float:
    """The smallest probability from which at least `RELIABLE` of the predictions are right; infinite without one.

    Predictions of one probability count together, so the order of the rows has no effect.
    """
    values, groups, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    shares = np.cumsum(np.bincount(groups, weights=is_right)) / np.cumsum(counts)
    found = np.flatnonzero(shares >= RELIABLE)
    return float(-values[found[-1]]) if len(found) else np.inf


def _errors(
    probabilities: np.ndarray,
    targets: np.ndarray,
    names: Sequence[str],
    possible: set[int],
    texts: Sequence[str] | None,
) -> list[ConfidentError]:
    """The texts whose wrong prediction has the highest mean probability."""
    mean = probabilities.mean(axis=0)
    chosen = mean.argmax(axis=1)
    wrong = np.flatnonzero(chosen != targets)
    confidence = mean[wrong, chosen[wrong]]
    found = []
    for row in wrong[np.argsort(-confidence, kind="stable")][:MOST_ERRORS].tolist():
        values = probabilities[:, row, chosen[row]]
        found.append(
            ConfidentError(
                row=row,
                label=names[targets[row]],
                predicted=names[chosen[row]],
                probability=float(values.mean()),
                lowest=float(values.min()),
                highest=float(values.max()),
                num_wrong=int((probabilities[:, row].argmax(axis=1) != targets[row]).sum()),
                is_possible_label_error=row in possible,
                text=shortened(texts[row]) if texts else None,
            )
        )
    return found


def shortened(text: str) -> str:
    """The beginning of a text, for a table."""
    plain = " ".join(text.split())
    return plain if len(plain) <= TEXT_LENGTH else f"{plain[:TEXT_LENGTH].rstrip()} ..."
