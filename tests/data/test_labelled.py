"""Labelled sets: columns, label files, several labels, numbers, pairs, and errors."""

from importlib import import_module
from pathlib import Path

import pytest

from headswap.core.errors import InputError
from headswap.data.labelled import check_labels, label_names, number, read_labelled, several_labels
from headswap.data.records import Example


def read(source: Path, label_file: Path | None = None, **columns: str) -> list[Example]:
    wanted = {"text_column": "text", "label_column": "label"} | columns
    return read_labelled(str(source), **wanted, label_file=str(label_file) if label_file else None)


def problem(source: Path, label_file: Path | None = None, **columns: str) -> str:
    with pytest.raises(InputError) as raised:
        read(source, label_file, **columns)
    return str(raised.value)


def examples_of(labels: list[str] | str) -> list[Example]:
    return [Example(f"text {line}", label, "train.csv", line) for line, label in enumerate(labels, start=2)]


# Reading


def test_columns_give_texts_and_labels_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,label,text\n1,pos,"good,\nreally"\n2, neg ,bad\n')
    source = str(tmp_path / "a.csv")
    assert read(tmp_path / "a.csv") == [Example("good,\nreally", "pos", source, 2), Example("bad", "neg", source, 4)]
    (tmp_path / "a.tsv").write_text("stars\tbody\n5\tgood\n")
    assert read(tmp_path / "a.tsv", text_column="body", label_column="stars")[0].label == "5"


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ('"pos"', "pos"),
        ("1", "1"),
        ("0", "0"),
        ("1.0", "1"),
        ("4.5", "4.5"),
        ("true", "true"),
        ("false", "false"),
        ('"1.0"', "1.0"),
    ],
)
def test_labels_are_always_strings(tmp_path: Path, written: str, label: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "x", "label": {written}}}')
    assert read(tmp_path / "a.jsonl")[0].label == label


def test_parquet_columns_work_as_well(tmp_path: Path) -> None:
    pyarrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    labels = pyarrow.array(["neg", "pos"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": labels}), tmp_path / "a.parquet")
    assert [(example.text, example.label) for example in read(tmp_path / "a.parquet")] == [("a", "neg"), ("b", "pos")]


def test_every_blank_or_invalid_row_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = ['{"text": "x", "label": "a"}', '{"text": " ", "label": "a"}', '{"text": "x", "label": " "}']
    rows += [
        '{"text": "x", "label": null}',
        '{"text": "x", "label": [1]}',
        '{"text": "x", "label": NaN}',
        '{"text": null, "label": "a"}',
    ]
    file.write_text("\n".join(rows))
    said = problem(file).splitlines()
    assert said[0] == f"{file}, line 2: the text is blank."
    assert said[1] == f"{file}, line 3: the label is blank."
    assert said[2] == f"{file}, line 4: the label is null."
    assert said[3].startswith(f"{file}, line 5: the label is a list")
    assert said[4].startswith(f"{file}, line 6: the label is a number (nan)")
    assert said[5] == f"{file}, line 7: the text is null, not a string. Correct these lines, or remove them."
    assert len(said) == 6


@pytest.mark.parametrize("sign", [";", "\t"])
def test_a_wrong_field_separator_is_reported(tmp_path: Path, sign: str) -> None:
    (tmp_path / "a.csv").write_text(f"text{sign}label\na film{sign}good\n")
    said = problem(tmp_path / "a.csv")
    assert f"its fields seem to be separated by {sign!r}" in said
    assert "--text-column" not in said
    assert "\n" not in said


def test_a_missing_label_column_is_reported_with_a_candidate(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,stars\ngood,5\n")
    assert problem(file) == f"{file} has no column 'label' (columns: 'text', 'stars'). Pass --label-column stars."


def test_a_text_file_and_a_label_file_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "train.review.spm").write_text("▁un ▁livre\n▁bon\n")
    (tmp_path / "train.label").write_bytes(b"1\r\n0\r\n")
    read_back = read(tmp_path / "train.review.spm", tmp_path / "train.label")
    source = str(tmp_path / "train.review.spm")
    assert read_back == [Example("▁un ▁livre", "1", source, 1), Example("▁bon", "0", source, 2)]


def test_text_and_label_files_of_different_lengths_are_reported_with_both_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    (tmp_path / "a.label").write_text("0\n1\n")
    for text, label in (("a.txt", "a.label"), ("a.label", "a.txt")):
        said = problem(tmp_path / text, tmp_path / label).replace(" lines", "")
        assert f"{tmp_path / 'a.txt'} has 3" in said
        assert f"{tmp_path / 'a.label'} has 2" in said
        assert said.endswith("Every text needs one label, so both files must have the same number of."), (
            "no line is to be corrected"
        )


def test_labels_that_look_like_numbers_suggest_regression() -> None:
    prices = [str(at / 4) for at in range(30)]
    with pytest.raises(InputError) as raised:
        check_labels(examples_of(prices), prices[:12], role="test")
    said = str(raised.value).splitlines()
    assert said[-1] == "The labels look like numbers. To predict numbers, fine-tune with --task regress."
    assert sum("look like numbers" in line for line in said) == 1
    for unseen, labels in ((["6"], "12345"), (["x12"], [f"x{at}" for at in range(12)])):
        with pytest.raises(InputError) as raised:
            check_labels(examples_of(unseen), labels, role="test")
        assert "look like numbers" not in str(raised.value), "stars and names are classes, not numbers"


def test_blank_lines_of_text_and_label_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n \nc\n")
    (tmp_path / "a.label").write_text("0\n1\n\n")
    assert problem(tmp_path / "a.txt", tmp_path / "a.label").splitlines() == [
        f"{tmp_path / 'a.txt'}, line 2: the text is blank.",
        f"{tmp_path / 'a.label'}, line 3: the label is blank. Correct these lines, or remove them.",
    ]


def test_wrong_use_of_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "a.csv").write_text("text,label\n")
    assert "--label-file" in problem(tmp_path / "a.txt")
    assert "Leave it out" in problem(tmp_path / "a.csv", tmp_path / "a.txt")
    assert f"{tmp_path / 'a.csv'} is empty" in problem(tmp_path / "a.csv")
    assert "is a folder" in problem(tmp_path)
    assert "no.csv does not exist" in problem(tmp_path / "no.csv")
    assert "no.label does not exist" in problem(tmp_path / "a.txt", tmp_path / "no.label")


# Labels


def test_label_names_are_sorted_and_at_least_two() -> None:
    assert label_names(examples_of("bacab")) == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"train.csv has only one class \('a'\)"):
        label_names(examples_of("aaa"))


def test_each_label_not_in_train_is_reported_once_with_its_line() -> None:
    check_labels(examples_of(["pos", "neg"]), ["neg", "pos"], role="test")
    with pytest.raises(InputError) as raised:
        check_labels(examples_of(["pos", "Pos", "mixed", "Pos"]), ["neg", "pos"], role="test")
    said = str(raised.value).splitlines()
    assert len(said) == 2
    assert said[0].startswith("train.csv, line 3: the label 'Pos' of the test set does not occur in train (2 examples")
    assert said[0].endswith("labels in train: 'neg', 'pos'). Did you mean 'pos'?")
    assert said[1].startswith("train.csv, line 4: the label 'mixed'")


# Several labels, numbers, pairs


def several(file: Path, separator: str = ",") -> list[Example]:
    parse = several_labels(separator)
    return read_labelled(str(file), text_column="text", label_column="label", parse=parse)


def test_several_labels_are_a_list_or_a_separated_string(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "label": ["b", "a", "b"]}\n{"text": "y", "label": []}\n{"text": "z", "label": "b, a"}\n'
        '{"text": "z", "label": 3}\n'
    )
    assert [example.labels for example in several(tmp_path / "a.jsonl")] == [("a", "b"), (), ("a", "b"), ("3",)]
    (tmp_path / "a.csv").write_text("text,label\nx,a|b\ny,\n")
    assert [example.labels for example in several(tmp_path / "a.csv", "|")] == [("a", "b"), ()]


def test_invalid_labels_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": null}\n{"text": "x", "label": [{}]}\n')
    with pytest.raises(InputError) as raised:
        several(tmp_path / "a.jsonl")
    said = str(raised.value).splitlines()
    assert said[0].endswith("line 1: the label is null; write [] or an empty string for a text without labels.")
    assert "line 2: the labels [{}] contain a value" in said[1]


def test_numbers_are_read_and_other_values_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nx,3.5\ny,-1e3\n")
    found = read_labelled(str(tmp_path / "a.csv"), text_column="text", label_column="label", parse=number)
    assert [example.value for example in found] == [3.5, -1000.0]
    (tmp_path / "b.csv").write_text("text,label\nx,good\ny,nan\nz,\n")
    with pytest.raises(InputError) as raised:
        read_labelled(str(tmp_path / "b.csv"), text_column="text", label_column="label", parse=number)
    assert [line.partition(": ")[2] for line in str(raised.value).splitlines()] == [
        "the label is 'good', not a finite number.",
        "the label is 'nan', not a finite number.",
        "the label is blank, not a finite number. Correct these lines, or remove them.",
    ]


def test_pairs_have_a_second_text_that_is_never_blank(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,other,label\nx,y,a\nx, ,b\n")
    with pytest.raises(InputError, match="line 3: the second text is blank"):
        read(tmp_path / "a.csv", text_pair_column="other")
    (tmp_path / "a.csv").write_text("text,other,label\nx,y,a\n")
    assert read(tmp_path / "a.csv", text_pair_column="other")[0].text_pair == "y"
