"""Labelled sets, their labels, and choices that keep the shares of the classes."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.errors import InputError, SettingError
from headswap.data.labelled import check_labels, label_names, number, read_labelled, several_labels
from headswap.data.records import Example
from headswap.data.stratify import stratified_split, stratified_subset

LABELS = st.lists(st.sampled_from("aaaaaaaabbbbccd"), min_size=1, max_size=120)


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
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'headswap[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'headswap[parquet]'")
    labels = pyarrow.array(["neg", "pos"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": labels}), tmp_path / "a.parquet")
    assert [(example.text, example.label) for example in read(tmp_path / "a.parquet")] == [("a", "neg"), ("b", "pos")]


def test_every_blank_or_unusable_row_is_named(tmp_path: Path) -> None:
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
def test_fields_that_something_else_parts_are_told(tmp_path: Path, sign: str) -> None:
    (tmp_path / "a.csv").write_text(f"text{sign}label\na film{sign}good\n")
    said = problem(tmp_path / "a.csv")
    assert f"its fields seem to be separated by {sign!r}" in said
    assert "--text-column" not in said
    assert "\n" not in said


def test_a_missing_label_column_is_told_with_the_one_it_could_be(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,stars\ngood,5\n")
    assert problem(file) == f"{file} has no column 'label' (columns: 'text', 'stars'). Pass --label-column stars."


def test_a_text_file_and_a_label_file_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "train.review.spm").write_text("▁un ▁livre\n▁bon\n")
    (tmp_path / "train.label").write_bytes(b"1\r\n0\r\n")
    read_back = read(tmp_path / "train.review.spm", tmp_path / "train.label")
    source = str(tmp_path / "train.review.spm")
    assert read_back == [Example("▁un ▁livre", "1", source, 1), Example("▁bon", "0", source, 2)]


def test_text_and_label_files_of_different_lengths_are_told_with_both_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    (tmp_path / "a.label").write_text("0\n1\n")
    for text, label in (("a.txt", "a.label"), ("a.label", "a.txt")):
        said = problem(tmp_path / text, tmp_path / label).replace(" lines", "")
        assert f"{tmp_path / 'a.txt'} has 3" in said
        assert f"{tmp_path / 'a.label'} has 2" in said
        assert said.endswith("Every text needs one label, so both files must have the same number of."), (
            "no line is wrong"
        )


def test_labels_that_look_like_numbers_bring_regression_to_mind() -> None:
    prices = [str(at / 4) for at in range(30)]
    with pytest.raises(InputError) as raised:
        check_labels(examples_of(prices), prices[:12], role="test")
    said = str(raised.value).splitlines()
    assert said[-1] == "The labels look like numbers. To predict numbers, fine-tune with --task regress."
    assert sum("look like numbers" in line for line in said) == 1
    for unseen, labels in ((["6"], "12345"), (["x12"], [f"x{at}" for at in range(12)])):
        with pytest.raises(InputError) as raised:
            check_labels(examples_of(unseen), labels, role="test")
        assert "look like numbers" not in str(raised.value), "stars and names are classes"


def test_blank_lines_of_text_and_label_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n \nc\n")
    (tmp_path / "a.label").write_text("0\n1\n\n")
    assert problem(tmp_path / "a.txt", tmp_path / "a.label").splitlines() == [
        f"{tmp_path / 'a.txt'}, line 2: the text is blank.",
        f"{tmp_path / 'a.label'}, line 3: the label is blank. Correct these lines, or remove them.",
    ]


def test_wrong_use_of_files_is_told(tmp_path: Path) -> None:
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


def test_each_label_never_seen_in_train_is_named_once_with_its_line() -> None:
    check_labels(examples_of(["pos", "neg"]), ["neg", "pos"], role="test")
    with pytest.raises(InputError) as raised:
        check_labels(examples_of(["pos", "Pos", "mixed", "Pos"]), ["neg", "pos"], role="test")
    said = str(raised.value).splitlines()
    assert len(said) == 2
    assert said[0].startswith("train.csv, line 3: the label 'Pos' of the test set does not occur in train (2 examples")
    assert said[0].endswith("labels in train: 'neg', 'pos'). Did you mean 'pos'?")
    assert said[1].startswith("train.csv, line 4: the label 'mixed'")


# Choices


@given(labels=LABELS, seed=st.integers(0, 5), data=st.data())
def test_a_larger_subset_begins_with_the_smaller(labels: list[str], seed: int, data: st.DataObject) -> None:
    examples = examples_of(labels)
    larger = data.draw(st.integers(1, len(labels)))
    smaller = data.draw(st.integers(1, larger))
    chosen = stratified_subset(examples, larger, seed)
    assert len(set(chosen)) == larger
    assert chosen[:smaller] == stratified_subset(examples, smaller, seed)


@given(labels=LABELS, seed=st.integers(0, 5), data=st.data())
def test_a_subset_keeps_the_shares_and_every_class(labels: list[str], seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(labels)))
    counts, chosen = (
        Counter(labels),
        Counter(labels[index] for index in stratified_subset(examples_of(labels), size, seed)),
    )
    if size >= len(counts):
        assert set(chosen) == set(counts)
    for label, count in counts.items():
        assert abs(chosen[label] - size * count / len(labels)) < len(counts)


def test_a_subset_of_two_even_classes_is_even_and_depends_on_the_seed() -> None:
    examples = examples_of("a" * 500 + "b" * 500)
    chosen = stratified_subset(examples, 100, 0)
    assert Counter(examples[index].label for index in chosen) == {"a": 50, "b": 50}
    assert chosen == stratified_subset(examples, 100, 0)
    assert set(chosen) != set(stratified_subset(examples, 100, 1))


@pytest.mark.parametrize("size", [10, 37, 100, 500, 999])
def test_a_subset_of_uneven_classes_has_their_shares_to_one_example(size: int) -> None:
    labels = "a" * 700 + "b" * 200 + "c" * 100
    chosen = Counter(labels[index] for index in stratified_subset(examples_of(labels), size, 3))
    for label, share in (("a", 0.7), ("b", 0.2), ("c", 0.1)):
        assert abs(chosen[label] - share * size) <= 1


def test_more_examples_than_there_are_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"1,200 examples are requested, but train\.csv has 2"):
        stratified_subset(examples_of("ab"), 1200, 0)


@given(labels=LABELS, fraction=st.floats(0.01, 0.99), seed=st.integers(0, 5))
def test_a_split_parts_every_class_and_loses_nothing(labels: list[str], fraction: float, seed: int) -> None:
    counts = Counter(labels)
    if max(counts.values()) < 2:
        with pytest.raises(InputError, match="no label has two examples"):
            stratified_split(examples_of(labels), fraction, seed)
        return
    rest, held = stratified_split(examples_of(labels), fraction, seed)
    assert sorted(rest + held) == list(range(len(labels)))
    assert (rest, held) == stratified_split(examples_of(labels), fraction, seed)
    in_rest, in_held = Counter(labels[index] for index in rest), Counter(labels[index] for index in held)
    for label, count in counts.items():
        assert in_rest[label] >= 1
        assert in_held[label] >= (1 if count >= 2 else 0)
        assert abs(in_held[label] - fraction * count) <= 1


def test_a_split_holds_out_the_share_that_was_asked_for() -> None:
    examples = examples_of("a" * 700 + "b" * 300)
    _, held = stratified_split(examples, 0.2, 0)
    assert Counter(examples[index].label for index in held) == {"a": 140, "b": 60}
    for fraction in (0, 1, 1.5):
        with pytest.raises(SettingError, match="between 0 and 1"):
            stratified_split(examples, fraction, 0)


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


def test_labels_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": null}\n{"text": "x", "label": [{}]}\n')
    with pytest.raises(InputError) as raised:
        several(tmp_path / "a.jsonl")
    said = str(raised.value).splitlines()
    assert said[0].endswith("line 1: the label is null; write [] or an empty string for a text without labels.")
    assert "line 2: the labels [{}] contain a value" in said[1]


def test_numbers_are_read_and_what_is_none_is_named(tmp_path: Path) -> None:
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
