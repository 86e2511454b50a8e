"""Labelled rows: indexes of targets in a batch, and which rows a step reads."""

from dataclasses import replace

import numpy as np
import pytest

from headswap.batches.labelled_rows import EncodedSet, ExampleBatches, Note, Row, batch_of


def row(example: int, length: int, *, targets: list[int], **more: object) -> Row:
    ids = np.arange(length) + 10 * example
    return Row(example, ids, target_index=np.array(targets), target_value=np.array(targets) + example, **more)  # type: ignore[arg-type]


def test_targets_are_counted_by_token_or_by_row() -> None:
    rows = [row(0, 3, targets=[1, 2]), row(1, 2, targets=[0])]
    assert batch_of(rows, is_per_token=True).target_index_T.tolist() == [1, 2, 3]
    whole = [row(0, 3, targets=[0]), row(1, 2, targets=[0])]
    assert batch_of(whole, is_per_token=False).target_index_T.tolist() == [0, 1]
    assert batch_of(whole, is_per_token=False).documents == (0, 1)


def test_a_row_of_two_texts_is_two_sequences_with_one_target() -> None:
    rows = [row(0, 5, targets=[0], split=2), row(1, 4, targets=[0], split=1)]
    found = batch_of(rows, is_per_token=False)
    assert found.lengths == (2, 3, 1, 3)
    assert found.ids_N.tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13]
    assert found.target_index_T.tolist() == [0, 1], "a target's index is that of its row"
    assert found.target_counts == (2,)
    assert [part.tolist() for part in rows[0].sequences] == [[0, 1], [2, 3, 4]]


def test_rows_without_targets_make_a_batch_without_targets() -> None:
    found = batch_of([Row(0, np.array([1, 2])), Row(1, np.array([3]))], is_per_token=False)
    assert found.num_targets == 0
    assert found.ids_N.tolist() == [1, 2, 3]


def test_segments_are_used_only_if_every_row_has_them() -> None:
    with_segments = row(0, 2, targets=[0], segments=np.array([0, 1]))
    assert batch_of([with_segments, with_segments], is_per_token=False).segments_N is not None
    assert batch_of([with_segments, row(1, 2, targets=[0])], is_per_token=False).segments_N is None


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_micro_batches_have_the_rows_of_the_step_in_order_and_none_is_empty(count: int) -> None:
    batches = ExampleBatches([row(n, 2, targets=[0]) for n in range(7)], batch_size=4, seed=3, is_per_token=False)
    parts = batches.micro_batches(1, count=count)
    assert [document for part in parts for document in part.documents] == batches.numbers(1).tolist()
    assert len(parts) == min(count, len(batches.numbers(1)))


def test_every_row_is_read_once_per_pass_and_a_change_gets_its_number_and_step() -> None:
    seen = []

    def change(row: Row, *, number: int, step: int) -> Row:
        seen.append((number, step))
        return replace(row, ids=row.ids + 1)

    batches = ExampleBatches([row(n, 1, targets=[0]) for n in range(6)], 3, 0, False, change)
    parts = [batches.micro_batches(step, count=1)[0] for step in (0, 1)]
    assert sorted(document for part in parts for document in part.documents) == list(range(6))
    assert sorted(number for number, _ in seen) == list(range(6))
    assert [step for _, step in seen] == [0] * 3 + [1] * 3
    assert parts[0].ids_N.tolist() == [10 * document + 1 for document in parts[0].documents]


def test_the_share_of_tokens_that_were_cut_off_and_remarks() -> None:
    assert EncodedSet([1, 2], [], num_tokens=40, num_truncated=10).truncated_share == 0.25
    assert EncodedSet([], [], num_tokens=0, num_truncated=0).truncated_share == 0
    assert str(Note(1, "text", "is empty")) == "1 text is empty"
    assert str(Note(1200, "text", "are empty")) == "1,200 texts are empty"
