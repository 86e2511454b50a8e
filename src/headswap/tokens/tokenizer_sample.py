"""The text that a tokenizer is trained on: the whole corpus, or a sample that is spread evenly over it.

Documents are cut into slices, and slices are kept up to a limit of bytes (more text improves a tokenizer little). The
priority of slice i is i times the golden ratio, modulo 1; those with the lowest priorities are kept. Such numbers are
spread evenly, so every stretch of the text is represented by its share, whatever the limit. One pass is enough, since
the length of the text need not be known, and the limit bounds the memory. A smaller sample is a part of a larger one.

If several files hold more text than the limit, they are sampled in parts of about the same size by tasks that can run
on several machines (core/task_pool.py), and every part gets its share of the limit by its text. The parts depend on the
files only, so the sample does not depend on where the tasks run. Every file is read to its end, compressed ones too:
their length is not known before, and encoding the same corpus takes far longer.
"""

import heapq
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from headswap.core.errors import InputError
from headswap.core.files import atomic_file, read_json, remove_folder, remove_of_dead, write_json
from headswap.core.ownership import OwnFiles, unique
from headswap.core.task_pool import TaskPool
from headswap.data.config import ReadSettings
from headswap.data.documents import STDIN, STDIN_FILE, UNITS, check_text_column, read_documents, spool_stdin
from headswap.data.named_sets import is_named, read_named_documents
from headswap.data.records import Document
from headswap.tokens.shard_plan import SourceFile, as_json, list_sources, plan_shards, read_files

SAMPLING = "even"
"""How a sample is taken: a part of the key of cached tokenizers. It was the beginning of the corpus before."""
MAX_TRAINING_BYTES = 200_000_000
PART_BYTES = 64_000_000
"""Size of the files of a task; a larger file is a task of its own."""
HEADROOM = 4
"""A task keeps this many times the share of its files by their size: the text of compressed files is larger."""
SLICE_LENGTH = 2_000
"""Longest slice in characters; a trainer's time grows with the square of the length of text without spaces."""
GOLDEN, WHOLE = 0x9E3779B97F4A7C15, 1 << 64  # the golden ratio, less 1, as a fraction of 2 ** 64
WORK, PARTS_FILE = "tokenizer-sample", "parts.json"
OWN_FILES = OwnFiles(files=(r"parts\.json", r"part-\d+\.npz", r"named-\d+\.jsonl", STDIN_FILE, r"[0-9a-f]{64}\.txt"))


class Sample:
    """Slices of documents that are added one by one, as UTF-8 bytes, so that the limit also bounds memory."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        """Of the slices that are kept."""
        self.num_read = 0
        """Bytes of all text that was added."""
        self._num_slices = 0
        self._kept: list[tuple[int, int, bytes]] = []  # (-priority, number, data); a heap if some were left out
        self._first_left_out = WHOLE

    @property
    def is_partial(self) -> bool:
        """Whether slices were left out."""
        return self._first_left_out < WHOLE

    def add(self, document: Document) -> None:
        """Add the slices of a document. At least one slice is kept, whatever the limit."""
        text = document.text
        self.num_read += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        for part in slice_text(text):
            number, self._num_slices = self._num_slices, self._num_slices + 1
            if (priority := number * GOLDEN % WHOLE) > self._first_left_out:
                continue
            try:
                data = part.encode()
            except UnicodeEncodeError:
                raise InputError(
                    f"{document.source}, line {document.line}: the text contains a lone surrogate, not a character."
                ) from None
            self._keep(-priority, number, data)

    def _keep(self, order: int, number: int, data: bytes) -> None:
        self.num_bytes += len(data)
        if not self.is_partial:
            self._kept.append((order, number, data))
            if self.num_bytes <= self.max_bytes:
                return
            heapq.heapify(self._kept)
        else:
            heapq.heappush(self._kept, (order, number, data))
        while self.num_bytes > self.max_bytes and len(self._kept) > 1:
            left_out, _, data = heapq.heappop(self._kept)
            self._first_left_out = -left_out
            self.num_bytes -= len(data)

    def numbered(self) -> tuple[list[int], list[bytes]]:
        """The numbers of the kept slices among all slices, ascending, and the slices."""
        ordered = sorted((number, data) for _, number, data in self._kept)
        return [number for number, _ in ordered], [data for _, data in ordered]


def sample_documents(documents: Iterable[Document], max_bytes: int = MAX_TRAINING_BYTES) -> tuple[list[bytes], int]:
    """Slices of documents that can be read once, and how many bytes of text there are."""
    sample = Sample(max_bytes)
    for document in documents:
        sample.add(document)
    return sample.numbered()[1], sample.num_read


def sample_corpus(
    sources: Sequence[str],
    settings: ReadSettings,
    beside: Path,
    *,
    executor: str = "local",
    max_bytes: int = MAX_TRAINING_BYTES,
    part_bytes: int = PART_BYTES,
) -> tuple[list[bytes], int]:
    """Slices of a corpus, and how many bytes of text it has. Tasks write files to a temporary folder in `beside`.

    A single file, named data set or standard input is read once, in this process.
    """
    pool = TaskPool(executor)
    items = _items(sources)
    if len(items) == 1:
        return sample_documents(read_documents(sources, settings), max_bytes)
    if STDIN in items:
        with _work_folder(beside) as work:
            copy = str(spool_stdin(work))
            return sample_corpus(
                [copy if source == STDIN else source for source in sources],
                settings,
                beside,
                executor=executor,
                max_bytes=max_bytes,
                part_bytes=part_bytes,
            )
    whole = Sample(max_bytes)
    for document in _documents(sources, items, settings):
        whole.add(document)
        if whole.is_partial:
            break
    else:
        return whole.numbered()[1], whole.num_read
    del whole
    with _work_folder(beside) as work:
        files = [_file_of(item, number, settings, work) for number, item in enumerate(items)]
        parts = plan_shards(files, part_bytes)
        sizes = [sum(file.known_size(part_bytes) for file in part) for part in parts]
        limits = [min(max_bytes, HEADROOM * max_bytes * size // max(1, sum(sizes))) for size in sizes]
        read = settings.model_dump(mode="json", include=set(ReadSettings.model_fields))
        write_json(work / PARTS_FILE, {"read": read, "parts": as_json(parts), "limits": limits})
        with pool:
            pool.run_numbered(sample_part, str(work), range(len(parts)), "part of the corpus read for the tokenizer")
        return _joined(work, len(parts), max_bytes)


def sample_part(folder: str, number: int) -> None:
    """Task: the sample of some files."""
    plan = read_json(Path(folder) / PARTS_FILE)
    sample = Sample(plan["limits"][number])
    files = [SourceFile(**entry) for entry in plan["parts"][number]]
    with tempfile.TemporaryDirectory() as place:
        for document in read_files(files, ReadSettings(**plan["read"]), Path(place), logged=set(UNITS)):
            sample.add(document)
    numbers, slices = sample.numbered()
    with atomic_file(_part_file(Path(folder), number)) as temporary, temporary.open("wb") as handle:
        np.savez(
            handle,
            numbers=np.array(numbers, dtype=np.uint64),
            lengths=np.array([len(data) for data in slices], dtype=np.int64),
            data=np.frombuffer(b"".join(slices), dtype=np.uint8),
            num_read=np.int64(sample.num_read),
        )


def slice_text(text: str, length: int = SLICE_LENGTH) -> Iterator[str]:
    """The text in parts of at most `length` characters, cut before white space if possible."""
    start = 0
    while len(text) - start > length:
        end = max(text.rfind(" ", start + 1, start + length), text.rfind("\n", start + 1, start + length))
        end = end if end > start else start + length
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _joined(work: Path, num_parts: int, max_bytes: int) -> tuple[list[bytes], int]:
    """The samples of all parts, each shortened to its share of the limit by the text that was read."""
    read = []
    for number in range(num_parts):
        with np.load(_part_file(work, number)) as part:
            read.append(int(part["num_read"]))
    slices: list[bytes] = []
    first, rest = b"", 0
    for number in range(num_parts):
        with np.load(_part_file(work, number)) as part:
            lengths, data = part["lengths"], part["data"].tobytes()
            order = np.argsort(part["numbers"] * np.uint64(GOLDEN))  # by priority; numbers of 64 bits wrap around
        rest += max_bytes * read[number] // sum(read)  # what is too little for a slice is left to the next part
        num_kept = int(np.searchsorted(np.cumsum(lengths[order]), rest, side="right"))
        rest -= int(lengths[order[:num_kept]].sum())
        ends = np.cumsum(lengths)
        slices.extend(data[ends[place] - lengths[place] : ends[place]] for place in np.sort(order[:num_kept]).tolist())
        first = first or data[: lengths[0]]
    return slices or [first], sum(read)


def _part_file(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.npz"


def _items(sources: Sequence[str]) -> list[str | SourceFile]:
    """The files, named data sets and standard input of a corpus in order, each once."""
    items: dict[str, str | SourceFile] = {}
    for source in sources:
        if source == STDIN or is_named(source):
            items[source] = source
        else:
            for file in list_sources([source]):
                items.setdefault(file.place, file)
    return list(items.values())


def _documents(sources: Sequence[str], items: Sequence[str | SourceFile], settings: ReadSettings) -> Iterator[Document]:
    """All documents in order; files at addresses are copied one at a time, when they are read."""
    if not any(isinstance(item, SourceFile) and item.is_remote for item in items):
        yield from read_documents(sources, settings)
        return
    check_text_column([item if isinstance(item, str) else Path(item.name) for item in items], settings)
    logged: set[str] = set()
    with tempfile.TemporaryDirectory() as place:
        for item in items:
            if isinstance(item, str):
                yield from read_named_documents(item, text_column=settings.text_column)
            else:
                yield from read_files([item], settings, Path(place), logged=logged)


def _file_of(item: str | SourceFile, number: int, settings: ReadSettings, work: Path) -> SourceFile:
    """A file, or the texts of a named data set as a file that tasks can read."""
    if isinstance(item, SourceFile):
        return item
    path = work / f"named-{number:05d}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for document in read_named_documents(item, text_column=settings.text_column):
            file.write(json.dumps({settings.text_column: document.text}) + "\n")
    return list_sources([str(path)])[0]


@contextmanager
def _work_folder(beside: Path) -> Iterator[Path]:
    """A folder for the files of the tasks; what a killed process left is removed."""
    beside.mkdir(parents=True, exist_ok=True)
    remove_of_dead(beside / WORK, OWN_FILES)
    folder = unique(beside.absolute() / WORK)
    folder.mkdir()
    try:
        yield folder
    finally:
        with suppress(OSError):  # a cancelled task may still write; the next run removes what is left
            remove_folder(folder)
