"""Heads: modules that map the base's vectors to scores.

Each head is one class and one line in `HEADS`. Its inputs are `hidden_ND` and the batch, without padding, so an output
does not depend on the other sequences of the batch.

Shapes: N tokens of a flat batch, D hidden width, B sequences, C classes, V vocabulary, P pooled width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.batches.batch import Batch
from headswap.model.pooling import pool
from headswap.model.shape import BaseShape, HeadShape


class LanguageModelHead(nn.Module):
    """Scores every token of the vocabulary; a tied head uses the embedding's weights and has none of its own."""

    def __init__(self, shape: BaseShape) -> None:
        super().__init__()
        self.weight = None if shape.tied_head else nn.Parameter(torch.empty(shape.vocab_size, shape.hidden_size))
        self.bias = nn.Parameter(torch.empty(shape.vocab_size)) if shape.lm_head_bias else None

    def forward(self, hidden_ND: Tensor, embedding_VD: Tensor) -> Tensor:
        """Logits of a few tokens, N x V; losses over many tokens use the fused loss instead."""
        return F.linear(hidden_ND, self.projection(embedding_VD), self.bias)

    def projection(self, embedding_VD: Tensor) -> Tensor:
        """The weights, V x D."""
        return embedding_VD if self.weight is None else self.weight


class ReadingLayers(nn.Module):
    """Layers that the task heads share: an optional hidden layer, dropout, and one score per class."""

    is_per_token = False
    """Whether scores have one row per token, instead of one per sequence."""

    def __init__(self, read_dim: int, head: HeadShape, num_labels: int) -> None:
        super().__init__()
        self.dropout = head.head_dropout
        if head.head_hidden == "tanh":
            self.hidden = nn.Linear(read_dim, read_dim)
        self.output = nn.Linear(read_dim, num_labels, bias=head.head_bias)
        self.has_hidden = head.head_hidden == "tanh"

    def score(self, read: Tensor) -> Tensor:
        """Logits for vectors of sequences or of tokens."""
        if self.has_hidden:
            read = torch.tanh(self.hidden(read))
        if self.training and self.dropout:
            read = F.dropout(read, self.dropout, training=True)
        return self.output(read)


class ClassificationHead(ReadingLayers):
    """Pools each sequence into one vector and scores the classes (labels, or the one value of a regression)."""

    def __init__(self, shape: BaseShape, head: HeadShape, num_labels: int) -> None:
        super().__init__(shape.hidden_size * len(head.pooling.split("+")), head, num_labels)
        self.pooling = head.pooling

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """Logits, B x C."""
        return self.score(pool(hidden_ND, batch.lengths_B, self.pooling))


class TokenHead(ReadingLayers):
    """Scores the classes of every token."""

    is_per_token = True

    def __init__(self, shape: BaseShape, head: HeadShape, num_labels: int) -> None:
        super().__init__(shape.hidden_size, head, num_labels)

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """Logits, N x C."""
        del batch  # each token is scored separately
        return self.score(hidden_ND)


class SpanHead(TokenHead):
    """Scores start and end of an answer: two distributions over the tokens of each sequence.

    The scores are log-probabilities, not logits, so that the windows of one text can be compared: in a window without
    the answer the first token gets the probability.
    """

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """Log-probabilities, N x 2; the probabilities of each column sum to one over a sequence."""
        logits_N2 = self.score(hidden_ND)
        logits_N2 = logits_N2 if logits_N2.dtype.itemsize >= 4 else logits_N2.float()
        return torch.cat([part.log_softmax(0) for part in logits_N2.split(list(batch.lengths))])


TaskHead = ClassificationHead | TokenHead | SpanHead
HEADS: dict[str, type[ClassificationHead] | type[TokenHead]] = {
    "classify": ClassificationHead,
    "tag": TokenHead,
    "span": SpanHead,
}
