"""A corpus: document units, files, folders, globs, standard input, and errors."""

import io
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.errors import InputError
from headswap.data.config import ReadSettings
from headswap.data.documents import find_files, read_documents, spool_stdin
from headswap.data.open_text import log_once
from headswap.data.records import Document
from reading import SAME_FOLDER, messages, problem, read, texts


@pytest.fixture(autouse=True)
def _log_everything_again() -> None:
    log_once.cache_clear()


# Plain text


def test_a_line_is_a_document_with_its_source_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n" * 11 + "\n two \n")
    assert read(file)[-1] == Document(" two ", str(file), 13)
    assert len(read(file)) == 12


def test_auto_takes_paragraphs_from_ten_percent_blank_lines(tmp_path: Path) -> None:
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


def test_the_document_unit_can_be_set(tmp_path: Path) -> None:
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
    assert "a.txt: each line is one document" in logged[0]
    assert "d.txt: each paragraph is one document" in logged[1]


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


def test_rows_with_blank_texts_are_skipped_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="headswap")
    file = tmp_path / "a.csv"
    file.write_text('text,id\n"",1\na,2\n" ",3\n')
    assert texts(file) == ["a"]
    assert messages(caplog) == [f"{file}: skipped 2 rows with a blank text."]


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


def test_all_missing_sources_are_reported_at_once_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as raised:
        read_documents([f"{tmp_path}/no.txt", f"{tmp_path}/*.csv", f"{tmp_path}/empty", "moveis"], ReadSettings())
    said = str(raised.value).splitlines()
    assert said[0] == f"{tmp_path}/no.txt does not exist. Check the path."
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
