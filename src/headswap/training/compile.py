"""Compile the base's layers if the run is long enough to repay the compilation time.

The choice depends on parameters, tokens and minutes, never on measured time, so the same run always makes the same
choice. If no compiler works on this machine, one line is logged and the run continues without compilation.
"""

import logging

import torch

from headswap.model.parameter_count import num_parameters
from headswap.model.text_model import TextModel
from headswap.training.device import Machine

log = logging.getLogger("headswap")
COST_SECONDS = 15.0
"""Time to compile the parts of a layer, forward and backward."""
TIMES = 10
FLOPS = 1e14
"""Operations per second of layers that are not compiled, on a typical training GPU."""


def pays_off(model: TextModel, machine: Machine, *, tokens: float | None = None, minutes: float | None = None) -> bool:
    """Whether a run of this many tokens or minutes takes over ten times as long as the compilation."""
    if not machine.is_fast or machine.is_deterministic or machine.device.type != "cuda":
        return False
    work = 6 * num_parameters(model) * (tokens or 0)
    return max((minutes or 0) * 60, work / FLOPS) > TIMES * COST_SECONDS


def compile_layers(model: TextModel, device: torch.device) -> None:
    """Compile the per-token parts of every layer; without a working compiler, log it and change nothing."""
    try:
        torch.compile(lambda numbers: numbers * 2 + 1)(torch.ones(64, device=device))
    except Exception as error:
        log.info(
            "The compiler does not work on this machine (%s), so layers are not compiled.",
            str(error).splitlines()[0][:200],
        )
        return
    model.base.compile_layers()
    log.info("Compiling layers because the run is long; disable with --fast off.")
