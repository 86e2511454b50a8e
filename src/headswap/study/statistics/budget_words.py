"""What a budget counts, in words: labels, or what has the labels where they are more or fewer than one per text.

A budget of 100 is 100 labels for a text classifier, and 100 sentences with a tag per word for a tagger. The columns of
results.csv and results.json are called `labels` in every task.
"""

from dataclasses import dataclass

TEXT = "text"
SEVERAL_LABELS = "multilabel"


@dataclass(frozen=True)
class BudgetWords:
    """The words for what a budget counts."""

    heading: str
    """After a number in the heading of a column: `100 pairs`."""
    many: str
    """After a number in a sentence: `at 100 labelled pairs`."""
    label: str
    """What one more of them costs: one label, or labelling one pair."""


LABELS = BudgetWords("labels", "labels", "one label")


def budget_words(task: str, unit: str) -> BudgetWords:
    """The words of a task whose examples are texts, pairs, sentences or questions (`unit`)."""
    if unit == TEXT and task != SEVERAL_LABELS:
        return LABELS
    return BudgetWords(f"{unit}s", f"labelled {unit}s", f"labelling one {unit}")
