"""The order of rows as a pure function of (seed, epoch, position).

A keyed permutation of 0..n-1 is computed for any position independently of the others: a small Feistel network on the
next power of four, applied again until the value is in the range (cycle walking). So any batch can be computed
directly; a resumed run needs no saved state, and an epoch contains every row exactly once for any number of processes.
"""

from functools import lru_cache

import numpy as np

from headswap.core.random_streams import derive_seed, mixed

ROUNDS = 6
MOST_KEPT = 500_000
"""The order of an epoch of at most this many rows is computed at once and kept (4 MB)."""


def shuffled(positions: np.ndarray, size: int, seed: int, *names: str | int) -> np.ndarray:
    """The values at some positions of the permutation of 0..size-1 that is named by (seed, names)."""
    half_bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    keys = [np.uint64(derive_seed(seed, "order", *names, number)) for number in range(ROUNDS)]
    values = _feistel(positions.astype(np.uint64), half_bits, keys)
    outside = values >= size
    while outside.any():
        values[outside] = _feistel(values[outside], half_bits, keys)
        outside = values >= size
    return values.astype(np.int64)


def rows_of_step(step: int, *, num_rows: int, batch_size: int, seed: int) -> np.ndarray:
    """The rows of optimizer step `step` (from 0); the last step of an epoch may have fewer rows."""
    per_epoch = steps_per_epoch(num_rows, batch_size)
    epoch, within = divmod(step, per_epoch)
    start, end = within * batch_size, min((within + 1) * batch_size, num_rows)
    if num_rows <= MOST_KEPT:
        return _order_of_epoch(num_rows, seed, epoch)[start:end]
    return shuffled(np.arange(start, end), num_rows, seed, "epoch", epoch)


@lru_cache(maxsize=2)
def _order_of_epoch(num_rows: int, seed: int, epoch: int) -> np.ndarray:
    """All rows of an epoch: one computation for all its steps."""
    order = shuffled(np.arange(num_rows), num_rows, seed, "epoch", epoch)
    order.setflags(write=False)
    return order


def steps_per_epoch(num_rows: int, batch_size: int) -> int:
    """Number of steps in which every row occurs once."""
    return -(-num_rows // batch_size)


def _feistel(values: np.ndarray, half_bits: int, keys: list[np.uint64]) -> np.ndarray:
    mask = np.uint64((1 << half_bits) - 1)
    left, right = values >> np.uint64(half_bits), values & mask
    for key in keys:
        left, right = right, left ^ (mixed(right ^ key) & mask)
    return (left << np.uint64(half_bits)) | right
