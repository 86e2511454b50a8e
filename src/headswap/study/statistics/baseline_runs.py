"""Baselines for a comparison of single runs: fitted to the same labels, if those can still be read."""

import logging
from typing import Any

from headswap.baselines.tfidf import TooManyClassesError
from headswap.core.errors import HeadswapError
from headswap.core.files import read_json
from headswap.core.settings import load_recipe
from headswap.data.records import pair_as_text
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import LabelledSplits, read_splits
from headswap.registry import PREDICTIONS
from headswap.study.setup.arms import PAIR, baselines_of, default_baselines
from headswap.study.statistics.runs import ScoredRun, StudyRuns

log = logging.getLogger("headswap")


def add_baselines(study: StudyRuns) -> StudyRuns:
    """Add the baselines of the task that need no corpus, for every budget and seed that an arm was run with."""
    known_arms = baselines_of(study.task)
    names = default_baselines(study.task, reads_pairs=study.unit == PAIR)
    cells: dict[tuple[int, int], ScoredRun] = {}
    for run in study.runs:
        cells.setdefault((run.labels, run.seed), run)
    found: list[ScoredRun] = []
    # As in a study, seeds with the same labels have the same baseline, whatever the order of the labels.
    known: dict[tuple[str, frozenset[tuple[str, int]]], tuple[Any, dict[str, Any]]] = {}
    for (labels, seed), run in sorted(cells.items()):
        splits = _splits(run)
        if splits is None:
            study.prepared.setdefault("notes", []).append(
                f"The labelled sets of {run.folder} have changed or cannot be read, so there is no baseline at "
                f"{labels:,} labels, seed {seed}."
            )
            continue
        _note_overlap(study, splits, run)
        given = ([*splits.train, *splits.validation], splits.test)
        joined = tuple([pair_as_text(example) for example in part] for part in given)
        for name in names:
            key = name, frozenset((example.source, example.line) for example in given[0])
            if key not in known:
                baseline = known_arms.load(name)
                train, test = given if baseline.reads_pairs else joined
                try:
                    known[key] = baseline.fit(train, test, splits.labels, study.metric)
                except TooManyClassesError as problem:
                    study.prepared.setdefault("notes", []).append(str(problem))
                    continue
            outputs, chosen = known[key]
            predictions = PREDICTIONS.load(run.predictions.kind).of(outputs, splits.test, splits.labels)
            result = {"seconds": 0.0, **chosen}
            found.append(
                ScoredRun(name, run.budget, labels, seed, run.folder / name, predictions, result, [], run.rows)
            )
    study.runs += found
    study.arms = [*(name for name in names if any(run.arm == name for run in found)), *study.arms]
    return study


def _note_overlap(study: StudyRuns, splits: LabelledSplits, run: ScoredRun) -> None:
    """Add what the fine-tuning warned about: texts that are in two of its sets. Equal sentences are added once."""
    notes = study.prepared.setdefault("notes", [])
    for sentence in splits.overlap_sentences():
        told = f"Training set of {run.labels:,} labels: {sentence[0].lower()}{sentence[1:]}"
        if told not in notes:
            notes.append(told)


def _splits(run: ScoredRun) -> LabelledSplits | None:
    """The labelled sets of a run, unless they have changed since."""
    try:
        splits = read_splits(load_recipe(FinetuneRecipe, run.folder / "recipe.toml"))
    except HeadswapError as problem:
        log.warning("%s", problem)
        return None
    before = read_json(run.folder / "data.json")
    is_same = all(before.get(name) == checksum for name, checksum in splits.checksums().items())
    return splits if is_same else None
