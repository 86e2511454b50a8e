"""A base with a head, and how such a model is built from a seed.

`TextModel` is what is trained, saved and used. The objective chooses the attention direction; it is part of the model,
since a model that was trained with causal attention must keep it. A batch can have another direction, for a base that
is trained in both.
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
from headswap.model.heads import ClassificationHead, LanguageModelHead, TaskHead
from headswap.model.initialize import initialize
from headswap.model.lora import LoraLinear, add_adapters, is_adapter
from headswap.model.shape import BaseShape, Direction, HeadShape, LoraShape
from headswap.registry import HEADS, HeadKind

PAIR_HEAD = HeadShape(pooling="first", head_hidden="tanh", head_dropout=0.0)
"""As in BERT: a square layer with tanh on the first token's vector."""


class ModelShape(Settings):
    """Everything that is needed to build and run a model."""

    base: BaseShape
    direction: Direction = "causal"
    head: HeadKind = "lm"
    num_labels: int | None = None
    classifier: HeadShape = HeadShape()
    pair_head: bool = False
    """A second head, which classifies whether two segments are consecutive and in order."""
    lora: LoraShape | None = None
    """LoRA adapters of the base's matrices."""


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
            self.head = HEADS.load(shape.head)(shape.base, shape.classifier, shape.num_labels)
        self.pair_head = ClassificationHead(shape.base, PAIR_HEAD, 2) if shape.pair_head else None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.base.embedding.weight.device

    @property
    def sequences_per_target(self) -> int:
        """How many sequences of a batch have one row of scores together, if scores are not per token."""
        return self.head.sequences_per_target if isinstance(self.head, TaskHead) else 1

    def hidden(self, batch: Batch) -> Tensor:
        """The base's vectors for a flat batch, N x D."""
        limit = self.shape.base.max_position_embeddings
        longest = batch.longest or limit
        if longest > limit:
            raise SettingError(f"A sequence of {longest} tokens is longer than the base's limit of {limit}.")
        layout = SequenceLayout(
            batch.lengths, batch.lengths_B, num_tokens=batch.num_tokens, longest=longest,
            causal=self.shape.direction == "causal" if batch.is_causal is None else batch.is_causal,
        )  # fmt: skip
        return self.base(batch.ids_N, layout, batch.segments_N, noise_ND=batch.noise_ND)

    def forward(self, batch: Batch) -> Tensor:
        """The head's scores: one row per sequence for classification, one row per token for other heads."""
        hidden_ND = self.hidden(batch)
        return self.token_logits(hidden_ND) if isinstance(self.head, LanguageModelHead) else self.head(hidden_ND, batch)

    def token_logits(self, hidden_ND: Tensor) -> Tensor:
        """Logits over the vocabulary for vectors of the base, N x V."""
        assert isinstance(self.head, LanguageModelHead)
        return self.head(hidden_ND, self.base.embedding.weight)


def build_empty(shape: ModelShape, *, device: str = "meta") -> TextModel:
    """A model without values, by default on the meta device (no memory); PyTorch's initialisers are skipped."""
    with torch.device(device), _without_initialisers():
        return TextModel(shape)


@contextmanager
def _without_initialisers() -> Iterator[None]:
    """On the meta device they would import a compiler, which takes more than a second."""
    kinds: tuple[Any, ...] = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm)
    before = [kind.reset_parameters for kind in kinds]
    try:
        for kind in kinds:
            kind.reset_parameters = lambda self: None
        yield
    finally:
        for kind, method in zip(kinds, before, strict=True):
            kind.reset_parameters = method


def build_model(shape: ModelShape, *, seed: int) -> TextModel:
    """A new model on the CPU; each tensor has its own random stream, named by the tensor."""
    model = build_empty(shape, device="cpu")
    initialize(model, shape.base, seed=seed)
    return model.eval()


@torch.no_grad()
def merged(model: TextModel) -> TextModel:
    """A model without adapters and with the same outputs: the adapters are added to the weights."""
    plain = build_empty(model.shape.changed(lora=None))
    state = {name: tensor for name, tensor in model.state_dict().items() if not is_adapter(name)}
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            state[f"{name}.weight"] = module.merged()
    plain.load_state_dict(state, assign=True)
    return plain.eval()
