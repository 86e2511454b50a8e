"""A short probe: how long a step and a score take here, and how much memory. A few seconds before anything long starts.

It builds the model of a fine-tuning, takes a few steps on a copy that is thrown away, and scores some texts. Nothing is
kept but the times.
"""

import time
from collections.abc import Mapping
from typing import Any

import torch

from headswap.core.config import load_recipe
from headswap.text.labelled import read_labelled
from headswap.training.config import FinetuneRecipe
from headswap.training.distributed import Processes
from headswap.training.engine import Trainee, train
from headswap.training.evaluate import logits_of, make_sequences
from headswap.training.finetune import EncodedSet, ExampleBatches
from headswap.training.machine import Machine
from headswap.training.optimizer import make_optimizer
from headswap.training.splits import LabelledSplits
from headswap.training.start import Start

SECONDS = 2.0
WARM_UP = 1
NUM_TEXTS = 128


def measure(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds a step, seconds a scored text, bytes a token, parameters and peak memory of one fine-tuning."""
    import numpy as np

    from headswap.model.objectives import ClassificationObjective

    recipe = load_recipe(FinetuneRecipe, None, sections)
    recipe = recipe.changed(model=recipe.model.resolved())
    assert recipe.data.train is not None
    examples = read_labelled(recipe.data.train, text_column="text", label_column="label")
    labels = tuple(sorted({example.label for example in examples}))
    some = examples[:: max(1, len(examples) // NUM_TEXTS)][:NUM_TEXTS]
    start = Start.of(recipe, LabelledSplits(some, [], [], labels))
    machine = Machine(recipe.machine)
    training = recipe.training.changed(learning_rate=1e-9)
    length = training.max_length or start.model.shape.base.max_position_embeddings
    sequences = make_sequences([example.text for example in some], start.tokenizer, max_length=length)
    targets = np.array([labels.index(example.label) for example in some])
    model = start.model.to(machine.device)
    source = ExampleBatches(EncodedSet(sequences, targets), min(training.batch_size, len(some)), 0)
    records = train(
        Trainee(model, ClassificationObjective()), make_optimizer(model, training), source,
        settings=training, machine=machine, processes=Processes(), first_step=0, total_steps=1_000_000,
    )  # fmt: skip
    for _ in range(WARM_UP):
        next(records).loss.item()
    begin, steps, tokens = time.perf_counter(), 0, 0
    while time.perf_counter() - begin < SECONDS:
        record = next(records)
        record.loss.item()
        steps, tokens = steps + 1, tokens + int(record.num_tokens)
    step_seconds = (time.perf_counter() - begin) / steps
    records.close()
    logits_of(model, sequences.ids[:8], autocast=machine.autocast())
    begin = time.perf_counter()
    logits_of(model, sequences.ids, autocast=machine.autocast())
    if machine.device.type == "cuda":
        torch.cuda.synchronize()
    num_tokens = max(1, sequences.num_tokens)
    parameters = {name: tensor.numel() for name, tensor in model.named_parameters()}
    embedding = start.model.shape.base.vocab_size * start.model.shape.base.hidden_size
    return {
        "step_seconds": step_seconds,
        "tokens_a_step": tokens / steps,
        "score_seconds": (time.perf_counter() - begin) / len(some),
        "bytes_a_token": sum(len(example.text.encode()) for example in some) / num_tokens,
        "num_parameters": sum(parameters.values()),
        "num_embedding_parameters": embedding,
        "vocab_size": start.model.shape.base.vocab_size,
        "max_length": length,
        "peak_memory_bytes": machine.peak_memory(),
        "device": machine.describe(),
    }
