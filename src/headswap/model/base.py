"""The base: embedding, positions and layers.

It is independent of what it is trained for: the objective decides the attention direction, and the head decides how its
output is used. Attribute names are tensor names in saved bundles and must not change; a test checks them.

Shapes: N tokens of a flat batch, D hidden width.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.model.attention import AttentionLayout, SelfAttention
from headswap.model.positions import Rotary, sinusoidal_table
from headswap.model.shape import Activation, BaseShape

Before = Callable[[Tensor, Rotary | None], tuple[Tensor, Tensor, Tensor]]
After = Callable[[Tensor, Tensor], Tensor]
LONGEST_TABLE = 1 << 16
"""Positions in a sinusoidal or rotary table; a base with more of them has a longer table only for longer sequences."""


def make_norm(shape: BaseShape) -> nn.Module:
    """A norm of the width of the base."""
    if shape.normalization == "rms":
        return nn.RMSNorm(shape.hidden_size, eps=shape.layer_norm_eps)
    return nn.LayerNorm(shape.hidden_size, eps=shape.layer_norm_eps, bias=shape.bias)


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, or the three linear layers of SwiGLU."""

    def __init__(self, shape: BaseShape) -> None:
        super().__init__()
        self.activation = shape.activation
        if shape.activation == "swiglu":
            self.gate = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=shape.bias)
        self.up = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=shape.bias)
        self.down = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=shape.bias)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """Applied to each token separately."""
        if self.activation == "swiglu":
            return self.down(F.silu(self.gate(hidden_ND)) * self.up(hidden_ND))
        return self.down(activate(self.up(hidden_ND), self.activation))


def activate(inner: Tensor, activation: Activation) -> Tensor:
    """An activation of one layer; swiglu is one of two layers."""
    if activation == "relu":
        return F.relu(inner)
    return F.gelu(inner, approximate="tanh" if activation == "gelu_tanh" else "none")


class Layer(nn.Module):
    """Attention and feed-forward, each with a residual branch and a norm before or after it."""

    def __init__(self, shape: BaseShape, index: int) -> None:
        super().__init__()
        self.norm_first = shape.norm == "pre"
        self.dropout = shape.dropout
        self.attention = SelfAttention(shape, index)
        self.attention_norm = make_norm(shape)
        self.feed_forward = FeedForward(shape)
        self.feed_forward_norm = make_norm(shape)
        self.compiled: tuple[Before, After] | None = None
        """Compiled versions of `before_mixing` and `after_mixing`, used in training."""

    def forward(self, hidden_ND: Tensor, layout: AttentionLayout, rotary: Rotary | None) -> Tensor:
        """The vectors after this layer, N x D."""
        before, after = self.compiled if self.compiled and self.training else (self.before_mixing, self.after_mixing)
        return after(hidden_ND, self.attention.mix(before(hidden_ND, rotary), layout))

    def before_mixing(self, hidden_ND: Tensor, rotary: Rotary | None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of each token."""
        return self.attention.project(self.attention_norm(hidden_ND) if self.norm_first else hidden_ND, rotary)

    def after_mixing(self, hidden_ND: Tensor, mixed_NHK: Tensor) -> Tensor:
        """Residual branches and feed-forward layer, applied to each token after attention."""
        hidden_ND = hidden_ND + self._drop(self.attention.read_out(mixed_NHK))
        if self.norm_first:
            return hidden_ND + self._drop(self.feed_forward(self.feed_forward_norm(hidden_ND)))
        hidden_ND = self.attention_norm(hidden_ND)
        return self.feed_forward_norm(hidden_ND + self._drop(self.feed_forward(hidden_ND)))

    def _drop(self, branch_ND: Tensor) -> Tensor:
        return F.dropout(branch_ND, self.dropout, training=True) if self.training and self.dropout else branch_ND


class Base(nn.Module):
    """Maps the token ids of a flat batch to one vector per token."""

    def __init__(self, shape: BaseShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab_size, shape.hidden_size)
        if shape.positions == "learned":
            self.position_embedding = nn.Embedding(shape.max_position_embeddings, shape.hidden_size)
        if shape.type_vocab_size:
            self.segment_embedding = nn.Embedding(shape.type_vocab_size, shape.hidden_size)
        if shape.embedding_norm:
            self.embedding_norm = make_norm(shape)
        self.layers = nn.ModuleList(Layer(shape, index) for index in range(shape.num_hidden_layers))
        if shape.final_norm:
            self.final_norm = make_norm(shape)

    def forward(
        self,
        ids_N: Tensor,
        layout: AttentionLayout,
        segments_N: Tensor | None = None,
        *,
        noise_ND: Tensor | None = None,
    ) -> Tensor:
        """The vectors after the last layer, N x D; `noise_ND` is added to the token embeddings."""
        length = self._table_length(layout.longest)
        hidden_ND = self.embed(ids_N, layout.positions_N, segments_N, table_length=length, noise_ND=noise_ND)
        rotary = None
        if self.shape.positions == "rotary":
            dtype = torch.float64 if hidden_ND.dtype == torch.float64 else torch.float32
            rotary = Rotary(
                layout.positions_N, dim=self.shape.head_dim, length=length, theta=self.shape.rope_theta, dtype=dtype
            )
        for layer in self.layers:
            hidden_ND = layer(hidden_ND, layout, rotary)
        return self.final_norm(hidden_ND) if self.shape.final_norm else hidden_ND

    def compile_layers(self, backend: str | Callable = "inductor") -> None:
        """Compile, for training, the parts of the layers that act on each token separately; once for all layers."""
        for layer in self.layers:
            assert isinstance(layer, Layer)
            parts = layer.before_mixing, layer.after_mixing
            layer.compiled = torch.compile(parts[0], backend=backend), torch.compile(parts[1], backend=backend)

    def _table_length(self, longest: int) -> int:
        """The number of positions in a sinusoidal or rotary table: all of them, or a power of two if there are many.

        No tensor has this size, so a config.json alone must not decide how much memory is allocated.
        """
        limit = self.shape.max_position_embeddings
        return limit if limit <= LONGEST_TABLE else min(limit, max(LONGEST_TABLE, 1 << (longest - 1).bit_length()))

    def embed(
        self,
        ids_N: Tensor,
        positions_N: Tensor,
        segments_N: Tensor | None,
        *,
        table_length: int,
        noise_ND: Tensor | None = None,
    ) -> Tensor:
        """The input of the first layer: the sum of token, position and segment embeddings."""
        shape = self.shape
        hidden_ND = self.embedding(ids_N)
        if noise_ND is not None:
            hidden_ND = hidden_ND + noise_ND
        if shape.embedding_scale:
            hidden_ND = hidden_ND * math.sqrt(shape.hidden_size)
        if shape.positions == "sinusoidal":
            table_LD = sinusoidal_table(table_length, shape.hidden_size, hidden_ND.device, hidden_ND.dtype)
            hidden_ND = hidden_ND + table_LD[positions_N]
        elif shape.positions == "learned":
            hidden_ND = hidden_ND + self.position_embedding(positions_N)
        if shape.type_vocab_size:
            segments_N = torch.zeros_like(ids_N) if segments_N is None else segments_N
            hidden_ND = hidden_ND + self.segment_embedding(segments_N)
        if shape.embedding_norm:
            hidden_ND = self.embedding_norm(hidden_ND)
        return F.dropout(hidden_ND, shape.dropout, training=True) if self.training and shape.dropout else hidden_ND
