"""R-Drop (Liang et al. 2021): two passes with different dropout should predict the same.

Each step computes the logits of a batch twice; dropout draws other numbers in the second pass. The loss of a target is
the mean of its two cross entropies plus `alpha` times half of KL(p || q) + KL(q || p). Every term depends on one target
only, so micro-batches and processes do not change the sum. Without dropout both passes are equal and the term is 0.

Shapes: T targets, C classes.
"""

from torch import Tensor

from headswap.batches.batch import Batch
from headswap.model.text_model import TextModel
from headswap.objectives.supervised import ClassificationObjective, wide


class RDropObjective:
    """Cross entropy of two passes, and the symmetric divergence between their predictions."""

    def __init__(self, labelled: ClassificationObjective, *, alpha: float) -> None:
        self.labelled, self.alpha = labelled, alpha

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The loss summed over the targets."""
        first, second = model(batch), model(batch)
        supervised = (self.labelled.loss_of(first, batch) + self.labelled.loss_of(second, batch)) / 2
        index_T = batch.target_index_T
        return supervised + self.alpha * symmetric_divergence(wide(first[index_T]), wide(second[index_T]))


def symmetric_divergence(first_TC: Tensor, second_TC: Tensor) -> Tensor:
    """Half of KL(p || q) + KL(q || p) of two sets of logits, summed over the targets."""
    log_p_TC, log_q_TC = first_TC.log_softmax(dim=1), second_TC.log_softmax(dim=1)
    return ((log_p_TC.exp() - log_q_TC.exp()) * (log_p_TC - log_q_TC)).sum() / 2
