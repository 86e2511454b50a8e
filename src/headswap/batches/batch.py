"""The flat batch: all sequences end to end, no padding.

It is one of the three objects that packages exchange. `lengths_B` is on the device; `lengths` stays on the host, so
that attention layouts are computed without waiting for the device. Targets are (index, value) pairs; the index is that
of a token for language modelling, tagging and spans, and that of a sequence for classification.

Shapes: N tokens of all sequences, B sequences, T targets, P pairs of views, D hidden width.
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
    """Sequences end to end, with their targets."""

    ids_N: Tensor
    lengths: tuple[int, ...]
    """Lengths on the host, without empty padding sequences; an empty tuple if only the device knows the lengths."""
    lengths_B: Tensor
    target_index_T: Tensor
    target_value_T: Tensor
    segments_N: Tensor | None = None
    pair_target_B: Tensor | None = None
    """1 if the two segments of a sequence are consecutive and in order, else 0; for the sentence-pair objectives."""
    counts_T: Tensor | None = None
    """0 for padding targets and 1 for all others; None if there are no padding targets."""
    views_2P: Tensor | None = None
    """Pairs of sequences that are two views of one text without a label: the text as it is, and changed."""
    view_weights_P: Tensor | None = None
    noise_ND: Tensor | None = None
    """Added to the token embeddings; an objective sets it on the device of the model."""
    documents: tuple[int, ...] = ()
    is_causal: bool | None = None
    """Whether attention is causal in this batch; None: as in the model."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens, including those of padding sequences."""
        return len(self.ids_N)

    @property
    def num_targets(self) -> int:
        """Number of targets, including padding targets."""
        return len(self.target_value_T)

    @property
    def has_all_targets(self) -> bool:
        """Whether every token has one target, in the order of the tokens."""
        return self.counts_T is None and self.num_targets == self.num_tokens

    @property
    def longest(self) -> int | None:
        """The length of the longest sequence, if the host knows it."""
        return max(self.lengths) if self.lengths else None

    @property
    def target_counts(self) -> tuple[int, ...]:
        """The divisor of each loss of this batch: the number of targets and, where there are any, of pairs."""
        if self.view_weights_P is not None:
            return self.num_targets, len(self.view_weights_P)
        return (self.num_targets,) if self.pair_target_B is None else (self.num_targets, len(self.pair_target_B))

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        if self.ids_N.device == device:
            return self
        return replace(
            self,
            ids_N=to_device(self.ids_N, device),
            lengths_B=to_device(self.lengths_B, device),
            target_index_T=to_device(self.target_index_T, device),
            target_value_T=to_device(self.target_value_T, device),
            segments_N=None if self.segments_N is None else to_device(self.segments_N, device),
            pair_target_B=None if self.pair_target_B is None else to_device(self.pair_target_B, device),
            counts_T=None if self.counts_T is None else to_device(self.counts_T, device),
            views_2P=None if self.views_2P is None else to_device(self.views_2P, device),
            view_weights_P=None if self.view_weights_P is None else to_device(self.view_weights_P, device),
        )

    def without_targets(self) -> "Batch":
        """The same sequences without targets, for a process that has no rows in a step but must take part in it."""
        return replace(
            self,
            target_index_T=self.target_index_T[:0],
            target_value_T=self.target_value_T[:0],
            pair_target_B=None if self.pair_target_B is None else self.pair_target_B[:0],
            views_2P=None if self.views_2P is None else self.views_2P[:, :0],
            view_weights_P=None if self.view_weights_P is None else self.view_weights_P[:0],
        )


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to a device without waiting; from pinned memory, since other copies to CUDA synchronise."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def flat_batch(sequences: Sequence[np.ndarray], **others: Any) -> Batch:
    """A batch of id arrays; other arguments as in `joined_batch`."""
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
    """A batch of sequences given end to end, none of them empty; `segments` has one entry per token."""
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
    """Pad a batch on the host to given sizes; padding changes none of its losses.

    Padding tokens are divided among the padding sequences; padding targets have `counts_T` 0.
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
