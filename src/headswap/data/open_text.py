"""Read the lines of a text file: decompressed, decoded, streamed.

`read_bytes` yields the bytes of a file in chunks and decompresses .gz, .xz and .zst; `read_lines` yields its lines. One
chunk and one line are in memory, never the whole file. The encoding is UTF-8, or that of the byte order mark. Only
`\\n` and `\\r\\n` end a line; U+2028, U+0085 and similar characters are text. Lines are interpreted by documents.py and
columns.py.
"""

import codecs
import gzip
import logging
import lzma
import stat
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from io import BufferedIOBase
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO

from headswap.core.errors import InputError, MissingExtraError, absent

PIECE = 1 << 20
ZSTD_PIECE = 1 << 16  # compressed bytes; one decompressed piece is held in memory
LARGEST_RATIO = 200
"""Largest ratio of decompressed to compressed size; for text it is 3 to 20."""
MOST_UNPACKED = 1 << 24
"""Bytes that may be decompressed from any file, whatever the ratio."""
LONGEST_LINE = 1 << 26
"""Largest length of a line in characters: a file without line ends must not fill the memory."""
COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, because it begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
OTHER_FORMATS = {
    b"\x1f\x8b": "gzip data. Give its name the extension .gz",
    b"\xfd7zXZ\x00": "xz data. Give its name the extension .xz",
    b"\x28\xb5\x2f\xfd": "zstd data. Give its name the extension .zst",
    b"PK\x03\x04": "a zip archive, as .xlsx, .docx and .odt are. Save its table as CSV, or its text as UTF-8",
    b"%PDF-": "a PDF. Convert it to text",
    b"PAR1": "a Parquet file. Give its name the extension .parquet",
}
"""The first bytes of files that are often taken for text, and what the user can do."""
LONGEST_START = max(map(len, OTHER_FORMATS))
"""Also longer than the longest byte order mark."""


@cache
def log_once(message: str) -> None:
    """Log a message once per process: a corpus is read more than once."""
    logging.getLogger("headswap").info(message)


def extension_of(path: Path) -> str:
    """The extension of the format in lower case, without that of the compression: `.txt` for `a.TXT.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
        return suffixes[-1] if suffixes else ""
    return suffixes[-1] if suffixes else ""


def compression_of(path: Path) -> str | None:
    """`gzip`, `xz`, `zstd` or None, from the last extension."""
    return COMPRESSIONS.get(path.suffix.lower())


def irregular(path: Path) -> str | None:
    """A sentence if a path is a pipe, a socket or a device, which cannot be read twice and may never end."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe"
    return (
        f"{path} is {what}, and an input file is read more than once. Save the text as a file, or give - and pipe the "
        "text to standard input where the command accepts it."
    )


def read_bytes(path: Path) -> Iterator[bytes]:
    """Yield the decompressed content in pieces; an unreadable file is an `InputError` with its name."""
    compression = compression_of(path)
    try:
        if problem := irregular(path):
            raise InputError(problem)
        with path.open("rb") as file:
            pieces = _decompressed(file, compression, path)
            yield from pieces if compression is None else _bounded(pieces, path)
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as problem:
        raise InputError(
            f"{path} is not complete {compression} data ({problem}). It may be truncated: copy or compress it again."
        ) from None
    except FileNotFoundError:
        raise InputError(absent(path)) from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, but a file is needed. Give a file.") from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read ({problem.strerror or problem}).") from None


def _bounded(pieces: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """The pieces of a compressed file; an error if there are so many that it must be a decompression bomb."""
    packed, unpacked = path.stat().st_size, 0
    for piece in pieces:
        unpacked += len(piece)
        if unpacked > MOST_UNPACKED and unpacked > LARGEST_RATIO * packed:
            raise InputError(
                f"{path} decompresses to more than {LARGEST_RATIO} times its size, which text never does. It may be a "
                "decompression bomb. If you trust it, decompress it yourself and check it."
            )
        yield piece


def _decompressed(file: BinaryIO, compression: str | None, path: Path) -> Iterator[bytes]:
    if compression == "zstd":
        yield from _zstd_pieces(file, path)
    elif compression == "gzip":
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield from pieces_of(unpacked)
    elif compression == "xz":
        with lzma.LZMAFile(file) as unpacked:
            yield from pieces_of(unpacked)
    else:
        yield from pieces_of(file)


def pieces_of(stream: BinaryIO | BufferedIOBase, size: int = PIECE) -> Iterator[bytes]:
    """The content of a binary stream in pieces."""
    while piece := stream.read(size):
        yield piece


def _zstd_pieces(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Decompress frame by frame, because the reader of zstandard does not report truncated files."""
    try:
        import zstandard
    except ModuleNotFoundError:
        raise MissingExtraError(f"Reading {path}", extra="zstd", package="zstandard") from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    frame = None
    try:
        for piece in pieces_of(file, ZSTD_PIECE):
            while piece:
                frame = frame or decompressor.decompressobj()
                if text := frame.decompress(piece):
                    yield text
                piece = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    except zstandard.ZstdError as problem:
        raise EOFError(problem) from None
    if frame is not None:
        raise EOFError("the data ends inside a frame")


def read_lines(path: Path, *, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a text file, without line ends unless `keep_ends`."""
    return decode_lines(read_bytes(path), name=str(path), keep_ends=keep_ends)


def decode_lines(pieces: Iterable[bytes], *, name: str, keep_ends: bool = False) -> Iterator[str]:
    """Decode pieces of bytes into lines; invalid bytes and NUL are errors with their line."""
    num_lines = length = 0
    pending: list[str] = []  # the parts of an incomplete line; joined once, so that a long line takes linear time
    for text in _decoded(pieces, name):
        first, *others = text.split("\n")
        pending.append(first)
        length += len(first)
        if length > LONGEST_LINE:
            raise InputError(
                f"{name}, line {num_lines + 1}: longer than {LONGEST_LINE:,} characters. Split it into several lines."
            )
        if not others:
            continue
        length = len(others[-1])
        lines = ["".join(pending), *others]
        pending = [lines.pop()]
        for line in lines:
            num_lines += 1
            if "\0" in line:
                raise _nul_problem(name, num_lines)
            yield f"{line}\n" if keep_ends else line.removesuffix("\r")
    if last := "".join(pending):
        if "\0" in last:
            raise _nul_problem(name, num_lines + 1)
        yield last


def _decoded(pieces: Iterable[bytes], name: str) -> Iterator[str]:
    """Decoded pieces of text without the byte order mark; lines are counted for error messages only."""
    remaining = iter(pieces)
    start = b""
    for piece in remaining:
        start += piece
        if len(start) >= LONGEST_START:
            break
    other = next((what for mark, what in OTHER_FORMATS.items() if start.startswith(mark)), None)
    mark, encoding = next(((mark, found) for mark, found in BYTE_ORDER_MARKS if start.startswith(mark)), (b"", "utf-8"))
    decoder = codecs.getincrementaldecoder(encoding)()
    num_lines = 0
    for piece, is_last in chain([(start[len(mark) :], False)], zip(remaining, repeat(False)), [(b"", True)]):
        try:
            text = decoder.decode(piece, is_last)
        except UnicodeDecodeError as problem:
            if other:  # only now: a text may begin with the same letters
                raise InputError(f"{name} is {other}.") from None
            raise _decoding_problem(name, problem, lines_before=num_lines) from None
        num_lines += text.count("\n")
        yield text


def _decoding_problem(name: str, problem: UnicodeDecodeError, *, lines_before: int) -> InputError:
    before = problem.object[: problem.start].decode(problem.encoding, errors="replace")
    encoding = problem.encoding.upper().removesuffix("-LE").removesuffix("-BE")
    return InputError(
        f"{name}, line {lines_before + before.count(chr(10)) + 1}: byte 0x{problem.object[problem.start]:02X} is not "
        f"{encoding} text. Convert the file to UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
    )


def _nul_problem(name: str, line: int) -> InputError:
    return InputError(
        f"{name}, line {line}: a NUL byte. Text contains none: the file is binary, damaged, or UTF-16 without a byte "
        "order mark (convert it with: iconv -f UTF-16LE -t UTF-8 OLD > NEW)."
    )
