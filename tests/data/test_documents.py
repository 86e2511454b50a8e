"""What a corpus is read as, and what is said of one that cannot be read."""

import csv
import gzip
import io
import json
import logging
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headswap.core.errors import InputError, MissingExtraError
from headswap.data.config import ReadSettings
from headswap.data.documents import find_files, read_documents, spool_stdin
from headswap.data.open_text import log_once
from headswap.data.records import Document

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@pytest.fixture(autouse=True)
def _log_everything_again() -> None:
    log_once.cache_clear()


def read(*sources: object, **values: str) -> list[Document]:
    return list(read_documents([str(source) for source in sources], ReadSettings(**values)))  # type: ignore[arg-type]


def texts(*sources: object, **values: str) -> list[str]:
    return [document.text for document in read(*sources, **values)]


def problem(*sources: object, **values: str) -> str:
    with pytest.raises(InputError) as raised:
        read(*sources, **values)
    return str(raised.value)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "headswap"]


# Plain text


def test_a_line_is_a_document_with_its_source_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n" * 11 + "\n two \n")
    assert read(file)[-1] == Document(" two ", str(file), 13)
    assert len(read(file)) == 12


def test_auto_takes_paragraphs_where_a_tenth_of_the_lines_is_blank(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a\nb\n\n\t\nc\nd\n")
    assert read(file) == [Document("a\nb", str(file), 1), Document("c\nd", str(file), 5)]
    file.write_text("a\n" * 9 + "\nb\n")
    assert len(read(file)) == 10  # one of eleven lines
    file.write_text("a\n" * 8 + "\nb\n")
    assert len(read(file)) == 2  # one of ten


def test_blank_lines_at_either_end_do_not_make_paragraphs(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("\n\na\nb\nc\n\n\n")
    assert texts(file) == ["a", "b", "c"]


def test_the_document_unit_can_be_said(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a\nb\n\nc\n")
    assert texts(file, documents="line") == ["a", "b", "c"]
    assert texts(file, documents="paragraph") == ["a\nb", "c"]
    assert texts(file, documents="file") == ["a\nb\n\nc"]


def test_the_choice_of_the_unit_is_logged_once_for_many_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("x\ny\n")
    (tmp_path / "d.txt").write_text("x\n\ny\n")
    read(tmp_path)
    read(tmp_path)
    logged = messages(caplog)
    assert len(logged) == 2
    assert "a.txt: reading one document per line" in logged[0]
    assert "d.txt: reading one document per paragraph" in logged[1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_marks_and_line_ends_are_no_part_of_the_text(tmp_path: Path, encoding: str, end: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(f"été{end}日本{end}".encode(encoding))
    assert texts(file) == ["été", "日本"]


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    text = "a\u2028b\x0bc\x85d\x1ce\rf"
    file.write_text(f"{text}\nsecond", newline="")
    assert texts(file) == [text, "second"]


def test_a_line_of_ten_megabytes_is_one_document(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    long = "été " * 2_000_000
    file.write_text(f"{long}\nshort\n")
    assert texts(file, documents="line") == [long, "short"]


@SAME_FOLDER
@given(
    lines=st.lists(st.text(CHARACTERS.filter(lambda sign: sign not in "\r\n")), min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_lines_come_back_as_they_were_written(tmp_path: Path, lines: list[str], end: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(("kept" + end + end.join(lines)).encode())
    expected = [Document(text, str(file), line) for line, text in enumerate(["kept", *lines], start=1) if text.strip()]
    assert read(file, documents="line") == expected


@SAME_FOLDER
@given(data=st.binary(max_size=200))
def test_any_bytes_give_documents_or_a_sentence(tmp_path: Path, data: bytes) -> None:
    for name in ("a.txt", "a.jsonl", "a.csv", "a.txt.gz", "a.txt.xz", "a.txt.zst", "a.parquet"):
        file = tmp_path / name
        file.write_bytes(data)
        said = ""
        try:
            read(file)
        except InputError as raised:
            said = str(raised)
        assert not said or str(file) in said


def test_undecodable_bytes_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"fine\n" * 400_000 + b"no\xebl\n")  # beyond the first piece
    assert f"{file}, line 400001: byte 0xEB is not UTF-8" in problem(file)
    assert "iconv" in problem(file)
    file.write_bytes("a\nété".encode()[:-1])
    assert f"{file}, line 2: byte 0xC3" in problem(file)


def test_nul_bytes_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"a\nb\nc\0d\n")
    assert f"{file}, line 3: a NUL byte" in problem(file)
    file.write_bytes(b"a\nb\0")
    assert f"{file}, line 2: a NUL byte" in problem(file)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", ""),
        ("b.txt", "\n \n"),
        ("c.jsonl", ""),
        ("d.csv", ""),
        ("e.csv", "text\n"),
        ("f.jsonl", '{"text": " "}'),
    ],
)
@pytest.mark.parametrize("unit", ["auto", "line", "paragraph", "file"])
def test_a_file_without_a_document_is_empty(tmp_path: Path, name: str, content: str, unit: str) -> None:
    (tmp_path / name).write_text(content)
    assert f"{tmp_path / name} is empty" in problem(tmp_path / name, documents=unit)


# Compression


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard", reason="pip install 'headswap[zstd]'").ZstdCompressor().compress(data)


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_read_like_plain_ones(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESSORS[suffix]
    (tmp_path / f"a.txt.{suffix}").write_bytes(compress(b"one\n") + compress(b"two\n"))  # members in a row
    (tmp_path / f"b.jsonl.{suffix}").write_bytes(compress(b'{"text": "three"}\n'))
    (tmp_path / f"c.CSV.{suffix}").write_bytes(compress(b"text\nfour\n"))
    assert texts(tmp_path) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_file_that_was_cut_off_is_an_error(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.txt.{suffix}"
    file.write_bytes(COMPRESSORS[suffix](b"".join(b"line %d\n" % number for number in range(50_000)))[:-20])
    assert f"{file} is not complete" in problem(file)
    file.write_bytes(b"this was never compressed\n")
    assert f"{file} is not complete" in problem(file)


def test_zstd_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt.zst").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[zstd\]"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.txt.gz"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str) -> None:
    line = {"a.jsonl": b'{"text": "%s"}\n', "a.csv": b"%s\n"}.get(name, b"%s\n") % (b"some words " * 90)
    content = (b"text\n" if name == "a.csv" else b"") + line * 30_000
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    del content
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_documents([str(tmp_path / name)], ReadSettings())) >= 30_000
        assert tracemalloc.get_traced_memory()[1] < 12 << 20  # of 30 MB
    finally:
        tracemalloc.stop()


# Columns


def test_jsonl_gives_the_text_column_by_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a\\nb", "x": 1}\n\n{"text": "c"}\r\n')
    assert read(file) == [Document("a\nb", str(file), 1), Document("c", str(file), 3)]
    file.write_text('{"body": "a"}\n')
    assert texts(file, text_column="body") == ["a"]


def test_line_delimited_json_may_be_called_json_and_other_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"text": "a"}\n{"text": "b"}\n')
    assert texts(file) == ["a", "b"]
    for content in ('[{"text": "a"}]', '[\n  {"text": "a"}\n]', '{\n  "text": "a"\n}'):
        file.write_text(content)
        assert "write one object per line" in problem(file)


def test_all_broken_rows_of_a_file_are_named_at_once(tmp_path: Path) -> None:
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
def test_a_missing_column_names_those_there_are(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    said = problem(tmp_path / name)
    assert said.startswith(f"{tmp_path / name} has no column 'text' (columns: 'body', 'id').")
    assert "--text-column" in said
    (tmp_path / "only.csv").write_text("my body\nx\n")
    assert "Pass --text-column 'my body'." in problem(tmp_path / "only.csv")


def test_empty_texts_of_rows_are_passed_over_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    file = tmp_path / "a.csv"
    file.write_text('text,id\n"",1\na,2\n" ",3\n')
    assert texts(file) == ["a"]
    assert messages(caplog) == [f"{file}: skipped 2 rows with a blank text."]


@SAME_FOLDER
@given(
    rows=st.lists(st.tuples(st.text(CHARACTERS), st.text(CHARACTERS)), min_size=1), end=st.sampled_from(["\n", "\r\n"])
)
def test_csv_rows_come_back_as_they_were_written(tmp_path: Path, rows: list[tuple[str, str]], end: str) -> None:
    buffer = io.StringIO(newline="")
    quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL  # the writer leaves \r bare where \n ends a row
    csv.writer(buffer, lineterminator=end, quoting=quoting).writerows([("id", "text"), ("0", "kept"), *rows])
    file = tmp_path / "a.csv"
    file.write_bytes(buffer.getvalue().encode())
    assert texts(file) == ["kept", *(text for _, text in rows if text.strip())]


@SAME_FOLDER
@given(rows=st.lists(st.text(CHARACTERS), min_size=1), ascii_only=st.booleans())
def test_jsonl_rows_come_back_as_they_were_written(tmp_path: Path, rows: list[str], ascii_only: bool) -> None:
    file = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=ascii_only) for text in ["kept", *rows]]
    file.write_bytes("\n".join(lines).encode())
    assert texts(file) == ["kept", *(text for text in rows if text.strip())]


def test_csv_rows_know_the_line_on_which_they_begin(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('text,id\n"a\nb\nc",1\n\nd,2\n')
    assert [document.line for document in read(file)] == [2, 6]


def test_csv_takes_a_field_of_ten_megabytes(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"text\n{'x' * 10_000_000}\n")
    assert len(texts(file)[0]) == 10_000_000


def test_csv_rows_of_another_width_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text,id\na,1\nb\nc,2,3\n")
    assert problem(file).splitlines() == [
        f"{file}, line 3: 1 fields, but the header has 2.",
        f"{file}, line 4: 3 fields, but the header has 2. Put a field that contains the delimiter in double quotes. "
        "Correct these lines, or remove them.",
    ]


@pytest.mark.parametrize("content", ['text,id\na,1\n"b,2\nc,3\n', 'text,id\na,1\n"b" c,2\n'])
def test_broken_csv_quoting_is_named_with_its_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert f"{tmp_path / 'a.csv'}, line 3: invalid quoting" in problem(tmp_path / "a.csv")


def test_a_quote_in_tsv_never_joins_rows_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text('text\tid\nplain "quoted" words\t1\n"both"\t2\n')
    assert texts(file) == ['plain "quoted" words', "both"]
    file.write_text('text\tid\n"so it begins\t1\nand ends"\t2\n')
    assert f"{file}, line 2: a quoted field contains tabs and line ends" in problem(file)


def test_parquet_reads_like_the_others(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'headswap[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'headswap[parquet]'")
    rows = [f"text {number}" for number in range(3000)]
    parquet.write_table(pyarrow.table({"id": range(3000), "text": rows}), tmp_path / "a.parquet", row_group_size=700)
    assert read(tmp_path / "a.parquet")[2999] == Document("text 2999", str(tmp_path / "a.parquet"), 3000)
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert texts(tmp_path / "b.parquet.gz") == rows
    assert "has no column 'body' (columns: 'id', 'text')" in problem(tmp_path / "a.parquet", text_column="body")
    assert "line 1: the text is a number" in problem(tmp_path / "a.parquet", text_column="id")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 not at all")
    assert "is not valid parquet" in problem(tmp_path / "c.parquet")


def test_parquet_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[parquet\]"):
        read(tmp_path)


# Files, folders, globs, standard input


def test_a_folder_gives_its_text_files_sorted_without_hidden_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    for name in ("b.txt", "a/z.jsonl", "a/deep/c.spm", ".git/x.txt", ".hidden.txt", "picture.png", "LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"text": "x"}')
    assert [str(path.relative_to(tmp_path)) for path in find_files([str(tmp_path)])] == [
        "a/deep/c.spm",
        "a/z.jsonl",
        "b.txt",
    ]
    assert messages(caplog) == [f"{tmp_path}: skipped 2 files without a known text extension."]


def test_globs_find_files_and_no_file_is_read_twice(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "b.txt", "sub/c.txt", "d[1].txt"):
        (tmp_path / name).write_text(name)
    assert texts(f"{tmp_path}/*.txt") == ["a.txt", "b.txt", "d[1].txt"]
    assert texts(f"{tmp_path}/**/c*.txt") == ["sub/c.txt"]
    assert texts(tmp_path / "d[1].txt") == ["d[1].txt"]
    assert texts(tmp_path / "b.txt", tmp_path, f"{tmp_path}/?.txt") == ["b.txt", "a.txt", "d[1].txt", "sub/c.txt"]


def test_all_sources_that_are_not_there_are_named_at_once_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as raised:
        read_documents([f"{tmp_path}/no.txt", f"{tmp_path}/*.csv", f"{tmp_path}/empty", "moveis"], ReadSettings())
    said = str(raised.value).splitlines()
    assert said[0] == f"{tmp_path}/no.txt does not exist."
    assert said[1] == f"No file matches {tmp_path}/*.csv."
    assert said[2].startswith(f"The folder {tmp_path}/empty contains no text files (.csv")
    assert said[3] == "moveis does not exist. Did you mean 'movies'?"


def test_an_unknown_extension_is_read_as_text_with_one_logged_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    for name in ("a.raw", "b.raw", "c", "d.spm"):
        (tmp_path / name).write_text(name)
    assert texts(*(tmp_path / name for name in ("a.raw", "b.raw", "c", "d.spm")), documents="line") == [
        "a.raw",
        "b.raw",
        "c",
        "d.spm",
    ]
    assert messages(caplog) == [
        f"{tmp_path / 'a.raw'}: read as plain text, because '.raw' is not a known extension.",
        f"{tmp_path / 'c'}: read as plain text, because it has no extension.",
    ]


class FakeStdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_standard_input_is_streamed_or_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", FakeStdin("été\r\nhiver\n".encode()))
    assert read("-") == [Document("été", "Standard input", 1), Document("hiver", "Standard input", 2)]
    paths = set()
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", FakeStdin("été\nhiver\n".encode()))
        paths.add(spool_stdin(tmp_path / "spool"))
    assert len(paths) == 1
    assert texts(*paths) == ["été", "hiver"]
    assert len(list((tmp_path / "spool").iterdir())) == 1


def test_empty_standard_input_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", FakeStdin(b""))
    assert "Standard input is empty" in problem("-")
    with pytest.raises(InputError, match="Standard input is empty"):
        spool_stdin(tmp_path)
    assert list(tmp_path.iterdir()) == []
