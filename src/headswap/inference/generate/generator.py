"""Continuing texts with a key-value cache (cache.py), all together by a token a step (growth.py).

When the base's number of positions is used up, the cache is rebuilt from the latest half of the text.

Shapes: N new tokens, B sequences, D hidden width, V vocabulary.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.core.random_streams import numpy_stream
from headswap.inference.generate.cache import CacheLayout
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.growth import Growth
from headswap.inference.generate.sampling import next_tokens
from headswap.kernels.policy import has_cheap_calls
from headswap.model.heads import LanguageModelHead

log = logging.getLogger("headswap")
ROOM_GRAIN = 64  # positions that a masked kernel takes without padding
LEAST_TOKENS_TO_TURN = 24  # fewer do not earn the copy back


@dataclass(frozen=True, slots=True)
class Continuation:
    """A prompt, what followed, and why it ended."""

    prompt: str
    text: str
    num_tokens: int
    ended: bool


class Generator:
    """Continues texts with a causal language model."""

    def __init__(self, bundle: Bundle) -> None:
        shape = bundle.model.shape
        if shape.head != "lm" or shape.direction != "causal":
            raise InputError(
                f"{bundle.path or 'This bundle'} is {bundle.what}; only a causal language model can generate. "
                f"Use headswap {bundle.verb}."
            )
        self.bundle, self.model, self.tokenizer = bundle, bundle.model, bundle.tokenizer
        never = (self.tokenizer.pad_id, self.tokenizer.sos_id, self.tokenizer.mask_id, self.tokenizer.sep_id)
        self.turned_head_DV: Tensor | None = None
        self.never = torch.tensor([token for token in never if token is not None], device=self.model.device)

    def continue_text(self, prompt: str, settings: SamplingSettings) -> Continuation:
        """Prompt in, continuation out."""
        return self.continue_texts([prompt], settings)[0]

    def continue_texts(self, prompts: Sequence[str], settings: SamplingSettings) -> list[Continuation]:
        """Several prompts at once; each is continued as it would be alone."""
        made: list[list[int]] = [[] for _ in prompts]
        for tokens in self._steps(prompts, settings):
            for row, token in tokens:
                made[row].append(token)
        return [self._continuation(prompt, ids) for prompt, ids in zip(prompts, made, strict=True)]

    def tokens(self, prompt: str, settings: SamplingSettings) -> Iterator[int]:
        """New token ids one by one; `<eos>` is the last if it comes."""
        for ((_, token),) in self._steps([prompt], settings):
            yield token

    def _continuation(self, prompt: str, ids: list[int]) -> Continuation:
        ended = bool(ids) and ids[-1] == self.tokenizer.eos_id
        prompt_ids = self.tokenizer.encode(prompt).tolist()
        before = self.tokenizer.decode(prompt_ids)
        whole = self.tokenizer.decode([*prompt_ids, *(ids[:-1] if ended else ids)])
        # Decoding both together keeps the blank that belongs between them.
        text = whole.removeprefix(before) if whole.startswith(before) else self.tokenizer.decode(ids)
        return Continuation(prompt, text, len(ids), ended)

    @torch.no_grad()
    def _steps(self, prompts: Sequence[str], settings: SamplingSettings) -> Iterator[list[tuple[int, int]]]:
        """At every step the prompts that still go on, by number, with their new tokens."""
        self.model.eval()
        shape = self.model.shape.base
        limit = shape.max_position_embeddings
        known = [self._read_prompt(prompt, limit) for prompt in prompts]
        draws = [numpy_stream(settings.seed, "generate") for _ in prompts]
        longest = max(map(len, known), default=0) + settings.max_new_tokens
        room = min(limit, -(-longest // ROOM_GRAIN) * ROOM_GRAIN)
        cache = CacheLayout(shape.num_hidden_layers, len(prompts), room, self.model.device)
        growth = Growth(
            cache, lambda ids_B: self._logits(self.model.base(ids_B, cache)), num_steps=settings.max_new_tokens
        )
        self.turned_head_DV = self._turned_head(len(prompts), settings.max_new_tokens)
        rows = list(range(len(prompts)))
        logits_BV = torch.stack([self._read(cache, row, known[row][-limit:]) for row in rows]) if rows else None
        for step in range(settings.max_new_tokens):
            if logits_BV is None:
                return
            chosen = next_tokens(logits_BV, settings, [float(draws[row].random()) for row in rows])
            yield list(zip(rows, chosen, strict=True))
            for row, token in zip(rows, chosen, strict=True):
                known[row].append(token)
            if step + 1 == settings.max_new_tokens:
                return
            if self.tokenizer.eos_id in chosen:
                going = [place for place, token in enumerate(chosen) if token != self.tokenizer.eos_id]
                rows = [rows[place] for place in going]
                if not rows:
                    return
                growth.keep(going)
            logits_BV = self._grow(growth, [known[row] for row in rows], limit)

    def _read_prompt(self, prompt: str, limit: int) -> list[int]:
        known = [self.tokenizer.sos_id, *self.tokenizer.encode(prompt).tolist()]
        if len(known) > limit:
            log.warning("The prompt has %d tokens; the model reads the last %d of them.", len(known), limit)
        return known

    def _grow(self, growth: Growth, known: list[list[int]], limit: int) -> Tensor:
        """Logits after the last token of every sequence; one that fills the cache is read anew from its latest half."""
        cache = growth.cache
        full = [place for place, row in enumerate(growth.rows) if cache.lengths[row] == limit]
        for place in full:
            cache.lengths[growth.rows[place]] = 0
        logits_BV = growth.step([ids[-1] for ids in known])
        for place in full:
            logits_BV[place] = self._read(cache, growth.rows[place], known[place][-(limit // 2) :])
        return logits_BV

    def _read(self, cache: CacheLayout, row: int, ids: list[int]) -> Tensor:
        """Logits after a whole sequence."""
        cache.read_row(row, len(ids))
        hidden_ND = self.model.base(torch.tensor(ids, device=self.model.device), cache)
        return self._logits(hidden_ND[-1:])[0]

    def _turned_head(self, num_prompts: int, num_tokens: int) -> Tensor | None:
        """The head's weights as D x V: one vector goes through them up to three times as fast on a CPU."""
        if num_prompts > 1 or num_tokens < LEAST_TOKENS_TO_TURN or not has_cheap_calls(self.model.device):
            return None
        assert isinstance(self.model.head, LanguageModelHead)
        return self.model.head.projection(self.model.base.embedding.weight).T.contiguous()

    def _logits(self, hidden_BD: Tensor) -> Tensor:
        if self.turned_head_DV is None:
            logits_BV = self.model.name_tokens(hidden_BD)
        else:
            logits_BV = hidden_BD @ self.turned_head_DV
            bias_V = self.model.head.bias
            logits_BV = logits_BV if bias_V is None else logits_BV.add_(bias_V)  # type: ignore[arg-type]
        return logits_BV.index_fill_(1, self.never, float("-inf"))
