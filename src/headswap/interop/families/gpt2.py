"""GPT-2: learned positions, norms before the blocks, joint query-key-value matrices stored as input x output."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headswap.core.errors import InputError
from headswap.interop.families.family import CheckpointConfig, Entry, Family, activation_name, both
from headswap.model.shape import BaseShape
from headswap.model.text_model import ModelShape


class Gpt2(Family):
    """GPT-2 and checkpoints of its shape."""

    name = "GPT-2"
    model_types = ("gpt2",)
    prefix = "transformer."
    direction = "causal"
    classes = ("GPT2",)
    endings: ClassVar[Mapping[str, str]] = {
        "Model": "none", "LMHeadModel": "lm", "ForSequenceClassification": "classify", "ForTokenClassification": "tag",
        "ForQuestionAnswering": "span",
    }  # fmt: skip
    ignored = (r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)
    special_tokens: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("bos_token", "eos_token", "unk_token"), "<|endoftext|>"
    )
    duplicates: ClassVar[Mapping[str, str]] = {"lm_head.weight": "transformer.wte.weight"}

    def base_shape(self, config: CheckpointConfig) -> BaseShape:
        """The shape that a config.json describes."""
        for name, allowed in (
            ("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False), ("add_cross_attention", False),
        ):  # fmt: skip
            config.must_be(name, allowed)
        width = config.number("n_embd", "hidden_size")
        drops = {config.get(name, 0.1) for name in ("resid_pdrop", "embd_pdrop")}
        if len(drops) > 1:
            raise InputError(f"{config.origin}: resid_pdrop and embd_pdrop differ; headswap has one value for both.")
        return BaseShape(
            vocab_size=config.number("vocab_size"),
            hidden_size=width,
            num_hidden_layers=config.number("n_layer", "num_hidden_layers"),
            num_attention_heads=config.number("n_head", "num_attention_heads"),
            intermediate_size=config.get("n_inner", 4 * width),
            max_position_embeddings=config.number("n_positions", "max_position_embeddings"),
            positions="learned",
            activation=config.activation("activation_function", "gelu_new"),
            layer_norm_eps=config.get("layer_norm_epsilon", 1e-5),
            tied_head=config.get("tie_word_embeddings", True),
            dropout=drops.pop(),
            attention_dropout=config.get("attn_pdrop", 0.1),
        )

    def base_entries(self, shape: BaseShape) -> Iterator[Entry]:
        """The tensors of the base."""
        yield Entry("embedding.weight", ("transformer.wte.weight",))
        yield Entry("position_embedding.weight", ("transformer.wpe.weight",))
        for index in range(shape.num_hidden_layers):
            ours, theirs = f"layers.{index}", f"transformer.h.{index}"
            yield from both(f"{ours}.attention_norm", f"{theirs}.ln_1")
            yield from both(f"{ours}.attention.qkv", f"{theirs}.attn.c_attn", transposed=True)
            yield from both(f"{ours}.attention.output", f"{theirs}.attn.c_proj", transposed=True)
            yield from both(f"{ours}.feed_forward_norm", f"{theirs}.ln_2")
            yield from both(f"{ours}.feed_forward.up", f"{theirs}.mlp.c_fc", transposed=True)
            yield from both(f"{ours}.feed_forward.down", f"{theirs}.mlp.c_proj", transposed=True)
        yield from both("final_norm", "transformer.ln_f")

    def head_entries(self, shape: ModelShape) -> Iterator[Entry]:
        """The tensors of the head."""
        if shape.head == "lm" and not shape.base.tied_head:
            yield Entry("weight", ("lm_head.weight",))
        elif shape.head == "classify":
            yield Entry("output.weight", ("score.weight",))
        elif shape.head == "tag":
            yield from both("output", "classifier")
        elif shape.head == "span":
            yield from both("output", "qa_outputs")

    def config_entries(self, shape: ModelShape) -> dict[str, Any]:
        """The entries of config.json."""
        base = shape.base
        return {
            "n_embd": base.hidden_size,
            "n_layer": base.num_hidden_layers,
            "n_head": base.num_attention_heads,
            "n_inner": base.intermediate_size,
            "n_positions": base.max_position_embeddings,
            "activation_function": activation_name(base.activation),
            "layer_norm_epsilon": base.layer_norm_eps,
            "resid_pdrop": base.dropout,
            "embd_pdrop": base.dropout,
            "attn_pdrop": base.dropout if base.attention_dropout is None else base.attention_dropout,
            "classifier_dropout": shape.classifier.head_dropout,
        }

    def obstacles(self, shape: ModelShape) -> Iterator[str]:
        """What GPT-2 cannot express."""
        base = shape.base
        if shape.direction != "causal":
            yield "its attention is bidirectional; GPT-2's is causal"
        yield from self.position_obstacles(base, "learned")
        yield from self.layer_obstacles(base)
        yield from self.pre_norm_obstacles(shape)
