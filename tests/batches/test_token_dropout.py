"""Token dropout: what is left out, and what it depends on."""

import numpy as np

from headswap.batches.labelled_rows import ExampleBatches, Row
from headswap.batches.token_dropout import TokenDropout

SOS, SEP = 0, 5
DROPOUT = TokenDropout(0.3, seed=7, special_ids=frozenset(range(6)))


def rows(count: int = 12, length: int = 20) -> list[Row]:
    """Rows of different tokens, each after <sos>, with one target per row."""
    return [
        Row(
            number,
            np.concatenate(([SOS], 10 + np.arange(length) + 100 * number)),
            target_index=np.zeros(1, dtype=np.int64),
            target_value=np.array([number % 2]),
        )
        for number in range(count)
    ]


def test_about_the_given_share_of_the_tokens_is_left_out_in_order_and_special_tokens_stay() -> None:
    kept = [DROPOUT(row, number=number, step=0).ids for number, row in enumerate(rows(count=200))]
    assert all(ids[0] == SOS for ids in kept)
    assert all((np.diff(ids[1:]) > 0).all() for ids in kept), "the order of the tokens is the same"
    share = 1 - sum(len(ids) - 1 for ids in kept) / (200 * 20)
    assert abs(share - 0.3) < 0.02


def test_at_least_one_token_of_the_text_is_kept() -> None:
    nearly_all = TokenDropout(0.999999, seed=1, special_ids=frozenset({SOS, SEP}))
    for number, row in enumerate(rows()):
        changed = nearly_all(row, number=number, step=3)
        assert len(changed.ids) == 2
        assert changed.ids[0] == SOS
    only_specials = Row(0, np.array([SOS, SEP]))
    assert nearly_all(only_specials, number=0, step=0).ids.tolist() == [SOS, SEP]


def test_segments_stay_with_their_tokens() -> None:
    ids = np.array([SOS, 10, 11, 12, SEP, 20, 21, 22])
    row = Row(0, ids, segments=(np.arange(8) >= 5).astype(np.int64))
    for step in range(20):
        changed = DROPOUT(row, number=0, step=step)
        assert changed.segments is not None
        assert changed.segments.tolist() == [int(id >= 20) for id in changed.ids]


def test_each_of_two_texts_keeps_its_tokens_and_at_least_one() -> None:
    ids = np.array([SOS, *range(10, 18), SOS, *range(20, 24)])
    row = Row(0, ids, split=9)
    for share in (0.3, 0.999999):
        dropout = TokenDropout(share, seed=1, special_ids=frozenset({SOS}))
        for step in range(40):
            first, second = dropout(row, number=0, step=step).sequences
            assert first[0] == second[0] == SOS
            assert len(first) > 1
            assert len(second) > 1
            assert set(first[1:]) <= set(range(10, 18))
            assert set(second[1:]) <= set(range(20, 24))


def test_each_step_and_each_row_has_its_own_draws_and_the_same_step_has_the_same() -> None:
    row = rows(count=1)[0]
    first = DROPOUT(row, number=0, step=0).ids.tolist()
    assert DROPOUT(row, number=0, step=0).ids.tolist() == first
    assert DROPOUT(row, number=0, step=1).ids.tolist() != first
    assert DROPOUT(row, number=1, step=0).ids.tolist() != first


def test_a_step_has_the_same_tokens_in_one_batch_and_in_several_micro_batches() -> None:
    source = ExampleBatches(rows(), batch_size=6, seed=3, is_per_token=False, change=DROPOUT)
    for step in range(4):
        (whole,) = source.micro_batches(step, count=1)
        parts = source.micro_batches(step, count=4)
        assert whole.ids_N.tolist() == [id for part in parts for id in part.ids_N.tolist()]
        assert whole.lengths == tuple(length for part in parts for length in part.lengths)
        assert whole.target_value_T.tolist() == [value for part in parts for value in part.target_value_T.tolist()]
    plain = ExampleBatches(rows(), batch_size=6, seed=3, is_per_token=False)
    assert plain.micro_batches(0, count=1)[0].num_tokens == 6 * 21
