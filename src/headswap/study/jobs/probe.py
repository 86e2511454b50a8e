"""Measure seconds per step, seconds per scored text and memory of a fine-tuning run in a few seconds.

The probe builds the model of a fine-tuning run, takes some steps and scores some texts. Only the measurements are kept.
"""

import time
from collections.abc import Mapping
from typing import Any

import torch

from headswap.batches.labelled_rows import ExampleBatches
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import LabelledSplits
from headswap.finetuning.starting_point import StartingPoint
from headswap.finetuning.task_settings import for_task
from headswap.inference.outputs import outputs_of
from headswap.tasks.choose import named_task
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import make_optimizer

SECONDS = 2.0
WARM_UP = {"cpu": 1, "cuda": 20}
NUM_TEXTS = 128


def measure(sections: Mapping[str, Any]) -> dict[str, Any]:
    """What one fine-tuning run needs: seconds per step and per scored text, rows (windows) per text, bytes per token,
    parameters and peak memory."""
    recipe = load_recipe(FinetuneRecipe, None, sections)
    task = named_task(recipe.data.task)
    recipe = for_task(recipe, task)
    assert recipe.data.train is not None
    examples = task.read(recipe.data.train, recipe.data)
    labels = task.labels(examples)
    some = examples[:: max(1, len(examples) // NUM_TEXTS)][:NUM_TEXTS]
    start = StartingPoint.of(recipe, LabelledSplits(some, [], [], labels, task))
    machine = Machine(recipe.machine)
    training = recipe.training.changed(learning_rate=1e-9)
    base = start.model.shape.base
    machine.resolve_precision(base.hidden_size)
    length = training.max_length or base.max_position_embeddings
    reads_pairs = recipe.data.text_pair_column is not None
    state = TaskState(max_length=length, long=training.long, doc_stride=training.doc_stride, reads_pairs=reads_pairs)
    state = task.initial_state(state, some)
    encoded = task.encode(some, Bundle(start.model, start.tokenizer, labels, task=state))
    model = start.model.to(machine.device)
    source = ExampleBatches(encoded.rows, min(training.batch_size, len(encoded.rows)), 0, task.is_per_token)
    records = train(
        LossModule(model, task.objective(training, encoded, labels)), make_optimizer(model, training), source,
        settings=training, machine=machine, processes=Processes(), first_step=0, total_steps=1_000_000,
    )  # fmt: skip
    for _ in range(WARM_UP[machine.device.type]):
        next(records).loss.item()
    begin, steps, tokens = time.perf_counter(), 0, 0
    while time.perf_counter() - begin < SECONDS:
        record = next(records)
        record.loss.item()
        steps, tokens = steps + 1, tokens + int(record.num_tokens)
    step_seconds = (time.perf_counter() - begin) / steps
    records.close()
    outputs_of(model, encoded.rows[:8], autocast=machine.scoring())
    begin = time.perf_counter()
    outputs_of(model, encoded.rows, autocast=machine.scoring())
    if machine.device.type == "cuda":
        torch.cuda.synchronize()
    return {
        "step_seconds": step_seconds,
        "tokens_a_step": tokens / steps,
        "rows_a_text": len(encoded.rows) / len(some),
        "score_seconds": (time.perf_counter() - begin) / len(some),
        "bytes_a_token": sum(len(example.text.encode()) for example in some) / max(1, encoded.num_tokens),
        "num_parameters": sum(tensor.numel() for tensor in model.parameters()),
        "num_embedding_parameters": base.vocab_size * base.hidden_size,
        "vocab_size": base.vocab_size,
        "max_length": length,
        "peak_memory_bytes": machine.peak_memory(),
        "device": machine.describe(),
    }
