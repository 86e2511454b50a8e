"""DistilBERT: BERT's layers without segment embeddings, under other names."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headswap.interop.families.bert import Bert, masked_head
from headswap.interop.families.family import CheckpointConfig, Entry, as_transform, both
from headswap.model.shape import BaseShape, HeadShape
from headswap.model.text_model import ModelShape


class DistilBert(Bert):
    """DistilBERT."""

    name = "DistilBERT"
    model_types = ("distilbert",)
    prefix = "distilbert."
    direction = "bidirectional"
    classes = ("DistilBert",)
    endings: ClassVar[Mapping[str, str]] = {
        "Model": "none", "ForMaskedLM": "lm", "ForSequenceClassification": "classify", "ForTokenClassification": "tag",
        "ForQuestionAnswering": "span",
    }  # fmt: skip
    ignored = ()
    duplicates: ClassVar[Mapping[str, str]] = {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}

    def base_shape(self, config: CheckpointConfig) -> BaseShape:
        """The shape that a config.json describes."""
        return BaseShape(
            vocab_size=config.number("vocab_size"),
            hidden_size=config.number("dim", "hidden_size"),
            num_hidden_layers=config.number("n_layers", "num_hidden_layers"),
            num_attention_heads=config.number("n_heads", "num_attention_heads"),
            intermediate_size=config.number("hidden_dim"),
            max_position_embeddings=config.number("max_position_embeddings"),
            positions="learned",
            norm="post",
            final_norm=False,
            activation=config.activation("activation", "gelu"),
            embedding_norm=True,
            layer_norm_eps=1e-12,
            tied_head=config.get("tie_word_embeddings", True),
            lm_head_bias=True,
            lm_head_transform=as_transform(config.activation("activation", "gelu")),
            dropout=config.get("dropout", 0.1),
            attention_dropout=config.get("attention_dropout", 0.1),
            initialization="normal",
        )

    def base_entries(self, shape: BaseShape) -> Iterator[Entry]:
        """The tensors of the base."""
        yield Entry("embedding.weight", ("distilbert.embeddings.word_embeddings.weight",))
        yield Entry("position_embedding.weight", ("distilbert.embeddings.position_embeddings.weight",))
        yield from both("embedding_norm", "distilbert.embeddings.LayerNorm")
        for index in range(shape.num_hidden_layers):
            ours, theirs = f"layers.{index}", f"distilbert.transformer.layer.{index}"
            attention = f"{theirs}.attention"
            yield from both(f"{ours}.attention.qkv", f"{attention}.q_lin {attention}.k_lin {attention}.v_lin")
            yield from both(f"{ours}.attention.output", f"{attention}.out_lin")
            yield from both(f"{ours}.attention_norm", f"{theirs}.sa_layer_norm")
            yield from both(f"{ours}.feed_forward.up", f"{theirs}.ffn.lin1")
            yield from both(f"{ours}.feed_forward.down", f"{theirs}.ffn.lin2")
            yield from both(f"{ours}.feed_forward_norm", f"{theirs}.output_layer_norm")

    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head."""
        if shape.head == "lm":
            projector = "vocab_projector"
            yield from masked_head(shape, "vocab_transform", "vocab_layer_norm", projector, projector)
        elif shape.head == "classify":
            yield from both("hidden", "pre_classifier")
            yield from both("output", "classifier")
        else:
            yield from both("output", "classifier" if shape.head == "tag" else "qa_outputs")

    def stock_head(self, config: CheckpointConfig, kind: str) -> HeadShape:
        """The classifier scores the first token after a layer with relu."""
        if kind == "classify":
            return HeadShape(pooling="first", head_hidden="relu", head_dropout=config.get("seq_classif_dropout", 0.2))
        return HeadShape(head_dropout=config.get("dropout" if kind == "tag" else "qa_dropout", 0.1))

    def config_entries(self, shape: ModelShape) -> dict[str, Any]:
        """The entries of config.json."""
        base = shape.base
        dropout = shape.classifier.head_dropout
        return {
            "dim": base.hidden_size,
            "n_layers": base.num_hidden_layers,
            "n_heads": base.num_attention_heads,
            "hidden_dim": base.intermediate_size,
            "max_position_embeddings": base.max_position_embeddings,
            "activation": base.activation,
            "dropout": base.dropout,
            "attention_dropout": base.dropout if base.attention_dropout is None else base.attention_dropout,
            "seq_classif_dropout": dropout,
            "qa_dropout": dropout,
        }

    def missing_tensors(self, shape: BaseShape) -> dict[str, tuple[int, ...]]:
        """None: its stock class has no segment embeddings."""
        return {}

    def obstacles(self, shape: ModelShape) -> Iterator[str]:
        """What DistilBERT cannot express."""
        base = shape.base
        yield from super().obstacles(shape)
        if base.activation == "gelu_tanh":
            yield "activation is gelu_tanh; DistilBERT has gelu or relu (--activation gelu)"
        if base.layer_norm_eps != 1e-12:
            yield f"layer_norm_eps is {base.layer_norm_eps:g}; DistilBERT's is 1e-12"
        if base.type_vocab_size:
            yield "it has segment embeddings (--type-vocab-size 0)"
