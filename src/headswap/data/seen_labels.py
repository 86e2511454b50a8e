"""Labels and tags that do not occur in the training set: an error for every other labelled set.

A model has one output per label of train, so a label that occurs only in validation or test could never be predicted.
All tasks with labels check this here: classify (labelled.py), tag (tagged.py) and multilabel (tasks/multilabel.py).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headswap.core.errors import counted, did_you_mean, listed, raise_problems


def check_seen(
    examples: Sequence[Any],
    labels: Sequence[str],
    *,
    role: str,
    labels_of: Callable[[Any], Iterable[str]],
    noun: str = "label",
    unit: str = "example",
    hint: Callable[[list[str]], str] = lambda unseen: "",
) -> None:
    """Raise if an example has a label that is not in `labels`, the labels of train.

    Each unseen label is reported once, with the line of its first example and the number of times it occurs. `hint`
    gets the unseen labels and returns a sentence for the end of the message, or "".
    """
    known = set(labels)
    unseen: dict[str, list[Any]] = {}
    for example in examples:
        for label in labels_of(example):
            if label not in known:
                unseen.setdefault(label, []).append(example)
    raise_problems(
        [
            f"{found[0].source}, line {found[0].line}: the {noun} '{label}' of the {role} set does not occur in train "
            f"({counted(len(found), unit)}; {noun}s in train: {listed(labels)}).{did_you_mean(label, labels)}"
            for label, found in unseen.items()
        ],
        hint=hint(list(unseen)),
    )
