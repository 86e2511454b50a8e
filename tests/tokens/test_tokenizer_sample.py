"""Samples of a corpus: all of it below the limit, spread evenly above it, the same wherever the tasks run."""

import gzip
import io
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headswap.core import task_pool
from headswap.core.errors import InputError, SettingError
from headswap.core.ownership import this_computer
from headswap.data import documents as data_documents
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.records import Document
from headswap.tokens import tokenizer_sample
from headswap.tokens.tokenizer_sample import Sample, sample_corpus, sample_documents, slice_text

LINES = ReadSettings(documents="line")
LIMIT = 6_000
SIZES = {"a": 100, "b": 400, "c": 50, "d": 200, "e": 400}


def documents(texts: list[str]) -> list[Document]:
    return [Document(text, "corpus.txt", line) for line, text in enumerate(texts, start=1)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Files of different sizes and kinds; every text begins with the name of its file and its row."""
    folder, draw = tmp_path / "corpus", random.Random(1)
    folder.mkdir()
    for name, count in SIZES.items():
        texts = [f"{name} {row} {draw.randbytes(8).hex()}" for row in range(count)]
        if name == "e":
            packed = "".join(json.dumps({"text": text}) + "\n" for text in texts)
            (folder / "e.jsonl.gz").write_bytes(gzip.compress(packed.encode()))
        else:
            (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
    return folder


def sampled(corpus: Path, **changes: Any) -> tuple[list[bytes], int]:
    given: dict[str, Any] = {"max_bytes": LIMIT, "part_bytes": 3_000, **changes}
    return sample_corpus([str(corpus)], LINES, corpus.parent / "work", **given)


def counts(slices: list[bytes]) -> Counter[str]:
    return Counter(data.decode()[0] for data in slices)


def test_nothing_is_left_out_below_the_limit(corpus: Path) -> None:
    expected = [document.text.encode() for document in read_documents([str(corpus)], LINES)]
    slices, num_read = sampled(corpus, max_bytes=10**6)
    assert slices == expected
    assert num_read == sum(map(len, expected))
    assert not (corpus.parent / "work").exists()


def test_every_file_has_its_share_by_its_text_in_order_and_within_the_limit(corpus: Path) -> None:
    slices, num_read = sampled(corpus)
    texts = [document.text.encode() for document in read_documents([str(corpus)], LINES)]
    assert num_read == sum(map(len, texts))
    assert 0.95 * LIMIT < sum(map(len, slices)) <= LIMIT
    places = [texts.index(data) for data in slices]
    assert places == sorted(set(places)), "each slice once, in the order of the corpus"
    for name, size in SIZES.items():
        expected = size / sum(SIZES.values()) * len(slices)
        assert abs(counts(slices)[name] - expected) <= 3, f"{name}, also where files are compressed"
    rows = [int(data.split()[1]) for data in slices if data.startswith(b"b")]
    gaps = [later - earlier for earlier, later in zip([0, *rows], [*rows, 399], strict=True)]
    assert max(gaps) <= 3 * 400 / len(rows), "also within a file"


@pytest.mark.parametrize("limit", [1, 100, 1_000])
def test_small_limits_are_respected_and_leave_a_slice(corpus: Path, limit: int) -> None:
    slices, _ = sampled(corpus, max_bytes=limit)
    assert sum(map(len, slices)) <= limit or len(slices) == 1
    assert slices


def test_a_single_file_is_sampled_evenly_without_tasks(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_sample, "sample_part", None)
    slices, num_read = sample_corpus([str(corpus / "b.txt")], LINES, corpus, max_bytes=1_000)
    rows = [int(data.split()[1]) for data in slices]
    assert num_read == (corpus / "b.txt").stat().st_size - 400
    assert 0.95 * 1_000 < sum(map(len, slices)) <= 1_000
    assert sum(row >= 200 for row in rows) == pytest.approx(len(rows) / 2, abs=1)


def test_standard_input_is_sampled_to_its_end(corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = (corpus / "b.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    alone, _ = sample_corpus(["-"], LINES, corpus, max_bytes=1_000)
    assert alone == sample_corpus([str(corpus / "b.txt")], LINES, corpus, max_bytes=1_000)[0]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    (corpus / "b.txt").unlink()
    mixed, _ = sample_corpus([str(corpus), "-"], LINES, tmp_path, max_bytes=LIMIT, part_bytes=3_000)
    assert set(counts(mixed)) == set("abcde")


def test_named_sets_are_sampled_with_files(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = documents([f"n\n{row} line of a film" for row in range(300)])
    for module in (tokenizer_sample, data_documents):
        monkeypatch.setattr(module, "is_named", lambda source: source == "named")
        monkeypatch.setattr(module, "read_named_documents", lambda name, text_column: iter(named))
    slices, _ = sample_corpus(["named", str(corpus)], LINES, corpus.parent, max_bytes=LIMIT, part_bytes=3_000)
    assert counts(slices)["n"] == pytest.approx(300 / 1450 * len(slices), abs=3)
    assert all(data in {document.text.encode() for document in named} for data in slices if data.startswith(b"n"))


class FakeRay:
    """Runs tasks when they are waited for, the last one first, and the first of them twice, as if it had been lost."""

    exceptions = SimpleNamespace(RayError=ZeroDivisionError, RayTaskError=ZeroDivisionError)

    def __init__(self, num_cpus: int) -> None:
        self.num_cpus, self.num_run = num_cpus, 0

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.num_cpus)}

    def remote(self, function: Callable[..., Any]) -> Any:
        start = SimpleNamespace(remote=lambda *arguments: (function, arguments))
        return SimpleNamespace(options=lambda **options: start)

    def wait(self, references: list[Any], *, num_returns: int) -> Any:
        return references[-1:], references[:-1]

    def get(self, reference: Any) -> Any:
        self.num_run += 1
        if self.num_run == 1:
            reference[0](*reference[1])
        return reference[0](*reference[1])

    def cancel(self, reference: Any) -> None:
        pass


def test_the_sample_is_the_same_for_any_number_of_workers(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    local = sampled(corpus)
    for num_cpus in (1, 2, 5):
        ray = FakeRay(num_cpus)
        monkeypatch.setattr(task_pool, "connect", lambda address, num_cpus, ray=ray: (ray, lambda: None))
        assert sampled(corpus, executor="ray") == local
        assert ray.num_run == 5, "one task per part"
    assert not list((corpus.parent / "work").iterdir())


def test_problems_of_a_task_are_sentences_and_leave_nothing(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = tokenizer_sample.sample_part

    def change(folder: str, number: int) -> None:
        with (corpus / "c.txt").open("a") as file:
            file.write("one more\n")
        original(folder, number)

    monkeypatch.setattr(tokenizer_sample, "sample_part", change)
    with pytest.raises(InputError, match=r"c\.txt changed while the corpus was read\. Run the command again"):
        sampled(corpus)
    assert not list((corpus.parent / "work").iterdir())
    (corpus / "d.txt").write_bytes(b"\xff\n")
    monkeypatch.setattr(tokenizer_sample, "sample_part", original)
    with pytest.raises(InputError, match=r"d\.txt, line 1: byte 0xFF is not UTF-8 text"):
        sampled(corpus)
    with pytest.raises(SettingError, match="executor = 'slurm' is not allowed"):
        sampled(corpus, executor="slurm")


def test_what_a_killed_process_left_is_removed(corpus: Path) -> None:
    work = corpus.parent / "work"
    left = work / f".tmp-{2**22 + 1}.{this_computer()}-0123abcd-tokenizer-sample"
    left.mkdir(parents=True)
    (left / "part-00000.npz").write_bytes(b"1")
    sampled(corpus)
    assert not left.exists()


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), max_size=80), limit=st.integers(1, 1_500))
def test_the_sample_is_the_longest_run_of_priorities_within_the_limit(lengths: list[int], limit: int) -> None:
    sample = Sample(limit)
    for document in documents(["x" * length for length in lengths]):
        sample.add(document)
    numbers, slices = sample.numbered()
    order = sorted(range(len(lengths)), key=lambda number: number * tokenizer_sample.GOLDEN % 2**64)
    expected: list[int] = []
    while len(expected) < len(order) and sum(lengths[one] for one in [*expected, order[len(expected)]]) <= limit:
        expected.append(order[len(expected)])
    assert numbers == sorted(expected or order[:1])
    assert [len(data) for data in slices] == [lengths[number] for number in numbers]
    assert sample.is_partial == (len(numbers) < len(lengths))


def test_the_error_for_a_lone_surrogate_names_its_line() -> None:
    with pytest.raises(InputError, match=r"corpus.txt, line 2: .*surrogate"):
        sample_documents(documents(["good", "bad \ud800"]))


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="ab \n"), length=st.integers(1, 10))
def test_slices_are_short_and_join_to_the_text(text: str, length: int) -> None:
    slices = list(slice_text(text, length))
    assert "".join(slices) == text
    assert all(0 < len(part) <= length for part in slices)


def test_slices_are_cut_before_white_space() -> None:
    assert list(slice_text("one two three", 8)) == ["one two", " three"]
    assert re.fullmatch("x+", "".join(slice_text("x" * 5_000)))


def test_a_link_is_read_in_the_format_of_its_own_name(corpus: Path) -> None:
    """A cache may keep files under names without an extension, with links to them."""
    folder = corpus.parent / "linked"
    folder.mkdir()
    for number in range(3):
        blob = corpus.parent / f"blob{number}"
        blob.write_text("".join(json.dumps({"text": f"word{number} {row}"}) + "\n" for row in range(40)))
        (folder / f"{number}.jsonl").symlink_to(blob)
    slices, _ = sample_corpus([str(folder)], ReadSettings(), corpus.parent / "work", max_bytes=300, part_bytes=100)
    assert slices
    assert all(data.startswith(b"word") for data in slices)


def test_parts_whose_share_is_smaller_than_a_slice_leave_it_to_the_next(corpus: Path) -> None:
    folder = corpus.parent / "many"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.txt").write_text("\n".join("x" * 100 for _ in range(20)))
    slices, num_read = sample_corpus(
        [str(folder)], ReadSettings(), corpus.parent / "work", max_bytes=1_500, part_bytes=2_000
    )
    assert num_read == 60_000
    assert sum(map(len, slices)) == 1_500


def test_standard_input_leaves_no_copy(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from stdin\n" * 50)))
    work = tmp_path / "beside"
    slices, _ = sample_corpus([str(corpus), "-"], ReadSettings(), work, max_bytes=2_000, part_bytes=500)
    assert b"from stdin" in slices
    assert list(work.iterdir()) == []
    assert not list(tmp_path.rglob("stdin"))
