"""Prepare the data of a study: read them once, check them for overlap, write the rows that every job reads.

Test texts that are also in train, validation or corpus are removed there, or reported, or stop the study; the test set
itself is never changed, and neither is a token store. The result is saved with a key of its sources, so that a resumed
study does not read them again. Paths are not saved, and rows that are used again are checked by their digests
(row_files.py).
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
from headswap.data.checks import issues_of, log_issues
from headswap.data.config import ReadSettings
from headswap.data.content_hash import corpus_hash
from headswap.data.documents import read_documents
from headswap.data.groups import check_group_column, check_groups, rows_of_shared_groups, shared_group_sentences
from headswap.data.labelled_overlap import overlap_of_examples, shared_text_notes
from headswap.data.overlap import Overlap
from headswap.data.records import texts_of
from headswap.data.remote_files import is_remote
from headswap.data.stratify import stratified_subset
from headswap.finetuning.splits import own_test
from headswap.study.setup.config import ALL, StudyRecipe
from headswap.study.setup.overlap_rules import HARMFUL_PAIRS, PAIRS, harmful_rows
from headswap.study.setup.row_files import (
    CORPUS,
    ROLES,
    TEXTS,
    check_rows,
    corpus_digest,
    rows_digest,
    store_digest,
    write_rows,
)
from headswap.study.setup.unlabelled_texts import may_read_unlabelled, overlap_of_single_texts, single_texts
from headswap.tasks.choose import chosen_task, named_task
from headswap.tokens.store import TokenStore, is_store

log = logging.getLogger("headswap")
VERSION = 5  # raised when the fields of prepared.json, the parts of its key or the rows that are dropped change
PAIRS_VERSION = 3  # the same for pairs of texts alone
QUESTIONS_VERSION = 1  # the same for questions
PREPARED = "prepared.json"
TEST_SEED = 0
LARGE_SHARE = 0.1


@dataclass(frozen=True)
class Prepared:
    """The files of rows, their digests, and the result of the overlap check."""

    train: str
    validation: str | None
    test: str
    corpus: tuple[str, ...]
    texts: str
    """The training texts that are not in the corpus (see unlabelled_texts.py)."""
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
        return {name: value for name, value in asdict(self).items() if name not in (*ROLES, CORPUS, "texts")}


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
    for section, flag in (
        (recipe.finetune, "--seeds"), (recipe.pretrain, "--base-seeds"), (recipe.adapt, "--base-seeds")
    ):  # fmt: skip
        if "seed" in section.model_fields_set and section.seed != type(section).model_fields["seed"].default:
            raise SettingError(
                f"A study numbers its seeds itself, so seed cannot be given. Use {flag} for their number."
            )
    task = chosen_task(data)
    task.check_columns(data)
    if not task.study_metrics:
        raise SettingError(
            f"The task {task.name} has no metric with a validated test, so a study cannot compare its models. "
            "Run headswap finetune with several seeds instead."
        )
    if recipe.study.metric not in task.study_metrics:
        raise SettingError(
            f"metric is '{recipe.study.metric}', but a study of the task {task.name} compares by "
            f"{' or '.join(task.study_metrics)}."
        )
    check_group_column(data)
    test = data.test or own_test(data.train)
    if test is None:
        raise SettingError("A study needs a test set. Pass --test FILE.")
    return recipe.changed(data=data.changed(test=test))


def _reused(recipe: StudyRecipe, folder: Path, kept: dict[str, Any]) -> Prepared | None:
    """The saved data with the rows of this folder; None if a file of rows is missing."""
    digests = kept["digests"]
    files = {role: str(rows_file(folder, role)) for role in ROLES if role in digests}
    copy = str(rows_file(folder, CORPUS))
    has_copy = CORPUS in kept["dropped"]
    texts = str(rows_file(folder, TEXTS))
    every = files | {TEXTS: texts} | ({CORPUS: copy} if has_copy else {})
    if not all(Path(name).is_file() for name in every.values()):
        return None
    check_rows(every, digests)
    corpus = (copy,) if has_copy else _absolute(recipe.study.corpus)
    values = kept | {name: tuple(kept[name]) for name in ("labels", "notes")}
    roles: dict[str, Any] = {role: files.get(role) for role in ROLES}
    return Prepared(**values, **roles, corpus=corpus, texts=texts)


def _key(recipe: StudyRecipe) -> str:
    """A hash of everything that is read; labelled files are hashed each time, token stores have checksums."""
    data, study = recipe.data, recipe.study
    names = [data.train, data.validation, data.test, data.label_file, data.validation_label_file, data.test_label_file]
    labelled = [name for name in names if name is not None]
    sources = [*labelled, *study.corpus]
    stores = {name: store_digest(name) for name in sources if is_store(name)}
    content = corpus_hash([name for name in sources if name not in stores], labelled=labelled)
    # A setting that earlier versions did not have is left out at its default, so that their rows are found again.
    added = {"group_column": None, "unseen_labels": "error", "answer_offsets": "exact"}
    at_default = {name for name, default in added.items() if getattr(data, name) == default}
    labelled_settings = data.model_dump(exclude={"hold_out_from", *at_default})
    settings = [labelled_settings, *(getattr(study, name) for name in ("corpus", "documents", "corpus_text_column"))]
    parts = [VERSION, content, stores, settings, study.num_test, study.on_overlap]
    parts += [PAIRS_VERSION] if data.text_pair_column is not None else []
    parts += [{"questions": QUESTIONS_VERSION}] if data.task == "span" else []
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()


class _Preparation:
    def __init__(self, recipe: StudyRecipe, folder: Path, final_folder: Path) -> None:
        self.recipe, self.folder, self.final_folder = recipe, folder, final_folder
        self.task = named_task(recipe.data.task)
        study = recipe.study
        self.reading = ReadSettings(documents=study.documents, text_column=study.corpus_text_column)
        self.sources = list(study.corpus)
        self.notes: list[str] = []
        if "-" in self.sources:
            raise SettingError("A study reads its corpus more than once, so it cannot be standard input. Give a file.")
        if len(self.sources) > 1 and (stores := [source for source in self.sources if is_store(source)]):
            raise InputError(
                f"{stores[0]} is a token store, so it cannot be mixed with other sources. "
                "Give it alone, or give the texts it was built from."
            )
        self.has_texts = bool(self.sources) and not any(is_store(source) for source in self.sources)
        self.corpus_bytes = 0
        self.training_texts: set[str] = set()
        self.texts_in_corpus: set[str] = set()
        self.corpus_rows = self.removed_bytes = 0
        self.store = Path(self.sources[0]) if len(self.sources) == 1 and is_store(self.sources[0]) else None

    def run(self) -> Prepared:
        sets = self._read()
        log_issues(issues_of(sets), log)
        overlap = self._overlap(sets)
        drop, sentences = harmful_rows(overlap, self._unit)
        sentences += self._shared_groups(sets, drop)
        if sentences and self.recipe.study.on_overlap == "stop":
            raise InputError(
                f"{' '.join(sentences)} Nothing was trained (--on-overlap stop). Remove them, or use --on-overlap drop."
            )
        if self.recipe.study.on_overlap != "drop":
            drop = {name: set() for name in drop}
        self._keep_store(drop)
        kept = {
            role: [example for row, example in enumerate(examples) if row not in drop.get(role, ())]
            for role, examples in sets.items()
        }
        labels = self._labels(sets, kept)
        paths = {role: self._write(role, examples) for role, examples in kept.items() if examples}
        corpus, corpus_content = self._corpus(drop["corpus"])
        texts = single_texts(kept["train"], without=self.texts_in_corpus)
        of_texts = overlap_of_single_texts(texts, sets)
        overlap += of_texts
        if self.recipe.study.on_overlap != "report":
            drop[TEXTS] = {row for found in of_texts for row in found.rows}
        texts = [text for row, text in enumerate(texts) if row not in drop.get(TEXTS, ())]
        texts_file = self._write_texts(texts, has_copy=bool(drop["corpus"]))
        dropped = {name: len(rows) for name, rows in drop.items() if rows}
        for name, num in dropped.items():
            if name != TEXTS:
                log.info("Removed %s from %s.", counted(num, self._unit(name)), name)
            elif may_read_unlabelled(self.recipe.study.arms):
                log.info("Left out %s of what is read without labels.", counted(num, "training text"))
        return Prepared(
            train=paths["train"],
            validation=paths.get("validation"),
            test=paths["test"],
            corpus=corpus,
            texts=str(rows_file(self.final_folder, TEXTS)),
            digests={role: rows_digest(map(self.task.as_row, kept[role])) for role in paths}
            | {CORPUS: corpus_content, TEXTS: corpus_digest([str(texts_file)])},
            num_rows={role: len(kept[role]) for role in paths}
            | {TEXTS: len(texts)}
            | ({"corpus": self.corpus_rows - len(drop["corpus"])} if self.has_texts else {}),
            corpus_bytes=self.corpus_bytes,
            labels=labels,
            overlap=[found.as_json() for found in overlap],
            dropped=dropped,
            notes=tuple(self.notes),
        )

    def _labels(self, sets: dict[str, list[Any]], kept: dict[str, list[Any]]) -> tuple[str, ...]:
        """The labels of train without the overlap; it must still have those of the other sets."""
        labels = self.task.labels(kept["train"])
        for role in kept.keys() - {"train"} if labels != self.task.labels(sets["train"]) else ():
            try:
                self.task.check_scored(kept[role], labels, self.recipe.data, role)
            except InputError as problem:
                removed = counted(len(sets["train"]) - len(kept["train"]), self._unit("train"))
                raise InputError(
                    f"{problem} The overlap check removed {removed} from train, and with them all examples of these "
                    "labels. Add others, or keep them with --on-overlap report."
                ) from None
        return labels

    def _read(self) -> dict[str, list[Any]]:
        data = self.recipe.data
        sets: dict[str, list[Any]] = {}
        collected = Collected()
        for role, (source, label_file) in data.files.items():
            if source is not None:
                with collected.trying():
                    sets[role] = self.task.read(source, data, label_file)
                    if data.group_column is not None:
                        check_groups(sets[role])
        if "train" in sets:
            labels = self.task.labels(sets["train"])
            for role in sets.keys() - {"train"}:
                with collected.trying():
                    self.task.check_scored(sets[role], labels, data, role)
        collected.raise_found()
        return sets

    def _overlap(self, sets: dict[str, list[Any]]) -> list[Overlap]:
        """The overlap of the sets; see labelled_overlap.py for examples that have two texts."""
        self.training_texts = {text for example in sets["train"] for text in texts_of(example)}
        corpus: Iterable[str] | None = None
        if self.has_texts:
            corpus = self._corpus_texts()
        elif self.store is not None:
            corpus = TokenStore.open(self.store).texts()
        names = [*sets, *([CORPUS] if corpus is not None else [])]
        log.info("Searching for texts that occur in more than one of the sets %s.", ", ".join(names))
        self.notes += shared_text_notes(sets, unit=self._unit("train"))
        return overlap_of_examples(sets, corpus, pairs=PAIRS, containment=HARMFUL_PAIRS)

    def _unit(self, role: str) -> str:
        """What a row of a set is called in messages."""
        return {CORPUS: "document", TEXTS: "text"}.get(role, self.task.unit(self.recipe.data))

    def _keep_store(self, drop: dict[str, set[int]]) -> None:
        """Documents are not removed from a token store; a note says how many would have been."""
        if self.store is not None and (num := len(drop["corpus"])):
            verb = "occurs" if num == 1 else "occur"
            self.notes.append(
                f"{counted(num, 'document')} of the token store that is the corpus also {verb} in test or validation. "
                "A token store is not changed, so nothing was removed from it. Give the texts as the corpus instead."
            )
            log.warning(self.notes[-1])
            drop["corpus"].clear()

    def _shared_groups(self, sets: dict[str, list[Any]], drop: dict[str, set[int]]) -> list[str]:
        """Sentences about groups in two sets; the rows to remove are added to `drop`."""
        found = []
        for (first, second), sentence in shared_group_sentences(sets).items():
            drop[first].update(rows_of_shared_groups(sets[first], sets[second]))
            found.append(f"{sentence}.")
            log.warning(found[-1])
            removed = f", and their texts were removed from {first}" if self.recipe.study.on_overlap == "drop" else ""
            self.notes.append(f"{sentence}{removed}.")
        if self.recipe.study.on_overlap == "drop" and len(drop["train"]) == len(sets["train"]):
            others = "with other groups" if found else "with other texts"
            why = " ".join(found) or "All of train also occurs in test or validation."
            raise InputError(
                f"{why} No training {self._unit('train')} is left. Give a training set {others}, or use "
                "--on-overlap report."
            )
        return found

    def _corpus_texts(self) -> Iterator[str]:
        for document in read_documents(self.sources, self.reading):
            self.corpus_rows += 1
            self.corpus_bytes += len(document.text.encode())
            if document.text in self.training_texts:
                self.texts_in_corpus.add(document.text)
            yield document.text

    def _kept_documents(self, drop: set[int]) -> Iterator[dict[str, str]]:
        for row, document in enumerate(read_documents(self.sources, self.reading)):
            if row in drop:
                self.removed_bytes += len(document.text.encode())
            else:
                yield {"text": document.text}

    def _write(self, role: str, examples: list[Any]) -> str:
        study = self.recipe.study
        if role == "test" and study.num_test is not None and study.num_test < len(examples):
            chosen = sorted(
                stratified_subset(examples, study.num_test, TEST_SEED, strata=self.task.subset_strata(examples))
            )
            examples[:] = [examples[row] for row in chosen]
        write_rows(rows_file(self.folder, role), map(self.task.as_row, examples))
        return str(rows_file(self.final_folder, role))

    def _write_texts(self, texts: Sequence[str], *, has_copy: bool) -> Path:
        """Write the unlabelled training texts in the column that is read from the corpus."""
        file, column = rows_file(self.folder, TEXTS), "text" if has_copy else self.reading.text_column
        write_rows(file, ({column: text} for text in texts))
        return file

    def _corpus(self, drop: set[int]) -> tuple[tuple[str, ...], str]:
        """The sources, or a copy without the removed rows; and the digest of their content."""
        if not drop:
            sources = _absolute(self.sources)
            return sources, corpus_digest(sources)
        if len(drop) == self.corpus_rows:
            raise InputError(
                "Every document of the corpus repeats or contains a text of test or validation, so nothing is left of "
                "it. Give other text, split it into smaller documents (--documents paragraph or line), or use "
                "--on-overlap report."
            )
        copy = rows_file(self.folder, CORPUS)
        write_rows(copy, self._kept_documents(drop))
        if (share := self.removed_bytes / self.corpus_bytes) >= LARGE_SHARE:
            self.notes.append(
                f"The overlap check removed {share:.0%} of the bytes of the corpus: whole documents that repeat or "
                "contain a text of test or validation. Smaller documents (--documents paragraph or line) lose less."
            )
            log.warning(self.notes[-1])
        return (str(rows_file(self.final_folder, CORPUS)),), corpus_digest([str(copy)])


def rows_file(folder: Path, role: str) -> Path:
    """The file of a set in the folder of prepared data."""
    return folder.resolve() / f"{role}.jsonl"


def _absolute(sources: Sequence[str]) -> tuple[str, ...]:
    """Sources with absolute paths; names of data sets stay as they are."""
    return tuple(str(Path(os.path.expanduser(source)).resolve()) if _is_path(source) else source for source in sources)


def _is_path(source: str) -> bool:
    is_there = Path(os.path.expanduser(source)).exists() or any(sign in source for sign in "*?[")
    return is_there and not is_remote(source)
