"""Files with columns: rows are read with their lines, and invalid rows are reported."""

import csv
import gzip
import io
import json
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.errors import MissingExtraError
from headswap.data.columns import Problems, read_rows
from headswap.data.records import Document
from reading import CHARACTERS, SAME_FOLDER, problem, read, texts


def test_jsonl_gives_the_text_column_by_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a\\nb", "x": 1}\n\n{"text": "c"}\r\n')
    assert read(file) == [Document("a\nb", str(file), 1), Document("c", str(file), 3)]
    file.write_text('{"body": "a"}\n')
    assert texts(file, text_column="body") == ["a"]


def test_a_json_file_may_have_one_object_per_line_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"text": "a"}\n{"text": "b"}\n')
    assert texts(file) == ["a", "b"]
    for content in ('[{"text": "a"}]', '[\n  {"text": "a"}\n]', '{\n  "text": "a"\n}'):
        file.write_text(content)
        assert "write one object per line" in problem(file)


def test_all_invalid_rows_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [
        '{"text": "a"}',
        '{"text": "b"',
        "[1]",
        '{"body": "x", "id": 3}',
        '{"text": null}',
        '{"text": 5}',
        '{"text": "\\u0000"}',
    ]
    file.write_text("\n".join([*rows, '{"text": "\\ud83d"}', '{"text": "last"}']))
    said = problem(file).splitlines()
    assert len(said) == 7
    assert said[0].startswith(f"{file}, line 2: not valid JSON")
    assert f"{file}, line 3: a list, but a JSON object" in said[1]
    assert f"{file}, line 4 has no column 'text' (columns: 'body', 'id')" in said[2]
    assert said[3] == f"{file}, line 5: the text is null, not a string."
    assert said[4] == f"{file}, line 6: the text is a number, not a string."
    assert said[5] == f"{file}, line 7: the text contains a NUL character."
    assert "line 8: the text contains U+D83D" in said[6]


def test_the_search_for_problems_ends_after_ten(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a"}\n' + "broken\n" * 50)
    assert len(problem(file).splitlines()) == 10


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "body,id\nx,1\n"), ("a.tsv", "body\tid\nx\t1\n"), ("a.jsonl", '{"body": "x", "id": 1}')],
)
def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    said = problem(tmp_path / name)
    assert said.startswith(f"{tmp_path / name} has no column 'text' (columns: 'body', 'id').")
    assert "--text-column" in said
    (tmp_path / "only.csv").write_text("my body\nx\n")
    assert "Pass --text-column 'my body'." in problem(tmp_path / "only.csv")


@SAME_FOLDER
@given(
    rows=st.lists(st.tuples(st.text(CHARACTERS), st.text(CHARACTERS)), min_size=1), end=st.sampled_from(["\n", "\r\n"])
)
def test_csv_rows_are_read_back_equal(tmp_path: Path, rows: list[tuple[str, str]], end: str) -> None:
    buffer = io.StringIO(newline="")
    quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL  # the writer leaves \r bare where \n ends a row
    csv.writer(buffer, lineterminator=end, quoting=quoting).writerows([("id", "text"), ("0", "kept"), *rows])
    file = tmp_path / "a.csv"
    file.write_bytes(buffer.getvalue().encode())
    assert texts(file) == ["kept", *(text for _, text in rows if text.strip())]


@SAME_FOLDER
@given(rows=st.lists(st.text(CHARACTERS), min_size=1), ascii_only=st.booleans())
def test_jsonl_rows_are_read_back_equal(tmp_path: Path, rows: list[str], ascii_only: bool) -> None:
    file = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=ascii_only) for text in ["kept", *rows]]
    file.write_bytes("\n".join(lines).encode())
    assert texts(file) == ["kept", *(text for text in rows if text.strip())]


def test_csv_rows_have_the_line_on_which_they_begin(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('text,id\n"a\nb\nc",1\n\nd,2\n')
    assert [document.line for document in read(file)] == [2, 6]


def test_a_blank_line_is_an_empty_text_only_in_a_file_of_one_column(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text\none\n\n\ntwo\n\n\n")
    rows = list(read_rows(file, {"text": "text"}, Problems()))
    assert rows == [(2, ["one"]), (3, [""]), (4, [""]), (5, ["two"])], "blank lines at the end are no texts"
    file.write_text("text,id\none,1\n\ntwo,2\n\n")
    assert list(read_rows(file, {"text": "text"}, Problems())) == [(2, ["one"]), (4, ["two"])]


def test_a_csv_field_may_have_ten_megabytes(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"text\n{'x' * 10_000_000}\n")
    assert len(texts(file)[0]) == 10_000_000


def test_csv_rows_with_a_wrong_number_of_fields_are_reported_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text,id\na,1\nb\nc,2,3\n")
    assert problem(file).splitlines() == [
        f"{file}, line 3: 1 fields, but the header has 2.",
        f"{file}, line 4: 3 fields, but the header has 2. Put a field that contains the delimiter in double quotes. "
        "Correct these lines, or remove them.",
    ]


@pytest.mark.parametrize("content", ['text,id\na,1\n"b,2\nc,3\n', 'text,id\na,1\n"b" c,2\n'])
def test_invalid_csv_quoting_is_reported_with_its_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert f"{tmp_path / 'a.csv'}, line 3: invalid quoting" in problem(tmp_path / "a.csv")


def test_a_quote_in_tsv_never_joins_rows_silently(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text('text\tid\nplain "quoted" words\t1\n"both"\t2\n')
    assert texts(file) == ['plain "quoted" words', "both"]
    file.write_text('text\tid\n"so it begins\t1\nand ends"\t2\n')
    assert f"{file}, line 2: a quoted field contains tabs and line ends" in problem(file)


def test_parquet_reads_like_the_others(tmp_path: Path) -> None:
    pyarrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    rows = [f"text {number}" for number in range(3000)]
    parquet.write_table(pyarrow.table({"id": range(3000), "text": rows}), tmp_path / "a.parquet", row_group_size=700)
    assert read(tmp_path / "a.parquet")[2999] == Document("text 2999", str(tmp_path / "a.parquet"), 3000)
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert texts(tmp_path / "b.parquet.gz") == rows
    assert "has no column 'body' (columns: 'id', 'text')" in problem(tmp_path / "a.parquet", text_column="body")
    assert "line 1: the text is a number" in problem(tmp_path / "a.parquet", text_column="id")
    twice = pyarrow.table([pyarrow.array(rows), pyarrow.array(rows)], names=["text", "text"])
    parquet.write_table(twice, tmp_path / "d.parquet")
    assert "has the column 'text' twice" in problem(tmp_path / "d.parquet")
    parquet.write_table(pyarrow.table({"text": [b"\xff"]}), tmp_path / "e.parquet")
    assert "line 1: the text is a sequence of bytes, not a string" in problem(tmp_path / "e.parquet")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 not at all")
    assert "is not valid parquet" in problem(tmp_path / "c.parquet")


def test_parquet_without_its_package_is_reported_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[parquet\]"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_file_with_carriage_returns_as_line_ends_is_named_as_such(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"text\rone\rtwo\r")
    assert "line 1: a carriage return (CR) without a line feed" in problem(tmp_path / name)
    assert r"tr '\r' '\n' < OLD > NEW" in problem(tmp_path / name)
