"""The scores of a task's baselines: the same examples are scored once."""

from pathlib import Path
from typing import Any

import pytest

from headswap.baselines import classify
from headswap.baselines.scores import task_baselines
from headswap.data.records import Example
from headswap.registry import BASELINES, TASKS
from headswap.tokens.cache_entries import clear_cache, list_cache
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def labelled(*labels: str, text: str = "x") -> Example:
    return Example(text, ", ".join(labels), "tests", 1, None, labels)


def test_every_task_has_a_baseline_and_a_task_without_one_has_no_scores() -> None:
    assert set(BASELINES) == set(TASKS)
    assert task_baselines("toy", [], []) == {}


def test_a_baseline_that_is_not_in_the_cache_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    train = examples(20, 1)
    first = task_baselines("classify", train, train)
    monkeypatch.setitem(BASELINES["classify"], "again", BASELINES["classify"]["majority"])
    assert task_baselines("classify", train, train) == first | {"again": first["majority"]}


def test_the_same_texts_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = examples(20, 1), examples(10, 2)
    first = task_baselines("classify", train, test)
    assert set(first) == {"majority", "tfidf"}
    calls: list[Any] = []
    monkeypatch.setattr(classify, "tfidf_baseline", lambda *sets: calls.append(sets) or {"accuracy": 0.0})
    assert task_baselines("classify", train, test) == first
    assert not calls
    assert task_baselines("classify", train, test[:-1])["tfidf"] == {"accuracy": 0.0}, "other texts are other scores"
    changed = [*train[:-1], Example(train[-1].text, "neg" if train[-1].label == "pos" else "pos", "tests", 1)]
    task_baselines("classify", changed, test)
    assert len(calls) == 2, "so are other labels"


def test_other_labels_are_other_scores_in_the_other_tasks_too() -> None:
    train = [labelled("a", text="fine"), labelled("b", text="dull")] * 3
    first = task_baselines("multilabel", train, [labelled("a", text="fine")])
    second = task_baselines("multilabel", train, [labelled("b", text="fine")])
    assert first["majority"] != second["majority"]


def test_cached_baselines_are_listed_and_cleared_with_the_cache() -> None:
    train = examples(20, 1)
    task_baselines("classify", train, train)
    assert [entry.kind for entry in list_cache()] == ["baselines"]
    clear_cache()
    assert list_cache() == []


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"{", b'{"tfidf": 3}'])
def test_damaged_baselines_in_the_cache_are_computed_again(tmp_path: Path, content: bytes) -> None:
    train, test = examples(40, 1), examples(10, 2)
    before = task_baselines("classify", train, test)
    (file,) = (tmp_path / "cache" / "baselines").iterdir()
    file.write_bytes(content)
    assert task_baselines("classify", train, test) == before
