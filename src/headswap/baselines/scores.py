"""The scores of a task's baselines, from a cache.

A new baseline is a function in a file of its own and one line in `BASELINES` (registry.py).
"""

import hashlib
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from headswap.baselines.tfidf import TooManyClassesError, joined_text
from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.data.content_hash import cache_folder
from headswap.registry import ARM_BASELINES, BASELINES

VERSION = 4
"""Of the form of the scores in the cache."""
Baseline = Callable[..., dict[str, Any]]


def task_baselines(
    task: str,
    train: Sequence[Any],
    test: Sequence[Any],
    *,
    metric: str | None = None,
    labels: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The scores of a task's baselines; for the same examples they are computed once and then read from the cache.

    A baseline with the argument `metric` chooses its settings by this metric, by default by its own. One with the
    argument `labels` gets the labels of the model, which may be more than those of train; macro-F1 is the mean over
    them. A baseline that is too large to be fitted has the entry `not_fitted` with the reason instead of scores.
    """
    baselines = BASELINES.get(task)
    if not baselines:
        return {}
    functions = {name: baselines.load(name) for name in baselines}
    arms = ARM_BASELINES.get(task)
    versions = {name: arms.load(name).version for name in functions if name in arms} if arms else {}
    digest = hashlib.sha256(f"baselines {task} {VERSION} {versions}".encode())
    if any(getattr(example, "text_pair", None) is None for example in (*train, *test)):
        functions = {name: score for name, score in functions.items() if not getattr(score, "reads_pairs", False)}
    tuned = {name for name, score in functions.items() if metric not in (None, _default_metric(score) or metric)}
    digest.update(f"metric {metric}".encode() if tuned else b"")
    listed = {name for name, score in functions.items() if labels and "labels" in signature(score).parameters}
    digest.update("\x1f".join(labels or ()).encode() if listed else b"")
    for examples in (train, test):
        digest.update(b"\x00set\x00")
        for example in examples:
            group = getattr(example, "group", None)
            digest.update(f"{joined_text(example)}\x1f{example.label}\x1e{group or ''}".encode())
    file = cache_folder() / "baselines" / f"{digest.hexdigest()[:32]}.json"
    try:
        kept = read_json(file) if file.exists() else {}
    except InputError:
        kept = {}
    if (
        not isinstance(kept, dict)
        or set(kept) != set(functions)
        or not all(isinstance(one, dict) for one in kept.values())
    ):
        kept = {
            name: _scores(
                score,
                train,
                test,
                **({"metric": metric} if name in tuned else {}),
                **({"labels": labels} if name in listed else {}),
            )
            for name, score in functions.items()
        }
        write_json(file, kept)
    return kept


def _scores(baseline: Baseline, train: Sequence[Any], test: Sequence[Any], **more: Any) -> dict[str, Any]:
    try:
        return baseline(train, test, **more)
    except TooManyClassesError as problem:
        return {"not_fitted": str(problem)}


def _default_metric(score: Baseline) -> str | None:
    """The metric by which a baseline chooses its settings if none is given; None if it has no such argument."""
    argument = signature(score).parameters.get("metric")
    return None if argument is None else argument.default
