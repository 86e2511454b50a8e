"""The first weights of a head from a linear model of the base's vectors (`head_init = linear`).

Before the first step, logistic or ridge regression is fitted to what the head reads of the training texts, as in the
arm `linear` of a study, and becomes the class layer. So fine-tuning begins with the scores of that model, and its first
gradients do not undo what the base has learnt, as those of a random head do. Kumar et al. (2022) call it linear
probing, then fine-tuning. The strength of the model is chosen by cross-validation on the training texts.

Shapes: R training texts, C classes, P width of what the head reads.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.finetuning.config import HeadSettings
from headswap.finetuning.head_inputs import head_inputs
from headswap.model.heads import ClassificationHead
from headswap.registry import LINEAR_MODELS
from headswap.tasks.task import Task

KINDS = ("classes", "values")
"""Kinds of predictions whose linear model is a class layer; that of several labels per text predicts sets."""
LEAST_PROBABILITY = 1e-300
PROBE = 0.01
"""Length of the vectors at which the linear model is read; at longer ones probabilities may round to 0."""


def has_linear_model(task: Task) -> bool:
    """Whether a linear model of the vectors of texts has the scores of this task."""
    return task.prediction_kind in KINDS and not task.is_per_token


def check_linear_head(task: Task, head: HeadSettings) -> None:
    """Raise where a linear model cannot be the class layer."""
    if not has_linear_model(task):
        raise SettingError(
            f"head_init is 'linear', but the task {task.name} has neither one class nor one value per text. Remove it."
        )
    if head.head_hidden != "none" or not head.head_bias or head.head_similarity == "cosine":
        raise SettingError(
            "head_init is 'linear', which needs a class layer with a bias that reads the vector of a text: leave out "
            "head_hidden, head_bias = false and head_similarity = cosine, or use head_init = random."
        )


def set_linear_head(
    bundle: Bundle, task: Task, train: EncodedSet, metric: str, autocast: AbstractContextManager
) -> None:
    """Set the class layer from the linear model of the training texts; windows of a text have their mean vector."""
    head = bundle.model.head
    assert isinstance(head, ClassificationHead)
    vectors = head_inputs(bundle.model, train.rows, autocast=autocast).numpy()
    owners = np.array([row.example for row in train.rows])
    texts_RP = np.zeros((len(train), vectors.shape[1]))
    np.add.at(texts_RP, owners, vectors)
    texts_RP /= np.bincount(owners, minlength=len(train))[:, None]
    weight_CP, bias_C = linear_layer(texts_RP, train.examples, task.prediction_kind or "", bundle, metric)
    with torch.no_grad():
        head.output.weight.copy_(torch.from_numpy(weight_CP))
        head.output.bias.copy_(torch.from_numpy(bias_C))


def linear_layer(
    texts_RP: np.ndarray, examples: Sequence[Any], kind: str, bundle: Bundle, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases whose logits, or standardised values, are those of the linear model of the task.

    The model is fitted to dimensions with mean 0 and standard deviation 1, and rows of a length of about 1. It is
    linear, so its outputs for 0 and for one short vector per dimension determine it.
    """
    mean_P, deviation_P = texts_RP.mean(axis=0), texts_RP.std(axis=0)
    deviation_P[deviation_P < 1e-12] = 1.0
    scale_P = deviation_P * np.sqrt(texts_RP.shape[1])
    probes = np.vstack([np.zeros(len(mean_P)), PROBE * np.eye(len(mean_P))])
    with threadpool_limits(1):
        features = (texts_RP - mean_P) / scale_P
        found, _ = LINEAR_MODELS.load(kind).fit(features, probes, examples, bundle.labels, metric)
    if kind == "classes":
        logits = np.log(np.maximum(found, LEAST_PROBABILITY))
        outputs = logits - logits.mean(axis=1, keepdims=True)
    else:
        outputs = ((found - bundle.task.target_mean) / bundle.task.target_std)[:, None]
    weight_CP = (outputs[1:] - outputs[0]).T / PROBE / scale_P
    return weight_CP, outputs[0] - weight_CP @ mean_P
