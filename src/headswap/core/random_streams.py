"""Named random streams.

Every draw comes from a stream named by what it is for, seeded by (seed, names...): initialisation, data order, masks
and dropout never disturb each other, and any step can be computed without the steps before it. Nothing here keeps
state.
"""

from hashlib import blake2b

import numpy as np


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on every name and on their order, equal on every machine and Python."""
    parts = "\x1f".join([str(int(seed)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(blake2b(parts.encode(), digest_size=8).digest(), "little") >> 1


class Draws:
    """Uniform numbers that are a function of a place: no generator to advance, so no order to keep.

    The number drawn for a token depends on the stream's name and on where the token stands in the corpus, never on the
    batch, micro-batch or process that asks for it.
    """

    def __init__(self, seed: int, *names: str | int) -> None:
        self._seed, self._names = seed, names

    def uniform(self, purpose: str, *places: np.ndarray | int) -> np.ndarray:
        """Numbers in [0, 1), one for each place; a place has one or several coordinates."""
        values = np.array(derive_seed(self._seed, *self._names, purpose), dtype=np.uint64)
        for place in places:
            # Adding the golden ratio keeps zero from being a fixed point, as splitmix64 does.
            values = mixed((values ^ np.asarray(place).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15))
        return (values >> np.uint64(11)) * 2.0**-53


def mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every output bit depends on every input bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator of its own for one named purpose."""
    return np.random.default_rng(derive_seed(seed, *names))
