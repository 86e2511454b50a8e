"""Properties for any input: data order, labels, special tokens, labelled files."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headswap.batches.config import MaskingSettings
from headswap.batches.order import rows_of_step, steps_per_epoch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import HeadswapError
from headswap.data.labelled import read_labelled
from headswap.model.text_model import build_model
from headswap.objectives.causal import CausalObjective
from headswap.pretraining.corpus import RowBatches
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer
from tiny import tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
FEW = settings(
    max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0\r\n\x85\u2028\u2029"), min_size=1)
WORDS = TEXTS.map(str.strip).filter(bool)


def batches(tokenizer: Tokenizer, lengths: list[int], batch_size: int, seed: int) -> RowBatches:
    """Rows of one document each; documents are identified by their number."""
    store = TokenStore.from_documents([np.full(length, 7) for length in lengths], fingerprint="test")
    objective = CausalObjective(tokenizer, MaskingSettings())
    rows = objective.rows(store, np.arange(len(lengths)), max_length=50, layout="documents")
    return RowBatches(rows, objective, batch_size, seed)


@FEW
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=40),
    batch_size=st.integers(1, 12),
    seed=st.integers(0, 2**31),
    world=st.integers(1, 5),
    accumulation=st.integers(1, 3),
    kills=st.sets(st.integers(0, 80), max_size=4),
)
def test_every_document_is_seen_once_per_epoch_by_any_number_of_processes_across_kills(
    tokenizer: Tokenizer,
    lengths: list[int],
    batch_size: int,
    seed: int,
    world: int,
    accumulation: int,
    kills: set[int],
) -> None:
    per_epoch = steps_per_epoch(len(lengths), batch_size)
    source = batches(tokenizer, lengths, batch_size, seed)
    seen: list[int] = []
    for step in range(2 * per_epoch):
        if step in kills:
            source = batches(tokenizer, lengths, batch_size, seed)  # a new process, which knows only the step
        micro = source.micro_batches(step, count=world * accumulation)
        by_process = [micro[rank::world] for rank in range(world)]
        of_step = [document for mine in by_process for batch in mine for document in batch.documents]
        alone = [document for batch in source.micro_batches(step, count=1) for document in batch.documents]
        assert sorted(of_step) == sorted(alone), "the number of processes does not change the content of a step"
        seen += of_step
    for epoch in (seen[: len(lengths)], seen[len(lengths) :]):
        assert sorted(epoch) == list(range(len(lengths)))


@FEW
@given(num_rows=st.integers(1, 500), batch_size=st.integers(1, 40), seed=st.integers(0, 2**31), step=st.integers(0, 99))
def test_a_step_is_computed_without_the_steps_before_it(num_rows: int, batch_size: int, seed: int, step: int) -> None:
    alone = rows_of_step(step, num_rows=num_rows, batch_size=batch_size, seed=seed)
    walked = [rows_of_step(k, num_rows=num_rows, batch_size=batch_size, seed=seed) for k in range(step + 1)][-1]
    assert np.array_equal(alone, walked)


@settings(FEW, max_examples=12)
@given(labels=st.lists(WORDS, min_size=2, max_size=5, unique=True))
def test_any_labels_come_back_from_a_bundle_in_their_order(
    tokenizer: Tokenizer, tmp_path: Path, labels: list[str]
) -> None:
    names = tuple(sorted(labels))
    shape = tiny_model_shape(head="classify", vocab_size=tokenizer.vocab_size)
    shape = type(shape)(base=shape.base, direction=shape.direction, head="classify", num_labels=len(names))
    Bundle(build_model(shape, seed=1), tokenizer, names).save(tmp_path / "bundle")
    assert Bundle.load(tmp_path / "bundle").labels == names
    config = json.loads((tmp_path / "bundle" / "config.json").read_text(encoding="utf-8"))
    assert [config["id2label"][str(config["label2id"][label])] for label in names] == list(names)


@FEW
@given(parts=st.lists(st.one_of(st.sampled_from(SPECIAL_TOKENS), st.text(max_size=8)), min_size=1, max_size=6))
def test_special_tokens_inside_a_users_text_stay_text(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(part for part in parts if not any("\ud800" <= sign <= "\udfff" for sign in part))
    ids = tokenizer.encode(text)
    assert not tokenizer.special_ids & set(ids.tolist())
    assert tokenizer.decode(ids) == text


@FEW
@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6))
@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl"])
def test_labelled_rows_come_back_as_they_were_written(
    tmp_path: Path, extension: str, rows: list[tuple[str, str]]
) -> None:
    file = tmp_path / f"set.{extension}"
    if extension == "jsonl":
        content = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    else:
        sheet = io.StringIO()
        writer = csv.writer(sheet, delimiter="," if extension == "csv" else "\t", quoting=csv.QUOTE_ALL)
        writer.writerows([("text", "label"), *rows])
        content = sheet.getvalue()
    file.write_bytes(content.encode())
    read = read_labelled(str(file), text_column="text", label_column="label")
    assert [(example.text, example.label) for example in read] == rows


@settings(FEW, max_examples=60)
@given(data=st.binary(max_size=120), header=st.booleans())
@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "csv.xz", "csv.zst"])
def test_any_bytes_give_examples_or_a_sentence(tmp_path: Path, extension: str, data: bytes, header: bool) -> None:
    file = tmp_path / f"set.{extension}"
    file.write_bytes((b"text,label\n" if header else b"") + data)
    try:
        read_labelled(str(file), text_column="text", label_column="label")
    except HeadswapError as problem:
        assert str(file) in str(problem)
