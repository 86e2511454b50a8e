"""Read and check the labelled sets of a fine-tuning run.

The label list comes from the training set alone, the best epoch is selected on the validation set, and the test set is
scored once. Without a validation set a stratified fifth of the training set is held out, at most 2,000 examples; with
groups, about a fifth in whole groups. Questions about one context stay together. Below `hold_out_from` training
examples nothing is held out and the last epoch is kept.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headswap.core.errors import Collected, SettingError, counted
from headswap.data.config import FEWEST_FOR_CHOOSING
from headswap.data.groups import check_groups, grouped_split, shared_group_sentences
from headswap.data.named_sets import is_named, named_splits
from headswap.data.records import Labelled, unit_of, whole_text
from headswap.data.stratify import stratified_split, stratified_subset
from headswap.finetuning.config import FinetuneRecipe
from headswap.tasks.choose import chosen_task, named_task
from headswap.tasks.task import Task

log = logging.getLogger("headswap")
VALIDATION_SHARE = 0.2
MOST_FOR_CHOOSING = 2_000
FEWEST_KEPT_TOGETHER = 5
"""With fewer contexts, the questions of one context may be on both sides of a split."""


@dataclass(frozen=True)
class LabelledSplits:
    """The labelled sets of a run; `validation` is empty where no epoch is selected."""

    train: Sequence[Any]
    validation: Sequence[Any]
    test: Sequence[Any]
    labels: tuple[str, ...]
    task: Task

    def warn_of_overlap(self) -> None:
        """Warn about texts that are in two sets: scores on them are too high."""
        for sentence in self.overlap_sentences():
            log.warning("%s", sentence)

    def overlap_sentences(self) -> list[str]:
        """Sentences about texts (of questions: their contexts) and groups that are in two sets."""
        found = []
        sets = {"train": self.train, "validation": self.validation, "test": self.test}
        keys = {role: [self._key(example) for example in examples] for role, examples in sets.items()}
        known = {role: set(texts) for role, texts in keys.items()}
        for role, other in (("validation", "train"), ("test", "train"), ("test", "validation")):
            if num := sum(key in known[other] for key in keys[role]):
                unit, is_one = unit_of(sets[role]), num == 1
                verb = "is" if is_one else "are"
                if unit == "question":
                    verb = f"{'has' if is_one else 'have'} a context that is"
                texts = counted(num, f"{role} {unit}")
                found.append(f"{texts} {verb} also in the {other} set, so the scores on them are too high.")
        if any(getattr(example, "group", None) is not None for example in self.train):
            for (_, scored), sentence in shared_group_sentences(sets).items():
                found.append(f"{sentence}, so the scores on {scored} are too high.")
        return found

    def _key(self, example: Labelled) -> str:
        """What must not be in two sets: the context of a question, otherwise the whole text."""
        together = self.task.kept_together(example)
        return whole_text(example) if together is None else together

    def checksums(self) -> dict[str, str]:
        """Checksums of the texts and labels of each set."""
        sets = {"training set": self.train, "validation set": self.validation, "test set": self.test}
        return {name: _checksum(examples) for name, examples in sets.items()}


def _checksum(examples: Sequence[Labelled]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{whole_text(example)}\x1f{example.label}\x1e".encode())
    return digest.hexdigest()[:32]


def read_splits(recipe: FinetuneRecipe) -> LabelledSplits:
    """Read and check the labelled sets; all problems are reported in one error."""
    data, seed = recipe.data, recipe.training.seed
    assert data.train is not None
    files = data.changed(test=data.test or own_test(data.train)).files
    for role, (source, label_file) in files.items():
        if label_file is not None and source is None:
            raise SettingError(f"{role}_label_file is given, but no {role} set. Pass --{role} too.")
    sets: dict[str, list[Any]] = {role: [] for role in files}
    collected = Collected()
    task = named_task(None)
    with collected.trying():
        task = chosen_task(data)
    task.check_columns(data)
    if collected.problems:
        del files["train"]  # its problem is reported already
    for role, (source, label_file) in files.items():
        if source is not None:
            with collected.trying():
                sets[role] = task.read(source, data, label_file)
                if data.group_column is not None:
                    check_groups(sets[role])
    if collected.problems and not sets["train"]:
        collected.raise_found()
    train = sets["train"]
    labels: tuple[str, ...] = ()
    if task.knows_all_labels:
        with collected.trying():
            labels = task.labels(train)
    if data.num_train is not None:
        if data.num_train > len(train):
            raise SettingError(
                f"num_train is {data.num_train}, but {data.train} has only {len(train)} examples. Use a smaller number."
            )
        chosen = stratified_subset(train, data.num_train, seed, strata=task.subset_strata(train))
        train = [train[index] for index in chosen]
    if not task.knows_all_labels:
        with collected.trying():
            labels = task.labels(train)
    for role in ("validation", "test") if labels else ():
        with collected.trying():
            task.check_scored(sets[role], labels, data, role)
    collected.raise_found()
    validation = sets["validation"]
    if data.validation is None and (num_held_out := num_for_choosing(len(train), data.hold_out_from)):
        share = num_held_out / len(train)
        if data.group_column is None:
            rest, held_out = hold_out(train, share, seed, task)
        else:
            rest, held_out = grouped_split(train, share, seed, strata=task.strata(train))
        train, validation = [train[index] for index in rest], [train[index] for index in held_out]
    return LabelledSplits(train, validation, sets["test"], labels, task)


def hold_out(examples: Sequence[Any], share: float, seed: int, task: Task) -> tuple[list[int], list[int]]:
    """Indices of the remaining and of the held-out examples; those that the task keeps together are on one side."""
    units = [task.kept_together(example) for example in examples]
    one_of_each = list(dict(zip(units, examples, strict=True)).values())
    if None in units or len(one_of_each) < FEWEST_KEPT_TOGETHER:
        return stratified_split(examples, share, seed, strata=task.strata(examples))
    _, chosen = stratified_split(one_of_each, share, seed, strata=[""] * len(one_of_each))
    held_out = {task.kept_together(one_of_each[index]) for index in chosen}
    sides: tuple[list[int], list[int]] = ([], [])
    for number, unit in enumerate(units):
        sides[unit in held_out].append(number)
    return sides


def num_for_choosing(num_labels: int, hold_out_from: int = FEWEST_FOR_CHOOSING) -> int:
    """How many training examples are held out for validation; more than 2,000 do not improve the selection."""
    return 0 if num_labels < hold_out_from else min(MOST_FOR_CHOOSING, round(num_labels * VALIDATION_SHARE))


def own_test(train: str) -> str | None:
    """The test set of a named data set, if it has one."""
    has_own = is_named(train) and "test" in named_splits(train) and "/" not in train
    return f"{train}/test" if has_own else None
