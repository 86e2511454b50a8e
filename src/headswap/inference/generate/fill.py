"""Filling in `<mask>`: the most probable tokens of a masked language model at each mask."""

from dataclasses import dataclass

import numpy as np
import torch

from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token for a mask, with its probability."""

    token: str
    score: float


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with masks, the candidates for each mask, and the text with the best candidates filled in."""

    prompt: str
    masks: tuple[tuple[Candidate, ...], ...]
    text: str


class Filler:
    """Fills masks with a masked language model."""

    def __init__(self, bundle: Bundle) -> None:
        bundle.check_use("fill", "a masked language model")
        self.model, self.tokenizer, self.max_length = bundle.model, bundle.tokenizer, bundle.max_length
        self.shift = int(bundle.predicts_next)
        """A token is predicted by the vector so many positions before it."""

    @torch.no_grad()
    def fill(self, text: str, *, top_k: int = 5) -> Filled:
        """The `top_k` most probable tokens for every `<mask>` of a text, independently per mask."""
        tokenizer = self.tokenizer
        mask = None if tokenizer.mask_id is None else tokenizer.piece(tokenizer.mask_id)
        encoded = tokenizer.encode_with_specials(text if mask is None else text.replace("<mask>", mask))
        ids = tokenizer.frame.around(encoded).tolist()
        at = [index for index, id in enumerate(ids) if id == tokenizer.mask_id]
        if not at:
            raise InputError('There is no <mask> in the text. Write one where a word is missing: "a <mask> film".')
        if at[0] < self.shift:
            raise InputError("The text begins with <mask>, and this model needs a token before it. Put a word first.")
        if len(ids) > self.max_length:
            raise InputError(f"The text has {len(ids)} tokens; the model's limit is {self.max_length}. Shorten it.")
        self.model.eval()
        batch = flat_batch([np.array(ids)]).to(self.model.device)
        predicting = [index - self.shift for index in at]
        logits_MV = self.model.token_logits(self.model.hidden(batch)[predicting]).float()
        logits_MV[:, sorted(tokenizer.special_ids)] = float("-inf")
        top = torch.softmax(logits_MV, dim=1).topk(min(top_k, logits_MV.shape[1]), dim=1)
        masks = tuple(
            tuple(Candidate(tokenizer.decode([id]), score) for id, score in zip(row, scores, strict=True))
            for row, scores in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        )
        for index, row in zip(at, top.indices.tolist(), strict=True):
            ids[index] = row[0]
        return Filled(text, masks, tokenizer.decode(ids))
