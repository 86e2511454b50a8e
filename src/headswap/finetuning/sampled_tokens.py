"""Replacements for consistency training: some tokens of a text are drawn anew from the base.

The base predicts each chosen token: a causal base from the tokens before it, a base with bidirectional attention from
the text in which the chosen tokens are masked. A replacement is drawn from these probabilities. Which tokens are chosen
and what is drawn are functions of (seed, step, row, position). All texts of a step are read together, before they are
divided into micro-batches, so the division changes nothing. Special tokens are neither replaced nor drawn.

Shapes: N tokens of a flat batch, R replaced tokens, V vocabulary.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from headswap.batches.batch import flat_batch
from headswap.batches.labelled_rows import Row
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.core.random_streams import Draws
from headswap.finetuning.config import FinetuneRecipe
from headswap.training.device import Machine

TOGETHER = 1024
"""Replaced tokens per matrix of probabilities, so that memory does not grow with the texts."""
BELOW_ONE = 1 - 1e-12
"""Keeps what is searched for below the sum of all probabilities, after rounding too."""


@dataclass(frozen=True)
class SampledTokens:
    """Replaces a share of the tokens of rows by tokens that a base predicts at their place."""

    base: Bundle
    share: float
    seed: int
    autocast: Callable[[], AbstractContextManager]

    def __post_init__(self) -> None:
        if self.base.model.shape.head != "lm" or self.base.objective == "none":
            raise SettingError(
                f"consistency_replacement is {self.share:g}, but the base is {self.base.what} and predicts no tokens. "
                "Remove the setting, or use a base of headswap pretrain or adapt."
            )
        self.base.model.eval()

    @torch.no_grad()
    def __call__(self, rows: Sequence[Row], numbers: np.ndarray, step: int) -> list[Row]:
        """The rows of a step, with some tokens replaced; `numbers` are their places among all rows."""
        draws = Draws(self.seed, "replacement", step)
        chosen = [self._chosen(row, number, draws) for row, number in zip(rows, numbers, strict=True)]
        if not any(len(places) for places in chosen):
            return list(rows)
        drawn_R = self._sampled(rows, numbers, chosen, draws)
        parts = np.split(drawn_R, np.cumsum([len(places) for places in chosen])[:-1])
        return [
            replace(row, ids=_with_tokens(row.ids, places, part))
            for row, places, part in zip(rows, chosen, parts, strict=True)
        ]

    @property
    def _masks(self) -> bool:
        """Whether the base predicts tokens that are masked, and not only the next one."""
        return self.base.model.shape.direction != "causal"

    def _chosen(self, row: Row, number: int, draws: Draws) -> np.ndarray:
        """The positions of a row whose tokens are replaced; the first token has nothing that could predict it."""
        places = np.arange(len(row.ids))
        is_chosen = draws.uniform("chosen", np.array([number]), places) < self.share
        is_chosen &= ~np.isin(row.ids, list(self.base.tokenizer.special_ids))
        return places[is_chosen & (places >= int(self.base.predicts_next))]

    def _sampled(
        self, rows: Sequence[Row], numbers: np.ndarray, chosen: Sequence[np.ndarray], draws: Draws
    ) -> np.ndarray:
        """One token per chosen position, drawn from the probabilities of the base."""
        model, tokenizer = self.base.model, self.base.tokenizer
        texts = [row.ids for row in rows]
        if self._masks:
            assert tokenizer.mask_id is not None
            texts = [_with_tokens(ids, places, tokenizer.mask_id) for ids, places in zip(texts, chosen, strict=True)]
        begins = np.cumsum([0, *(len(ids) for ids in texts[:-1])])
        at_R = np.concatenate([places + begin for places, begin in zip(chosen, begins, strict=True)])
        uniform_R = np.concatenate(
            [draws.uniform("token", np.array([n]), places) for n, places in zip(numbers, chosen, strict=True)]
        )
        before_R = torch.from_numpy(at_R - int(self.base.predicts_next)).to(model.device)
        with self.autocast():
            hidden_RD = model.hidden(flat_batch(texts).to(model.device))[before_R]
        parts = zip(hidden_RD.split(TOGETHER), torch.from_numpy(uniform_R).split(TOGETHER), strict=True)
        return torch.cat([self._drawn(hidden, uniform) for hidden, uniform in parts]).numpy()

    def _drawn(self, hidden_RD: Tensor, uniform_R: Tensor) -> Tensor:
        with self.autocast():
            logits_RV = self.base.model.token_logits(hidden_RD).float()
        logits_RV[:, sorted(self.base.tokenizer.special_ids)] = float("-inf")
        sums_RV = logits_RV.double().softmax(dim=1).cumsum(dim=1)
        wanted_R1 = uniform_R.to(sums_RV.device).unsqueeze(1) * BELOW_ONE * sums_RV[:, -1:]
        return torch.searchsorted(sums_RV, wanted_R1, right=True)[:, 0].cpu()


def sampled_tokens(recipe: FinetuneRecipe, machine: Machine) -> SampledTokens | None:
    """The replacements that a recipe asks for; None if no token is replaced."""
    share = recipe.consistency.consistency_replacement
    if not share:
        return None
    assert recipe.model.base is not None
    base = Bundle.load(recipe.model.base, device=machine.device, allow_download=recipe.machine.allow_download)
    return SampledTokens(base, share, recipe.training.seed, machine.autocast)


def _with_tokens(ids: np.ndarray, places: np.ndarray, tokens: np.ndarray | int) -> np.ndarray:
    changed = ids.copy()
    changed[places] = tokens
    return changed
