"""Parameter counts: computed from a formula and from the tensors, and the two must agree.

Published parameter counts differ because each counts different parts. Here every part has a formula in the symbols of
the shape (V vocabulary, D width, L layers, F feed-forward width, P positions, S segments, K width of keys, C classes,
R rank of adapters), and its value is compared with the number of elements of the part's tensors.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from torch import nn

from headswap.core.errors import RunError
from headswap.model.base import Base
from headswap.model.shape import BaseShape, LoraShape
from headswap.model.text_model import ModelShape, TextModel, build_empty
from headswap.registry import HEADS


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a model, with the formula of its parameter count."""

    name: str
    formula: str
    count: int


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """The parameters of a model: in total, trainable, and by part."""

    total: int
    trainable: int
    parts: tuple[Part, ...]

    def as_json(self) -> dict[str, object]:
        """The object that `headswap params --json` prints."""
        return asdict(self) | {"parts": [asdict(part) for part in self.parts]}


def count_parameters(model: Base | TextModel) -> ParameterCount:
    """Count the parameters of a model part by part; a count that differs from its formula is an error."""
    head = model.shape if isinstance(model, TextModel) else None
    base = model.shape.base if isinstance(model, TextModel) else model.shape
    values = _values(base, head)
    counted = dict.fromkeys((name for name, _ in _formulas(base, head)), 0)
    for name, tensor in model.named_parameters():
        counted[_part_of(name if head else f"base.{name}")] += tensor.numel()
    parts = []
    for name, formula in _formulas(base, head):
        expected = evaluate(formula, values)
        if counted[name] != expected:
            raise RunError(
                f"{name}: the formula {formula} gives {expected:,}, the tensors have {counted[name]:,} elements."
            )
        parts.append(Part(name, f"{formula} = {_with_numbers(formula, values)}", expected))
    total = sum(part.count for part in parts)
    trainable = sum(tensor.numel() for tensor in model.parameters() if tensor.requires_grad)
    assert total == sum(tensor.numel() for tensor in model.parameters())
    return ParameterCount(total, trainable, tuple(parts))


def count_parameters_of_shape(base: BaseShape, head: ModelShape | None) -> ParameterCount:
    """The parameters of a model of this shape, counted on the meta device; of the base alone if `head` is None."""
    if head is not None:
        return count_parameters(build_empty(head))
    return count_parameters(build_empty(ModelShape(base=base)).base)


def _formulas(base: BaseShape, head: ModelShape | None) -> Iterator[tuple[str, str]]:
    norm = _norm_formula(base)
    yield "embedding", "V*D"
    if base.positions == "learned":
        yield "positions", "P*D"
    if base.type_vocab_size:
        yield "segments", "S*D"
    if base.embedding_norm:
        yield "embedding norm", norm
    matrices, up = (3, "2*F") if base.activation == "swiglu" else (2, "F")
    if base.num_shared_heads == base.num_attention_heads:
        yield "attention", "L*(4*D*D + 4*D)" if base.bias else "L*4*D*D"
    else:
        yield "attention", "L*(2*D*D + 2*D*K + 2*D + 2*K)" if base.bias else "L*(2*D*D + 2*D*K)"
    yield "feed-forward", f"L*({matrices}*D*F + {up} + D)" if base.bias else f"L*{matrices}*D*F"
    yield "layer norms", f"L*2*{norm}"
    if base.final_norm:
        yield "final norm", norm
    if head is not None and head.lora is not None:
        yield "adapters", _adapter_formula(base, head.lora)
    if head is not None:
        yield "head", _head_formula(base, head)
        if head.pair_head:
            yield "pair head", "D*D + D + 2*D + 2"


def _norm_formula(base: BaseShape) -> str:
    return "2*D" if base.bias and base.normalization == "layer" else "D"


def _adapter_formula(base: BaseShape, lora: LoraShape) -> str:
    """Input and output width of every targeted matrix, times the rank."""
    qkv = "4*D" if base.num_shared_heads == base.num_attention_heads else "2*D + 2*K"
    widths = {"qkv": qkv, "output": "2*D", "up": "D + F", "down": "D + F"}
    if base.activation == "swiglu":
        widths["gate"] = "D + F"
    return f"L*R*({' + '.join(widths[name] for name in lora.targets if name in widths)})"


def _head_formula(base: BaseShape, head: ModelShape) -> str:
    if head.head == "lm":
        parts = [] if base.tied_head else ["V*D"]
        parts += [f"D*D + D + {_norm_formula(base)}"] if base.lm_head_transform != "none" else []
        parts += ["V"] if base.lm_head_bias else []
        return " + ".join(parts) or "0"
    return HEADS.load(head.head).formula(head.classifier)


def _part_of(tensor: str) -> str:
    for pattern, part in (
        (r".*\.lora_(down|up)$", "adapters"),
        (r"head\.", "head"),
        (r"pair_head\.", "pair head"),
        (r"base\.embedding\.", "embedding"),
        (r"base\.position_embedding\.", "positions"),
        (r"base\.segment_embedding\.", "segments"),
        (r"base\.embedding_norm\.", "embedding norm"),
        (r"base\.final_norm\.", "final norm"),
        (r"base\.layers\.\d+\.\w+_norm\.", "layer norms"),
        (r"base\.layers\.\d+\.attention\.", "attention"),
        (r"base\.layers\.\d+\.feed_forward\.", "feed-forward"),
    ):
        if re.match(pattern, tensor):
            return part
    raise AssertionError(f"no part of a model has the tensor {tensor}")


def _values(base: BaseShape, head: ModelShape | None) -> dict[str, int]:
    return {
        "V": base.vocab_size,
        "D": base.hidden_size,
        "L": base.num_hidden_layers,
        "F": base.intermediate_size,
        "P": base.max_position_embeddings,
        "S": base.type_vocab_size,
        "K": base.num_shared_heads * base.head_dim,
        "C": (head.num_labels or 0) if head else 0,
        "R": head.lora.rank if head and head.lora else 0,
    }


def _with_numbers(formula: str, values: Mapping[str, int]) -> str:
    return re.sub(r"[A-Z]", lambda symbol: str(values[symbol[0]]), formula)


def evaluate(formula: str, values: Mapping[str, int]) -> int:
    """The value of a formula of integers, symbols, +, * and parentheses."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=symbol):
                return values[symbol]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left) + value(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return value(left) * value(right)
        raise ValueError(f"{ast.unparse(node)} in the formula {formula} is not an integer, a symbol, + or *.")

    return value(ast.parse(formula, mode="eval").body)


def num_parameters(model: nn.Module) -> int:
    """The number of parameters of a model."""
    return sum(tensor.numel() for tensor in model.parameters())
