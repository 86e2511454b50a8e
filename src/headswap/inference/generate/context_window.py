"""What a language model keeps of a text that is longer than its context."""

import logging
from collections.abc import Sequence

log = logging.getLogger("headswap")


def within_context(prompt: Sequence[int], limit: int) -> list[int]:
    """The tokens of a prompt that fit: its last ones, with a warning if some are left out."""
    if len(prompt) > limit:
        log.warning("The prompt has %d tokens; the model uses the last %d of them.", len(prompt), limit)
    return list(prompt[-limit:])


def kept_when_full(known: Sequence[int], limit: int) -> list[int]:
    """The tokens that are read again when a growing text has filled the context: the last half of it."""
    return list(known[-(limit // 2) :])
