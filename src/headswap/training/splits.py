"""The labelled sets of a fine-tuning: read, checked, and held apart.

Splits are sacred: the label list comes from train alone, choices are made on validation, test is scored once. Without a
validation set a stratified fifth of train is held out; under 200 labels nothing is chosen and nothing is held out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from headswap.core.errors import SettingError
from headswap.text.datasets import is_named, named_splits
from headswap.text.labelled import check_labels, label_names, read_labelled, stratified_split, stratified_subset
from headswap.text.records import Example
from headswap.training.config import FinetuneRecipe

FEWEST_FOR_CHOOSING = 200
VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class LabelledSplits:
    """The labelled sets of a run; `validation` is empty where nothing is chosen."""

    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    labels: tuple[str, ...]

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
    """Read and check the labelled sets; the label list comes from train alone."""
    data, seed = recipe.data, recipe.training.seed
    assert data.train is not None
    columns = {"text_column": data.text_column, "label_column": data.label_column}
    train = read_labelled(data.train, label_file=data.label_file, **columns)
    if data.num_train is not None:
        if data.num_train > len(train):
            raise SettingError(f"num_train is {data.num_train}, but {data.train} has only {len(train)} examples.")
        train = [train[index] for index in stratified_subset(train, data.num_train, seed)]
    labels = tuple(label_names(train))
    validation: list[Example] = []
    if data.validation is not None:
        validation = read_labelled(data.validation, label_file=data.validation_label_file, **columns)
        check_labels(validation, labels, role="validation")
    elif len(train) >= FEWEST_FOR_CHOOSING:
        rest, held_out = stratified_split(train, VALIDATION_SHARE, seed)
        train, validation = [train[index] for index in rest], [train[index] for index in held_out]
    test: list[Example] = []
    test_source = data.test
    if test_source is None and is_named(data.train) and "test" in named_splits(data.train) and "/" not in data.train:
        test_source = f"{data.train}/test"
    if test_source is not None:
        test = read_labelled(test_source, label_file=data.test_label_file, **columns)
        check_labels(test, labels, role="test")
    return LabelledSplits(train, validation, test, labels)
