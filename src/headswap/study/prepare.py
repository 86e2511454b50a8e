"""Prepare the data of a study: read them once, check them for overlap, write the rows that every job reads.

Test texts that are also in train, validation or corpus are removed there, or reported, or stop the study; the test set
itself is never changed. The result is saved with a key of its sources, so that a resumed study does not read them
again. Paths are not saved, and rows that are used again are checked by their digests (row_files.py).
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headswap.core.errors import Collected, HeadswapError, InputError, SettingError, counted
from headswap.core.files import read_json, write_json
from headswap.data.checks import findings_of, log_findings
from headswap.data.config import ReadSettings
from headswap.data.content_hash import corpus_hash
from headswap.data.documents import read_documents
from headswap.data.groups import check_group_column, check_groups, rows_of_shared_groups, shared_group_sentences
from headswap.data.labelled import check_labels, label_names, read_labelled
from headswap.data.overlap import Overlap, find_overlap
from headswap.data.records import Example
from headswap.data.stratify import stratified_subset
from headswap.finetuning.splits import own_test
from headswap.study.config import ALL, StudyRecipe
from headswap.study.row_files import (
    CORPUS,
    GROUP,
    ROLES,
    check_rows,
    corpus_digest,
    rows_digest,
    store_digest,
    write_rows,
)
from headswap.tasks.choose import chosen_task
from headswap.tokens.store import is_store

log = logging.getLogger("headswap")
VERSION = 2  # raised when the fields of prepared.json or the parts of its key change
PREPARED = "prepared.json"
TEST_SEED = 0
PAIRS = (
    ("train", "test"), ("validation", "test"), ("corpus", "test"), ("train", "validation"), ("corpus", "validation"),
    ("corpus", "train"), ("train", "train"), ("test", "test"),
)  # fmt: skip
HARMFUL_PAIRS = PAIRS[:5]
"""The pairs that bias test or validation scores. The other pairs are only reported: a training text in the corpus has
no label there, and duplicates within one set do not affect another one."""


@dataclass(frozen=True)
class Prepared:
    """The files of rows, their digests, and the result of the overlap check."""

    train: str
    validation: str | None
    test: str
    corpus: tuple[str, ...]
    digests: dict[str, str]
    num_rows: dict[str, int]
    """Rows that are used, per set."""
    corpus_bytes: int
    labels: tuple[str, ...]
    overlap: list[dict[str, Any]]
    dropped: dict[str, int]
    notes: tuple[str, ...]
    """Sentences about what could not be checked."""

    def num_labels(self, budget: str) -> int:
        """The number of labels of a budget; `all` is train and validation together."""
        every = self.num_rows["train"] + self.num_rows.get("validation", 0)
        return every if budget == ALL else int(budget)

    def as_json(self) -> dict[str, Any]:
        """The content of `prepared.json`; it has no path, so that a study can be copied and moved."""
        return {name: value for name, value in asdict(self).items() if name not in (*ROLES, CORPUS)}


def prepare(recipe: StudyRecipe, out: Path, *, staged: Path | None = None) -> Prepared:
    """Read, check and write the sets, unless they were prepared before from the same files.

    With `staged` they are always read and written to that folder, which the caller renames to `data` in `out`.
    """
    if staged is None and (found := find_prepared(recipe, out)):
        return found
    recipe = _checked(recipe)
    key, folder = _key(recipe), staged or out / "data"
    prepared = _Preparation(recipe, folder, out.resolve() / "data").run()
    write_json(folder / PREPARED, {"key": key, **prepared.as_json()})
    return prepared


def find_prepared(recipe: StudyRecipe, out: Path) -> Prepared | None:
    """The prepared data of a folder, if they were made from the same files with the same settings."""
    recipe = _checked(recipe)
    file = out / "data" / PREPARED
    if not file.exists():
        return None
    key = _key(recipe)
    try:
        kept = read_json(file)
        return _reused(recipe, out / "data", kept) if kept.pop("key", None) == key else None
    except (HeadswapError, LookupError, TypeError, AttributeError):
        log.warning("%s or the rows next to it are damaged, so they are prepared again from their sources.", file)
        return None


def _checked(recipe: StudyRecipe) -> StudyRecipe:
    """The recipe with its test set filled in; data that a study cannot use are refused."""
    data = recipe.data
    if data.train is None:
        raise SettingError("No training set is given. Give the name of a data set, or pass --train FILE.")
    if data.num_train is not None:
        raise SettingError("num_train is a setting of finetune; in a study use --budgets to set the number of labels.")
    for section, flag in ((recipe.finetune, "--seeds"), (recipe.pretrain, "--base-seeds")):
        if "seed" in section.model_fields_set and section.seed != type(section).model_fields["seed"].default:
            raise SettingError(
                f"A study numbers its seeds itself, so seed cannot be given. Use {flag} for their number."
            )
    task = chosen_task(data)
    if not task.keeps_predictions or data.text_pair_column is not None:
        what = "pairs of texts" if data.text_pair_column is not None else f"the task {task.name}"
        raise SettingError(
            f"A study compares classifiers of single texts; {data.train} is for {what}. "
            "Run headswap finetune with several seeds instead."
        )
    check_group_column(data)
    test = data.test or own_test(data.train)
    if test is None:
        raise SettingError("A study needs a test set. Pass --test FILE.")
    return recipe.changed(data=data.changed(test=test))


def _reused(recipe: StudyRecipe, folder: Path, kept: dict[str, Any]) -> Prepared | None:
    """The saved data with the rows of this folder; None if a file of rows is missing."""
    digests = kept["digests"]
    files = {role: str(_rows_file(folder, role)) for role in ROLES if role in digests}
    copy = str(_rows_file(folder, CORPUS))
    has_copy = CORPUS in kept["dropped"]
    every = files | ({CORPUS: copy} if has_copy else {})
    if not all(Path(name).is_file() for name in every.values()):
        return None
    check_rows(every, digests)
    corpus = (copy,) if has_copy else _absolute(recipe.study.corpus)
    values = kept | {name: tuple(kept[name]) for name in ("labels", "notes")}
    return Prepared(**values, **{role: files.get(role) for role in ROLES}, corpus=corpus)  # type: ignore[arg-type]


def _key(recipe: StudyRecipe) -> str:
    """A hash of everything that is read; labelled files are hashed each time, token stores have checksums."""
    data, study = recipe.data, recipe.study
    names = [data.train, data.validation, data.test, data.label_file, data.validation_label_file, data.test_label_file]
    labelled = [name for name in names if name is not None]
    sources = [*labelled, *study.corpus]
    stores = {name: store_digest(name) for name in sources if is_store(name)}
    content = corpus_hash([name for name in sources if name not in stores], labelled=labelled)
    # A setting that earlier versions did not have is left out at its default, so that their rows are found again.
    labelled_settings = data.model_dump(exclude={"group_column"} if data.group_column is None else None)
    settings = [labelled_settings, *(getattr(study, name) for name in ("corpus", "documents", "corpus_text_column"))]
    parts = [VERSION, content, stores, settings, study.num_test, study.on_leak]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()


class _Preparation:
    def __init__(self, recipe: StudyRecipe, folder: Path, final_folder: Path) -> None:
        self.recipe, self.folder, self.final_folder = recipe, folder, final_folder
        study = recipe.study
        self.reading = ReadSettings(documents=study.documents, text_column=study.corpus_text_column)
        self.sources = list(study.corpus)
        self.notes: list[str] = []
        if "-" in self.sources:
            raise SettingError("A study reads its corpus more than once, so it cannot be standard input. Give a file.")
        self.has_texts = bool(self.sources) and not any(is_store(source) for source in self.sources)
        self.corpus_bytes = 0
        self.corpus_rows = 0

    def run(self) -> Prepared:
        sets = self._read()
        log_findings(findings_of(sets), log)
        overlap = self._overlap(sets)
        drop = {name: set[int]() for name in ("train", "validation", "corpus")}
        harmful = [found for found in overlap if (found.from_set, found.to_set) in HARMFUL_PAIRS and found.rows]
        for found in harmful:
            drop[found.from_set].update(found.rows)
            log.warning(_overlap_sentence(found))
        sentences = [_overlap_sentence(found) for found in harmful] + self._shared_groups(sets, drop)
        if sentences and self.recipe.study.on_leak == "stop":
            raise InputError(
                f"{' '.join(sentences)} Nothing was trained (--on-leak stop). Remove these texts, or use --on-leak "
                "drop."
            )
        if self.recipe.study.on_leak != "drop":
            drop = {name: set() for name in drop}
        kept = {
            role: [example for row, example in enumerate(examples) if row not in drop.get(role, ())]
            for role, examples in sets.items()
        }
        labels = tuple(label_names(kept["train"]))
        paths = {role: self._write(role, examples) for role, examples in kept.items() if examples}
        corpus, corpus_content = self._corpus(drop["corpus"])
        dropped = {name: len(rows) for name, rows in drop.items() if rows}
        for name, num in dropped.items():
            log.info("Removed %s from %s.", counted(num, "text"), name)
        return Prepared(
            train=paths["train"],
            validation=paths.get("validation"),
            test=paths["test"],
            corpus=corpus,
            digests={role: rows_digest(map(_row, kept[role])) for role in paths} | {CORPUS: corpus_content},
            num_rows={role: len(kept[role]) for role in paths}
            | ({"corpus": self.corpus_rows - len(drop["corpus"])} if self.has_texts else {}),
            corpus_bytes=self.corpus_bytes,
            labels=labels,
            overlap=[found.as_json() for found in overlap],
            dropped=dropped,
            notes=tuple(self.notes),
        )

    def _read(self) -> dict[str, list[Example]]:
        data = self.recipe.data
        sets: dict[str, list[Example]] = {}
        collected = Collected()
        for role, (source, label_file) in data.files.items():
            if source is not None:
                with collected.trying():
                    sets[role] = read_labelled(
                        source, label_file=label_file, text_column=data.text_column, label_column=data.label_column,
                        group_column=data.group_column,
                    )  # fmt: skip
                    if data.group_column is not None:
                        check_groups(sets[role])
        if "train" in sets:
            labels = label_names(sets["train"])
            for role in sets.keys() - {"train"}:
                with collected.trying():
                    check_labels(sets[role], labels, role=role)
        collected.raise_found()
        return sets

    def _overlap(self, sets: dict[str, list[Example]]) -> list[Overlap]:
        texts: dict[str, Iterable[str]] = {role: [example.text for example in sets[role]] for role in sets}
        if self.has_texts:
            texts["corpus"] = self._corpus_texts()
        elif self.sources:
            self.notes.append(
                "The corpus contains a token store, so it could not be checked for overlap with the test set."
            )
            log.warning(self.notes[-1])
        pairs = [pair for pair in PAIRS if set(pair) <= set(texts)]
        log.info("Searching for texts that occur in more than one of the sets %s.", ", ".join(texts))
        return find_overlap(texts, pairs=pairs)

    def _shared_groups(self, sets: dict[str, list[Example]], drop: dict[str, set[int]]) -> list[str]:
        """Sentences about groups in two sets; the rows to remove are added to `drop`."""
        found = []
        for (first, second), sentence in shared_group_sentences(sets).items():
            drop[first].update(rows_of_shared_groups(sets[first], sets[second]))
            found.append(f"{sentence}.")
            log.warning(found[-1])
            removed = f", and their texts were removed from {first}" if self.recipe.study.on_leak == "drop" else ""
            self.notes.append(f"{sentence}{removed}.")
        if self.recipe.study.on_leak == "drop" and len(drop["train"]) == len(sets["train"]):
            raise InputError(
                f"{' '.join(found)} No training text is left. Give a training set with other groups, or use --on-leak "
                "report."
            )
        return found

    def _corpus_texts(self) -> Iterator[str]:
        for document in read_documents(self.sources, self.reading):
            self.corpus_rows += 1
            self.corpus_bytes += len(document.text.encode())
            yield document.text

    def _write(self, role: str, examples: Sequence[Example]) -> str:
        study = self.recipe.study
        if role == "test" and study.num_test is not None and study.num_test < len(examples):
            chosen = sorted(stratified_subset(examples, study.num_test, TEST_SEED))
            examples[:] = [examples[row] for row in chosen]  # type: ignore[index]
        write_rows(_rows_file(self.folder, role), map(_row, examples))
        return str(_rows_file(self.final_folder, role))

    def _corpus(self, drop: set[int]) -> tuple[tuple[str, ...], str]:
        """The sources, or a copy without the removed rows; and the digest of their content."""
        if not drop:
            sources = _absolute(self.sources)
            return sources, corpus_digest(sources)
        documents = enumerate(read_documents(self.sources, self.reading))
        copy = _rows_file(self.folder, CORPUS)
        write_rows(copy, ({"text": document.text} for row, document in documents if row not in drop))
        return (str(_rows_file(self.final_folder, CORPUS)),), corpus_digest([str(copy)])


def _rows_file(folder: Path, role: str) -> Path:
    return folder.resolve() / f"{role}.jsonl"


def _row(example: Example) -> dict[str, str]:
    row = {"text": example.text, "label": example.label}
    return row if example.group is None else row | {GROUP: example.group}


def _absolute(sources: Sequence[str]) -> tuple[str, ...]:
    """Sources with absolute paths; names of data sets stay as they are."""
    return tuple(str(Path(os.path.expanduser(source)).resolve()) if _is_path(source) else source for source in sources)


def _is_path(source: str) -> bool:
    return Path(os.path.expanduser(source)).exists() or any(sign in source for sign in "*?[")


def _overlap_sentence(found: Overlap) -> str:
    exact, near = len(found.exact), len(found.near)
    verb = "occurs" if exact + near == 1 else "occur"
    how = f"{exact:,} exactly, {near:,} nearly"
    return f"{counted(exact + near, 'text')} of {found.from_set} also {verb} in {found.to_set} ({how})."
