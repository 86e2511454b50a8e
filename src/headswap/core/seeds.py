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


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator of its own for one named purpose."""
    return np.random.default_rng(derive_seed(seed, *names))
