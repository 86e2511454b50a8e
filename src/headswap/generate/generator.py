"""Continuing a text with a key-value cache.

The cache is an attention layout: the base runs unchanged on the new tokens alone and they see all that came before.
When the base's number of positions is used up, the cache is rebuilt from the latest half of the text.

Shapes: N new tokens, H heads, K head width, V vocabulary.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.bundle import Bundle
from headswap.core.errors import InputError
from headswap.core.seeds import numpy_stream
from headswap.generate.config import SamplingSettings
from headswap.generate.sampling import next_token

log = logging.getLogger("headswap")


class CacheLayout:
    """One growing sequence: new tokens see themselves and everything kept from before."""

    def __init__(self, num_layers: int, capacity: int, device: torch.device) -> None:
        self.capacity, self.device = capacity, device
        self.length = self.start = 0
        self.keys: list[Tensor | None] = [None] * num_layers
        self.values: list[Tensor | None] = [None] * num_layers
        self.positions_N = torch.empty(0, dtype=torch.long)

    def extend(self, count: int) -> None:
        """Make room for `count` new tokens."""
        self.start, self.length = self.length, self.length + count
        self.positions_N = torch.arange(self.start, self.length, device=self.device)

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Keep the new keys and values, then let the new queries see all of them."""
        assert dropout == 0, "generation runs in evaluation mode"
        keys, values = self.keys[layer], self.values[layer]
        if keys is None or values is None:
            keys = self.keys[layer] = key_NHK.new_empty(self.capacity, *key_NHK.shape[1:])
            values = self.values[layer] = value_NHK.new_empty(self.capacity, *value_NHK.shape[1:])
        keys[self.start : self.length], values[self.start : self.length] = key_NHK, value_NHK
        query, key, value = (
            part.transpose(0, 1).unsqueeze(0) for part in (query_NHK, keys[: self.length], values[: self.length])
        )
        # With an empty cache several tokens come at once and the square mask holds; later tokens come one by one.
        assert self.start == 0 or len(query_NHK) == 1
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=len(query_NHK) > 1)
        return mixed.squeeze(0).transpose(0, 1)


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

    def continue_text(self, prompt: str, settings: SamplingSettings) -> Continuation:
        """Prompt in, continuation out."""
        ids = list(self.tokens(prompt, settings))
        ended = bool(ids) and ids[-1] == self.tokenizer.eos_id
        prompt_ids = self.tokenizer.encode(prompt).tolist()
        before = self.tokenizer.decode(prompt_ids)
        whole = self.tokenizer.decode([*prompt_ids, *(ids[:-1] if ended else ids)])
        # Decoding both together keeps the blank that belongs between them.
        text = whole.removeprefix(before) if whole.startswith(before) else self.tokenizer.decode(ids)
        return Continuation(prompt, text, len(ids), ended)

    @torch.no_grad()
    def tokens(self, prompt: str, settings: SamplingSettings) -> Iterator[int]:
        """New token ids one by one; `<eos>` is the last if it comes."""
        self.model.eval()
        shape = self.model.shape.base
        draws = numpy_stream(settings.seed, "generate")
        limit = shape.max_position_embeddings
        known = [self.tokenizer.sos_id, *self.tokenizer.encode(prompt).tolist()]
        unread = known[-limit:]
        if len(known) > limit:
            log.warning("The prompt has %d tokens; the model reads the last %d of them.", len(known), limit)
        cache = CacheLayout(shape.num_hidden_layers, limit, self.model.device)
        for _ in range(settings.max_new_tokens):
            if cache.length + len(unread) > limit:
                unread = known[-(limit // 2) :]
                cache = CacheLayout(shape.num_hidden_layers, limit, self.model.device)
            logits_V = self._next_logits(unread, cache)
            token = next_token(logits_V, settings, float(draws.random()))
            yield token
            if token == self.tokenizer.eos_id:
                return
            known.append(token)
            unread = [token]

    def _next_logits(self, ids: list[int], cache: CacheLayout) -> Tensor:
        cache.extend(len(ids))
        ids_N = torch.tensor(ids, device=self.model.device)
        hidden_ND = self.model.base(ids_N, cache)
        logits_V = self.model.read(hidden_ND[-1:], (1,))[0]
        never = [self.tokenizer.pad_id, self.tokenizer.sos_id, self.tokenizer.mask_id, self.tokenizer.sep_id]
        logits_V[[token for token in never if token is not None]] = float("-inf")
        return logits_V
