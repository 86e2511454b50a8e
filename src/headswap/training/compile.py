"""Compile a base's layers when the planned run is long enough to earn it back.

The choice follows from the plan (parameters, tokens, minutes), never from a clock, so the same run always makes the
same choice. A compiler that does not work here costs one logged line, never a run.
"""

import logging

import torch

from headswap.model.parameter_count import num_parameters
from headswap.model.text_model import TextModel
from headswap.training.device import Machine

log = logging.getLogger("headswap")
COST_SECONDS = 15.0  # of compiling the parts of a layer, forward and backward
TIMES = 10
FLOPS = 1e14  # a second, of layers that are not compiled, on the devices people train on


def pays_off(model: TextModel, machine: Machine, *, tokens: float | None = None, minutes: float | None = None) -> bool:
    """Whether a run of some tokens or minutes is over ten times as long as compiling takes."""
    if not machine.is_fast or machine.is_deterministic or machine.device.type != "cuda":
        return False
    work = 6 * num_parameters(model) * (tokens or 0)
    return max((minutes or 0) * 60, work / FLOPS) > TIMES * COST_SECONDS


def compile_layers(model: TextModel, device: torch.device) -> None:
    """Compile what each token does on its own in every layer; goes on without where no compiler works."""
    try:
        torch.compile(lambda numbers: numbers * 2 + 1)(torch.ones(64, device=device))
    except Exception as error:
        log.info("No compiler works here (%s), so layers are not compiled.", str(error).splitlines()[0][:200])
        return
    model.base.compile_layers()
    log.info("Layers are compiled, since the run is long (--fast off leaves it out).")
