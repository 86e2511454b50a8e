"""Heads: what is read from the base.

Each head is one class. It sees `hidden_ND` and the lengths of the sequences, never padding, so an output does not
depend on its neighbours in the batch.

Shapes: N tokens of a flat batch, D hidden width, B sequences, C classes, V vocabulary, P pooled width.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.model.config import BaseShape, HeadShape, Pooling


def pool(hidden_ND: Tensor, lengths: Sequence[int], pooling: Pooling) -> Tensor:
    """One vector a sequence, B x P."""
    lengths_B = torch.tensor(lengths)
    ends_B = torch.cumsum(lengths_B, 0)
    if pooling == "last":
        return hidden_ND[(ends_B - 1).to(hidden_ND.device)]
    if pooling == "first":
        return hidden_ND[(ends_B - lengths_B).to(hidden_ND.device)]
    lengths_B = lengths_B.to(hidden_ND.device)
    wide_ND = hidden_ND if hidden_ND.dtype == torch.float64 else hidden_ND.float()
    reduced = [torch.segment_reduce(wide_ND, kind, lengths=lengths_B) for kind in pooling.split("+")]
    return torch.cat(reduced, dim=1)


class LanguageModelHead(nn.Module):
    """Scores every token of the vocabulary; tied, it borrows the embedding's weights and stores none of its own."""

    def __init__(self, shape: BaseShape) -> None:
        super().__init__()
        self.weight = None if shape.tied_head else nn.Parameter(torch.empty(shape.vocab_size, shape.hidden_size))
        self.bias = nn.Parameter(torch.empty(shape.vocab_size)) if shape.lm_head_bias else None

    def forward(self, hidden_ND: Tensor, embedding_VD: Tensor) -> Tensor:
        """Logits of a few tokens, N x V; losses over many go through the fused loss instead."""
        return F.linear(hidden_ND, self.projection(embedding_VD), self.bias)

    def projection(self, embedding_VD: Tensor) -> Tensor:
        """The V x D weights in use."""
        return embedding_VD if self.weight is None else self.weight


class ClassificationHead(nn.Module):
    """Pools each sequence into one vector and scores the classes."""

    def __init__(self, shape: BaseShape, head: HeadShape, num_labels: int) -> None:
        super().__init__()
        self.pooling = head.pooling
        self.dropout = head.head_dropout
        pooled_dim = shape.hidden_size * len(head.pooling.split("+"))
        if head.head_hidden == "tanh":
            self.hidden = nn.Linear(pooled_dim, pooled_dim)
        self.output = nn.Linear(pooled_dim, num_labels, bias=head.head_bias)
        self.has_hidden = head.head_hidden == "tanh"

    def forward(self, hidden_ND: Tensor, lengths: Sequence[int]) -> Tensor:
        """Logits, B x C."""
        pooled_BP = pool(hidden_ND, lengths, self.pooling)
        if self.has_hidden:
            pooled_BP = torch.tanh(self.hidden(pooled_BP))
        if self.training and self.dropout:
            pooled_BP = F.dropout(pooled_BP, self.dropout, training=True)
        return self.output(pooled_BP)
