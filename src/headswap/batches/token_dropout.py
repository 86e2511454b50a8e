"""Token dropout: in each training step some tokens of a text are left out.

Iyyer et al. (2015) call it word dropout. Which tokens are left out is a function of (seed, step, row, position), so it
does not depend on the batch, the micro-batch or the process, and a resumed run leaves out the same tokens. Special
tokens stay, and so does at least one other token per sequence.
"""

from dataclasses import dataclass, replace

import numpy as np

from headswap.batches.labelled_rows import Row
from headswap.core.random_streams import Draws


@dataclass(frozen=True)
class TokenDropout:
    """Leaves out a share of the tokens of rows that have one target as a whole."""

    share: float
    seed: int
    special_ids: frozenset[int]
    stream: str = "token dropout"

    def __call__(self, row: Row, *, number: int, step: int) -> Row:
        """Row `number` of the training set as it is read in a step."""
        draws_N = Draws(self.seed, self.stream, step).uniform("kept", np.array([number]), np.arange(len(row.ids)))
        is_special_N = np.isin(row.ids, list(self.special_ids))
        is_kept_N = is_special_N | (draws_N >= self.share)
        for part in (slice(0, row.split), slice(row.split, None)):
            others = ~is_special_N[part]
            if others.any() and not (is_kept_N[part] & others).any():
                is_kept_N[part.start + np.where(others, draws_N[part], -1.0).argmax()] = True
        if is_kept_N.all():
            return row
        segments = None if row.segments is None else row.segments[is_kept_N]
        return replace(row, ids=row.ids[is_kept_N], segments=segments, split=int(is_kept_N[: row.split].sum()))
