"""Named random streams.

Each use of random numbers has its own stream, seeded by (seed, names...). Initialisation, data order, masks and dropout
are therefore independent of each other, and any step can be computed without the steps before it. No state is kept.
"""

from hashlib import blake2b

import numpy as np


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed from the seed, the names and their order; equal on all machines and Python versions."""
    parts = "\x1f".join([str(int(seed)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(blake2b(parts.encode(), digest_size=8).digest(), "little") >> 1


class Draws:
    """Uniform random numbers as a function of a position, without a generator that has a state.

    The number for a token depends on the names of the stream and on the position of the token in the corpus. It does
    not depend on the batch, the micro-batch or the process.
    """

    def __init__(self, seed: int, *names: str | int, progress: float = 1.0) -> None:
        self._seed, self._names = seed, names
        self.progress = progress
        """Share of the run that is done, for probabilities that change during it; 1 outside of training."""

    def once(self, purpose: str) -> float:
        """One number in [0, 1) for the whole stream, for example for a step."""
        return float(self.uniform(purpose, np.zeros(1))[0])

    def uniform(self, purpose: str, *places: np.ndarray | int) -> np.ndarray:
        """Numbers in [0, 1), one per position; a position has one or several coordinates."""
        values = np.array(derive_seed(self._seed, *self._names, purpose), dtype=np.uint64)
        for place in places:
            # As in splitmix64, the golden ratio is added so that zero is not a fixed point.
            values = mixed((values ^ np.asarray(place).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15))
        return (values >> np.uint64(11)) * 2.0**-53


def mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every output bit depends on every input bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """A new NumPy generator, seeded by the seed and the names."""
    return np.random.default_rng(derive_seed(seed, *names))
