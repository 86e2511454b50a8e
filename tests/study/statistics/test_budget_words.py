"""What a budget counts: labels of texts, or sentences, questions, pairs and texts with several labels."""

import pytest

from headswap.study.statistics.budget_words import LABELS, budget_words
from headswap.study.statistics.results import NO_BUDGET, Budget


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_a_text_with_one_label_or_value_is_one_label(task: str) -> None:
    assert budget_words(task, "text") == LABELS
    assert Budget("1000", 1_000).heading(budget_words(task, "text")) == "1,000 labels"


@pytest.mark.parametrize(
    ("task", "unit"),
    [
        ("classify", "pair"), ("regress", "pair"), ("multilabel", "text"), ("multilabel", "pair"), ("tag", "sentence"),
        ("span", "question"),
    ],
)  # fmt: skip
def test_other_budgets_count_what_has_the_labels(task: str, unit: str) -> None:
    words = budget_words(task, unit)
    assert Budget("1000", 1_000).heading(words) == f"1,000 {unit}s"
    assert (words.many, words.label) == (f"labelled {unit}s", f"labelling one {unit}")
    assert Budget("none", NO_BUDGET).heading(words) == "score"
