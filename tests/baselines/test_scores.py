"""The scores of a task's baselines: the same examples are scored once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headswap.baselines import classify, multilabel
from headswap.baselines.scores import task_baselines
from headswap.data.records import Example
from headswap.registry import BASELINES, TASKS
from headswap.tokens.cache_entries import clear_cache, list_cache
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def labelled(*labels: str, text: str = "x") -> Example:
    return Example(text, ", ".join(labels), "tests", 1, None, labels)


@dataclass
class Counted:
    """A baseline that notes its calls."""

    version: int
    calls: list[Any]

    def __call__(self, *sets: Any) -> dict[str, float]:
        self.calls.append(sets)
        return {"accuracy": 0.0}


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
    monkeypatch.setattr(classify, "tfidf_baseline", Counted(classify.tfidf_baseline.version, calls))
    assert task_baselines("classify", train, test) == first
    assert not calls
    assert task_baselines("classify", train, test[:-1])["tfidf"] == {"accuracy": 0.0}, "other texts are other scores"
    changed = [*train[:-1], Example(train[-1].text, "neg" if train[-1].label == "pos" else "pos", "tests", 1)]
    task_baselines("classify", changed, test)
    assert len(calls) == 2, "so are other labels"


def test_a_new_version_of_a_baseline_is_not_read_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    train = [labelled("a", text="fine"), labelled("b", text="dull")] * 3
    first = task_baselines("multilabel", train, train)
    monkeypatch.setattr(multilabel, "tfidf_labels", lambda *sets, labels=None: {"micro_f1": 0.0})
    assert task_baselines("multilabel", train, train) == first
    newer = replace(multilabel.tfidf_baseline, version=multilabel.tfidf_baseline.version + 1)
    monkeypatch.setattr(multilabel, "tfidf_baseline", newer)
    assert task_baselines("multilabel", train, train)["tfidf"] == {"micro_f1": 0.0}


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


def test_a_linear_model_that_is_too_large_is_not_fitted_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headswap.baselines.tfidf.MANY_CLASSES", 1)
    monkeypatch.setattr("headswap.baselines.tfidf.MOST_COEFFICIENTS", 30)
    for _ in range(2):  # computed, then from the cache
        found = task_baselines("classify", examples(20, 1), examples(10, 2))
        assert found["majority"]["accuracy"] == 0.5
        assert "2 classes x 20 texts are more than 30 numbers" in found["tfidf"]["not_fitted"]
