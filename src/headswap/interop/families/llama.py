"""Llama: rotary positions, RMSNorm before the blocks, SwiGLU, no biases. EuroBERT is its bidirectional twin."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headswap.core.errors import InputError
from headswap.interop.families.family import CheckpointConfig, Entry, Family, both
from headswap.model.shape import BaseShape, Direction, HeadShape
from headswap.model.text_model import ModelShape


class Llama(Family):
    """Llama, and Mistral without a sliding window."""

    name = "Llama"
    model_types: ClassVar[tuple[str, ...]] = ("llama", "mistral")
    prefix = "model."
    direction: ClassVar[Direction] = "causal"
    classes: ClassVar[tuple[str, ...]] = ("Llama", "Mistral")
    endings: ClassVar[Mapping[str, str]] = {
        "Model": "none", "ForCausalLM": "lm", "ForSequenceClassification": "classify", "ForTokenClassification": "tag",
        "ForQuestionAnswering": "span",
    }  # fmt: skip
    ignored = (r".*\.rotary_emb\.inv_freq",)
    duplicates: ClassVar[Mapping[str, str]] = {"lm_head.weight": "model.embed_tokens.weight"}
    prefixes: ClassVar[Mapping[str, str]] = {"span": "transformer."}
    tied_by_default = False
    default_eps: ClassVar[float] = 1e-6
    """`rms_norm_eps` where config.json has none."""

    def base_shape(self, config: CheckpointConfig) -> BaseShape:
        """The shape that a config.json describes."""
        config.must_be("hidden_act", "silu")
        config.must_be("attention_bias", False)
        config.must_be("mlp_bias", False)
        config.must_be("sliding_window", None)
        if config.get("model_type") == "mistral" and "sliding_window" not in config.values:
            raise InputError(
                f"{config.origin} has no entry sliding_window. transformers uses 4096 then, and headswap can only read "
                "checkpoints without a sliding window (null)."
            )
        heads, width = config.number("num_attention_heads"), config.number("hidden_size")
        if (found := config.get("head_dim")) is not None and found * heads != width:
            raise InputError(
                f"{config.origin}: head_dim is {found}; headswap can only read checkpoints in which "
                "it is hidden_size / num_attention_heads."
            )
        shared = config.get("num_key_value_heads", heads)
        return BaseShape(
            vocab_size=config.number("vocab_size"),
            hidden_size=width,
            num_hidden_layers=config.number("num_hidden_layers"),
            num_attention_heads=heads,
            num_key_value_heads=None if shared == heads else shared,
            intermediate_size=config.number("intermediate_size"),
            max_position_embeddings=config.number("max_position_embeddings"),
            rope_theta=_rope_theta(config),
            normalization="rms",
            activation="swiglu",
            bias=False,
            layer_norm_eps=config.get("rms_norm_eps", self.default_eps),
            tied_head=config.get("tie_word_embeddings", self.tied_by_default),
            attention_dropout=config.get("attention_dropout", 0.0),
        )

    def base_entries(self, shape: BaseShape) -> Iterator[Entry]:
        """The tensors of the base."""
        width, shared = shape.hidden_size, shape.num_shared_heads * shape.head_dim
        yield Entry("embedding.weight", ("model.embed_tokens.weight",))
        for index in range(shape.num_hidden_layers):
            ours, theirs = f"layers.{index}", f"model.layers.{index}"
            parts = tuple(f"{theirs}.self_attn.{part}_proj.weight" for part in "qkv")
            yield Entry(f"{ours}.attention.qkv.weight", parts, sizes=(width, shared, shared))
            for name, theirs_name in (
                ("attention_norm", "input_layernorm"), ("attention.output", "self_attn.o_proj"),
                ("feed_forward_norm", "post_attention_layernorm"), ("feed_forward.gate", "mlp.gate_proj"),
                ("feed_forward.up", "mlp.up_proj"), ("feed_forward.down", "mlp.down_proj"),
            ):  # fmt: skip
                yield from both(f"{ours}.{name}", f"{theirs}.{theirs_name}", has_bias=False)
        yield from both("final_norm", "model.norm", has_bias=False)

    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head."""
        if shape.head == "lm":
            if not shape.base.tied_head:
                yield Entry("weight", ("lm_head.weight",))
        elif shape.head == "span":
            yield from both("output", "qa_outputs")
        else:
            yield from both("output", "score", has_bias=shape.head == "tag")

    def config_entries(self, shape: ModelShape) -> dict[str, Any]:
        """The entries of config.json."""
        base = shape.base
        return {
            "hidden_size": base.hidden_size,
            "num_hidden_layers": base.num_hidden_layers,
            "num_attention_heads": base.num_attention_heads,
            "num_key_value_heads": base.num_shared_heads,
            "intermediate_size": base.intermediate_size,
            "max_position_embeddings": base.max_position_embeddings,
            "rope_theta": base.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": base.rope_theta},
            "rms_norm_eps": base.layer_norm_eps,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": base.dropout if base.attention_dropout is None else base.attention_dropout,
            "classifier_dropout": shape.classifier.head_dropout,
        }

    def obstacles(self, shape: ModelShape) -> Iterator[str]:
        """What Llama cannot express."""
        base = shape.base
        if shape.direction != self.direction:
            yield f"its attention is {shape.direction}; {self.name}'s is {self.direction}"
        yield from self.position_obstacles(base, "rotary")
        if base.normalization != "rms":
            yield f"its norms are LayerNorm; {self.name} has RMSNorm (--preset llama)"
        if base.activation != "swiglu" or base.bias:
            yield "its feed-forward layers are not SwiGLU without biases (--preset llama)"
        if base.embedding_scale:
            yield "its embeddings are scaled"
        yield from self.pre_norm_obstacles(shape)


class EuroBert(Llama):
    """EuroBERT: Llama's layers with attention in both directions."""

    name = "EuroBERT"
    model_types = ("eurobert",)
    direction = "bidirectional"
    default_eps = 1e-5
    classes = ("EuroBert",)
    endings: ClassVar[Mapping[str, str]] = {
        "Model": "none", "ForMaskedLM": "lm", "ForSequenceClassification": "classify", "ForTokenClassification": "tag",
    }  # fmt: skip

    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head."""
        if shape.head == "lm":
            yield from super().head_entries(shape)
            return
        if shape.head == "classify":
            yield from both("hidden", "dense")
        yield from both("output", "classifier")

    def stock_head(self, config: CheckpointConfig, kind: str) -> HeadShape:
        """The classifier scores the mean, or the first token, after a layer with gelu."""
        if kind != "classify":
            return HeadShape(head_dropout=0.0)
        # An empty config asks for the head that is written. A config.json without the entry means "late".
        found = config.get("classifier_pooling", "late" if config.values else "mean")
        if found not in ("mean", "bos"):
            raise InputError(
                f"{config.origin}: classifier_pooling is {found!r}; headswap can only read checkpoints with 'mean' or "
                "'bos'."
            )
        pooling = "first" if found == "bos" else "mean"
        return HeadShape(pooling=pooling, head_hidden="gelu", head_dropout=0.0)

    def config_entries(self, shape: ModelShape) -> dict[str, Any]:
        """The entries of config.json."""
        pooling = {"classifier_pooling": "mean"} if shape.head == "classify" else {}
        return {**super().config_entries(shape), **pooling}


def _rope_theta(config: CheckpointConfig) -> float:
    """The base of the frequencies; scaled frequencies are not supported."""
    config.must_be("rope_scaling", None)
    found = config.get("rope_parameters", {})
    if found.get("rope_type", "default") != "default":
        raise InputError(
            f"{config.origin}: rope_type is {found['rope_type']!r}; headswap can only read checkpoints with unscaled "
            "rotary positions ('default')."
        )
    return float(config.get("rope_theta", found.get("rope_theta", 10_000.0)))
