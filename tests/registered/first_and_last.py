"""A new head: scores the classes from the first and the last token of a sequence."""

import torch
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.model.heads import TaskHead, Use
from headswap.model.pooling import pool
from headswap.model.shape import HeadShape


class FirstAndLastHead(TaskHead):
    """The vectors of the first and the last token, concatenated."""

    use = Use("an ends classifier", "predict", "'your text'", '["your text"]', "text-classification", "EndsClassifier")

    @classmethod
    def num_vectors(cls, head: HeadShape) -> int:
        return 2

    def forward(self, hidden_ND: Tensor, batch: Batch) -> Tensor:
        ends = [pool(hidden_ND, batch.lengths_B, where) for where in ("first", "last")]
        return self.score(torch.cat(ends, dim=1))
