"""Groups of texts, such as those of one author, patient or thread (`--group-column`).

Texts of one group are alike for other reasons than their label. A group on both sides of a split makes scores too high,
so it is treated as texts in two sets are: a split never separates a group, and groups in two given sets are reported or
dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headswap.core.errors import InputError, SettingError, counted
from headswap.core.random_streams import numpy_stream
from headswap.data.checks import Issue
from headswap.data.config import LabelledSettings

PAIRS = (("train", "test"), ("validation", "test"), ("train", "validation"))
"""A group in both sets of a pair makes the scores on the second one too high."""


def check_group_column(data: LabelledSettings) -> None:
    """Refuse a group column that is also the column of texts or labels."""
    for name in ("text_column", "text_pair_column", "label_column"):
        if data.group_column is not None and data.group_column == getattr(data, name):
            raise SettingError(
                f"group_column and {name} are both '{data.group_column}'. Give the column that names the author, "
                "patient or thread of each text, or leave --group-column out."
            )


def check_groups(examples: Sequence[Any]) -> None:
    """Refuse a set that has one group only: it can neither be split nor resampled by group."""
    groups = {example.group for example in examples}
    if len(groups) == 1 and None not in groups:
        raise InputError(
            f"{examples[0].source}: all {counted(len(examples), 'text')} are of one group ('{groups.pop()}'). Groups "
            "need at least two different values in --group-column."
        )


def rows_of_shared_groups(examples: Sequence[Any], others: Sequence[Any]) -> list[int]:
    """Indices of the examples whose group also occurs in another set."""
    known = {getattr(other, "group", None) for other in others} - {None}
    return [row for row, example in enumerate(examples) if known and example.group in known]


def shared_group_sentences(sets: Mapping[str, Sequence[Any]]) -> dict[tuple[str, str], str]:
    """For each pair of sets that share groups, one sentence."""
    found = {}
    for first, second in PAIRS:
        examples = sets.get(first, ())
        if rows := rows_of_shared_groups(examples, sets.get(second, ())):
            groups = counted(len({examples[row].group for row in rows}), "group")
            verb = "is" if groups.startswith("1 ") else "are"
            found[first, second] = f"{groups} of {first} ({counted(len(rows), 'text')}) {verb} also in {second}"
    return found


def group_issues(sets: Mapping[str, Sequence[Any]]) -> list[Issue]:
    """The issues of `headswap doctor`: groups in two sets are problems, the number of groups is a note."""
    found = [
        Issue("problem", "groups", first, f"{sentence}, so the scores on {second} are too high.")
        for (first, second), sentence in shared_group_sentences(sets).items()
    ]
    for role, examples in sets.items():
        if groups := {example.group for example in examples} - {None}:
            note = f"{counted(len(examples), 'text')} of {counted(len(groups), 'group')}."
            found.append(Issue("note", "groups", role, note, {"groups": len(groups)}))
    return found


def grouped_split(
    examples: Sequence[Any], fraction: float, seed: int, *, strata: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Indices of the remaining and of the held-out examples, each in file order; no group is on both sides.

    Groups are taken in random order. A group is held out if the counts per stratum then are closer to `fraction` of
    each stratum, and if every stratum keeps an example outside. If no group fits, the smallest possible one is taken.
    """
    _, group_of = np.unique(np.array([example.group for example in examples], dtype=object), return_inverse=True)
    _, classes = np.unique(np.asarray(strata, dtype=object), return_inverse=True)
    counts = np.zeros((group_of.max() + 1, classes.max() + 1), dtype=np.int64)
    np.add.at(counts, (group_of, classes), 1)
    total = counts.sum(axis=0)
    order = numpy_stream(seed, "split of groups").permutation(len(counts))
    wanted, held = fraction * total, np.zeros_like(total)
    chosen: list[int] = []
    for group in order:
        after = held + counts[group]
        if (after < total).all() and np.square(after - wanted).sum() < np.square(held - wanted).sum():
            held = after
            chosen.append(int(group))
    if not chosen:
        possible = [int(group) for group in order if (counts[group] < total).all()]
        if not possible:
            raise InputError(
                f"{examples[0].source} cannot be split by group: every group has all texts of some label. Pass "
                "--validation FILE with other groups."
            )
        chosen = [min(possible, key=lambda group: int(counts[group].sum()))]
    is_held = np.isin(group_of, chosen)
    return np.flatnonzero(~is_held).tolist(), np.flatnonzero(is_held).tolist()
