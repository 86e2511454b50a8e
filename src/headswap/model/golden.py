"""Golden outputs: a model's outputs on token ids drawn from a seed, to check copies of the model.

The outputs of two equal models, or of one model before saving and after loading, differ by at most GOLDEN_TOLERANCE.
"""

from typing import Any

import numpy as np
import torch

from headswap.batches.batch import flat_batch
from headswap.core.random_streams import numpy_stream
from headswap.model.text_model import TextModel

GOLDEN_TOLERANCE = 1e-4
LENGTHS = {1: (3, 9, 17), 2: (3, 9, 17, 5)}
"""Lengths of the sequences, by how many of them have one row of scores."""


@torch.no_grad()
def golden_outputs(model: TextModel) -> dict[str, Any]:
    """Outputs on token ids drawn from a seed; no user text is used."""
    shape = model.shape.base
    stream = numpy_stream(0, "golden")
    lengths = [min(shape.max_position_embeddings, length) for length in LENGTHS[model.sequences_per_target]]
    sequences = [stream.integers(0, shape.vocab_size, length) for length in lengths]
    was_training = model.training
    model.eval()
    batch = flat_batch(sequences).to(model.device)
    logits = model(batch).float().cpu()
    model.train(was_training)
    return {"seed": 0, "lengths": lengths, "outputs": logits[:, :8].double().numpy().round(6).tolist()}


def largest_gap(first: TextModel, second: TextModel) -> float:
    """The largest absolute difference between the golden outputs of two models."""
    outputs = [np.array(golden_outputs(model)["outputs"]) for model in (first, second)]
    return float(np.abs(outputs[0] - outputs[1]).max())
