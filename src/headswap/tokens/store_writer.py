"""Writing a token store: documents are encoded in batches and appended to arrays on disk.

Memory use is constant: a batch is a few megabytes of text, which the tokenizer encodes on all cores. store.py defines
the arrays and completes the folder.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from headswap.core.errors import InputError
from headswap.data.records import Document
from headswap.tokens.parts import in_groups
from headswap.tokens.tokenizer import Tokenizer

BATCH_CHARACTERS = 2_000_000
OFFSET_TYPE = "<i8"  # signed, since NumPy converts uint64 combined with int64 to floats


def id_type(vocab_size: int) -> str:
    """The smallest integer type for all ids."""
    return "<u2" if vocab_size <= 1 << 16 else "<u4"


def file_name(array: str) -> str:
    """The file name of an array in the folder of a store."""
    return f"{array}.bin"


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The encoded documents of one batch."""

    lengths: np.ndarray
    byte_counts: np.ndarray
    ids: np.ndarray
    sides: Mapping[str, np.ndarray]


class StoreWriter:
    """Appends to the arrays of a store and computes their checksums."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, side: Sequence[str], stack: ExitStack) -> None:
        self.tokenizer = tokenizer
        self.num_documents = self.num_tokens = self.num_bytes = 0
        types = {"ids": id_type(tokenizer.vocab_size), "offsets": OFFSET_TYPE, "byte_counts": OFFSET_TYPE}
        types |= dict.fromkeys(side, "|u1")
        self._arrays = {
            name: _GrowingArray(stack.enter_context((folder / file_name(name)).open("wb")), np.dtype(dtype))
            for name, dtype in types.items()
        }
        self._arrays["offsets"].append(np.zeros(1, dtype=OFFSET_TYPE))

    def add(self, batch: EncodedBatch) -> None:
        """Append one batch."""
        self._arrays["ids"].append(batch.ids)
        self._arrays["offsets"].append(self.num_tokens + np.cumsum(batch.lengths))
        self._arrays["byte_counts"].append(batch.byte_counts)
        for name, values in batch.sides.items():
            self._arrays[name].append(values)
        self.num_documents += len(batch.lengths)
        self.num_tokens += len(batch.ids)
        self.num_bytes += int(batch.byte_counts.sum())

    def meta(self) -> dict[str, Any]:
        """The description of the arrays in store.json."""
        return {
            "num_documents": self.num_documents,
            "num_tokens": self.num_tokens,
            "num_bytes": self.num_bytes,
            "vocab_size": self.tokenizer.vocab_size,
            "fingerprint": self.tokenizer.fingerprint,
            "kind": self.tokenizer.kind,
            "arrays": {name: array.entry() for name, array in self._arrays.items()},
        }


class _GrowingArray:
    def __init__(self, file: BinaryIO, dtype: np.dtype) -> None:
        self.file, self.dtype = file, dtype
        self.length, self.digest = 0, hashlib.sha256()

    def append(self, values: np.ndarray) -> None:
        data = values.astype(self.dtype).tobytes()
        self.file.write(data)
        self.digest.update(data)
        self.length += len(values)

    def entry(self) -> dict[str, Any]:
        return {"dtype": self.dtype.str, "length": self.length, "sha256": self.digest.hexdigest()}


def write_arrays(
    documents: Iterable[Document], tokenizer: Tokenizer, folder: Path, side: Sequence[str]
) -> dict[str, Any]:
    """Encode the documents into arrays in `folder`; return their description."""
    with ExitStack() as stack:
        writer = StoreWriter(folder, tokenizer, side, stack)
        for batch in encoded_batches(documents, tokenizer, side):
            writer.add(batch)
    return writer.meta()


def encoded_batches(documents: Iterable[Document], tokenizer: Tokenizer, side: Sequence[str]) -> Iterator[EncodedBatch]:
    """All documents encoded, batch by batch. Reading ahead in a thread gained nothing on 2 cores."""
    for batch in in_groups(documents, lambda document: len(document.text), BATCH_CHARACTERS):
        yield _encode(batch, tokenizer, side)


def _encode(batch: list[Document], tokenizer: Tokenizer, side: Sequence[str]) -> EncodedBatch:
    byte_counts = np.array([_count_bytes(document, tokenizer) for document in batch], dtype=np.int64)
    texts = [document.text for document in batch]
    sides: dict[str, np.ndarray] = {}
    if side:
        marked = tokenizer.encode_batch_marked(texts)
        ids = [document.ids for document in marked]
        sides = {name: np.concatenate([getattr(document, name) for document in marked]) for name in side}
    else:
        ids = tokenizer.encode_batch(texts)
    lengths = np.array([len(document) for document in ids], dtype=np.int64)
    return EncodedBatch(lengths, byte_counts, np.concatenate(ids), sides)


def _count_bytes(document: Document, tokenizer: Tokenizer) -> int:
    try:
        return tokenizer.count_bytes(document.text)
    except UnicodeEncodeError:
        raise InputError(
            f"{document.source}, line {document.line}: the text contains a lone surrogate, not a character."
        ) from None
