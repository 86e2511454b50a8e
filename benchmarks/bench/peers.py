"""The peers: the lab's code, and Hugging Face transformers in the same shape.

Each is written as an experienced user would: fused AdamW, gradients set to None, no work that its own trainer does not
do. `default` runs without flags (float32, eager), `best` in its strongest setting (bf16 and torch.compile).
"""

import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.model.shape import BaseShape


class LabModel(nn.Module):
    """The lab's model as in its reports: nn.TransformerEncoder, a float mask, a linear head."""

    def __init__(self, shape: BaseShape) -> None:
        super().__init__()
        dim = shape.hidden_size
        self.embedding = nn.Embedding(shape.vocab_size, dim)
        layer = nn.TransformerEncoderLayer(
            dim, shape.num_attention_heads, shape.intermediate_size, dropout=0.0, batch_first=True
        )
        self.trunk = nn.TransformerEncoder(layer, shape.num_hidden_layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, shape.vocab_size)
        self.scale = math.sqrt(dim)
        place = torch.arange(shape.max_position_embeddings).unsqueeze(1)
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10_000.0) / dim))
        table = torch.zeros(shape.max_position_embeddings, dim)
        table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("positions", table)

    def forward(self, ids_BS: Tensor) -> Tensor:
        """Logits of every next token, all of them in memory."""
        length = ids_BS.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf"), device=ids_BS.device), diagonal=1)
        hidden = self.embedding(ids_BS) * self.scale + self.positions[:length]
        return self.head(self.trunk(hidden, mask=mask))

    def loss(self, ids_BS: Tensor, target_BS: Tensor) -> Tensor:
        """Cross entropy of all targets."""
        return F.cross_entropy(self(ids_BS).flatten(0, 1), target_BS.flatten())


def hf_causal(shape: BaseShape) -> nn.Module:
    """GPT-2's class in our shape, with an untied head where ours is untied."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(**_gpt2_numbers(shape), tie_word_embeddings=shape.tied_head))


def hf_classifier(shape: BaseShape) -> nn.Module:
    """GPT-2's class with a classification head."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    return GPT2ForSequenceClassification(GPT2Config(**_gpt2_numbers(shape), num_labels=2, pad_token_id=1))


def hf_masked(shape: BaseShape) -> nn.Module:
    """BERT's class in our shape; it projects every position to the vocabulary."""
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(BertConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden_size, num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads, intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_position_embeddings, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, tie_word_embeddings=shape.tied_head,
    ))  # fmt: skip


def _gpt2_numbers(shape: BaseShape) -> dict[str, object]:
    return {
        "vocab_size": shape.vocab_size, "n_embd": shape.hidden_size, "n_layer": shape.num_hidden_layers,
        "n_head": shape.num_attention_heads, "n_inner": shape.intermediate_size,
        "n_positions": shape.max_position_embeddings, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "use_cache": False, "bos_token_id": 0, "eos_token_id": 2,
    }  # fmt: skip


def stepper(
    model: nn.Module, loss_of: Callable[..., Tensor], *, device: str, precision: str, learning_rate: float = 3e-4
) -> Callable[..., Tensor]:
    """One optimizer step: forward, backward, clip, fused AdamW, as the Hugging Face Trainer does it."""
    model.to(device).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, fused=True)

    def step(*inputs: Tensor) -> Tensor:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(*inputs)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def padded(sequences: Iterable, *, pad: int, device: str) -> tuple[Tensor, Tensor]:
    """Ids padded to the longest sequence, and their mask, as transformers' collator makes them."""
    rows = [torch.as_tensor(ids) for ids in sequences]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(ids.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)).long()
    return ids.to(device), mask.to(device)
