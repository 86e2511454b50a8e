"""The alarm for a base that learns nothing but how often each token occurs."""

import logging

log = logging.getLogger("headswap")
NATS = 0.15
"""A held-out loss this close to the unigram entropy, or above it, has learnt little else."""
FROM_SHARE, FROM_STEP = 0.3, 20
"""Nothing is said before this share of the steps, nor before so many."""


class PlateauAlarm:
    """Looks at every held-out loss and says once that it stands at the unigram entropy, and why it may."""

    def __init__(self, entropy: float, *, is_masked: bool) -> None:
        self.entropy, self.is_masked = entropy, is_masked
        self.has_rung = False

    def look(self, loss: float, step: int, total_steps: int, learning_rate: float | None) -> None:
        """Say so if a run that should have learnt something has not."""
        is_early = step < max(FROM_STEP, FROM_SHARE * total_steps)
        if self.has_rung or is_early or loss < self.entropy - NATS:
            return
        self.has_rung = True
        place = "above" if loss > self.entropy + NATS else "at"
        masked = " Masked objectives stay there longest: 2 million tokens were too few." if self.is_masked else ""
        log.warning(
            "The held-out loss %.3f at step %d is still %s the unigram entropy %.3f: the model knows little more "
            "than how often each token occurs. Likely causes: too few tokens, a learning rate that is too high or too "
            "low (%s), a corpus that repeats itself.%s", loss, step, place, self.entropy, learning_rate, masked,
        )  # fmt: skip
