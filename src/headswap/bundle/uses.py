"""How a model with each kind of head is used: for the bundle, its config and its card."""

from headswap.model.heads import Use
from headswap.model.text_model import ModelShape
from headswap.registry import HEADS

LANGUAGE_MODELS = {
    "causal": Use(
        "a causal language model", "generate", "'your prompt'", '"your prompt"',
        "text-generation", "HeadswapForLanguageModelling",
    ),
    "bidirectional": Use(
        "a masked language model", "fill", "'a <mask> text'", '"a <mask> text"',
        "fill-mask", "HeadswapForLanguageModelling",
    ),
}  # fmt: skip
"""By attention direction; the heads of fine-tuning declare their own use."""
PAIR_ARGUMENTS, PAIR_CALL = "'first text' --text-pair 'second text'", '[("first text", "second text")]'


def use_of(shape: ModelShape, *, reads_pairs: bool = False) -> Use:
    """How a model of this shape is used."""
    use = LANGUAGE_MODELS[shape.direction] if shape.head == "lm" else HEADS.load(shape.head).use
    return use._replace(arguments=PAIR_ARGUMENTS, call=PAIR_CALL) if reads_pairs else use
