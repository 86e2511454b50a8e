"""Bytes become lines: encodings, line ends, compression, memory."""

import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.errors import InputError, MissingExtraError
from headswap.data import open_text
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.labelled import one_file
from headswap.data.open_text import read_bytes
from headswap.data.records import Document
from reading import CHARACTERS, SAME_FOLDER, problem, read, texts


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_marks_and_line_ends_are_not_part_of_the_text(tmp_path: Path, encoding: str, end: str) -> None:
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
def test_lines_are_read_back_equal(tmp_path: Path, lines: list[str], end: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(("kept" + end + end.join(lines)).encode())
    expected = [Document(text, str(file), line) for line, text in enumerate(["kept", *lines], start=1) if text.strip()]
    assert read(file, documents="line") == expected


def test_undecodable_bytes_are_reported_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"fine\n" * 400_000 + b"no\xebl\n")  # beyond the first piece
    assert f"{file}, line 400001: byte 0xEB is not UTF-8" in problem(file)
    assert "iconv" in problem(file)
    file.write_bytes("a\nété".encode()[:-1])
    assert f"{file}, line 2: byte 0xC3" in problem(file)


def test_nul_bytes_are_reported_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"a\nb\nc\0d\n")
    assert f"{file}, line 3: a NUL byte" in problem(file)
    file.write_bytes(b"a\nb\0")
    assert f"{file}, line 2: a NUL byte" in problem(file)


def zstd(data: bytes) -> bytes:
    return import_module("zstandard").ZstdCompressor().compress(data)


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_read_like_plain_ones(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESSORS[suffix]
    (tmp_path / f"a.txt.{suffix}").write_bytes(compress(b"one\n") + compress(b"two\n"))  # members in a row
    (tmp_path / f"b.jsonl.{suffix}").write_bytes(compress(b'{"text": "three"}\n'))
    (tmp_path / f"c.CSV.{suffix}").write_bytes(compress(b"text\nfour\n"))
    assert texts(tmp_path) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_truncated_compressed_file_is_an_error(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.txt.{suffix}"
    file.write_bytes(COMPRESSORS[suffix](b"".join(b"line %d\n" % number for number in range(50_000)))[:-20])
    assert f"{file} is not complete" in problem(file)
    file.write_bytes(b"this was never compressed\n")
    assert f"{file} is not complete" in problem(file)


def test_zstd_without_its_package_is_reported_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_pipe_or_a_device_is_refused_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")  # opening it would wait for a writer
    for name, what in ((tmp_path / "pipe.txt", "a pipe"), ("/dev/zero", "a device")):
        assert f"{name} is {what}, and an input file is read more than once. Save the text as a file" in problem(name)
        with pytest.raises(InputError, match=f"is {what}"):
            one_file(str(name))
        with pytest.raises(InputError, match=f"is {what}"):
            next(read_bytes(Path(name)))


def test_a_repetitive_compressed_file_is_refused_before_its_rows_fill_the_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * 5_000_000))
    assert "decompresses to more than 200 times its size" in problem(file)


def test_the_longest_line_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a " * (open_text.LONGEST_LINE // 2) + "b")
    assert f"{file}, line 1: longer than {open_text.LONGEST_LINE:,} characters. Split it" in problem(file)


OTHER_FORMATS = {
    "gzip": (gzip.compress(b"a text"), "is gzip data. Give its name the extension .gz."),
    "xz": (lzma.compress(b"a text"), "is xz data. Give its name the extension .xz."),
    "zip": (b"PK\x03\x04\x14\x00\x9c", "is a zip archive, as .xlsx, .docx and .odt are. Save its table as CSV"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3", "is a PDF. Convert it to text."),
    "parquet": (b"PAR1\x15\x04\x9c", "is a Parquet file. Give its name the extension .parquet."),
}


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_a_file_of_another_format_is_named(tmp_path: Path, name: str) -> None:
    content, what = OTHER_FORMATS[name]
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    assert f"{file} {what}" in problem(file)


def test_a_text_may_begin_like_another_format(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("PAR1 is a gene.\n%PDF- is a mark.\n")
    assert texts(file) == ["PAR1 is a gene.", "%PDF- is a mark."]
