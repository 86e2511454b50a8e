"""Corpora in an S3 store: a local server (moto) instead of one on the network. Shards built by Ray tasks."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for package in ("s3fs", "moto", "ray", "flask_cors"):
    pytest.importorskip(package, reason=f"needs {package}: make test-ecosystem")

import s3fs
from moto.server import ThreadedMotoServer

from cli_calls import call
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.tokens.store import TokenStore, build_store
from headswap.tokens.tokenizer import Tokenizer
from tiny import sentences

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("one_thread")]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Four files of JSON lines, two of them equal, in a bucket of a local server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("texts")
    for number in range(4):
        rows = [json.dumps({"text": f"{text} {row} {number % 3}"}) for row, (text, _) in enumerate(sentences(60))]
        store.pipe(f"texts/reviews/part-{number}.jsonl.gz", gzip.compress("\n".join(rows).encode()))
    yield "s3://texts/reviews"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_tokenizer_and_a_store_of_a_bucket(bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "tokenizer", bucket, "--out", tmp_path / "tokenizer.json", "--vocab-size", "300")
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    whole = build_store(read_documents([bucket], ReadSettings()), tokenizer, tmp_path / "whole")
    assert whole.num_documents == 240
    stores: dict[str, Any] = {}
    for executor in ("local", "ray"):
        for duplicates in ("keep", "exact"):
            out = tmp_path / f"{executor}-{duplicates}"
            call(
                capsys, "store", f"{bucket}/*.jsonl.gz", "--tokenizer", tmp_path / "tokenizer.json", "--out", out,
                "--shard-mb", "0.0001", "--executor", executor, "--drop-duplicates", duplicates,
            )  # fmt: skip
            stores[executor, duplicates] = TokenStore.open(out)
    assert stores["ray", "keep"].meta["arrays"] == whole.meta["arrays"]
    assert stores["ray", "exact"].num_documents == 180
    for duplicates in ("keep", "exact"):
        one, other = (tmp_path / f"{executor}-{duplicates}" for executor in ("local", "ray"))
        names = sorted(file.relative_to(one) for file in one.rglob("*") if file.is_file())
        assert len(names) > 16
        for name in names:
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
