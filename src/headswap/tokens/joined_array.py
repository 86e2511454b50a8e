"""Several arrays on disk, read as one: the arrays of the shards of a token store.

Only what readers of a store need is here: slices, entries at some indices, the largest value. Memory is used for the
entries that are asked for; `np.asarray` makes a copy of all of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class JoinedArray:
    """Arrays of one dimension and one type, end to end."""

    ndim = 1

    def __init__(self, parts: Sequence[np.ndarray], dtype: np.dtype) -> None:
        self.parts, self.dtype = [part for part in parts if len(part)], dtype
        self.ends = np.cumsum([0, *map(len, self.parts)])

    @property
    def itemsize(self) -> int:
        """Bytes per entry."""
        return self.dtype.itemsize

    @property
    def shape(self) -> tuple[int]:
        """The number of entries."""
        return (len(self),)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return self._slice(start, max(start, stop))
        if isinstance(key, int | np.integer):
            return self.take(np.array([range(len(self))[int(key)]]))[0]
        indices = np.asarray(key)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        if len(indices) and (indices.min() < -len(self) or indices.max() >= len(self)):
            raise IndexError(f"an index is out of range for {len(self)} entries")
        return self.take(np.where(indices < 0, indices + len(self), indices))

    def _slice(self, start: int, stop: int) -> np.ndarray:
        """A view if the entries are in one part, otherwise a copy."""
        found = []
        first = max(0, int(np.searchsorted(self.ends, start, side="right")) - 1)
        for number in range(first, len(self.parts)):
            begin = int(self.ends[number])
            if begin >= stop:
                break
            found.append(self.parts[number][max(0, start - begin) : stop - begin])
        return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, self.dtype), *found])

    def take(self, indices: np.ndarray, mode: str = "clip") -> np.ndarray:
        """The entries at some indices; those out of range are clipped, as by `np.take` with this mode."""
        assert mode == "clip", "the only mode that readers of a store use"
        indices = np.clip(np.asarray(indices, dtype=np.int64), 0, max(0, len(self) - 1))
        result = np.zeros(len(indices), dtype=self.dtype)
        numbers = np.searchsorted(self.ends, indices, side="right") - 1
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            result[chosen] = self.parts[number][indices[chosen] - self.ends[number]]
        return result

    def max(self) -> Any:
        """The largest entry."""
        return max(part.max() for part in self.parts)

    def __iter__(self) -> Iterator[Any]:
        return (value for part in self.parts for value in part)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._slice(0, len(self)), dtype=dtype)
