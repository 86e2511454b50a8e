"""The scores of a task's baselines, from a cache.

A new baseline is a function in a file of its own and one line in `BASELINES` (registry.py).
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from headswap.baselines.classify import VERSION as CLASSIFY_VERSION
from headswap.baselines.tfidf import TooManyClassesError, joined_text
from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.data.content_hash import cache_folder
from headswap.registry import BASELINES

VERSION = 1
Baseline = Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]
CACHE_KEYS = {"classify": f"baselines {CLASSIFY_VERSION}"}
"""The key of a task in the cache, where it is not `baselines TASK VERSION`."""


def task_baselines(task: str, train: Sequence[Any], test: Sequence[Any]) -> dict[str, Any]:
    """The scores of a task's baselines; for the same examples they are computed once and then read from the cache.

    A baseline that is too large to be fitted has the entry `not_fitted` with the reason instead of scores.
    """
    baselines = BASELINES.get(task)
    if not baselines:
        return {}
    digest = hashlib.sha256(CACHE_KEYS.get(task, f"baselines {task} {VERSION}").encode())
    for examples in (train, test):
        digest.update(b"\x00set\x00")
        for example in examples:
            digest.update(f"{joined_text(example)}\x1f{example.label}\x1e".encode())
    file = cache_folder() / "baselines" / f"{digest.hexdigest()[:32]}.json"
    try:
        kept = read_json(file) if file.exists() else {}
    except InputError:
        kept = {}
    if (
        not isinstance(kept, dict)
        or set(kept) != set(baselines)
        or not all(isinstance(one, dict) for one in kept.values())
    ):
        kept = {name: _scores(baselines.load(name), train, test) for name in baselines}
        write_json(file, kept)
    return kept


def _scores(baseline: Baseline, train: Sequence[Any], test: Sequence[Any]) -> dict[str, Any]:
    try:
        return baseline(train, test)
    except TooManyClassesError as problem:
        return {"not_fitted": str(problem)}
