"""The labelled sets of a fine-tuning: read, checked, and held apart.

Splits are sacred: the label list comes from train alone, choices are made on validation, test is scored once. Without a
validation set a stratified fifth of train is held out; under 200 labels nothing is chosen and nothing is held out.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from headswap.core.errors import Collected, SettingError, counted
from headswap.text.datasets import is_named, named_splits
from headswap.text.labelled import check_labels, label_names, read_labelled, stratified_split, stratified_subset
from headswap.text.records import Example
from headswap.training.config import FinetuneRecipe

log = logging.getLogger("headswap")
FEWEST_FOR_CHOOSING = 200
VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class LabelledSplits:
    """The labelled sets of a run; `validation` is empty where nothing is chosen."""

    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    labels: tuple[str, ...]

    def warn_of_overlap(self) -> None:
        """Say how many texts of a set that is scored stand in one that was learnt from or chosen on."""
        sets = {"train": self.train, "validation": self.validation, "test": self.test}
        known = {role: {example.text for example in examples} for role, examples in sets.items()}
        for role, other in (("validation", "train"), ("test", "train"), ("test", "validation")):
            if num := sum(example.text in known[other] for example in sets[role]):
                log.warning("%s also in %s, so the score on them says little.", counted(num, f"{role} text"), other)

    def checksums(self) -> dict[str, str]:
        """What identifies each set's texts and labels."""
        sets = {"training set": self.train, "validation set": self.validation, "test set": self.test}
        return {name: _checksum(examples) for name, examples in sets.items()}


def _checksum(examples: Sequence[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example.text}\x1f{example.label}\x1e".encode())
    return digest.hexdigest()[:32]


def read_splits(recipe: FinetuneRecipe) -> LabelledSplits:
    """Read and check the labelled sets; the label list comes from train alone. All that is wrong is raised at once."""
    data, seed = recipe.data, recipe.training.seed
    assert data.train is not None
    files = {
        "train": (data.train, data.label_file),
        "validation": (data.validation, data.validation_label_file),
        "test": (data.test or own_test(data.train), data.test_label_file),
    }
    for role, (source, label_file) in files.items():
        if label_file is not None and source is None:
            raise SettingError(f"{role}_label_file is given, but no {role} set. Pass --{role} too.")
    sets: dict[str, list[Example]] = {role: [] for role in files}
    collected = Collected()
    for role, (source, label_file) in files.items():
        if source is not None:
            with collected.trying():
                sets[role] = read_labelled(
                    source, label_file=label_file, text_column=data.text_column, label_column=data.label_column
                )
    if collected.problems and not sets["train"]:
        collected.raise_found()
    train = sets["train"]
    if data.num_train is not None:
        if data.num_train > len(train):
            raise SettingError(f"num_train is {data.num_train}, but {data.train} has only {len(train)} examples.")
        train = [train[index] for index in stratified_subset(train, data.num_train, seed)]
    labels: tuple[str, ...] = ()
    with collected.trying():
        labels = tuple(label_names(train))
    for role in ("validation", "test") if labels else ():
        with collected.trying():
            check_labels(sets[role], labels, role=role)
    collected.raise_found()
    validation = sets["validation"]
    if data.validation is None and len(train) >= FEWEST_FOR_CHOOSING:
        rest, held_out = stratified_split(train, VALIDATION_SHARE, seed)
        train, validation = [train[index] for index in rest], [train[index] for index in held_out]
    return LabelledSplits(train, validation, sets["test"], labels)


def own_test(train: str) -> str | None:
    """The test set that a named data set brings."""
    has_own = is_named(train) and "test" in named_splits(train) and "/" not in train
    return f"{train}/test" if has_own else None
