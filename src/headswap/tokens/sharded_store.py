"""Building a token store of many shards, by tasks that can run on several machines.

The files of a corpus are divided into shards of about the same size in the order of their names (shard_plan.py). Every
shard is built by one task, and a task whose output exists is not run again. All tasks write into the folder of the
store, so it must be on a disk that all machines share. `store.json` is written last; before it, the offsets and byte
counts of all shards are written end to end, so opening the store reads nothing into memory. The arrays of the shards,
end to end, are those of one store of the whole corpus, whatever the size of the shards and wherever the tasks run.
"""

import hashlib
import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import SettingError, counted
from headswap.core.files import atomic_file, has_entry, read_json, remove_folder, write_json
from headswap.core.outputs import EXISTS
from headswap.core.ownership import OwnFiles, check_replaceable, leftovers
from headswap.core.task_pool import TaskPool
from headswap.data.config import ReadSettings
from headswap.data.documents import check_text_column
from headswap.data.records import Document
from headswap.data.shard_duplicates import (
    Duplicates,
    find_in_part,
    has_fingerprints,
    has_found,
    repeated_rows,
    write_fingerprints,
)
from headswap.tokens.shard_plan import (
    SourceFile,
    as_json,
    is_same_plan,
    list_sources,
    plan_shards,
    read_files,
    recorded,
)
from headswap.tokens.store import (
    FORMAT_VERSION,
    META_FILE,
    PER_DOCUMENT,
    PIECE,
    SHARD,
    SHARDED_VERSION,
    TokenStore,
    check_filled,
    check_side,
    is_store,
)
from headswap.tokens.store import OWN_FILES as STORE
from headswap.tokens.store_writer import file_name, write_arrays
from headswap.tokens.tokenizer import Tokenizer

log = logging.getLogger("headswap")
PLAN_FILE, WORK, SOURCES, TOKENIZER = "plan.json", "work", "sources.json", "tokenizer.json"
OWN_FILES = OwnFiles(
    files=(*STORE.files, re.escape(PLAN_FILE), f"{WORK}/.+", *(f"{SHARD}/{name}" for name in STORE.files)),
    is_ours=lambda folder: has_entry(folder / META_FILE, "headswap_store") or has_entry(folder / PLAN_FILE, "shards"),
)


def build_sharded_store(
    sources: Sequence[str],
    settings: ReadSettings,
    tokenizer: Tokenizer,
    out: Path,
    *,
    shard_bytes: int,
    duplicates: Duplicates = "keep",
    side: Sequence[str] = (),
    executor: str = "local",
    overwrite: bool = False,
) -> TokenStore:
    """Build the store of a corpus in shards of about `shard_bytes` bytes of files, or finish one that was begun."""
    check_side(side)
    pool = TaskPool(executor)
    shards = plan_shards(list_sources(sources), shard_bytes)
    check_text_column([Path(file.name) for files in shards for file in files], settings)
    plan = {
        "shards": recorded(shards),
        "read": settings.model_dump(mode="json", include=set(ReadSettings.model_fields)),
        "side": sorted(side),
        "duplicates": duplicates,
        "fingerprint": tokenizer.fingerprint,
    }
    out = out.absolute()
    if _begin(out, plan, tokenizer, overwrite=overwrite):
        write_json(out / WORK / SOURCES, as_json(shards))
        _run_tasks(out, len(shards), duplicates, pool)
        _complete(out, plan, tokenizer)
    return TokenStore.open(out)


def _begin(out: Path, plan: dict[str, Any], tokenizer: Tokenizer, *, overwrite: bool) -> bool:
    """Prepare the folder; False if it holds the finished store of the same plan."""
    is_same = has_entry(out / PLAN_FILE, "shards") and is_same_plan(read_json(out / PLAN_FILE), plan)
    if is_same and not overwrite:
        if is_store(out):
            remove_folder(out / WORK)  # a process that was killed at its end may have left it
            log.info("%s is complete.", out)
            return False
        log.info("%s was started earlier with the same files and settings; only the missing parts are built.", out)
        (out / WORK).mkdir(exist_ok=True)
        write_json(out / PLAN_FILE, plan)  # an older version recorded the places of the files
        return True
    if out.exists() and any(out.iterdir()):
        if not overwrite:
            raise SettingError(f"--out {out} {EXISTS}")
        check_replaceable(out, OWN_FILES)
        remove_folder(out)
    (out / WORK).mkdir(parents=True)
    tokenizer.save(out / TOKENIZER)
    write_json(out / PLAN_FILE, plan)
    return True


def _run_tasks(out: Path, num_shards: int, duplicates: Duplicates, pool: TaskPool) -> None:
    folder = str(out)
    with pool:
        if duplicates != "keep":
            near = duplicates == "near"
            missing = [n for n in range(num_shards) if not has_fingerprints(out / WORK, n, near=near)]
            pool.run_numbered(fingerprint_shard, folder, missing, "shard fingerprinted")
            missing = [n for n in range(num_shards) if not has_found(out / WORK, n)]
            pool.run_numbered(compare_part, folder, missing, "part searched for duplicates")
        missing = [n for n in range(num_shards) if not is_store(_shard(out, n))]
        pool.run_numbered(encode_shard, folder, missing, "shard encoded")


def fingerprint_shard(folder: str, number: int) -> None:
    """Task: the fingerprints of the documents of a shard."""
    plan = read_json(Path(folder) / PLAN_FILE)
    with tempfile.TemporaryDirectory() as place:
        texts = (document.text for document in _documents(Path(folder), plan, number, Path(place)))
        near = plan["duplicates"] == "near"
        write_fingerprints(texts, Path(folder) / WORK, number, num_parts=len(plan["shards"]), near=near)


def compare_part(folder: str, number: int) -> None:
    """Task: the documents that repeat an earlier one, by one part of the fingerprints of all shards."""
    plan = read_json(Path(folder) / PLAN_FILE)
    near = plan["duplicates"] == "near"
    find_in_part(Path(folder) / WORK, number, num_shards=len(plan["shards"]), near=near)


def encode_shard(folder: str, number: int) -> None:
    """Task: the store of one shard, without repeated documents."""
    plan, out = read_json(Path(folder) / PLAN_FILE), Path(folder)
    dropped: set[int] = set()
    if plan["duplicates"] != "keep":
        dropped = set(repeated_rows(out / WORK, number, num_parts=len(plan["shards"])).tolist())
    tokenizer = _tokenizer(folder, plan["fingerprint"])
    with tempfile.TemporaryDirectory() as place, atomic_folder(_shard(out, number), STORE) as temporary:
        documents = _documents(Path(folder), plan, number, Path(place))
        kept = (document for row, document in enumerate(documents) if row not in dropped)
        written = write_arrays(kept, tokenizer, temporary, plan["side"])
        meta = {"headswap_store": FORMAT_VERSION, "corpus_hash": "", "options": {}, "num_dropped": len(dropped)}
        write_json(temporary / META_FILE, meta | written)


@lru_cache(maxsize=1)
def _tokenizer(folder: str, fingerprint: str) -> Tokenizer:
    """The tokenizer of a store, loaded once per process: it remembers the pieces of words that it has encoded."""
    del fingerprint  # a part of the key: another plan may have replaced the folder
    return Tokenizer.load(Path(folder) / TOKENIZER)


def _documents(out: Path, plan: dict[str, Any], number: int, place: Path) -> Iterator[Document]:
    """The documents of a shard, which is read twice: repeats are dropped by their place in it."""
    files = [SourceFile(**entry) for entry in read_json(out / WORK / SOURCES)[number]]
    return read_files(files, ReadSettings(**plan["read"]), place)


def _shard(out: Path, number: int) -> Path:
    return out / f"shard-{number:05d}"


def _complete(out: Path, plan: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Write `store.json` with the checksums of the joined arrays, and remove the fingerprints."""
    names = [_shard(out, number).name for number in range(len(plan["shards"]))]
    metas = [read_json(out / name / META_FILE) for name in names]
    counts = {name: sum(meta[name] for meta in metas) for name in ("num_documents", "num_tokens", "num_bytes")}
    check_filled(counts)
    arrays = {name: _join(out, names, name, entry["dtype"]) for name, entry in metas[0]["arrays"].items()}
    meta = {
        "headswap_store": SHARDED_VERSION,
        "corpus_hash": "",
        "options": {"read": plan["read"], "side": plan["side"], "duplicates": plan["duplicates"]},
        "shards": names,
        "num_dropped": sum(meta["num_dropped"] for meta in metas),
        **counts,
        "vocab_size": tokenizer.vocab_size,
        "fingerprint": tokenizer.fingerprint,
        "kind": tokenizer.kind,
        "arrays": arrays,
    }
    write_json(out / META_FILE, meta)
    remove_folder(out / WORK)
    for left in leftovers(out, OWN_FILES):  # of computers that were lost; all tasks have ended
        remove_folder(left)
    if meta["num_dropped"]:
        total = counts["num_documents"] + meta["num_dropped"]
        log.info("Dropped %s of %s as repeats.", f"{meta['num_dropped']:,}", counted(total, "document"))


def _join(out: Path, names: list[str], array: str, dtype: str) -> dict[str, Any]:
    """The entry of an array of all shards end to end; one with a value per document is also written to a file."""
    digest, length = hashlib.sha256(), 0
    with ExitStack() as stack:
        target = None
        if array in PER_DOCUMENT:
            target = stack.enter_context(stack.enter_context(atomic_file(out / file_name(array))).open("wb"))
        for piece in _pieces(out, names, array, np.dtype(dtype)):
            data = piece.tobytes()
            digest.update(data)
            length += len(piece)
            if target:
                target.write(data)
    return {"dtype": dtype, "length": length, "sha256": digest.hexdigest()}


def _pieces(out: Path, names: list[str], array: str, dtype: np.dtype) -> Iterator[np.ndarray]:
    """The array in pieces, read from the files of the shards, so that memory does not grow with the corpus."""
    end = 0
    for number, name in enumerate(names):
        start, num_left_out = end, int(array == "offsets" and number > 0)  # the offsets of each shard begin with 0
        with (out / name / file_name(array)).open("rb") as file:
            while len(piece := np.fromfile(file, dtype=dtype, count=PIECE)):
                if array == "offsets":
                    piece += start
                    end = int(piece[-1])
                yield piece[num_left_out:]
                num_left_out = 0
