"""Named data sets: `NAME[:variant][/split]` from packages, `hf:owner/name[@config][#split]` from Hugging Face.

A name can be given wherever a corpus or a labelled set is expected. As a corpus, a packaged set does not include the
texts of its test split, unless that split is named. The sets are read by packaged_sets.py and hub_sets.py.
"""

import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headswap.core.errors import InputError, did_you_mean, listed
from headswap.data.hub_sets import PREFIX, hub_documents, hub_examples, hub_hash, hub_splits
from headswap.data.open_text import log_once
from headswap.data.packaged_sets import CHITCHAT, EXTRA, IMDB, PACKAGED, ROTTEN_TOMATOES, PackagedSet
from headswap.data.records import Document, Example

SPLITS = ("train", "test")
READING = "1"  # increased when the same file gives other texts than before, so that caches do not mix them


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A data set as listed by `headswap datasets`; unknown counts are None."""

    name: str
    description: str
    documents: int | None
    """Documents as a corpus, without the test texts."""
    examples: int | None
    """Labelled training examples."""
    test_examples: int | None
    labels: int | None
    licence: str
    installed: bool
    extra: str
    """The extra of headswap that installs it."""


class _Named(NamedTuple):
    data: PackagedSet
    split: str | None


def is_named(source: str) -> bool:
    """Whether a source is a named data set. A file or folder of the same name takes precedence, which is logged."""
    name, _, split = source.partition("/")
    is_name = source.startswith(PREFIX) or (
        name.partition(":")[0] in PACKAGED and not any(sign in split for sign in "/*?[")
    )
    if is_name and Path(source).exists():
        if split in ("", *SPLITS):
            log_once(f"{source}: using the file or folder of this name, not the data set.")
        return False
    return is_name


def named_splits(source: str) -> tuple[str, ...]:
    """The splits of a named data set."""
    if source.startswith(PREFIX):
        return hub_splits(source)
    _find(source)
    return SPLITS


def read_named_documents(source: str, *, text_column: str = "text") -> Iterator[Document]:
    """The texts of a named data set; without a split, all but the test texts. `text_column` is used for `hf:` only."""
    if source.startswith(PREFIX):
        return hub_documents(source, text_column)
    data, split = _find(source)
    splits = data.load()
    if split is None:
        return iter(splits.corpus)
    examples = splits.test if split == "test" else splits.train
    return (Document(example.text, example.source, example.line) for example in examples)


def read_named_examples(source: str, *, text_column: str = "text", label_column: str = "label") -> list[Example]:
    """The examples of a named data set (default: train). The columns are used for `hf:` only."""
    if source.startswith(PREFIX):
        return hub_examples(source, text_column, label_column)
    data, split = _find(source)
    splits = data.load()
    return splits.test if split == "test" else splits.train


def content_hash(source: str) -> str:
    """A hash of the content of a named data set, for caches. Packaged sets have a fixed checksum and are not read."""
    if source.startswith(PREFIX):
        return hub_hash(source)
    data, split = _find(source)
    parts = (READING, data.name, data.sha256, split or "corpus")
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def list_datasets() -> list[DatasetInfo]:
    """All named data sets, installed or not."""
    movies = "The package is MIT; no licence is stated for the {} texts in it."
    return [
        _info(IMDB, "IMDb film reviews, sentiment (full name: movies:imdb)", 19_902, 19_902, 2, movies.format("IMDb")),
        _info(
            ROTTEN_TOMATOES,
            "Rotten Tomatoes sentences in lower case, sentiment",
            *(7_530, 7_530, 2),
            movies.format("Rotten Tomatoes"),
        ),
        _info(CHITCHAT, "Conversations, labelled with their first question", 6_168, 3_401, 34, "MIT."),
        DatasetInfo(
            name="hf:NAME",
            description="Any data set of the Hugging Face Hub, or a local folder: hf:owner/name[@config][#split]",
            documents=None,
            examples=None,
            test_examples=None,
            labels=None,
            licence="Its own; see its card.",
            installed=importlib.util.find_spec("datasets") is not None,
            extra="hf",
        ),
    ]


def _info(data: PackagedSet, description: str, documents: int, examples: int, labels: int, licence: str) -> DatasetInfo:
    name = data.name.partition(":")[0]
    is_default = data is next(iter(PACKAGED[name].values()))
    return DatasetInfo(
        name=name if is_default else data.name,
        description=description,
        documents=documents,
        examples=examples,
        test_examples=data.num_test,
        labels=labels,
        licence=licence,
        installed=data.is_installed(),
        extra=EXTRA,
    )


def _find(source: str) -> _Named:
    """The packaged set and the split of a source."""
    full_name, has_split, split = source.partition("/")
    name, has_variant, variant = full_name.partition(":")
    if name not in PACKAGED:
        raise InputError(f"There is no data set '{source}'.{did_you_mean(name, PACKAGED)}")
    variants = PACKAGED[name]
    if not has_variant:
        variant = next(iter(variants))
    if variant not in variants:
        known = f"variants: {listed(variants)}" if any(variants) else "it has none"
        raise InputError(f"The data set {name} has no variant '{variant}' ({known}).{did_you_mean(variant, variants)}")
    if has_split and split not in SPLITS:
        raise InputError(
            f"The data set {full_name} has no split '{split}' (splits: {listed(SPLITS)}), and there is no file "
            f"{source}.{did_you_mean(split, SPLITS)}"
        )
    return _Named(variants[variant], split if has_split else None)
