"""From a file to lines of text: decompressed, decoded, streamed.

A file is a stream of pieces of bytes (`read_bytes`, which undoes .gz, .xz and .zst) and then a stream of lines
(`read_lines`), so that memory holds one piece and one line, never a file. Text is UTF-8, or what its byte order mark
says. Only `\\n` and `\\r\\n` end a line: U+2028, U+0085 and their like are text. What a line means is left to
documents.py and columns.py.
"""

import codecs
import gzip
import logging
import lzma
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from io import BufferedIOBase
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO

from headswap.core.errors import InputError, MissingExtraError, absent

PIECE = 1 << 20
ZSTD_PIECE = 1 << 16  # of compressed bytes: what one piece swells to is held in memory
LARGEST_RATIO = 200
"""How much larger unpacked text may be than its file; text is 3 to 20 times larger."""
MOST_UNPACKED = 1 << 26
"""Bytes that may be unpacked from any file, whatever the ratio."""
LONGEST_LINE = 1 << 28
"""Characters of one line: a file without line ends must not fill the memory."""
COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@cache
def log_once(message: str) -> None:
    """Log a message the first time this process has it: a corpus is read more than once."""
    logging.getLogger("headswap").info(message)


def extension_of(path: Path) -> str:
    """The extension that says the format, in lower case, without that of the compression: `.txt` of `a.TXT.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
        return suffixes[-1] if suffixes else ""
    return suffixes[-1] if suffixes else ""


def compression_of(path: Path) -> str | None:
    """`gzip`, `xz` or `zstd` by the last extension, or None."""
    return COMPRESSIONS.get(path.suffix.lower())


def read_bytes(path: Path) -> Iterator[bytes]:
    """The decompressed content in pieces; a broken file is an error that names it."""
    compression = compression_of(path)
    try:
        with path.open("rb") as file:
            pieces = _decompressed(file, compression, path)
            yield from pieces if compression is None else _bounded(pieces, path)
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as problem:
        raise InputError(
            f"{path} is not whole {compression} data ({problem}). It may have been cut off; copy or compress it again."
        ) from None
    except FileNotFoundError:
        raise InputError(absent(path)) from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; a file is needed here.") from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read ({problem.strerror or problem}).") from None


def _bounded(pieces: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """The pieces of a compressed file, until they are so many that it must be a decompression bomb."""
    packed, unpacked = path.stat().st_size, 0
    for piece in pieces:
        unpacked += len(piece)
        if unpacked > MOST_UNPACKED and unpacked > LARGEST_RATIO * packed:
            raise InputError(
                f"{path} unpacks to more than {LARGEST_RATIO} times its size, as text never does. It may be made to "
                "fill the memory or the disk. Unpack it yourself and look, if you trust it."
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
    """Everything that a binary stream holds, piece by piece."""
    while piece := stream.read(size):
        yield piece


def _zstd_pieces(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Frame by frame: zstandard's own reader ends without a word where a file was cut off."""
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
    """The lines of a text file, without their ends unless those are to be kept."""
    return decode_lines(read_bytes(path), name=str(path), keep_ends=keep_ends)


def decode_lines(pieces: Iterable[bytes], *, name: str, keep_ends: bool = False) -> Iterator[str]:
    """Lines out of pieces of bytes; bytes that are not text, and NUL, are errors with the line they are on."""
    num_lines = length = 0
    pending: list[str] = []  # the parts of a line that is not complete yet: a long line costs its length once
    for text in _decoded(pieces, name):
        first, *others = text.split("\n")
        pending.append(first)
        length += len(first)
        if length > LONGEST_LINE:
            raise InputError(
                f"{name}, line {num_lines + 1}: longer than {LONGEST_LINE:,} characters. Break it into lines."
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
    """Pieces of text, the byte order mark taken off; counts lines only to say where a problem is."""
    waiting = iter(pieces)
    start = b""
    for piece in waiting:
        start += piece
        if len(start) >= 4:  # the longest mark
            break
    mark, encoding = next(((mark, found) for mark, found in BYTE_ORDER_MARKS if start.startswith(mark)), (b"", "utf-8"))
    decoder = codecs.getincrementaldecoder(encoding)()
    num_lines = 0
    for piece, is_last in chain([(start[len(mark) :], False)], zip(waiting, repeat(False)), [(b"", True)]):
        try:
            text = decoder.decode(piece, is_last)
        except UnicodeDecodeError as problem:
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
        f"{name}, line {line}: a NUL byte. Text has none: the file is binary, damaged, or UTF-16 without a byte "
        "order mark (convert that with: iconv -f UTF-16LE -t UTF-8 OLD > NEW)."
    )
