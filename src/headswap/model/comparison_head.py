"""The head of a bi-encoder: each text of a pair has its own sequence and vector, and the class layer compares the two.

Of the vectors u and v the class layer reads u, v, |u - v| and u * v, as in InferSent. A base that was trained on single
texts already has a vector for each text, while it has never read two texts in one sequence.

u and v should be normalised (`head_norm = layer`, the default of this head). Without that, products of the large values
of a trained base dominate: with an installed base they had a root mean square of 19, and the first loss with three
classes was 9.5 instead of 1.1.

Shapes: B sequences, two per pair, P pooled width.
"""

import torch
from torch import Tensor

from headswap.model.heads import ClassificationHead, Use
from headswap.model.shape import HeadShape

NUM_PARTS = 4
"""u, v, |u - v| and u * v."""
PART_SCALE = NUM_PARTS**-0.5
"""Four parts times this have about the length of one vector, so the learning rate of a head fits."""


class ComparisonHead(ClassificationHead):
    """Scores pairs: sequences 0 and 1 of a batch are the first pair, 2 and 3 the second one."""

    use = Use(
        "a classifier of pairs", "predict", "'first text' --text-pair 'second text'", '[("first text", "second text")]',
        "text-classification", "HeadswapForSequenceClassification",
    )  # fmt: skip
    sequences_per_target = 2

    @classmethod
    def num_vectors(cls, head: HeadShape) -> int:
        """Those of both texts, their difference and their product."""
        return NUM_PARTS * super().num_vectors(head)

    def combined(self, vectors_BP: Tensor) -> Tensor:
        """One row per pair, B/2 x 4P. A last sequence without a partner, which can only be padding, is left out.

        The number of pairs is not taken with `len`, which an export would write into the graph as a constant.
        """
        second_BP = vectors_BP[1::2]
        return compared(vectors_BP[::2][: second_BP.shape[0]], second_BP)


def compared(first_BP: Tensor, second_BP: Tensor) -> Tensor:
    """The parts of the vector of a pair."""
    return PART_SCALE * torch.cat([first_BP, second_BP, (first_BP - second_BP).abs(), first_BP * second_BP], dim=1)
