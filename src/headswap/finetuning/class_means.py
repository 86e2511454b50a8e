"""The first weights of a classifier's head from the mean vectors of the classes (`head_init = class-means`).

The base's vectors of the training rows are pooled as the head pools them. A class is scored by its distance to a
vector, with every dimension divided by its standard deviation within the classes: logits are linear in the vector, so
they are a class layer. The scale is such that the logits of the training rows vary by 1. With many classes and few
labels per class a random head needs many steps to get there. A cosine head is set from vectors of length 1 in the same
way; its weights get length 1 too, so its scale is fixed.

Shapes: R rows, C classes, P pooled width.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.batches.labelled_rows import Row
from headswap.core.errors import SettingError
from headswap.finetuning.config import HeadSettings
from headswap.finetuning.head_inputs import head_inputs
from headswap.model.heads import ClassificationHead
from headswap.model.text_model import TextModel
from headswap.tasks.task import Task

LEAST_SPREAD = 1e-3
"""The smallest standard deviation of a dimension, relative to the mean of all."""


def check_class_means(task: Task, head: HeadSettings) -> None:
    """Raise where there are no classes, or no class layer with a bias that reads the pooled vector."""
    if not task.one_label_per_text:
        raise SettingError(f"head_init is 'class-means', but the task {task.name} has no classes of texts. Remove it.")
    if head.head_hidden != "none":
        raise SettingError(
            f"head_init is 'class-means', but with head_hidden = {head.head_hidden} the class layer does not read the "
            "vector of a text. Remove one of the two settings."
        )
    if not head.head_bias:
        raise SettingError(
            "head_init is 'class-means', but with head_bias = false the class layer has no bias, which the distances "
            "to the class means need. Remove head_bias, or use head_init = random."
        )


@torch.no_grad()
def set_class_means(model: TextModel, rows: Sequence[Row], *, autocast: AbstractContextManager) -> None:
    """Set the class layer of a classifier from the vectors of its training rows."""
    head = model.head
    assert isinstance(head, ClassificationHead)
    vectors_RP = head_inputs(model, rows, autocast=autocast)
    if head.cosine_scale is not None:
        vectors_RP = F.normalize(vectors_RP, dim=1)
    classes_R = torch.from_numpy(np.concatenate([row.target_value for row in rows]))
    weight_CP, bias_C = nearest_mean(vectors_RP, classes_R, num_classes=head.output.out_features)
    if head.cosine_scale is not None:
        weight_CP, bias_C = of_length_one(weight_CP, bias_C, otherwise_CP=head.output.weight)
    head.output.weight.copy_(weight_CP)
    head.output.bias.copy_(bias_C)


def nearest_mean(vectors_RP: Tensor, classes_R: Tensor, *, num_classes: int) -> tuple[Tensor, Tensor]:
    """Weights and biases of the logits; a class without rows gets logits of 0 at the mean of all rows."""
    counts_C = torch.bincount(classes_R, minlength=num_classes).clamp(min=1).to(vectors_RP)
    centre_P = vectors_RP.mean(dim=0)
    means_CP = torch.zeros(num_classes, vectors_RP.shape[1]).to(vectors_RP)
    means_CP.index_add_(0, classes_R, vectors_RP - centre_P)
    means_CP /= counts_C[:, None]
    residuals_RP = vectors_RP - centre_P - means_CP[classes_R]
    has_repeats = len(classes_R) > len(classes_R.unique())
    spread_P = (residuals_RP if has_repeats else vectors_RP - centre_P).square().mean(dim=0).sqrt()
    spread_P = spread_P.clamp(min=max(float(spread_P.mean()) * LEAST_SPREAD, 1e-12))
    weight_CP = means_CP / spread_P.square()
    bias_C = -(means_CP * weight_CP).sum(dim=1) / 2 - weight_CP @ centre_P
    logits_RC = vectors_RP @ weight_CP.T + bias_C
    scale = (logits_RC - logits_RC.mean(dim=1, keepdim=True)).square().mean().sqrt().clamp(min=1e-12)
    return weight_CP / scale, bias_C / scale


def of_length_one(weight_CP: Tensor, bias_C: Tensor, *, otherwise_CP: Tensor) -> tuple[Tensor, Tensor]:
    """The same class layer with weights of length 1; weights of zero have no direction and are replaced."""
    lengths_C1 = torch.linalg.vector_norm(weight_CP, dim=1, keepdim=True)
    has_direction_C1 = lengths_C1 > 1e-12
    directions_CP = torch.where(has_direction_C1, weight_CP / lengths_C1, otherwise_CP.to(weight_CP))
    return directions_CP, torch.where(has_direction_C1, bias_C[:, None] / lengths_C1, 0.0).squeeze(1)
