"""Continuing texts with a key-value cache (cache.py), all prompts together, one token per step (growing_batch.py).

When a text reaches the base's number of positions, its cache is rebuilt from its last tokens (context_window.py).

Shapes: N new tokens, B sequences, D hidden width, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headswap.bundle.bundle import Bundle
from headswap.core.random_streams import numpy_stream
from headswap.inference.generate.cache import CacheLayout
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.context_window import kept_when_full, within_context
from headswap.inference.generate.growing_batch import GrowingBatch
from headswap.inference.generate.sampling import next_tokens
from headswap.kernels.policy import has_transposed_head
from headswap.model.heads import LanguageModelHead

CACHE_GRAIN = 64  # masked attention kernels need no padding at multiples of this
MIN_TOKENS_TO_TRANSPOSE = 24  # below, the copy costs more time than it saves


@dataclass(frozen=True, slots=True)
class Continuation:
    """A prompt, its continuation, and whether `<eos>` ended it."""

    prompt: str
    text: str
    num_tokens: int
    ended: bool


class Generator:
    """Continues texts with a causal language model."""

    def __init__(self, bundle: Bundle) -> None:
        bundle.check_use("generate", "a causal language model")
        self.bundle, self.model, self.tokenizer = bundle, bundle.model, bundle.tokenizer
        never = (self.tokenizer.pad_id, self.tokenizer.sos_id, self.tokenizer.mask_id, self.tokenizer.sep_id)
        self.transposed_head_DV: Tensor | None = None
        unwanted = {token for token in never if token is not None} - {self.tokenizer.eos_id}
        self.never = torch.tensor(sorted(unwanted), dtype=torch.long, device=self.model.device)

    def continue_text(self, prompt: str, settings: SamplingSettings) -> Continuation:
        """The continuation of one prompt."""
        return self.continue_texts([prompt], settings)[0]

    def continue_texts(self, prompts: Sequence[str], settings: SamplingSettings) -> list[Continuation]:
        """Continue several prompts together; the results are the same as one by one."""
        made: list[list[int]] = [[] for _ in prompts]
        for tokens in self._steps(prompts, settings):
            for row, token in tokens:
                made[row].append(token)
        return [self._continuation(prompt, ids) for prompt, ids in zip(prompts, made, strict=True)]

    def tokens(self, prompt: str, settings: SamplingSettings) -> Iterator[int]:
        """New token ids one by one; if `<eos>` is generated, it is the last."""
        for ((_, token),) in self._steps([prompt], settings):
            yield token

    def _continuation(self, prompt: str, ids: list[int]) -> Continuation:
        ended = bool(ids) and ids[-1] == self.tokenizer.eos_id
        prompt_ids = self.tokenizer.encode(prompt).tolist()
        before = self.tokenizer.decode(prompt_ids)
        whole = self.tokenizer.decode([*prompt_ids, *(ids[:-1] if ended else ids)])
        # Decoded together, so that the space between prompt and continuation is kept.
        text = whole.removeprefix(before) if whole.startswith(before) else self.tokenizer.decode(ids)
        return Continuation(prompt, text, len(ids), ended)

    @torch.no_grad()
    def _steps(self, prompts: Sequence[str], settings: SamplingSettings) -> Iterator[list[tuple[int, int]]]:
        """Per step, the prompts that have not ended, by number, with their new tokens."""
        self.model.eval()
        shape = self.model.shape.base
        limit = shape.max_position_embeddings
        known = [self._read_prompt(prompt, limit) for prompt in prompts]
        draws = [numpy_stream(settings.seed, "generate") for _ in prompts]
        longest = max(map(len, known), default=0) + settings.max_new_tokens
        capacity = min(limit, -(-longest // CACHE_GRAIN) * CACHE_GRAIN)
        cache = CacheLayout(shape.num_hidden_layers, len(prompts), capacity, self.model.device)
        growing = GrowingBatch(
            cache, lambda ids_B: self._logits(self.model.base(ids_B, cache)), num_steps=settings.max_new_tokens
        )
        self.transposed_head_DV = self._transposed_head(len(prompts), settings.max_new_tokens)
        rows = list(range(len(prompts)))
        logits_BV = torch.stack([self._read(cache, row, known[row]) for row in rows]) if rows else None
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
                unfinished = [place for place, token in enumerate(chosen) if token != self.tokenizer.eos_id]
                rows = [rows[place] for place in unfinished]
                if not rows:
                    return
                growing.keep(unfinished)
            logits_BV = self._grow(growing, [known[row] for row in rows], limit)

    def _read_prompt(self, prompt: str, limit: int) -> list[int]:
        known = [*self.tokenizer.frame.before, *self.tokenizer.encode(prompt).tolist()] or [self.tokenizer.sos_id]
        return within_context(known, limit)

    def _grow(self, growing: GrowingBatch, known: list[list[int]], limit: int) -> Tensor:
        """Logits after the last token of every sequence; a full sequence is read again in part."""
        cache = growing.cache
        full = [place for place, row in enumerate(growing.rows) if cache.lengths[row] == limit]
        for place in full:
            cache.lengths[growing.rows[place]] = 0
        logits_BV = growing.step([ids[-1] for ids in known])
        for place in full:
            logits_BV[place] = self._read(cache, growing.rows[place], kept_when_full(known[place], limit))
        return logits_BV

    def _read(self, cache: CacheLayout, row: int, ids: list[int]) -> Tensor:
        """Logits after a whole sequence, which replaces the cached tokens of its row."""
        cache.read_row(row, len(ids))
        hidden_ND = self.model.base(torch.tensor(ids, device=self.model.device), cache)
        return self._logits(hidden_ND[-1:])[0]

    def _transposed_head(self, num_prompts: int, num_tokens: int) -> Tensor | None:
        """The head's weights as D x V: their product with one vector is up to three times as fast on a CPU."""
        if num_prompts > 1 or num_tokens < MIN_TOKENS_TO_TRANSPOSE or not has_transposed_head(self.model.device):
            return None
        assert isinstance(self.model.head, LanguageModelHead)
        return self.model.head.projection(self.model.base.embedding.weight).T.contiguous()

    def _logits(self, hidden_BD: Tensor) -> Tensor:
        if self.transposed_head_DV is None:
            logits_BV = self.model.token_logits(hidden_BD)
        else:
            assert isinstance(self.model.head, LanguageModelHead)
            logits_BV = self.model.head.transform(hidden_BD) @ self.transposed_head_DV
            bias_V = self.model.head.bias
            logits_BV = logits_BV if bias_V is None else logits_BV.add_(bias_V)
        return logits_BV.index_fill_(1, self.never, float("-inf"))
