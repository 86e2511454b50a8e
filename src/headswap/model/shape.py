"""Shapes of bases and heads, and the named presets. Does not import torch.

A preset defines everything about the base except the vocabulary, which the tokenizer defines. `ModelSettings` has the
settings for flags and recipes: a preset and the values that differ from it.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from headswap.core.errors import SettingError
from headswap.core.settings import Settings

Positions = Literal["sinusoidal", "learned", "rotary"]
Norm = Literal["pre", "post"]
Normalization = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swiglu"]
Initialization = Literal["lab", "normal", "normal_scaled"]
Preset = Literal["lab", "small", "modern", "llama", "gpt2-small", "bert-base"]
Direction = Literal["causal", "bidirectional"]
HeadTransform = Literal["none", "relu", "gelu", "gelu_tanh"]
HeadHidden = Literal["none", "tanh", "relu", "gelu"]
HeadNorm = Literal["none", "layer"]
HeadSimilarity = Literal["dot", "cosine"]
Pooling = Literal["last", "mean", "first", "max", "mean+max", "weighted-mean"]
FORMER_POOLINGS: dict[str, Pooling] = {"later": "weighted-mean"}

Count = Annotated[int, Field(ge=1, le=10**8)]
Layers = Annotated[int, Field(ge=1, le=10_000)]
Share = Annotated[float, Field(ge=0, lt=1)]


class BaseShape(Settings):
    """Everything that defines the tensors of a base and its computation."""

    vocab_size: Count
    hidden_size: Count
    num_hidden_layers: Layers
    num_attention_heads: Count
    intermediate_size: Count
    max_position_embeddings: Count
    positions: Positions = "rotary"
    rope_theta: Annotated[float, Field(gt=0)] = 10_000.0
    """Base of the frequencies of rotary positions."""
    num_key_value_heads: Count | None = None
    """Heads of keys and values, each shared by several query heads; None: as many as query heads."""
    norm: Norm = "pre"
    normalization: Normalization = "layer"
    """layer: LayerNorm. rms: RMSNorm, which has no bias."""
    final_norm: bool = True
    activation: Activation = "gelu"
    bias: bool = True
    embedding_norm: bool = False
    embedding_scale: bool = False
    type_vocab_size: Annotated[int, Field(ge=0)] = 0
    layer_norm_eps: float = 1e-5
    tied_head: bool = True
    lm_head_bias: bool = False
    lm_head_transform: HeadTransform = "none"
    """A square layer with this activation and a norm before the language modelling head, as in BERT."""
    dropout: Share = 0.0
    attention_dropout: Share | None = None
    """Dropout on attention weights; None: as `dropout`. Attention without padding (CUDA) requires 0."""
    initialization: Initialization = "normal_scaled"

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def num_shared_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    def model_post_init(self, _context: object) -> None:
        """Check that the widths are divisible as the attention heads and positions require."""
        if self.hidden_size % self.num_attention_heads:
            raise SettingError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}."
            )
        if self.num_attention_heads % self.num_shared_heads:
            raise SettingError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of num_key_value_heads "
                f"{self.num_shared_heads}."
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise SettingError(f"Rotary positions need an even head width; {self.head_dim} is odd.")
        if self.positions == "sinusoidal" and self.hidden_size % 2:
            raise SettingError(f"Sinusoidal positions need an even hidden_size; {self.hidden_size} is odd.")


class HeadShape(Settings):
    """How a head uses the base's vectors."""

    pooling: Pooling = "mean"
    """How the token vectors of a text become one vector: last, mean, first, max, mean+max (both, concatenated), or
    weighted-mean (token i has weight i). The heads tag and span do not use it."""
    head_norm: HeadNorm = "none"
    """How the vector of a text is normalised before the head reads it: none, or layer (to mean 0 and variance 1, as a
    layer norm without weights does). The heads tag and span do not use it."""
    head_hidden: HeadHidden = "none"
    """Hidden layer between text vector and class layer: none, or a square layer with tanh (as in BERT), relu (as in
    DistilBERT) or gelu (as in EuroBERT)."""
    head_bias: bool = True
    """Whether the class layer has a bias."""
    head_dropout: Share = 0.1
    """Dropout on the input of the class layer."""
    head_similarity: HeadSimilarity = "dot"
    """How a classifier scores labels: dot (dot product of the text vector and the weights of the label), or cosine
    (16 times their cosine; the lengths of the two vectors have no effect)."""

    @field_validator("pooling", mode="before")
    @classmethod
    def _current_name(cls, pooling: object) -> object:
        """Accept former names, which older bundles, recipes and run folders contain."""
        return FORMER_POOLINGS.get(pooling, pooling) if isinstance(pooling, str) else pooling


LoraTarget = Literal["qkv", "output", "gate", "up", "down"]
LORA_TARGETS: tuple[LoraTarget, ...] = get_args(LoraTarget)


class LoraShape(Settings):
    """Rank, scale and target matrices of LoRA adapters."""

    rank: Count
    alpha: Annotated[float, Field(gt=0)]
    targets: tuple[LoraTarget, ...] = LORA_TARGETS


PRESETS: dict[str, dict[str, object]] = {
    # The lab's model exactly: PyTorch's encoder layer defaults, see docs/concepts.md.
    "lab": {
        "hidden_size": 200, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 200,
        "max_position_embeddings": 512, "positions": "sinusoidal", "norm": "post", "final_norm": False,
        "activation": "relu", "embedding_scale": True, "tied_head": False, "lm_head_bias": True,
        "initialization": "lab",
    },
    "small": {
        "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 1024,
        "max_position_embeddings": 512, "attention_dropout": 0.0,
    },
    "modern": {
        "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 1408,
        "max_position_embeddings": 512, "activation": "swiglu", "bias": False, "attention_dropout": 0.0,
    },
    # Llama's shape: as modern, with RMSNorm instead of LayerNorm without bias.
    "llama": {
        "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 1408,
        "max_position_embeddings": 512, "activation": "swiglu", "bias": False, "normalization": "rms",
        "attention_dropout": 0.0,
    },
    "gpt2-small": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "max_position_embeddings": 1024, "positions": "learned", "activation": "gelu_tanh", "dropout": 0.1,
    },
    "bert-base": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "max_position_embeddings": 512, "positions": "learned", "norm": "post", "final_norm": False,
        "embedding_norm": True, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "lm_head_bias": True,
        "dropout": 0.1, "initialization": "normal",
    },
}  # fmt: skip
PRESET_VOCAB_SIZES = {
    "lab": 50_001, "small": 16_000, "modern": 16_000, "llama": 16_000, "gpt2-small": 50_257, "bert-base": 30_522,
}  # fmt: skip
DEFAULT_PRESET: Preset = "small"
FITTED_DROPOUT: frozenset[str] = frozenset({"small", "modern", "llama"})
"""Presets whose dropout in pre-training depends on the number of epochs."""
assert set(PRESETS) == set(get_args(Preset)) == set(PRESET_VOCAB_SIZES)


class ShapeChanges(Settings):
    """Values of a base that differ from its preset."""

    hidden_size: Count | None = None
    """Width of the base. Default: that of the preset."""
    num_hidden_layers: Layers | None = None
    """Number of layers. Default: that of the preset."""
    num_attention_heads: Count | None = None
    """Number of attention heads per layer. Default: that of the preset."""
    intermediate_size: Count | None = None
    """Width of the feed-forward layers. Default: that of the preset."""
    positions: Positions | None = None
    """Position encoding: sinusoidal, learned or rotary. Default: that of the preset."""
    norm: Norm | None = None
    """Place of the norms in a layer: pre (on the input of attention and of the feed-forward block, as in GPT-2) or post
    (after each residual sum, as in BERT). Default: post with lab and bert-base, pre with other presets."""
    normalization: Normalization | None = None
    """Kind of all norms: layer (LayerNorm) or rms (RMSNorm). Default: rms with llama, layer with other presets."""
    final_norm: bool | None = None
    """Whether there is a norm after the last layer. Default: off with lab and bert-base, on with other presets."""
    activation: Activation | None = None
    """Activation of the feed-forward layers. Default: that of the preset."""
    embedding_norm: bool | None = None
    """Whether there is a norm on the sum of the embeddings. Default: on with bert-base, off with other presets."""
    type_vocab_size: Annotated[int, Field(ge=0)] | None = None
    """Number of segment (token type) embeddings. Default: 2 with bert-base and in pre-training with masked+nsp or
    masked+sop, otherwise 0."""
    tied_head: bool | None = None
    """Whether the language modelling head shares the weights of the embedding. Default: off with lab, on with other
    presets."""
    lm_head_transform: HeadTransform | None = None
    """A layer with this activation and a norm before the language modelling head, as in BERT: none, relu, gelu or
    gelu_tanh. Default: none."""
    dropout: Share | None = None
    """Dropout on embeddings and residual branches. For attention see attention_dropout. Default: 0.1 with
    gpt2-small and bert-base, otherwise 0; but small, modern and llama with --objective causal have 0.1 above 4
    epochs and 0.2 above 10 (0.1 if Muon is chosen automatically, see --optimizer)."""
    attention_dropout: Share | None = None
    """Dropout on attention weights. Default: 0 in the presets small, modern and llama; in other presets that of
    --dropout."""

    def laid_over(self, preset: Preset, *, vocab_size: int, max_length: int | None) -> BaseShape:
        """The full shape for a vocabulary; `max_length` replaces the preset's number of positions."""
        changes = self.model_dump(include=set(ShapeChanges.model_fields), exclude_none=True)
        values = {"vocab_size": vocab_size, **PRESETS[preset], **changes}
        if max_length is not None:
            values["max_position_embeddings"] = max_length
        return BaseShape.model_validate(values)


class ModelSettings(ShapeChanges):
    """A preset and the values that differ from it."""

    preset: Preset = DEFAULT_PRESET
    """Shape of the new base: lab (4 layers of width 200), small (6 of width 256), modern (6 of width 512), llama (as
    modern, with RMSNorm), gpt2-small or bert-base (12 of width 768)."""

    def shape(self, *, vocab_size: int, max_length: int | None = None) -> BaseShape:
        """The full shape for a vocabulary; `max_length` replaces the preset's number of positions."""
        return self.laid_over(self.preset, vocab_size=vocab_size, max_length=max_length)
