"""Heads: modules that map the base's vectors to scores.

A new head is a class derived from `TaskHead`, in a file of its own, and one line in `HEADS` (registry.py). Its inputs
are `hidden_ND` and the batch, without padding, so an output does not depend on the other sequences of the batch.

Shapes: N tokens of a flat batch, D hidden width, B sequences, C classes, V vocabulary, P pooled width.
"""

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.batches.batch import Batch
from headswap.model.base import activate, make_norm
from headswap.model.pooling import pool
from headswap.model.shape import BaseShape, HeadShape

COSINE_SCALE = 16.0
"""What cosines are multiplied by before the softmax. Saved models with a cosine head depend on it."""


class Use(NamedTuple):
    """How a model is used, and how Hugging Face names such a model."""

    what: str
    """What the model is, with its article."""
    verb: str
    """The command, and the method of `headswap.Model`."""
    arguments: str
    """Arguments of an example command, after the folder."""
    call: str
    """The argument of the same call in Python."""
    pipeline_tag: str
    architecture: str


class LanguageModelHead(nn.Module):
    """Scores every token of the vocabulary; a tied head uses the embedding's weights and has none of its own."""

    def __init__(self, shape: BaseShape) -> None:
        super().__init__()
        self.weight = None if shape.tied_head else nn.Parameter(torch.empty(shape.vocab_size, shape.hidden_size))
        self.bias = nn.Parameter(torch.empty(shape.vocab_size)) if shape.lm_head_bias else None
        self.activation = shape.lm_head_transform
        if self.activation != "none":
            self.dense = nn.Linear(shape.hidden_size, shape.hidden_size)
            self.norm = make_norm(shape)

    def forward(self, hidden_ND: Tensor, embedding_VD: Tensor) -> Tensor:
        """Logits of a few tokens, N x V; losses over many tokens use the fused loss instead."""
        return F.linear(self.transform(hidden_ND), self.projection(embedding_VD), self.bias)

    def transform(self, hidden_ND: Tensor) -> Tensor:
        """What is projected onto the vocabulary: the base's vectors, or BERT's transform of them."""
        return hidden_ND if self.activation == "none" else self.norm(activate(self.dense(hidden_ND), self.activation))

    def projection(self, embedding_VD: Tensor) -> Tensor:
        """The weights, V x D."""
        return embedding_VD if self.weight is None else self.weight


class TaskHead(nn.Module):
    """A head of fine-tuning: an optional hidden layer, dropout, and one score per class."""

    use: ClassVar[Use]
    """How a model with this head is used."""
    is_per_token: ClassVar[bool] = False
    """Whether scores have one row per token, instead of one per sequence."""
    num_scores: ClassVar[int | None] = None
    """The number of scores, where it does not depend on the labels."""
    sequences_per_target: ClassVar[int] = 1
    """How many sequences of a batch have one row of scores together, if scores are not per token."""

    def __init__(self, shape: BaseShape, head: HeadShape, num_labels: int) -> None:
        super().__init__()
        read_dim = shape.hidden_size * self.num_vectors(head)
        self.dropout = head.head_dropout
        self.hidden_activation = head.head_hidden
        if head.head_hidden != "none":
            self.hidden = nn.Linear(read_dim, read_dim)
        self.output = nn.Linear(read_dim, num_labels, bias=head.head_bias)
        self.cosine_scale = COSINE_SCALE if head.head_similarity == "cosine" else None

    @classmethod
    def num_vectors(cls, head: HeadShape) -> int:
        """How many vectors of the base's width are concatenated into one input of the class layer."""
        del head
        return 1

    @classmethod
    def formula(cls, head: HeadShape) -> str:
        """The number of parameters, with D for the width of the base and C for the number of classes."""
        count = cls.num_vectors(head)
        width = "D" if count == 1 else f"{count}*D"
        hidden = f"{width}*{width} + {width} + " if head.head_hidden != "none" else ""
        return f"{hidden}C*{width}" + (" + C" if head.head_bias else "")

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """The scores, one row per sequence or per token."""
        raise NotImplementedError

    def score(self, read: Tensor) -> Tensor:
        """Logits for vectors of sequences or of tokens."""
        if self.hidden_activation == "tanh":
            read = torch.tanh(self.hidden(read))
        elif self.hidden_activation != "none":
            read = activate(self.hidden(read), self.hidden_activation)
        if self.training and self.dropout:
            read = F.dropout(read, self.dropout, training=True)
        if self.cosine_scale is None:
            return self.output(read)
        directions_CP = F.normalize(self.output.weight, dim=-1)
        return self.cosine_scale * F.linear(F.normalize(read, dim=-1), directions_CP, self.output.bias)


class ClassificationHead(TaskHead):
    """Pools each sequence into one vector and scores the classes (labels, or the one value of a regression)."""

    use = Use(
        "a classifier", "predict", "'your text'", '["your text"]',
        "text-classification", "HeadswapForSequenceClassification",
    )  # fmt: skip

    def __init__(self, shape: BaseShape, head: HeadShape, num_labels: int) -> None:
        super().__init__(shape, head, num_labels)
        self.pooling = head.pooling
        self.norm = head.head_norm

    @classmethod
    def num_vectors(cls, head: HeadShape) -> int:
        """One per pooling; `mean+max` has two."""
        return len(head.pooling.split("+"))

    def vectors(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """What the class layer reads, B x P."""
        return self.read(pool(hidden_ND, batch.lengths_B, self.pooling))

    def read(self, pooled_BP: Tensor) -> Tensor:
        """What the class layer reads, from the vectors of all sequences."""
        return self.combined(F.layer_norm(pooled_BP, pooled_BP.shape[1:]) if self.norm == "layer" else pooled_BP)

    def combined(self, vectors_BP: Tensor) -> Tensor:
        """One row per target; here a target has one sequence."""
        return vectors_BP

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """Logits, B x C."""
        return self.score(self.vectors(hidden_ND, batch))


class TokenHead(TaskHead):
    """Scores the classes of every token."""

    use = Use(
        "a tagger", "predict", "'your text'", '["your text"]',
        "token-classification", "HeadswapForTokenClassification",
    )  # fmt: skip
    is_per_token = True

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """Logits, N x C."""
        del batch  # each token is scored separately
        return self.score(hidden_ND)


class SpanHead(TaskHead):
    """Scores start and end of an answer: two distributions over the tokens of each sequence.

    The scores are log-probabilities, not logits, so that the windows of one text can be compared: in a window without
    the answer the first token gets the probability.
    """

    use = Use(
        "a question answerer", "predict", "'a context' --question 'your question'", '[("your question", "a context")]',
        "question-answering", "HeadswapForQuestionAnswering",
    )  # fmt: skip
    is_per_token = True
    num_scores = 2

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        """Log-probabilities, N x 2; the probabilities of each column sum to one over a sequence."""
        logits_N2 = self.score(hidden_ND)
        logits_N2 = logits_N2 if logits_N2.dtype.itemsize >= 4 else logits_N2.float()
        return torch.cat([part.log_softmax(0) for part in logits_N2.split(list(batch.lengths))])
