"""A base with a head on it, and how one is built from a seed.

`TextModel` is what is trained, saved and asked. The attention direction is the objective's choice and is kept here,
since a model that was trained to look left must go on looking left.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headswap.batches.batch import Batch
from headswap.core.errors import SettingError
from headswap.core.settings import Settings
from headswap.model.attention import SequenceLayout
from headswap.model.base import Base
from headswap.model.heads import HEADS, ClassificationHead, LanguageModelHead, TaskHead
from headswap.model.initialize import initialize
from headswap.model.lora import LoraLinear, add_adapters, is_adapter
from headswap.model.shape import BaseShape, Direction, HeadKind, HeadShape, LoraShape

PAIR_HEAD = HeadShape(pooling="first", head_hidden="tanh", head_dropout=0.0)
"""BERT's: a square layer with tanh on the first token's vector."""


class ModelShape(Settings):
    """All that is needed to build a model's tensors and to run it."""

    base: BaseShape
    direction: Direction = "causal"
    head: HeadKind = "lm"
    num_labels: int | None = None
    classifier: HeadShape = HeadShape()
    pair_head: bool = False
    """A second head beside the language model's that tells whether two segments belong together."""
    lora: LoraShape | None = None
    """Adapters beside the base's matrices."""


class TextModel(nn.Module):
    """A base and one head."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.base = Base(shape.base)
        if shape.lora is not None:
            add_adapters(self.base.layers, shape.lora)
        self.head: LanguageModelHead | TaskHead
        if shape.head == "lm":
            self.head = LanguageModelHead(shape.base)
        else:
            assert shape.num_labels is not None
            self.head = HEADS[shape.head](shape.base, shape.classifier, shape.num_labels)
        self.pair_head = ClassificationHead(shape.base, PAIR_HEAD, 2) if shape.pair_head else None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.base.embedding.weight.device

    def hidden(self, batch: Batch) -> Tensor:
        """The base's vectors for a flat batch, N x D."""
        limit = self.shape.base.max_position_embeddings
        longest = batch.longest or limit
        if longest > limit:
            raise SettingError(f"A sequence of {longest} tokens is longer than the base's limit of {limit}.")
        layout = SequenceLayout(
            batch.lengths, batch.lengths_B, num_tokens=batch.num_tokens, longest=longest,
            causal=self.shape.direction == "causal",
        )  # fmt: skip
        return self.base(batch.ids_N, layout, batch.segments_N)

    def forward(self, batch: Batch) -> Tensor:
        """The head's scores: a row a sequence for classification, a row a token for the others."""
        hidden_ND = self.hidden(batch)
        return self.name_tokens(hidden_ND) if isinstance(self.head, LanguageModelHead) else self.head(hidden_ND, batch)

    def name_tokens(self, hidden_ND: Tensor) -> Tensor:
        """The language model's scores of every token of the vocabulary, for vectors that the base has made."""
        assert isinstance(self.head, LanguageModelHead)
        return self.head(hidden_ND, self.base.embedding.weight)


def lay_out(shape: ModelShape, *, device: str = "meta") -> TextModel:
    """A model to be filled, by default without memory for its values; no initialisers are run for nothing."""
    with torch.device(device), _without_initialisers():
        return TextModel(shape)


@contextmanager
def _without_initialisers() -> Iterator[None]:
    """On the meta device they would import a compiler, a second and more for a prediction."""
    kinds: tuple[Any, ...] = (nn.Linear, nn.Embedding, nn.LayerNorm)
    before = [kind.reset_parameters for kind in kinds]
    try:
        for kind in kinds:
            kind.reset_parameters = lambda self: None
        yield
    finally:
        for kind, method in zip(kinds, before, strict=True):
            kind.reset_parameters = method


def build_model(shape: ModelShape, *, seed: int) -> TextModel:
    """A fresh model on the CPU; every tensor is drawn from its own stream, named by the tensor."""
    model = lay_out(shape, device="cpu")
    initialize(model, shape.base, seed=seed)
    return model.eval()


@torch.no_grad()
def merged(model: TextModel) -> TextModel:
    """A plain model with the adapters added into the weights: the same outputs, nothing beside the matrices."""
    plain = lay_out(model.shape.changed(lora=None))
    state = {name: tensor for name, tensor in model.state_dict().items() if not is_adapter(name)}
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            state[f"{name}.weight"] = module.merged()
    plain.load_state_dict(state, assign=True)
    return plain.eval()
