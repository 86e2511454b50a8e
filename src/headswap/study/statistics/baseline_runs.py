"""Baselines for a comparison of single runs: fitted to the same labels, if those can still be read.

Two arms may have other labels at one budget and seed: each number of labels and seed has one set of baselines, fitted
to the labels that most arms have there, and only these arms are compared with it.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headswap.baselines.tfidf import TooManyClassesError
from headswap.core.errors import HeadswapError, counted
from headswap.core.files import read_json
from headswap.core.local_paths import local_path
from headswap.core.settings import load_recipe
from headswap.data.records import pair_as_text, whole_text
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import LabelledSplits, read_splits
from headswap.registry import PREDICTIONS
from headswap.study.setup.arms import PAIR, baselines_of, default_baselines
from headswap.study.statistics.budget_words import budget_words
from headswap.study.statistics.runs import ScoredRun, StudyRuns

log = logging.getLogger("headswap")


@dataclass(frozen=True)
class _Labels:
    """The labelled sets of one or more runs."""

    splits: LabelledSplits
    checksum: str
    """Of the training and the validation set together, in any order: arms may hold out other parts of the same."""
    overlap: tuple[str, ...]


def add_baselines(study: StudyRuns) -> StudyRuns:
    """Add the baselines of the task that need no corpus, for every budget and seed that an arm was run with."""
    read, problems = _read_labels(study)
    notes = study.prepared.setdefault("notes", [])
    notes += _unread_sentences(study, problems)
    notes += _overlap_sentences(study, read)
    study.runs = [
        replace(run, labelled=labels.checksum) if (labels := read[run.folder]) else run for run in study.runs
    ]  # fmt: skip
    chosen = _most_common_labels(study.runs)
    notes += _other_labels_sentences(study, chosen)
    fitted = _Fitted(study)
    _announce(fitted.names, [known.splits for run in chosen.values() if (known := read[run.folder]) is not None])
    found: list[ScoredRun] = []
    for run in chosen.values():
        if (known := read[run.folder]) is not None:
            found += fitted.runs(run, known.splits)
    notes += fitted.problems
    study.runs += found
    study.arms = [*(name for name in fitted.names if any(run.arm == name for run in found)), *study.arms]
    return study


def _announce(names: Sequence[str], sets: Sequence[LabelledSplits]) -> None:
    """Log what is fitted: with thousands of long texts it takes minutes."""
    sizes = sorted(len(splits.train) + len(splits.validation) for splits in sets)
    if sizes:
        labels = f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"
        log.info("Fitting the baselines (%s) to %s of %s labels.", ", ".join(names), counted(len(sets), "set"), labels)


class _Fitted:
    """The fitted baselines. As in a study, seeds with the same labels have the same one, whatever their order."""

    def __init__(self, study: StudyRuns) -> None:
        self.metric = study.metric
        self.names = default_baselines(study.task, reads_pairs=study.unit == PAIR)
        self.problems: list[str] = []
        self._baselines = baselines_of(study.task)
        self._known: dict[tuple[str, frozenset[tuple[str, int]]], tuple[Any, dict[str, Any]]] = {}

    def runs(self, run: ScoredRun, splits: LabelledSplits) -> list[ScoredRun]:
        """The runs of all baselines at the budget and seed of a run, fitted to its labels."""
        given = ([*splits.train, *splits.validation], splits.test)
        joined = tuple([pair_as_text(example) for example in part] for part in given)
        found = []
        for name in self.names:
            key = name, frozenset((example.source, example.line) for example in given[0])
            if key not in self._known:
                baseline = self._baselines.load(name)
                train, test = given if baseline.reads_pairs else joined
                try:
                    self._known[key] = baseline.fit(train, test, splits.labels, self.metric)
                except TooManyClassesError as problem:
                    if str(problem) not in self.problems:  # every seed and budget has it
                        self.problems.append(str(problem))
                    continue
            outputs, settings = self._known[key]
            predictions = PREDICTIONS.load(run.predictions.kind).of(outputs, splits.test, splits.labels)
            result = {"seconds": 0.0, **settings}
            found.append(
                replace(run, arm=name, folder=run.folder / name, predictions=predictions, result=result, history=[])
            )
        return found


def _read_labels(study: StudyRuns) -> tuple[dict[Path, _Labels | None], dict[Path, str]]:
    """The labelled sets per run folder, and for a run without them the reason. Equal ones are read once.

    Why files cannot be read is logged, once per message: it has paths of this machine, which a report has not.
    """
    found: dict[Path, _Labels | None] = {}
    problems: dict[Path, str] = {}
    messages: list[str] = []
    known: dict[tuple[Any, ...], _Labels] = {}
    for run in study.runs:
        sums = read_json(run.folder / "data.json")
        recipe = load_recipe(FinetuneRecipe, run.folder / "recipe.toml")
        key = (*(sums.get(role) for role in ("training set", "validation set", "test set")), recipe.data.group_column)
        if key not in known:
            try:
                splits = read_splits(recipe)
            except HeadswapError as problem:
                problems[run.folder] = "cannot be read"
                messages.append(str(problem))
            else:
                if all(sums.get(name) == checksum for name, checksum in splits.checksums().items()):
                    known[key] = _Labels(splits, _checksum(splits), tuple(splits.overlap_sentences()))
                else:
                    problems[run.folder] = "have changed since"
        found[run.folder] = known.get(key)
    for message in dict.fromkeys(messages):
        log.warning("%s", message)
    return found, problems


def _checksum(splits: LabelledSplits) -> str:
    rows = sorted(f"{whole_text(example)}\x1f{example.label}" for example in [*splits.train, *splits.validation])
    return hashlib.sha256("\x1e".join(rows).encode()).hexdigest()[:32]


def _unread_sentences(study: StudyRuns, problems: dict[Path, str]) -> list[str]:
    """A sentence per reason why the labelled sets of runs are not known."""
    runs = {run.folder: run for run in study.runs}
    by_reason: dict[str, list[ScoredRun]] = {}
    for folder, reason in problems.items():
        by_reason.setdefault(reason, []).append(runs[folder])
    found, many = [], budget_words(study.task, study.unit).many
    for reason, of in by_reason.items():
        first = f"{local_path(str(of[0].folder))} ({of[0].labels:,} {many}, seed {of[0].seed})"
        if len(of) == 1:
            found.append(f"The labelled sets of {first} {reason}, so this run is not compared with baselines.")
        else:
            found.append(
                f"The labelled sets of {len(of):,} runs {reason}, so these runs are not compared with baselines. The "
                f"first of them is {first}."
            )
    return found


def _overlap_sentences(study: StudyRuns, read: dict[Path, _Labels | None]) -> list[str]:
    """What the fine-tunings warned about, texts that are in two sets: once, with the arms if others do not have it."""
    arms: dict[tuple[int, str], list[str]] = {}
    for run in study.runs:
        known = read[run.folder]
        for sentence in known.overlap if known else ():
            told = arms.setdefault((run.labels, sentence), [])
            told += [run.arm] if run.arm not in told else []
    every = {run.labels: {one.arm for one in study.runs if one.labels == run.labels} for run in study.runs}
    found, many = [], budget_words(study.task, study.unit).many
    for (labels, sentence), told in arms.items():
        whose = "" if set(told) == every[labels] else f" of {', '.join(told)}"
        found.append(f"Training set of {labels:,} {many}{whose}: {sentence[0].lower()}{sentence[1:]}")
    return found


def _most_common_labels(runs: list[ScoredRun]) -> dict[tuple[int, int], ScoredRun]:
    """Per number of labels and seed a run with the labels that most arms have there, of two the first."""
    cells: dict[tuple[int, int], list[ScoredRun]] = {}
    for run in runs:
        if run.labelled is not None:
            cells.setdefault((run.labels, run.seed), []).append(run)
    found = {}
    for cell, here in sorted(cells.items()):
        most, _ = Counter(run.labelled for run in here).most_common(1)[0]
        found[cell] = next(run for run in here if run.labelled == most)
    return found


def _other_labels_sentences(study: StudyRuns, chosen: dict[tuple[int, int], ScoredRun]) -> list[str]:
    """A sentence per arm and number of labels about runs with other labels than the baselines."""
    seeds: dict[tuple[int, str], list[int]] = {}
    for run in study.runs:
        fitted = chosen.get((run.labels, run.seed))
        if fitted is not None and run.labelled is not None and run.labelled != fitted.labelled:
            seeds.setdefault((run.labels, run.arm), []).append(run.seed)
    many = budget_words(study.task, study.unit).many
    return [
        f"At {labels:,} {many}, {arm} was trained on other labelled {study.unit}s than the baselines "
        f"(seed {', '.join(map(str, sorted(of)))}), so these runs are not compared with them."
        for (labels, arm), of in seeds.items()
    ]
