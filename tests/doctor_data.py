"""Labelled examples without issues, and a filter of issues, for the tests of the doctor."""

from headswap.data.checks import Issue
from headswap.data.records import Example

VERBS = ["walks", "sleeps", "reads", "waits", "sings", "cooks", "paints", "swims"]


NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jan"]


PLACES = ["in Oslo", "at home", "by the sea", "on a train", "under a tree", "in the rain", "at work", "in bed"]


def clean(count: int, *, start: int = 0) -> list[Example]:
    """Different texts, with labels that no single word predicts."""
    rows = []
    for number in range(start, start + count):
        name, verb, place = NAMES[number % 10], VERBS[number // 10 % 8], PLACES[number // 80 % 8]
        other = PLACES[(number * 7 + 3) % 8]
        text = f"{name} {verb} {place} while the neighbour of number {number} {VERBS[number * 5 % 8]} {other}"
        rows.append(Example(text, "yes" if number % 3 else "no", "set.csv", number + 2))
    return rows


def found(issues: list[Issue], check: str) -> list[Issue]:
    return [issue for issue in issues if issue.check == check]
