"""Read the answers of another system, such as an LLM, for the test rows of a study.

A file of answers has the columns `row` (the id of a test row) and `prediction` (a label). Optional are `budget` and
`seed`, for a system whose answers depend on the labels that it was given, and one column `score:LABEL` per label with
its probability. The id of a row contains a hash of its text, so answers to other texts are found. Everything that is
wrong with a file is reported in one error.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.errors import InputError, counted, did_you_mean, listed, raise_problems
from headswap.core.files import sha256_of_file
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, column_names, label_of, read_rows
from headswap.data.labelled import one_file
from headswap.data.open_text import extension_of
from headswap.data.records import PAIR_SEPARATOR
from headswap.finetuning.prediction_file import Predictions, row_ids, text_ids
from headswap.tasks.text_task import PAIR

ROW, PREDICTION, BUDGET, SEED, TEXT, SCORE = "row", "prediction", "budget", "seed", "text", "score:"
TEXTS = (TEXT, PAIR)
"""The columns with the text of a row, and with the second text of a pair."""
SINGLE = 0
"""The seed of answers without a column `seed`: the system gave one answer per text."""
VERB = "answers"
"""In `result.json` of a run: it was made by another system."""
SUM_TOLERANCE = 0.01  # of the scores of one row: they may be rounded
MOST_PLACES = 5
NUMBER = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class TargetRows:
    """The test rows that a system has to answer."""

    targets: np.ndarray
    labels: tuple[str, ...]
    text_ids: np.ndarray
    group_ids: np.ndarray | None = None

    @property
    def ids(self) -> list[str]:
        """The id of each row."""
        return row_ids("test", self.text_ids)


@dataclass(frozen=True)
class Answers:
    """The checked answers of one file."""

    file: str
    sha256: str
    cells: Mapping[tuple[str | None, int], Predictions]
    """Per budget (None: the same at every budget) and seed (`SINGLE`: one answer per text)."""

    def record(self) -> dict[str, Any]:
        """The file as it is named in results: without its folder."""
        return {"file": Path(self.file).name, "sha256": self.sha256}


def read_answers(
    file: str, rows: TargetRows, *, budgets: Mapping[str, str] | None = None, seeds: Collection[int] | None = None
) -> Answers:
    """Read and check a file of answers.

    `budgets` has the name of a budget per spelling that is allowed; None allows any number of labels. `seeds` are those
    that a file with the column `seed` must have at each of its budgets; None allows any.
    """
    path = one_file(file)
    if extension_of(path) not in COLUMN_EXTENSIONS:
        raise InputError(f"{path} has no columns. Answers are a .csv, .tsv, .jsonl or .parquet file.")
    return _Reading(path, rows, budgets, seeds).run(file)


@dataclass
class _Kind:
    """One kind of problem: where it occurs, and the values there."""

    lines: list[int] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        shown = ", ".join(f"{line:,}" for line in self.lines[:MOST_PLACES])
        more = len(self.lines) - MOST_PLACES
        return f"line{'' if len(self.lines) == 1 else 's'} {shown}{f' and {more:,} more' if more > 0 else ''}"


class _AllProblems(Problems):
    """Keeps every problem of the rows, so that it is reported with those of the answers."""

    def add(self, sentence: str) -> None:
        self.found.append(sentence)

    def pass_row(self) -> None:
        pass

    def raise_found(self) -> None:
        pass


def _ids_of_texts(values: Mapping[str, Any]) -> np.ndarray:
    """The id of the text of a row, and that of the pair if it has two texts; none for values that are no texts."""
    texts = [values[name] for name in TEXTS if isinstance(values.get(name), str)]
    return text_ids(texts[:1] if len(texts) < 2 else [texts[0], PAIR_SEPARATOR.join(texts)])


class _Reading:
    def __init__(
        self, path: Path, rows: TargetRows, budgets: Mapping[str, str] | None, seeds: Collection[int] | None
    ) -> None:
        self.path, self.rows, self.budgets, self.seeds = path, rows, budgets, seeds
        self.places = {id: place for place, id in enumerate(rows.ids)}
        self.numbers = {label: number for number, label in enumerate(rows.labels)}
        self.kinds: dict[str, _Kind] = {}
        self.predicted: dict[tuple[str | None, int], np.ndarray] = {}
        self.scores: dict[tuple[str | None, int], np.ndarray] = {}

    def run(self, file: str) -> Answers:
        columns = column_names(self.path)
        if not columns:
            raise InputError(f"{self.path} is empty: it contains no answer.")
        raise_problems(self._column_problems(columns))
        self.has_scores = any(name.startswith(SCORE) for name in columns)
        wanted = [ROW, PREDICTION, *(name for name in (BUDGET, SEED, *TEXTS) if name in columns)]
        wanted += [f"{SCORE}{label}" for label in self.rows.labels] if self.has_scores else []
        problems = _AllProblems()
        for line, values in read_rows(self.path, {name: name for name in wanted}, problems):
            self._add(line, dict(zip(wanted, values, strict=True)))
        found = [*problems.found, *self._sentences(), *self._missing()]
        raise_problems(found, hint="Correct the file; nothing of it was used." if found else "")
        cells = {cell: self._predictions(cell) for cell in self.predicted}
        return Answers(file, sha256_of_file(self.path), cells)

    def _column_problems(self, columns: Sequence[str]) -> list[str]:
        found = [
            f"{self.path} has no column '{name}' (columns: {listed(columns)}).{did_you_mean(name, columns)} Answers "
            f"need the columns {ROW} and {PREDICTION}."
            for name in (ROW, PREDICTION)
            if name not in columns
        ]
        found += [f"{self.path} has the column '{name}' twice." for name in set(columns) if columns.count(name) > 1]
        scored = [name.removeprefix(SCORE) for name in columns if name.startswith(SCORE)]
        if unknown := [label for label in scored if label not in self.numbers]:
            found.append(f"{self.path} has scores of {listed(unknown)}. Labels are {listed(self.rows.labels)}.")
        if scored and (without := [label for label in self.rows.labels if label not in scored]):
            found.append(f"{self.path} has scores, but no column '{SCORE}{without[0]}'. Each label needs one, or none.")
        return found

    def _note(self, kind: str, line: int, value: Any = "") -> None:
        found = self.kinds.setdefault(kind, _Kind())
        found.lines.append(line)
        found.values.append(str(value))

    def _add(self, line: int, values: dict[str, Any]) -> None:
        """Check one answer and keep it; each of its problems is noted."""
        place = self._place(line, values)
        budget, seed = self._budget(line, values), self._seed(line, values)
        label = label_of(values[PREDICTION])
        number = self.numbers.get(label) if label is not None else None
        if label is None:
            self._note("empty", line)
        elif number is None:
            self._note("label", line, label)
        scores = self._row_scores(line, values, number) if self.has_scores else None
        if place is None or budget == "" or seed is None:
            return
        cell = (budget, seed)
        size = len(self.rows.targets)
        predicted = self.predicted.setdefault(cell, np.full(size, -1, dtype=np.int64))
        if predicted[place] != -1:
            self._note("doubled", line, values[ROW])
            return
        predicted[place] = -2 if number is None else number  # -2: answered, with a problem that is reported
        if scores is not None:
            table = self.scores.setdefault(cell, np.zeros((size, len(self.rows.labels)), dtype=np.float32))
            table[place] = scores

    def _place(self, line: int, values: Mapping[str, Any]) -> int | None:
        """The row that is answered; a plain number counts if the text of the row is given too."""
        given = label_of(values[ROW]) or ""
        if given in self.places:
            return self.places[given]
        if not NUMBER.fullmatch(given):
            self._note("row", line, given)
            return None
        place = int(given) - 1
        if TEXT not in values:
            self._note("number", line, given)
        elif not 0 <= place < len(self.places):
            self._note("row", line, given)
        elif self.rows.text_ids[place] not in _ids_of_texts(values):
            self._note("text", line, given)
        else:
            return place
        return None

    def _budget(self, line: int, values: Mapping[str, Any]) -> str | None:
        """The name of the budget; None without the column, "" if it is unknown."""
        if BUDGET not in values:
            return None
        given = (label_of(values[BUDGET]) or "").replace(",", "")
        given = str(int(given)) if NUMBER.fullmatch(given) else given  # 0100 is 100
        name = self.budgets.get(given, "") if self.budgets is not None else given if NUMBER.fullmatch(given) else ""
        if not name:
            self._note("budget", line, given)
        return name

    def _seed(self, line: int, values: Mapping[str, Any]) -> int | None:
        if SEED not in values:
            return SINGLE
        given = label_of(values[SEED]) or ""
        seed = int(given) if NUMBER.fullmatch(given) else SINGLE
        if seed == SINGLE or (self.seeds is not None and seed not in self.seeds):
            self._note("seed", line, given)
            return None
        return seed

    def _row_scores(self, line: int, values: Mapping[str, Any], number: int | None) -> np.ndarray | None:
        try:
            found = np.array([float(values[f"{SCORE}{label}"]) for label in self.rows.labels])
        except (TypeError, ValueError):
            found = np.array([np.nan])
        if not ((found >= 0) & (found <= 1)).all() or abs(found.sum() - 1) > SUM_TOLERANCE:  # also nan
            self._note("score", line)
            return None
        scores = (found / found.sum()).astype(np.float32)
        if number is not None and scores[number] < scores.max():
            self._note("highest", line)
        elif number is not None and scores.argmax() != number:  # a tie: the prediction decides
            scores[number] = np.nextafter(scores[number], np.float32(2))
        return scores

    def _sentences(self) -> list[str]:
        """One sentence per kind of problem."""
        budgets = (
            "a number of labels" if self.budgets is None else f"one of {listed(dict.fromkeys(self.budgets.values()))}"
        )
        seeds = "a number from 1 on" if self.seeds is None else f"one of {', '.join(map(str, sorted(self.seeds)))}"
        what = {
            "row": "the row {values} is not a row of this test set, so the answers belong to other texts",
            "number": "the row {values} is a number without a hash of its text, so it cannot be checked that the "
            f"answers belong to these texts. Use the ids of headswap study --prepare-only, or add a column '{TEXT}' "
            f"(for pairs also '{PAIR}')",
            "text": "the text is not that of row {values} of the test set (rows are counted from 1)",
            "doubled": "the row {values} was answered before at the same budget and seed",
            "budget": f"the budget {{values}} is unknown; it must be {budgets}",
            "seed": f"the seed {{values}} is unknown; it must be {seeds}",
            "empty": "the prediction is empty",
            "label": f"the prediction {{values}} is not a label. Labels are {listed(self.rows.labels)}",
            "score": "the scores are not probabilities: numbers from 0 to 1 whose sum is 1",
            "highest": "the prediction is not the label with the highest score",
        }  # fmt: skip
        found = []
        for kind, sentence in what.items():
            if kind in self.kinds:
                values = listed(dict.fromkeys(self.kinds[kind].values), most=MOST_PLACES)
                found.append(f"{self.path}, {self.kinds[kind].where}: {sentence.replace('{values}', values)}.")
        return found

    def _missing(self) -> list[str]:
        """One sentence per budget and seed with test rows that are not answered."""
        found = []
        budgets = list(dict.fromkeys(budget for budget, _ in self.predicted)) or [None]
        has_seeds = any(seed != SINGLE for _, seed in self.predicted)
        for budget in budgets:
            known = [seed for name, seed in self.predicted if name == budget]
            for seed in sorted({*known, *(self.seeds or ())}) if has_seeds else known or [SINGLE]:
                predicted = self.predicted.get((budget, seed), np.full(len(self.rows.targets), -1))
                places = np.flatnonzero(predicted == -1)
                if len(places):
                    at = [f"budget {budget}"] if budget is not None else []
                    at += [f"seed {seed}"] if seed != SINGLE else []
                    where = f" at {', '.join(at)}" if at else ""
                    found.append(
                        f"{self.path}: {counted(len(places), 'row')} of the {len(predicted):,} test rows "
                        f"{'has' if len(places) == 1 else 'have'} no answer{where} (first: {self.rows.ids[places[0]]})."
                    )
        return found

    def _predictions(self, cell: tuple[str | None, int]) -> Predictions:
        rows = self.rows
        labels = np.eye(len(rows.labels), dtype=np.float32)[self.predicted[cell]]
        return Predictions(
            self.scores.get(cell, labels), rows.targets, rows.labels, rows.text_ids, rows.group_ids, self.has_scores
        )
