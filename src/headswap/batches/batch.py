"""The flat batch: all sequences end to end, no padding.

It is one of the three parcels that cross rooms. Its lengths travel to the device, and `lengths` stay on the host, so
that layouts are planned without waiting for a device. Targets are (index, value) pairs: of a token for language
modelling, tagging and spans, of a sequence for classification.

Shapes: N tokens of all sequences, B sequences, T targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences end to end, with what is to be predicted."""

    ids_N: Tensor
    lengths: tuple[int, ...]
    """On the host, without the empty ones that fill a batch up; none where only the device knows them."""
    lengths_B: Tensor
    target_index_T: Tensor
    target_value_T: Tensor
    segments_N: Tensor | None = None
    pair_target_B: Tensor | None = None
    """Whether the two segments of each sequence belong together, for the objectives that ask it."""
    counts_T: Tensor | None = None
    """0 for targets that only fill the batch up, 1 for all others; absent where there are no such."""
    documents: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens: none is padding, though the last sequences of a batch that was filled up are read by nobody."""
        return len(self.ids_N)

    @property
    def num_targets(self) -> int:
        """Targets; in a batch that was filled up some of them do not count."""
        return len(self.target_value_T)

    @property
    def has_all_targets(self) -> bool:
        """Whether every token has its target, in the order of the tokens."""
        return self.counts_T is None and self.num_targets == self.num_tokens

    @property
    def longest(self) -> int | None:
        """The length of the longest sequence, where the host knows it."""
        return max(self.lengths) if self.lengths else None

    @property
    def target_counts(self) -> tuple[int, ...]:
        """What each loss of this batch is divided by: targets, and pairs where they are asked for."""
        return (self.num_targets,) if self.pair_target_B is None else (self.num_targets, len(self.pair_target_B))

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        if self.ids_N.device == device:
            return self
        return replace(
            self,
            ids_N=sent(self.ids_N, device),
            lengths_B=sent(self.lengths_B, device),
            target_index_T=sent(self.target_index_T, device),
            target_value_T=sent(self.target_value_T, device),
            segments_N=None if self.segments_N is None else sent(self.segments_N, device),
            pair_target_B=None if self.pair_target_B is None else sent(self.pair_target_B, device),
            counts_T=None if self.counts_T is None else sent(self.counts_T, device),
        )

    def without_targets(self) -> "Batch":
        """The same sequences asking for nothing: a process without rows of its own still takes part in a step."""
        return replace(
            self,
            target_index_T=self.target_index_T[:0],
            target_value_T=self.target_value_T[:0],
            pair_target_B=None if self.pair_target_B is None else self.pair_target_B[:0],
        )


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device, without waiting: a copy from memory that is not pinned waits for all work."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def flat_batch(sequences: Sequence[np.ndarray], **others: Any) -> Batch:
    """A batch of id arrays; the rest as in `joined_batch`."""
    return joined_batch(np.concatenate(sequences), [len(sequence) for sequence in sequences], **others)


def joined_batch(
    ids: np.ndarray,
    lengths: Sequence[int] | np.ndarray,
    *,
    target_index: np.ndarray | Sequence[int] = (),
    target_value: np.ndarray | Sequence[int] = (),
    documents: Sequence[int] | np.ndarray = (),
    segments: np.ndarray | None = None,
    pair_target: np.ndarray | None = None,
) -> Batch:
    """A batch of sequences that stand end to end, none of them empty; `segments` are as long where a base has them."""
    lengths_B = torch.as_tensor(np.asarray(lengths, dtype=np.int64))
    assert int(lengths_B.min()) > 0
    return Batch(
        ids_N=torch.from_numpy(ids.astype(np.int64)),
        lengths=tuple(lengths_B.tolist()),
        lengths_B=lengths_B,
        target_index_T=torch.as_tensor(np.asarray(target_index, dtype=np.int64)),
        target_value_T=torch.as_tensor(np.asarray(target_value)),
        segments_N=None if segments is None else torch.from_numpy(segments.astype(np.int64)),
        pair_target_B=None if pair_target is None else torch.from_numpy(pair_target),
        documents=tuple(np.asarray(documents, dtype=np.int64).tolist()),
    )


def pad_batch(batch: Batch, *, num_tokens: int, num_sequences: int, num_targets: int) -> Batch:
    """The same batch on the host in given sizes: what fills it up changes none of its losses.

    Sequences that are missing share the tokens that are missing; targets that are missing do not count.
    """
    tokens, targets = num_tokens - batch.num_tokens, num_targets - batch.num_targets
    missing = num_sequences - len(batch.lengths)
    assert min(tokens, targets, missing) >= 0
    assert missing or not tokens
    shares = [tokens // missing + (place < tokens % missing) for place in range(missing)]
    return replace(
        batch,
        ids_N=F.pad(batch.ids_N, (0, tokens)),
        lengths=(*batch.lengths, *(share for share in shares if share)),
        lengths_B=torch.tensor([*batch.lengths, *shares]),
        target_index_T=F.pad(batch.target_index_T, (0, targets)),
        target_value_T=F.pad(batch.target_value_T, (0, targets)) if targets else batch.target_value_T,
        segments_N=None if batch.segments_N is None else F.pad(batch.segments_N, (0, tokens)),
        counts_T=torch.cat((torch.ones(batch.num_targets), torch.zeros(targets))) if targets else None,
    )
