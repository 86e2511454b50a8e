"""Minutes to steps: a short trial before a run, so that the clock is never read during it."""

import logging
import time
from collections.abc import Callable

from headswap.training.config import TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.loop import BatchSource, Trainee, train
from headswap.training.optimizer import make_optimizer

log = logging.getLogger("headswap")
EVALUATION_COST = 1 / 3  # of a training step on as many tokens
SECONDS = 4.0
WARM_UP = {"cpu": 2, "cuda": 20}
"""Steps that are not counted: on CUDA some of them are recorded."""
AT_A_TIME = 4


def steps_in(
    minutes: float,
    trainee: Trainee,
    source: BatchSource,
    *,
    settings: TrainingSettings,
    machine: Machine,
    world: int,
    evaluation_tokens: int,
    num_evaluations: Callable[[int], int],
) -> int:
    """How many steps fit into some minutes, with the evaluations that belong to them."""
    records = train(
        trainee, make_optimizer(trainee.model, settings), source, settings=settings, machine=machine,
        processes=Processes(), first_step=0, total_steps=1_000_000, may_record=world == 1,
    )  # fmt: skip
    for _ in range(WARM_UP[machine.device.type]):
        next(records).loss.item()
    start, steps, tokens = time.perf_counter(), 0, 0
    while time.perf_counter() - start < SECONDS:
        for _ in range(AT_A_TIME):
            record = next(records)
            tokens += int(record.num_tokens)
        record.loss.item()  # waits for the device once, as a run does, not after every step
        steps += AT_A_TIME
    per_step = (time.perf_counter() - start) / steps / world
    evaluation = evaluation_tokens * per_step * steps / tokens * EVALUATION_COST * world
    planned = max(1, int(minutes * 60 / per_step))
    found = max(1, int((minutes * 60 - num_evaluations(planned) * evaluation) / per_step))
    log.info("A probe of %d steps took %.2f s a step: %.3g minutes are %d steps.", steps, per_step, minutes, found)
    return found
