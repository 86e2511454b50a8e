"""Files at addresses, with the file system of fsspec in memory; tests/ecosystem/test_s3.py has a server."""

import gzip
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from headswap.core.errors import InputError, MissingExtraError, SettingError
from headswap.data import remote_files
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.remote_files import UNKNOWN_SIZE, fetch, is_remote, list_remote
from headswap.tokens.cache import cached_tokenizer
from headswap.tokens.cache_entries import clear_cache, list_cache
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.sharded_store import build_sharded_store
from headswap.tokens.store import build_store
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.tokenizer_sample import sample_corpus

LINES = ReadSettings(documents="line")


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    files.pipe("/reviews/b.txt", b"a bad film\n")
    files.pipe("/reviews/a.txt.gz", gzip.compress(b"a fine film\nanother one\n"))
    files.pipe("/reviews/notes.pdf", b"not text")
    files.pipe("/reviews/.hidden/c.txt", b"hidden\n")
    yield files
    files.rm("/", recursive=True)


def texts_of(*sources: str) -> list[str]:
    return [document.text for document in read_documents(sources, LINES)]


def test_what_is_an_address() -> None:
    assert is_remote("s3://bucket/a.txt")
    assert is_remote("memory://a")
    assert not any(map(is_remote, ("a.txt", "/a/b", "hf:name/of", "C:\\a", "movies/train")))


def test_a_file_a_pattern_and_a_folder_are_read_like_local_ones(memory: Any) -> None:
    assert texts_of("memory://reviews/b.txt") == ["a bad film"]
    assert texts_of("memory://reviews/*.gz") == ["a fine film", "another one"]
    assert texts_of("memory://reviews") == ["a fine film", "another one", "a bad film"]


def test_a_sample_for_a_tokenizer_is_that_of_local_files_and_leaves_no_copies(memory: Any, tmp_path: Path) -> None:
    files = {f"{number}.txt": "".join(f"{number} {row} a film\n" for row in range(50)) for number in range(3)}
    (tmp_path / "corpus").mkdir()
    for name, content in files.items():
        memory.pipe(f"/large/{name}", content.encode())
        (tmp_path / "corpus" / name).write_text(content)
    for limit in (500, 10**6):
        found = [
            sample_corpus([source], LINES, tmp_path / "work", max_bytes=limit, part_bytes=1)
            for source in ("memory://large", str(tmp_path / "corpus"))
        ]
        assert found[0] == found[1]
        assert {data[:1] for data in found[0][0]} == {b"0", b"1", b"2"}
    assert not list_cache()


def test_a_cached_tokenizer_copies_each_file_once(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    original = type(memory).get_file

    def counted(self: Any, path: str, *rest: Any, **options: Any) -> Any:
        copied.append(path)
        return original(self, path, *rest, **options)

    monkeypatch.setattr(type(memory), "get_file", counted)
    cached_tokenizer(["memory://reviews"], LINES, TokenizerSettings(vocab_size=270))
    assert sorted(copied) == ["/reviews/a.txt.gz", "/reviews/b.txt"]


def test_a_copy_is_kept_until_the_file_changes(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = list_remote("memory://reviews/b.txt")
    copy = fetch(file, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "get_file", lambda *_: pytest.fail("it was fetched again"))
        assert fetch(file, tmp_path) == copy
    memory.pipe("/reviews/b.txt", b"a good film\n")
    (changed,) = list_remote("memory://reviews/b.txt")
    assert fetch(changed, tmp_path).read_text() == "a good film\n"
    with pytest.raises(InputError, match="changed while it was fetched"):
        fetch(file, tmp_path / "other")


def test_a_file_of_the_same_size_that_changed_after_the_listing_is_an_error(memory: Any, tmp_path: Path) -> None:
    (file,) = list_remote("memory://reviews/b.txt")
    memory.pipe("/reviews/b.txt", b"a new film\n")
    assert memory.info("/reviews/b.txt")["size"] == file.size
    with pytest.raises(InputError, match=r"b\.txt changed while it was fetched"):
        fetch(file, tmp_path)
    assert not list(tmp_path.rglob("b.txt"))


def test_a_copy_without_a_version_is_used_in_one_process_only(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = list_remote("memory://reviews/b.txt")
    file = replace(known, version="", size=UNKNOWN_SIZE)
    copy = fetch(file, tmp_path)
    memory.pipe("/reviews/b.txt", b"a good film\n")
    assert fetch(file, tmp_path).read_text() == "a bad film\n"
    monkeypatch.setattr(remote_files, "_FETCHED", set())  # as in another process
    assert fetch(file, tmp_path).read_text() == "a good film\n"
    assert fetch(file, tmp_path) == copy


class Web(MemoryFileSystem):
    """Files by web addresses: the query is not a part of the path of a file, but of what is asked for."""

    protocol = "https"
    asked: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def unstrip_protocol(self, name: str) -> str:
        return name

    def _inner(self, path: str) -> str:
        self.asked.append(path)
        if "Signature=secret" not in path:
            raise PermissionError(f"403 Forbidden: {path}")
        return path.partition("?")[0].removeprefix("https://host")

    def info(self, path: str, **options: Any) -> Any:
        return {**super().info(self._inner(path), **options), "name": path, "ETag": "one"}

    def isfile(self, path: str) -> bool:
        return self.info(path)["type"] == "file"

    def get_file(self, path: str, target: str, **_: Any) -> None:
        Path(target).write_bytes(self.store[self._inner(path)].getvalue())


def test_a_signed_web_address_is_read_by_the_extension_of_its_path(
    memory: Any, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/rows.jsonl.gz", gzip.compress(b'{"text": "a fine film"}\n'))
    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "https", Web)
    address = "https://host/rows.jsonl.gz?X-Expires=1&Signature=secret"
    assert texts_of(address) == ["a fine film"]
    assert address in Web.asked, "the signature is sent"
    build_sharded_store([address], LINES, tokenizer, tmp_path / "store", shard_bytes=1)
    assert not any(b"secret" in file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())
    with pytest.raises(InputError, match=r"https://host/rows\.jsonl\.gz\?\.\.\. cannot be read \(403") as problem:
        texts_of("https://host/rows.jsonl.gz?Signature=wrong")
    assert "wrong" not in str(problem.value)
    with pytest.raises(InputError, match=r"cannot be read \(403") as problem:  # libraries write %2F as /
        texts_of("https://host/rows.jsonl.gz?Credential=a/wrong&Key=wrong")
    assert "wrong" not in str(problem.value)


def test_the_copies_are_entries_of_the_cache(memory: Any, tmp_path: Path) -> None:
    texts_of("memory://reviews")
    entries = list_cache()
    assert [entry.kind for entry in entries] == ["remote", "remote"]
    assert entries[0].summary == "copy of a file at an address"
    assert clear_cache().foreign == ()
    assert list_cache() == []


def test_shards_of_remote_files_have_the_bits_of_local_ones(memory: Any, tokenizer: Tokenizer, tmp_path: Path) -> None:
    whole = build_store(read_documents(["memory://reviews"], LINES), tokenizer, tmp_path / "whole")
    clear_cache()
    store = build_sharded_store(
        ["memory://reviews"], LINES, tokenizer, tmp_path / "shards", shard_bytes=1, duplicates="near"
    )
    assert len(store.meta["shards"]) == 2
    assert store.meta["arrays"] == whole.meta["arrays"]
    assert list_cache() == [], "the files of a shard are copied to a temporary folder"


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingError, match="has a user name or a password") as problem:
        texts_of("https://me:secret@example/texts.jsonl")
    assert "secret" not in str(problem.value)


def test_a_file_of_unknown_size_is_fetched(memory: Any, tmp_path: Path) -> None:
    (known,) = list_remote("memory://reviews/b.txt")
    copy = fetch(replace(known, size=UNKNOWN_SIZE), tmp_path)
    assert copy.stat().st_size == known.size
    with pytest.raises(InputError, match="changed while it was fetched"):
        fetch(replace(known, size=known.size + 1), tmp_path)


def test_what_cannot_be_read_is_a_sentence(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="There is no file at memory://reviews/none"):
        texts_of("memory://reviews/none*")
    with pytest.raises(SettingError, match="nowhere://a cannot be read: Protocol not known"):
        texts_of("nowhere://a")
    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "isfile", lambda *_: (_ for _ in ()).throw(PermissionError("access denied")))
        with pytest.raises(InputError, match=r"memory://reviews cannot be read \(access denied\)"):
            texts_of("memory://reviews")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[remote\]"):
        texts_of("memory://reviews")
