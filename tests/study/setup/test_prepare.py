"""The data of a study: overlap is found before anything is trained, and the test set is never changed."""

import json
import logging
from pathlib import Path

import pytest

from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.prepare import Prepared, prepare
from study_fixture import planned, sections_of, write_data


def texts(file: str) -> list[str]:
    return [json.loads(line)["text"] for line in Path(file).read_text(encoding="utf-8").splitlines()]


def add(file: Path, rows: list[dict[str, str]]) -> None:
    with file.open("a", encoding="utf-8") as handle:
        handle.writelines(f"{json.dumps(row)}\n" for row in rows)


def overlapping(tmp_path: Path, *, on_overlap: str) -> Prepared:
    """Two test texts are in train, one of them with another word; one is in the corpus."""
    sections = write_data(tmp_path / "files")
    long = " ".join(f"word{number}" for number in range(60))
    rows = [{"text": "Leaked <br /> word for word", "label": "pos"}, {"text": long, "label": "neg"}]
    add(tmp_path / "files" / "test.jsonl", rows)
    near = {"text": long.replace("word30", "another"), "label": "neg"}
    add(tmp_path / "files" / "train.jsonl", [{"text": "leaked  word for WORD", "label": "pos"}, near])
    add(tmp_path / "files" / "corpus.jsonl", [{"text": "leaked word for word"}])
    sections["study"]["on_overlap"] = on_overlap
    return prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")


def rows_of(prepared: Prepared, one: str, other: str) -> tuple[int, int]:
    found = next(row for row in prepared.overlap if (row["from"], row["to"]) == (one, other))
    return found["exact_rows"], found["near_rows"]


def test_overlap_is_removed_from_train_and_corpus_and_never_from_test(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepared = overlapping(tmp_path, on_overlap="drop")
    assert rows_of(prepared, "train", "test") == (1, 1)
    assert rows_of(prepared, "corpus", "test") == (1, 0)
    assert prepared.dropped == {"train": 2, "corpus": 1}
    assert len(texts(prepared.train)) == 240
    assert len(texts(prepared.test)) == 62
    assert len(texts(prepared.corpus[0])) == 150
    assert not any("leaked" in text for text in texts(prepared.train) + texts(prepared.corpus[0]))
    assert "2 texts of train also occur in test (1 exactly, 1 nearly)." in caplog.text


def test_overlap_can_be_reported_only(tmp_path: Path) -> None:
    prepared = overlapping(tmp_path, on_overlap="report")
    assert rows_of(prepared, "train", "test") == (1, 1)
    assert prepared.dropped == {}
    assert len(texts(prepared.train)) == 242


def test_overlap_can_stop_a_study(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"2 texts of train also occur in test \(1 exactly, 1 nearly\)\..*Nothing was trained"
    ):
        overlapping(tmp_path, on_overlap="stop")


def test_a_corpus_without_overlap_is_not_copied(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    prepared = prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")
    assert prepared.corpus == (str((tmp_path / "files" / "corpus.jsonl").resolve()),)
    assert prepared.num_rows == {"train": 240, "test": 60, "corpus": 150, "unlabelled": 240}


def test_prepared_data_are_used_again_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = write_data(tmp_path / "files")
    recipe = load_recipe(StudyRecipe, None, sections)
    first = prepare(recipe, tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr("headswap.study.setup.prepare.overlap_of_examples", lambda *_, **__: pytest.fail("read again"))
        assert prepare(recipe, tmp_path / "out") == first
    add(tmp_path / "files" / "train.jsonl", [{"text": "one more", "label": "pos"}])
    assert prepare(recipe, tmp_path / "out").num_rows["train"] == 241


def test_num_test_is_a_fixed_stratified_sample(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    sections["study"]["num_test"] = 20
    recipe = load_recipe(StudyRecipe, None, sections)
    chosen = texts(prepare(recipe, tmp_path / "out").test)
    assert len(chosen) == 20
    assert chosen == texts(prepare(recipe, tmp_path / "again").test)
    labels = [json.loads(line)["label"] for line in Path(tmp_path / "out/data/test.jsonl").read_text().splitlines()]
    assert labels.count("pos") == 10


def test_contained_texts_are_removed_and_passages_are_only_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    sections = write_data(tmp_path / "files")
    tested, own = ([f"{name}{number}" for number in range(60)] for name in ("word", "other"))
    add(tmp_path / "files" / "test.jsonl", [{"text": " ".join(tested), "label": "neg"}])
    part, quotation, passage = tested[:45], [*own, *tested, *own], [*own, *tested[20:40]]
    add(tmp_path / "files" / "train.jsonl", [{"text": " ".join(part), "label": "neg"}])
    add(tmp_path / "files" / "corpus.jsonl", [{"text": " ".join(quotation)}, {"text": " ".join(passage)}])
    prepared = prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")
    assert prepared.dropped == {"train": 1, "corpus": 1}
    found = next(row for row in prepared.overlap if (row["from"], row["to"]) == ("corpus", "test"))
    counts = {name: found[name] for name in ("exact_rows", "near_rows", "contained_rows", "passage_rows")}
    assert counts == {"exact_rows": 0, "near_rows": 0, "contained_rows": 1, "passage_rows": 1}
    assert texts(prepared.corpus[0])[-1] == " ".join(passage)
    assert "1 text of train also occurs in test (0 exactly, 0 nearly, 1 as a part or quotation)." in caplog.text
    assert "1 document of corpus shares a passage with a text of test" in caplog.text


def test_a_large_removed_part_of_the_corpus_is_noted_and_a_whole_corpus_is_an_error(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    tested = " ".join(f"word{number}" for number in range(60))
    add(tmp_path / "files" / "test.jsonl", [{"text": tested, "label": "neg"}])
    long = " ".join([*(f"other{number}" for number in range(2_000)), tested])
    add(tmp_path / "files" / "corpus.jsonl", [{"text": long}])
    (note,) = prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out").notes
    assert note.startswith("The overlap check removed ")
    (tmp_path / "files" / "corpus.jsonl").write_text(json.dumps({"text": long}) + "\n")
    with pytest.raises(InputError, match="nothing is left of it"):
        prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "again")


def test_a_token_store_is_checked_for_overlap_and_not_changed(tmp_path: Path) -> None:
    from headswap.cli.exit_codes import run

    sections = write_data(tmp_path / "files")
    tested = texts(str(tmp_path / "files" / "test.jsonl"))[0]
    add(tmp_path / "files" / "corpus.jsonl", [{"text": tested}])
    store = tmp_path / "store"
    flags = ["--tokenizer", str(tmp_path / "t.json"), "--out", str(store), "--quiet"]
    assert run(["tokenizer", sections["study"]["corpus"][0], "--out", str(tmp_path / "t.json"), "--quiet"]) == 0
    assert run(["store", sections["study"]["corpus"][0], *flags]) == 0
    sections["study"]["corpus"] = (str(store),)
    sections["tokenizer"] = {}
    prepared = prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")
    assert rows_of(prepared, "corpus", "test") == (1, 0)
    assert prepared.corpus == (str(store),)
    assert prepared.dropped == {}
    (note,) = prepared.notes
    assert note.startswith("1 document of the token store that is the corpus also occurs in test or validation.")
    sections["study"]["on_overlap"] = "stop"
    with pytest.raises(InputError, match="1 document of corpus also occurs in test"):
        prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train": None}, "No training set is given"),
        ({"test": None}, "A study needs a test set. Pass --test FILE."),
        ({"num_train": 50}, "num_train is a setting of finetune"),
        ({"task": "regress"}, "metric is 'accuracy', but a study of the task regress compares by r2 or pearson"),
        ({"task": "multilabel"}, "metric is 'accuracy', but a study of the task multilabel compares by micro_f1"),
        ({"context_column": "passage"}, "context_column cannot be set: the task classify does not read it"),
    ],
)
def test_data_that_a_study_cannot_use_are_refused(tmp_path: Path, changes: dict, sentence: str) -> None:
    sections = write_data(tmp_path / "files")
    sections["data"] |= changes
    with pytest.raises(SettingError, match=sentence):
        prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")


def test_the_cheap_checks_say_what_they_found_before_anything_is_trained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sections = write_data(tmp_path / "files")
    rows = [{"text": "the same words twice", "label": label} for label in ("pos", "neg")]
    add(tmp_path / "files" / "train.jsonl", rows)
    prepare(load_recipe(StudyRecipe, None, sections), tmp_path / "out")
    assert "Train: 1 text with different labels" in caplog.text


@pytest.mark.parametrize(("section", "flag"), [("finetune", "--seeds"), ("pretrain", "--base-seeds")])
def test_a_seed_of_the_trainings_is_an_error(tmp_path: Path, section: str, flag: str) -> None:
    sections = sections_of(tmp_path)
    sections[section] = sections.get(section, {}) | {"seed": 7}
    with pytest.raises(SettingError, match=f"Use {flag} for their number"):
        planned(tmp_path / "out", sections)
