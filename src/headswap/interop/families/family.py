"""What a family of checkpoints declares: its config and its tensor map.

A map is a list of entries, each with one tensor of ours and the tensors of theirs that it is made of. The same entries
are used to read a checkpoint and to write one. Nothing of transformers is imported or wrapped.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from headswap.core.errors import InputError
from headswap.model.shape import Activation, BaseShape, Direction, HeadShape, HeadTransform
from headswap.model.text_model import ModelShape

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}
"""Their names of activations; those that are missing here are not supported."""


@dataclass(frozen=True)
class Entry:
    """One tensor of ours, and the tensors of theirs that are concatenated to it."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    """Whether their matrices are stored as input x output (GPT-2)."""
    unused_rows: int = 0
    """Rows at the beginning of their tensor that no token uses (RoBERTa's positions)."""
    sizes: tuple[int, ...] | None = None
    """Rows of each of their tensors; None: all have the same number."""

    def read(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Our tensor, from theirs."""
        parts = [tensors[name].T if self.transposed else tensors[name] for name in self.theirs]
        return torch.cat(parts)[self.unused_rows :].contiguous()

    def write(self, tensor: Tensor) -> dict[str, Tensor]:
        """Their tensors, from ours."""
        if self.unused_rows:
            tensor = torch.cat((tensor.new_zeros(self.unused_rows, *tensor.shape[1:]), tensor))
        parts = tensor.split(list(self.sizes)) if self.sizes else tensor.chunk(len(self.theirs))
        return {
            name: (part.T if self.transposed else part).clone(memory_format=torch.contiguous_format)
            for name, part in zip(self.theirs, parts, strict=True)
        }


def both(ours: str, theirs: str, *, has_bias: bool = True, **options: Any) -> Iterator[Entry]:
    """The entries of a layer with weight and bias; several of their layers are separated by blanks."""
    for part in ("weight", "bias") if has_bias else ("weight",):
        names = tuple(f"{name}.{part}" for name in theirs.split())
        yield Entry(f"{ours}.{part}", names, **(options if part == "weight" else {**options, "transposed": False}))


class Family(ABC):
    """One kind of checkpoint."""

    name: ClassVar[str]
    """The name in messages."""
    model_types: ClassVar[tuple[str, ...]]
    """Values of `model_type` in config.json; the first is written."""
    prefix: ClassVar[str]
    """What the names of the base's tensors begin with, in checkpoints that have a head."""
    direction: ClassVar[Direction]
    classes: ClassVar[tuple[str, ...]]
    """What the names of its classes begin with; the first is written."""
    endings: ClassVar[Mapping[str, str]]
    """How the names of its classes end, and the kind of head of each; the first of a kind is written."""
    ignored: ClassVar[tuple[str, ...]] = ()
    """Regular expressions of tensors that are not used: buffers, and poolers of language models."""
    duplicates: ClassVar[Mapping[str, str]] = {}
    """Names under which a tensor is stored a second time if the head is tied, and the first name."""
    prefixes: ClassVar[Mapping[str, str]] = {}
    """The prefix in stock classes that have another one, by kind of head."""
    special_tokens: ClassVar[Mapping[str, str]] = {}
    """The usual special tokens, by their names in transformers. Old checkpoints do not name them in any file."""

    @abstractmethod
    def base_shape(self, config: "CheckpointConfig") -> BaseShape:
        """The shape that a config.json describes; what our base cannot express is an `InputError`."""

    @abstractmethod
    def base_entries(self, shape: BaseShape) -> Iterator[Entry]:
        """The tensors of the base."""

    @abstractmethod
    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head; a tied language modelling head has none."""

    def stock_head(self, config: "CheckpointConfig", kind: str) -> HeadShape:
        """How the stock class for a kind of head pools and scores: causal ones score the last token, without a bias."""
        dropout = config.get("classifier_dropout", config.get("hidden_dropout", 0.1)) if kind == "tag" else 0.0
        return HeadShape(pooling="last", head_bias=kind != "classify", head_dropout=dropout)

    @abstractmethod
    def config_entries(self, shape: ModelShape) -> dict[str, Any]:
        """The entries of config.json that describe a model of this shape."""

    def missing_tensors(self, shape: BaseShape) -> dict[str, tuple[int, ...]]:
        """Sizes of tensors of zeros that the stock class has and our base does not."""
        del shape
        return {}

    def kinds(self) -> dict[str, str]:
        """The names of all classes of the family, with the kind of head of each."""
        return {f"{name}{ending}": kind for name in self.classes for ending, kind in self.endings.items()}

    def stock_class(self, kind: str) -> str | None:
        """The class for a kind of head; None if there is none."""
        return next((name for name, own in self.kinds().items() if own == kind), None)

    def layer_obstacles(self, base: BaseShape) -> Iterator[str]:
        """What layers with biases, LayerNorm and one activation cannot express."""
        if base.activation == "swiglu":
            yield f"activation is swiglu; {self.name} has layers of one activation (--activation gelu)"
        if not base.bias:
            yield "its layers have no biases"
        if base.normalization != "layer":
            yield f"its norms are RMSNorm; {self.name} has LayerNorm (--normalization layer)"
        if base.num_shared_heads != base.num_attention_heads:
            yield "query heads share their keys and values"
        if base.embedding_scale:
            yield "its embeddings are scaled"

    def position_obstacles(self, base: BaseShape, positions: str) -> Iterator[str]:
        """What a family with one kind of positions cannot express."""
        if base.positions != positions:
            yield f"positions is {base.positions}; {self.name} has {positions} positions (--positions {positions})"

    def pre_norm_obstacles(self, shape: ModelShape) -> Iterator[str]:
        """What norms before the blocks, one embedding per token and a plain language modelling head cannot express."""
        base = shape.base
        if base.norm != "pre" or not base.final_norm or base.embedding_norm:
            yield "its norms are not before each block and after the last layer (--norm pre, --final-norm)"
        if base.type_vocab_size:
            yield "it has segment embeddings"
        if shape.head == "lm" and (base.lm_head_bias or base.lm_head_transform != "none"):
            yield "its language modelling head has a bias or a transform"

    @abstractmethod
    def obstacles(self, shape: ModelShape) -> Iterator[str]:
        """Sentences: which settings of a model this family cannot express, and what to use instead."""


class CheckpointConfig:
    """The config.json of a checkpoint; values that are not supported are collected."""

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.values, self.origin = values, origin

    def get(self, name: str, default: Any = None) -> Any:
        """A value, or the default where it is missing or null."""
        found = self.values.get(name)
        return default if found is None else found

    def number(self, *names: str) -> int:
        """A positive integer, under the first of several names that is present."""
        for name in names:
            found = self.values.get(name)
            if found is not None:
                if type(found) is not int or found < 1:
                    raise InputError(f"{self.origin}: {name} is {found!r}, which is not a positive number.")
                return found
        raise InputError(f"{self.origin} has no entry {names[0]}.")

    def must_be(self, name: str, *allowed: Any) -> None:
        """Raise unless a value is missing or one of those that our base can express."""
        if name in self.values and self.values[name] not in allowed:
            shown = " or ".join(map(repr, allowed))
            raise InputError(
                f"{self.origin}: {name} is {self.values[name]!r}; headswap can only read checkpoints with {shown}."
            )

    def activation(self, name: str, default: str) -> Activation:
        """The activation of the feed-forward layers."""
        found = self.get(name, default)
        if found not in ACTIVATIONS:
            raise InputError(
                f"{self.origin}: {name} is {found!r}; headswap can only read checkpoints with {', '.join(ACTIVATIONS)}."
            )
        return ACTIVATIONS[found]

    @property
    def architecture(self) -> str | None:
        """The class that wrote the checkpoint."""
        found = self.get("architectures")
        return str(found[0]) if isinstance(found, list) and found else None


def as_transform(activation: Activation) -> HeadTransform:
    """An activation of one layer as that of the transform before a language modelling head."""
    assert activation != "swiglu"
    return activation


def activation_name(activation: Activation) -> str:
    """Their name of an activation."""
    return {"gelu_tanh": "gelu_new"}.get(activation, activation)
