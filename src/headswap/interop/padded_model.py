"""A model that reads padded batches, for export: the same weights and layers, with another attention layout.

headswap's batches are flat, without padding. Here sequences are padded on the right to one length; a mask keeps padding
out of attention, pooling and the answers of a span head. Every operation has dynamic batch and length.

Shapes: B sequences, S tokens of the longest, N = B x S, D hidden width, H heads, K head width, C classes, P pooled.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.core.errors import InputError
from headswap.model.heads import ClassificationHead, LanguageModelHead, SpanHead, TokenHead
from headswap.model.shape import FORMER_POOLINGS
from headswap.model.text_model import TextModel

HEADS = (LanguageModelHead, ClassificationHead, TokenHead, SpanHead)


class PaddedLayout:
    """Sequences side by side; a token attends to the real tokens of its sequence or, if causal, to earlier ones."""

    def __init__(self, mask_BS: Tensor, *, causal: bool, longest: int) -> None:
        self.size, self.longest = mask_BS.shape, longest
        batch, length = self.size
        positions_S = torch.arange(length, device=mask_BS.device)
        self.positions_N = positions_S.unsqueeze(0).expand(batch, length).reshape(-1)
        self.allowed_B1SS = mask_BS[:, None, None, :].expand(batch, 1, length, length)
        if causal:
            self.allowed_B1SS = self.allowed_B1SS & (positions_S[None, :] <= positions_S[:, None])

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """The attention output of one layer, N x H x K."""
        del layer, dropout
        query, key, value = (
            part.reshape(*self.size, *part.shape[1:]).transpose(1, 2) for part in (query_NHK, key_NHK, value_NHK)
        )
        mixed_BHSK = F.scaled_dot_product_attention(query, key, value, attn_mask=self.allowed_B1SS)
        return mixed_BHSK.transpose(1, 2).reshape(query_NHK.shape)


class PaddedModel(nn.Module):
    """The scores of a model for token ids and a mask of the real tokens."""

    def __init__(self, model: TextModel) -> None:
        super().__init__()
        if not isinstance(model.head, HEADS):
            raise InputError(f"The head {model.shape.head} cannot be exported to ONNX: it has no version for padding.")
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Scores of each sequence (B x C) or of each token (B x S x C)."""
        shape, mask_BS = self.model.shape, attention_mask.to(torch.bool)
        causal, longest = shape.direction == "causal", shape.base.max_position_embeddings
        layout = PaddedLayout(mask_BS, causal=causal, longest=longest)
        segments_N = None if token_type_ids is None else token_type_ids.reshape(-1)
        hidden_ND = self.model.base(input_ids.reshape(-1), layout, segments_N)
        hidden_BSD = hidden_ND.reshape(*input_ids.shape, shape.base.hidden_size)
        head = self.model.head
        if isinstance(head, LanguageModelHead):
            return self.model.token_logits(hidden_BSD)
        if isinstance(head, ClassificationHead):
            return head.score(head.read(padded_pool(hidden_BSD, mask_BS, head.pooling)))
        scores_BSC = head.score(hidden_BSD)
        if isinstance(head, SpanHead):
            scores_BSC = scores_BSC.masked_fill(~mask_BS.unsqueeze(2), torch.finfo(scores_BSC.dtype).min)
            return scores_BSC.log_softmax(1)
        return scores_BSC


def padded_pool(hidden_BSD: Tensor, mask_BS: Tensor, pooling: str) -> Tensor:
    """One vector per sequence, B x P, as `pool` computes it without padding."""
    pooling = FORMER_POOLINGS.get(pooling, pooling)
    real_BS1 = mask_BS.unsqueeze(2).to(hidden_BSD.dtype)
    lengths_B = mask_BS.to(torch.int64).sum(1)
    if pooling == "first":
        return hidden_BSD[:, 0]
    if pooling == "last":
        index_B1D = (lengths_B - 1)[:, None, None].expand(-1, 1, hidden_BSD.shape[2])
        return hidden_BSD.gather(1, index_B1D).squeeze(1)
    if pooling == "weighted-mean":
        weights_BS1 = real_BS1 * torch.arange(1, hidden_BSD.shape[1] + 1, device=hidden_BSD.device)[None, :, None]
        return (hidden_BSD * weights_BS1).sum(1) / weights_BS1.sum(1)
    parts = {
        "mean": lambda: (hidden_BSD * real_BS1).sum(1) / real_BS1.sum(1),
        "max": lambda: hidden_BSD.masked_fill(~mask_BS.unsqueeze(2), torch.finfo(hidden_BSD.dtype).min).amax(1),
    }
    return torch.cat([parts[kind]() for kind in pooling.split("+")], dim=1)
