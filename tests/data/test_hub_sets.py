"""Data sets through the library `datasets`: local folders, the Hub, and errors."""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from headswap.core.errors import InputError, MissingExtraError, SettingError
from headswap.data.config import ColumnSettings, ReadSettings
from headswap.data.documents import read_documents
from headswap.data.hub_sets import HubName, parse
from headswap.data.labelled import read_labelled, several_labels
from headswap.data.named_sets import (
    content_hash,
    named_splits,
    read_named_documents,
    read_named_examples,
)
from headswap.data.questions import read_questions
from headswap.data.tagged import read_tagged


def test_hub_names_are_parsed() -> None:
    assert parse("hf:imdb") == HubName("imdb", None, None)
    assert parse("hf:owner/name@config#test") == HubName("owner/name", "config", "test")
    assert parse("hf:/data/me@home/set#train") == HubName("/data/me@home/set", None, "train")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data set of local files; the cache of the library is in a temporary folder."""
    library = import_module("datasets")
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
    library = import_module("datasets")
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


def test_an_unreachable_hub_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    library = import_module("datasets")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'owner/name' on the Hub (LocalEntryNotFoundError)")

    monkeypatch.setattr(library, "load_dataset", unreachable)
    with pytest.raises(InputError, match="hf:owner/name cannot be downloaded: the Hugging Face Hub is unreachable"):
        read_named_examples("hf:owner/name")


def test_a_missing_library_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[hf\]"):
        list(read_named_documents("hf:owner/name"))


def test_other_labels_of_a_local_folder_with_the_same_date_are_read(tmp_path: Path, folder: str) -> None:
    """The library itself caches a local folder by the mtime of its files alone."""
    (tmp_path / "lines").mkdir()
    file = tmp_path / "lines" / "train.jsonl"
    found = []
    for label in ("pos", "neg"):
        file.write_text(json.dumps({"text": "a film", "label": label}) + "\n", encoding="utf-8")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        source = f"hf:{tmp_path / 'lines'}"
        found.append((read_named_examples(source)[0].label, content_hash(source)))
    assert [label for label, _ in found] == ["pos", "neg"]
    assert found[0][1] != found[1][1]
