"""Bundles, stores and tokenizers with changed bytes: they load or are refused; no crash, no code is executed."""

import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.core.errors import HeadswapError, InputError
from headswap.core.files import read_json
from headswap.data import open_text
from headswap.data.open_text import decode_lines
from headswap.data.records import Document
from headswap.model.text_model import build_model
from headswap.tokens.store import TokenStore, build_store
from headswap.tokens.tokenizer import Tokenizer
from tiny import sentences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
SOME = settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SOURCE = Path(__file__).parents[2] / "src"
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip


@pytest.fixture
def bundle(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    shape = tiny_model_shape(head="classify", vocab_size=tokenizer.vocab_size)
    Bundle(build_model(shape, seed=3), tokenizer, ("bad", "good", "middling")).save(tmp_path / "sound")
    return tmp_path / "sound"


@pytest.fixture
def store(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    documents = [Document(text, "tests", line) for line, (text, _) in enumerate(sentences(20), 1)]
    build_store(documents, tokenizer, tmp_path / "sound")
    return tmp_path / "sound"


def damaged(folder: Path, name: str, changes: list[tuple[int, int]], length: float) -> Path:
    """A copy of a folder in which one file has changed bytes and is truncated."""
    copy = folder.with_name("damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    content = bytearray((copy / name).read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    (copy / name).write_bytes(content[: max(1, int(len(content) * length))])
    return copy


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6)
LENGTHS = st.one_of(st.just(1.0), st.floats(0, 1))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "golden.json", "manifest.json"])
@SOME
@given(changes=CHANGES, length=LENGTHS)
def test_a_bundle_with_any_bytes_changed_is_loaded_or_refused(
    bundle: Path, name: str, changes: list[tuple[int, int]], length: float
) -> None:
    copy = damaged(bundle, name, changes, length)
    try:
        Bundle.load(copy)
    except HeadswapError as problem:
        assert "damaged" in str(problem), "the message has the name of the folder"
    is_same = (copy / name).read_bytes() == (bundle / name).read_bytes()
    checks = check_bundle(copy)
    assert all(check.is_sound for check in checks) == is_same, "the doctor finds every change"


@SOME
@given(data=st.data(), value=VALUES)
def test_a_config_with_any_value_is_loaded_or_refused(bundle: Path, data: st.DataObject, value: Any) -> None:
    copy = damaged(bundle, "config.json", [], 1.0)
    config = json.loads((copy / "config.json").read_text())
    key = data.draw(st.sampled_from(sorted(config)))
    (copy / "config.json").write_text(json.dumps(config | {key: value}))
    try:
        Bundle.load(copy)
    except HeadswapError as problem:
        assert str(problem)


@SOME
@given(data=st.data(), value=VALUES)
def test_a_tokenizer_with_any_value_is_loaded_or_refused(bundle: Path, data: st.DataObject, value: Any) -> None:
    content = json.loads((bundle / "tokenizer.json").read_text())
    inner = data.draw(st.sampled_from([content, content["model"]]))
    inner[data.draw(st.sampled_from(sorted(inner)))] = value
    file = bundle.parent / "changed.json"
    file.write_text(json.dumps(content))
    try:
        Tokenizer.load(file).encode("the film was fine")
    except InputError as problem:
        assert str(file) in str(problem)


@pytest.mark.parametrize("name", ["store.json", "ids.bin", "offsets.bin", "byte_counts.bin", "tokenizer.json"])
@SOME
@given(changes=CHANGES, length=LENGTHS)
def test_a_store_with_any_bytes_changed_is_found_out(
    store: Path, name: str, changes: list[tuple[int, int]], length: float
) -> None:
    copy = damaged(store, name, changes, length)
    is_same = (copy / name).read_bytes() == (store / name).read_bytes()
    try:
        opened = TokenStore.open(copy)
        opened.verify()
    except HeadswapError:
        assert not is_same
    else:
        assert np.array_equal(opened.ids, TokenStore.open(store).ids), (
            "a store that is accepted has the ids that were built"
        )


@SOME
@given(data=st.data(), value=VALUES)
def test_a_store_described_by_any_value_is_opened_or_refused(store: Path, data: st.DataObject, value: Any) -> None:
    copy = damaged(store, "store.json", [], 1.0)
    meta = json.loads((copy / "store.json").read_text())
    key = data.draw(st.sampled_from(sorted(meta)))
    (copy / "store.json").write_text(json.dumps(meta | {key: value}))
    try:
        TokenStore.open(copy).verify()
    except HeadswapError as problem:
        assert str(problem)


@SOME
@given(
    content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
)
def test_any_bytes_as_json_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    try:
        read_json(tmp_path / "a.json")
    except InputError as problem:
        assert "a.json" in str(problem)


# Code


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "tokenizer.json", "config.json"])
def test_a_malicious_pickle_is_refused_and_never_run(bundle: Path, tmp_path: Path, name: str) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    pickle.loads(trap)
    assert (tmp_path / "sprung").exists(), "the trap works"
    (tmp_path / "sprung").unlink()
    if name == "pytorch_model.bin":
        (bundle / "model.safetensors").unlink()
    (bundle / name).write_bytes(trap)
    with pytest.raises(InputError):
        Bundle.load(bundle)
    assert not (tmp_path / "sprung").exists()


def test_nothing_in_the_package_unpickles() -> None:
    names = r"\b(pickle|cPickle|dill|joblib|shelve|marshal)\.loads?\b"
    loaders = re.compile(rf"{names}|\btorch\.load\(|allow_pickle=True|weights_only=False")
    found = [
        f"{file.relative_to(SOURCE)}: {line.strip()}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if loaders.search(line) and not line.strip().startswith("#")
    ]
    assert found == []


def test_a_bundle_never_reads_outside_its_folder(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text((bundle / "config.json").read_text())
    (bundle / "config.json").unlink()
    (bundle / "config.json").symlink_to("../secret.json")
    with pytest.raises(InputError, match="is a link out of the bundle"):
        Bundle.load(bundle)
    (bundle / "config.json").unlink()
    (bundle / "real.json").write_text((tmp_path / "secret.json").read_text())
    (bundle / "config.json").symlink_to("real.json")
    assert Bundle.load(bundle).labels == ("bad", "good", "middling"), "a link inside the bundle is harmless"


# Bombs


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_text, "LONGEST_LINE", 1000)
    taken = []

    def pieces() -> Any:
        for number in range(1_000_000):
            taken.append(number)
            yield b"a" * 100

    with pytest.raises(InputError, match="endless, line 1: longer than 1,000 characters"):
        list(decode_lines(pieces(), name="endless"))
    assert len(taken) < 20
    lines = list(decode_lines([b"a" * 900 + b"\n" + b"b" * 900], name="fine"))
    assert [len(line) for line in lines] == [900, 900]


def test_a_json_file_of_enormous_size_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 30)  # a sparse file takes no space on the disk
    with pytest.raises(InputError, match="larger than 256 MiB"):
        read_json(tmp_path / "config.json")
