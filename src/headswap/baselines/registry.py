"""The baselines of every task by name, and their scores from a cache. A new baseline is a function and a line here."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headswap.baselines.classify import METRIC as CLASSIFY_METRIC
from headswap.baselines.classify import VERSION as CLASSIFY_VERSION
from headswap.baselines.classify import majority_baseline, tfidf_baseline
from headswap.baselines.multilabel import METRIC as MULTILABEL_METRIC
from headswap.baselines.multilabel import most_frequent_labels, tfidf_labels
from headswap.baselines.regress import METRIC as REGRESS_METRIC
from headswap.baselines.regress import mean_value, tfidf_ridge
from headswap.baselines.span import nearest_sentence
from headswap.baselines.tag import most_frequent_tags
from headswap.baselines.tfidf import joined_text
from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.data.content_hash import cache_folder

VERSION = 2
Baseline = Callable[..., dict[str, Any]]
BASELINES: dict[str, dict[str, Baseline]] = {
    "classify": {"majority": majority_baseline, "tfidf": tfidf_baseline},
    "multilabel": {"majority": most_frequent_labels, "tfidf": tfidf_labels},
    "regress": {"mean": mean_value, "tfidf": tfidf_ridge},
    "tag": {"majority": most_frequent_tags},
    "span": {"nearest sentence": nearest_sentence},
}
"""By task, then by the name in tables. Each function gets train and test and returns the metrics on test."""
TUNED: dict[Callable[..., dict[str, Any]], str] = {
    tfidf_baseline: CLASSIFY_METRIC,
    tfidf_labels: MULTILABEL_METRIC,
    tfidf_ridge: REGRESS_METRIC,
}
"""The baselines whose strength is chosen by a metric (keyword `metric`), and the default metric."""
CACHE_KEYS = {"classify": f"baselines {CLASSIFY_VERSION}, macro-F1 over all labels"}
"""The key of a task in the cache, where it is not `baselines TASK VERSION`."""


def task_baselines(
    task: str, train: Sequence[Any], test: Sequence[Any], *, metric: str | None = None
) -> dict[str, Any]:
    """The scores of a task's baselines; for the same examples they are computed once and then read from the cache.

    The settings of a baseline are chosen by `metric`, or by the default metric of its task.
    """
    baselines = BASELINES.get(task, {})
    if not baselines:
        return {}
    digest = hashlib.sha256(CACHE_KEYS.get(task, f"baselines {task} {VERSION}").encode())
    tuned = {score for score in baselines.values() if metric not in (None, TUNED.get(score, metric))}
    digest.update(f"metric {metric}".encode() if tuned else b"")
    for examples in (train, test):
        digest.update(b"\x00set\x00")
        for example in examples:
            group = getattr(example, "group", None)
            digest.update(f"{joined_text(example)}\x1f{example.label}\x1e{group or ''}".encode())
    file = cache_folder() / "baselines" / f"{digest.hexdigest()[:32]}.json"

    def compute() -> dict[str, Any]:
        return {
            name: score(train, test, **({"metric": metric} if score in tuned else {}))
            for name, score in baselines.items()
        }

    return cached_scores(file, compute)


def cached_scores(file: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The scores in a file of the cache; if it is missing or damaged, they are computed and written."""
    try:
        kept = read_json(file) if file.exists() else {}
    except InputError:
        kept = {}
    if not isinstance(kept, dict) or not kept or not all(isinstance(scores, dict) for scores in kept.values()):
        kept = compute()
        write_json(file, kept)
    return kept
