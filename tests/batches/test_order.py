"""The order of rows: a permutation per epoch, computed for any position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headswap.batches.order as order_module
from headswap.batches.order import rows_of_step, shuffled, steps_per_epoch


@given(st.integers(1, 3_000), st.integers(0, 2**40), st.integers(0, 50))
def test_every_row_occurs_exactly_once_per_epoch(size: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(np.arange(size), size, seed, "epoch", epoch)) == list(range(size))


@given(st.integers(1, 400), st.integers(1, 70), st.integers(0, 2**31), st.integers(0, 4))
def test_the_steps_of_an_epoch_contain_every_row_once(num_rows: int, batch_size: int, seed: int, epoch: int) -> None:
    per_epoch = steps_per_epoch(num_rows, batch_size)
    steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
    rows = [rows_of_step(step, num_rows=num_rows, batch_size=batch_size, seed=seed) for step in steps]
    assert sorted(np.concatenate(rows)) == list(range(num_rows))
    assert all(len(part) == batch_size for part in rows[:-1])


def test_a_single_position_can_be_computed() -> None:
    whole = shuffled(np.arange(1_000), 1_000, 3, "epoch", 0)
    assert [int(shuffled(np.array([index]), 1_000, 3, "epoch", 0)[0]) for index in (0, 17, 999)] == [
        whole[0],
        whole[17],
        whole[999],
    ]


@pytest.mark.parametrize("step", [0, 3, 4, 9])
def test_the_rows_of_a_step_are_the_same_whether_the_order_of_its_epoch_is_kept(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    kept = rows_of_step(step, num_rows=33, batch_size=8, seed=5)
    monkeypatch.setattr(order_module, "MOST_KEPT", 0)
    assert np.array_equal(rows_of_step(step, num_rows=33, batch_size=8, seed=5), kept)
    assert len(kept) == (1 if step in (4, 9) else 8)


def test_different_seeds_and_epochs_give_different_orders() -> None:
    orders = {tuple(shuffled(np.arange(50), 50, seed, "epoch", epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_every_row_is_equally_likely_at_every_position() -> None:
    """Chi-square over 2,000 epochs of 8 rows is close to its expectation."""
    counts = np.zeros((8, 8))
    for epoch in range(2_000):
        counts[np.arange(8), shuffled(np.arange(8), 8, 1, "epoch", epoch)] += 1
    chi_square = ((counts - 250) ** 2 / 250).sum()
    assert chi_square == pytest.approx(49, abs=35)  # 49 degrees of freedom, 3.5 standard deviations


def test_adjacent_rows_are_separated() -> None:
    order = shuffled(np.arange(10_000), 10_000, 0, "epoch", 0)
    assert (np.abs(np.diff(order)) == 1).mean() < 0.002
