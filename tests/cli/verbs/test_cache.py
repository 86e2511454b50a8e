"""`headswap cache`."""

from pathlib import Path

import pytest

import headswap as hs
from cli_calls import FLAGS, MACHINE, call, call_json, call_wrong


def test_cache_lists_and_removes_what_tokenizer_and_pretrain_wrote(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    corpus = shared / "corpus.txt"
    made = call_json(capsys, "tokenizer", corpus, "--out", tmp_path / "tokenizer.json", "--vocab-size", 300)
    assert made["vocab_size"] == 300
    stored = call_json(
        capsys, "store", corpus, "--tokenizer", tmp_path / "tokenizer.json", "--out", tmp_path / "corpus.store"
    )
    assert stored["num_documents"] == 120
    given = ["--max-steps=1", "--max-length=24", *FLAGS, *MACHINE]
    call(capsys, "pretrain", tmp_path / "corpus.store", "--out", tmp_path / "run", *given)
    assert hs.load(tmp_path / "run").bundle.tokenizer.fingerprint == made["fingerprint"], "a store brings its tokenizer"
    call(capsys, "pretrain", corpus, "--out", tmp_path / "other", *given)
    entries = call_json(capsys, "cache")["entries"]
    assert {entry["kind"] for entry in entries} == {"store", "tokenizer"}
    assert call_json(capsys, "cache", "rm", entries[0]["key"])["freed_bytes"] > 0
    assert len(call_json(capsys, "cache", "ls")["entries"]) == len(entries) - 1
    call(capsys, "cache", "rm", "--all")
    assert call_json(capsys, "cache")["entries"] == []
    assert "--all" in call_wrong(capsys, "cache", "rm")
