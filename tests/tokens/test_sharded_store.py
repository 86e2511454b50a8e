"""Stores of many shards: read as one, equal to one store, repeats dropped, restarts, refusals."""

import gzip
import os
import random
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.core.errors import HeadswapError, InputError, SettingError
from headswap.core.files import read_json, write_json
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.overlap import find_overlap
from headswap.tokens import sharded_store
from headswap.tokens.shard_plan import as_json, list_sources, plan_shards
from headswap.tokens.sharded_store import build_sharded_store
from headswap.tokens.store import TokenStore, build_store
from headswap.tokens.tokenizer import Tokenizer
from tiny import PRETRAIN, sentences

LINES = ReadSettings(documents="line")
SIDES = ("word_starts", "sentence_starts")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Five files, one compressed, with equal and nearly equal documents in different files."""
    draw = random.Random(3)
    texts = [" ".join(text for text, _ in sentences(4, seed=number)) + f" end {number}" for number in range(150)]
    near = [f"{text} indeed" for text in texts[:20]]
    every = texts + [text.upper() for text in texts[20:40]] + near
    draw.shuffle(every)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(5):
        content = "".join(f"{text}\n" for text in every[number::5])
        if number == 2:
            (folder / "2.txt.gz").write_bytes(gzip.compress(content.encode()))
        else:
            (folder / f"{number}.txt").write_text(content, encoding="utf-8")
    return folder


def build(corpus: Path, tokenizer: Tokenizer, out: Path, **changes: Any) -> TokenStore:
    given: dict[str, Any] = {"shard_bytes": 15_000, **changes}
    return build_sharded_store([str(corpus)], LINES, tokenizer, out, **given)


def assert_same(one: TokenStore, other: TokenStore) -> None:
    for name in ("ids", "offsets", "byte_counts"):
        assert np.array_equal(np.asarray(one.array(name)), np.asarray(other.array(name))), name
    assert one.meta["arrays"] == other.meta["arrays"], "also the checksums"
    assert one.checksum() == other.checksum()


def test_shards_are_read_as_the_one_store_of_all_documents(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    whole = build_store(read_documents([str(corpus)], LINES), tokenizer, tmp_path / "whole", side=SIDES)
    shards = build(corpus, tokenizer, tmp_path / "shards", side=SIDES)
    assert len(shards.meta["shards"]) >= 3
    assert_same(shards, whole)
    shards.verify()
    assert list(shards.texts()) == list(whole.texts())
    for name in SIDES:
        assert np.array_equal(np.asarray(shards.side(name)), whole.side(name))
    assert_same(build(corpus, tokenizer, tmp_path / "other", side=SIDES, shard_bytes=1), whole)


def test_a_base_trained_on_shards_has_the_bits_of_one_trained_on_the_whole(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build_store(read_documents([str(corpus)], LINES), tokenizer, tmp_path / "whole", side=SIDES)
    build(corpus, tokenizer, tmp_path / "shards", side=SIDES)
    for objective in ("causal", "masked+nsp"):
        weights = []
        for name in ("whole", "shards"):
            given = PRETRAIN | {"objective": objective, "max_steps": 2}
            run = hs.pretrain(corpus=tmp_path / name, out=tmp_path / f"{name}-{objective}", **given)
            weights.append((run.path / "bundle" / "model.safetensors").read_bytes())
        assert weights[0] == weights[1], objective


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_repeats_are_those_of_the_overlap_check_whatever_the_shards(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path, kind: Any
) -> None:
    documents = list(read_documents([str(corpus)], LINES))
    (found,) = find_overlap({"corpus": [document.text for document in documents]})
    dropped = set(found.exact if kind == "exact" else found.rows)
    assert len(dropped) == (20 if kind == "exact" else 40)
    expected = build_store(
        (document for row, document in enumerate(documents) if row not in dropped), tokenizer, tmp_path / "expected"
    )
    for size in (1, 15_000, 10**9):
        store = build(corpus, tokenizer, tmp_path / f"shards-{size}", shard_bytes=size, duplicates=kind)
        assert_same(store, expected)
        assert store.meta["num_dropped"] == len(dropped)
        assert not (tmp_path / f"shards-{size}" / "work").exists()


def test_a_restart_does_only_what_is_missing(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int]] = []
    is_broken = True

    def recorded(function: Any) -> Any:
        def run(folder: str, number: int) -> None:
            if is_broken and function.__name__ == "encode_shard" and number == 2:
                raise KeyboardInterrupt
            function(folder, number)
            done.append((function.__name__, number))

        return run

    for name in ("fingerprint_shard", "compare_part", "encode_shard"):
        monkeypatch.setattr(sharded_store, name, recorded(getattr(sharded_store, name)))
    out = tmp_path / "shards"
    with pytest.raises(KeyboardInterrupt):
        build(corpus, tokenizer, out, duplicates="near")
    with pytest.raises(InputError, match="is not a token store"):
        TokenStore.open(out)
    num_shards = len([1 for name, _ in done if name == "fingerprint_shard"])
    assert done[-2:] == [("encode_shard", 0), ("encode_shard", 1)]
    done.clear()
    is_broken = False
    store = build(corpus, tokenizer, out, duplicates="near")
    assert done == [("encode_shard", number) for number in range(2, num_shards)]
    assert_same(store, build(corpus, tokenizer, tmp_path / "at-once", duplicates="near"))
    done.clear()
    build(corpus, tokenizer, out, duplicates="near")
    assert done == [], "a complete store is left as it is"


def test_a_store_of_other_files_or_settings_is_not_replaced_by_accident(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build(corpus, tokenizer, tmp_path / "out")
    with pytest.raises(SettingError, match="already exists"):
        build(corpus, tokenizer, tmp_path / "out", duplicates="exact")
    os.utime(corpus / "1.txt", ns=(1, 1))
    with pytest.raises(SettingError, match="already exists"):
        build(corpus, tokenizer, tmp_path / "out")
    assert build(corpus, tokenizer, tmp_path / "out", overwrite=True, duplicates="exact").meta["num_dropped"] == 20
    (tmp_path / "out" / "mine.txt").write_text("a file of the user")
    with pytest.raises(SettingError, match=r"mine\.txt"):
        build(corpus, tokenizer, tmp_path / "out", overwrite=True)


def test_damage_of_a_shard_is_found(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    store = build(corpus, tokenizer, out)
    file = out / "shard-00001" / "ids.bin"
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    with pytest.raises(HeadswapError, match=r"The array ids of .* is damaged"):
        TokenStore.open(out).verify()
    file.write_bytes(content[:-2])
    with pytest.raises(InputError, match=r"shard-00001 is damaged: ids\.bin has"):
        TokenStore.open(out)
    assert len(store.meta["shards"]) >= 3


def test_a_file_that_changes_while_a_store_is_built_is_an_error(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = sharded_store.compare_part

    def change(folder: str, number: int) -> None:
        compare(folder, number)
        first = sorted(corpus.iterdir())[0]
        first.write_bytes(first.read_bytes() + b"one more\n")

    monkeypatch.setattr(sharded_store, "compare_part", change)
    with pytest.raises(InputError, match="changed while the corpus was read"):
        build(corpus, tokenizer, tmp_path / "shards", duplicates="near")


def test_a_corpus_of_plain_text_and_rows_is_read_as_without_shards(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.txt").write_text("a fine film\nanother one\n")
    (folder / "b.jsonl").write_text('{"body": "a dull film"}\n')
    (folder / "c.csv").write_text("body\nthe end\n")
    settings = ReadSettings(documents="line", text_column="body")
    whole = build_store(read_documents([str(folder)], settings), tokenizer, tmp_path / "whole")
    for size in (1, 10**6):
        assert_same(
            build_sharded_store([str(folder)], settings, tokenizer, tmp_path / f"{size}", shard_bytes=size), whole
        )
    with pytest.raises(SettingError, match="no file of the corpus has columns"):
        build_sharded_store([str(folder / "a.txt")], settings, tokenizer, tmp_path / "plain", shard_bytes=1)


def test_a_store_and_its_corpus_can_be_moved_and_name_no_folder(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    (corpus / "more").mkdir()
    (corpus / "1.txt").rename(corpus / "more" / "1.txt")
    build(corpus, tokenizer, tmp_path / "out")
    written = [file for file in (tmp_path / "out").rglob("*.json") if file.name != "tokenizer.json"]
    assert len(written) >= 4
    assert not any(str(tmp_path) in file.read_text() or "more" in file.read_text() for file in written)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("corpus", "out"):
        (tmp_path / name).rename(moved / name)
    before = sorted((file, file.stat().st_mtime_ns) for file in (moved / "out").rglob("*"))
    build(moved / "corpus", tokenizer, moved / "out")
    assert sorted((file, file.stat().st_mtime_ns) for file in (moved / "out").rglob("*")) == before, "it is complete"
    (moved / "out" / "store.json").unlink()
    shutil.rmtree(moved / "out" / "shard-00001")
    assert_same(build(moved / "corpus", tokenizer, moved / "out"), build(moved / "corpus", tokenizer, tmp_path / "new"))


def test_a_store_that_an_older_version_began_is_finished(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Its plan has the places of the files, and it has no joined arrays."""
    out = tmp_path / "out"
    finished = build(corpus, tokenizer, out)
    plan = read_json(out / "plan.json")
    shards = plan_shards(list_sources([str(corpus)]), 15_000)
    write_json(out / "plan.json", plan | {"shards": as_json(shards)})
    for name in ("offsets.bin", "byte_counts.bin"):
        (out / name).unlink()
    assert_same(build(corpus, tokenizer, out), finished)
    TokenStore.open(out).verify()
    (out / "store.json").unlink()
    assert_same(build(corpus, tokenizer, out), finished)
    assert str(tmp_path) not in (out / "plan.json").read_text()


def test_a_store_of_many_shards_needs_one_file_descriptor_per_shard(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build(corpus, tokenizer, tmp_path / "store", shard_bytes=1)
    num_open = len(os.listdir("/proc/self/fd"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (num_open + 12, before[1]))
    try:
        store = TokenStore.open(tmp_path / "store")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(store.meta["shards"]) == 5


def test_what_a_lost_computer_left_is_removed_from_a_finished_store(
    corpus: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    out = tmp_path / "store"
    build(corpus, tokenizer, out)
    (out / "store.json").unlink()
    left = out / ".tmp-4242.deadbeef-0123abcd-shard-00000"
    left.mkdir()
    (left / "ids.bin").write_bytes(b"1")
    build(corpus, tokenizer, out)
    assert not left.exists()
    (out / "work").mkdir()
    (out / "work" / "sources.json").write_text("[]")
    build(corpus, tokenizer, out)
    assert not (out / "work").exists(), "a process that was killed at its end left it"
