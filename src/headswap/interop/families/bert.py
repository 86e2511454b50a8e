"""BERT and RoBERTa: learned positions, norms after the blocks, separate query, key and value matrices.

RoBERTa (also CamemBERT and XLM-R) differs in the names of its heads and in its positions, of which the first two are
unused.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headswap.interop.families.family import CheckpointConfig, Entry, Family, activation_name, as_transform, both
from headswap.model.shape import BaseShape, HeadShape, HeadTransform
from headswap.model.text_model import ModelShape

BERT_TOKENS = {
    "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]",
}  # fmt: skip


def masked_head(shape: ModelShape, dense: str, norm: str, bias: str, decoder: str) -> Iterator[Entry]:
    """The tensors of a language modelling head with a transform, from the names of its parts."""
    yield from both("dense", dense)
    yield from both("norm", norm)
    yield Entry("bias", (f"{bias}.bias",))
    if not shape.base.tied_head:
        yield Entry("weight", (f"{decoder}.weight",))


class Bert(Family):
    """BERT, and checkpoints of its shape such as MiniLM."""

    name = "BERT"
    model_types: ClassVar[tuple[str, ...]] = ("bert",)
    prefix = "bert."
    direction = "bidirectional"
    classes: ClassVar[tuple[str, ...]] = ("Bert",)
    endings: ClassVar[Mapping[str, str]] = {
        "Model": "none", "ForMaskedLM": "lm", "ForPreTraining": "lm", "ForSequenceClassification": "classify",
        "ForTokenClassification": "tag", "ForQuestionAnswering": "span",
    }  # fmt: skip
    ignored: ClassVar[tuple[str, ...]] = (r".*\.position_ids", r"bert\.pooler\..*", r"cls\.seq_relationship\..*")
    duplicates: ClassVar[Mapping[str, str]] = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    unused_positions = 0
    special_tokens: ClassVar[Mapping[str, str]] = BERT_TOKENS

    def base_shape(self, config: CheckpointConfig) -> BaseShape:
        """The shape that a config.json describes."""
        config.must_be("position_embedding_type", "absolute", None)
        config.must_be("is_decoder", False)
        config.must_be("add_cross_attention", False)
        return BaseShape(
            vocab_size=config.number("vocab_size"),
            hidden_size=config.number("hidden_size"),
            num_hidden_layers=config.number("num_hidden_layers"),
            num_attention_heads=config.number("num_attention_heads"),
            intermediate_size=config.number("intermediate_size"),
            max_position_embeddings=config.number("max_position_embeddings") - self.unused_positions,
            positions="learned",
            norm="post",
            final_norm=False,
            activation=config.activation("hidden_act", "gelu"),
            embedding_norm=True,
            type_vocab_size=config.get("type_vocab_size", 2),
            layer_norm_eps=config.get("layer_norm_eps", 1e-12),
            tied_head=config.get("tie_word_embeddings", True),
            lm_head_bias=True,
            lm_head_transform=self.transform_of(config),
            dropout=config.get("hidden_dropout_prob", 0.1),
            attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
            initialization="normal",
        )

    def transform_of(self, config: CheckpointConfig) -> HeadTransform:
        """The activation before the language modelling head."""
        return as_transform(config.activation("hidden_act", "gelu"))

    def base_entries(self, shape: BaseShape) -> Iterator[Entry]:
        """The tensors of the base."""
        embeddings = f"{self.prefix}embeddings"
        yield Entry("embedding.weight", (f"{embeddings}.word_embeddings.weight",))
        positions = (f"{embeddings}.position_embeddings.weight",)
        yield Entry("position_embedding.weight", positions, unused_rows=self.unused_positions)
        if shape.type_vocab_size:
            yield Entry("segment_embedding.weight", (f"{embeddings}.token_type_embeddings.weight",))
        yield from both("embedding_norm", f"{embeddings}.LayerNorm")
        for index in range(shape.num_hidden_layers):
            ours, theirs = f"layers.{index}", f"{self.prefix}encoder.layer.{index}"
            attention = f"{theirs}.attention.self"
            yield from both(f"{ours}.attention.qkv", f"{attention}.query {attention}.key {attention}.value")
            yield from both(f"{ours}.attention.output", f"{theirs}.attention.output.dense")
            yield from both(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm")
            yield from both(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense")
            yield from both(f"{ours}.feed_forward.down", f"{theirs}.output.dense")
            yield from both(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm")

    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head."""
        if shape.head == "lm":
            head = "cls.predictions"
            parts = f"{head}.transform.dense", f"{head}.transform.LayerNorm", head, f"{head}.decoder"
            yield from masked_head(shape, *parts)
        elif shape.head == "classify":
            yield from both("hidden", f"{self.prefix}pooler.dense")
            yield from both("output", "classifier")
        else:
            yield from both("output", "classifier" if shape.head == "tag" else "qa_outputs")

    def stock_head(self, config: CheckpointConfig, kind: str) -> HeadShape:
        """The classifier scores the first token after a layer with tanh, the pooler."""
        dropout = config.get("classifier_dropout", config.get("hidden_dropout_prob", 0.1))
        if kind == "classify":
            return HeadShape(pooling="first", head_hidden="tanh", head_dropout=dropout)
        return HeadShape(head_dropout=dropout if kind == "tag" else 0.0)

    def config_entries(self, shape: ModelShape) -> dict[str, Any]:
        """The entries of config.json."""
        base = shape.base
        return {
            "hidden_size": base.hidden_size,
            "num_hidden_layers": base.num_hidden_layers,
            "num_attention_heads": base.num_attention_heads,
            "intermediate_size": base.intermediate_size,
            "max_position_embeddings": base.max_position_embeddings + self.unused_positions,
            "hidden_act": activation_name(base.activation),
            "type_vocab_size": max(1, base.type_vocab_size),
            "layer_norm_eps": base.layer_norm_eps,
            "hidden_dropout_prob": base.dropout,
            "attention_probs_dropout_prob": base.dropout if base.attention_dropout is None else base.attention_dropout,
            "classifier_dropout": shape.classifier.head_dropout,
        }

    def missing_tensors(self, shape: BaseShape) -> dict[str, tuple[int, ...]]:
        """A base without segment embeddings is written with one of zeros."""
        name = f"{self.prefix}embeddings.token_type_embeddings.weight"
        return {} if shape.type_vocab_size else {name: (1, shape.hidden_size)}

    def obstacles(self, shape: ModelShape) -> Iterator[str]:
        """What BERT cannot express."""
        base = shape.base
        if shape.direction != "bidirectional":
            yield f"its attention is causal; {self.name}'s is bidirectional (--objective masked)"
        yield from self.position_obstacles(base, "learned")
        if base.norm != "post" or base.final_norm or not base.embedding_norm:
            yield "its norms are not on the embeddings and after each block (--norm post, --embedding-norm)"
        yield from self.layer_obstacles(base)
        if shape.head == "lm" and not (base.lm_head_transform == base.activation and base.lm_head_bias):
            how = f"--preset bert-base --lm-head-transform {base.activation}"
            yield f"its language modelling head has no bias, or no transform with the activation of its layers ({how})"


class Roberta(Bert):
    """RoBERTa, CamemBERT and XLM-R."""

    name = "RoBERTa"
    model_types = ("roberta", "camembert", "xlm-roberta")
    prefix = "roberta."
    classes = ("Roberta", "Camembert", "XLMRoberta")
    ignored = (r".*\.position_ids", r"roberta\.pooler\..*")
    duplicates: ClassVar[Mapping[str, str]] = {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }
    unused_positions = 2
    """Their positions begin after the id of the padding token, which is 1."""
    special_tokens: ClassVar[Mapping[str, str]] = {
        "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
        "unk_token": "<unk>", "mask_token": "<mask>",
    }  # fmt: skip

    def base_shape(self, config: CheckpointConfig) -> BaseShape:
        """The shape that a config.json describes."""
        config.must_be("pad_token_id", 1)
        return super().base_shape(config)

    def transform_of(self, config: CheckpointConfig) -> HeadTransform:
        """The head has gelu, whatever the activation of the layers."""
        return "gelu"

    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head."""
        if shape.head == "lm":
            yield from masked_head(shape, "lm_head.dense", "lm_head.layer_norm", "lm_head", "lm_head.decoder")
        elif shape.head == "classify":
            yield from both("hidden", "classifier.dense")
            yield from both("output", "classifier.out_proj")
        else:
            yield from super().head_entries(shape)

    def obstacles(self, shape: ModelShape) -> Iterator[str]:
        """Nothing is written as RoBERTa: BERT can express the same and has no unused positions."""
        yield "models of this shape are written as BERT"
