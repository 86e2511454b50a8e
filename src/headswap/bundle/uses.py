"""How a model with each kind of head is used: for the bundle, its config and its card."""

from headswap.model.heads import Use
from headswap.model.text_model import ModelShape
from headswap.registry import HEADS, OBJECTIVES

GENERATE = Use(
    "a causal language model", "generate", "'your prompt'", '"your prompt"',
    "text-generation", "HeadswapForLanguageModelling",
)  # fmt: skip
FILL = Use(
    "a masked language model", "fill", "'a <mask> text'", '"a <mask> text"',
    "fill-mask", "HeadswapForLanguageModelling",
)  # fmt: skip
BOTH = "a causal and masked language model"
PAIR_ARGUMENTS, PAIR_CALL = "'first text' --text-pair 'second text'", '[("first text", "second text")]'


def uses_of(shape: ModelShape, objective: str, *, reads_pairs: bool = False) -> tuple[Use, ...]:
    """How a model of this shape is used, by one verb or two; the heads of fine-tuning declare their own use."""
    if shape.head != "lm":
        use = HEADS.load(shape.head).use
        return (use._replace(arguments=PAIR_ARGUMENTS, call=PAIR_CALL) if reads_pairs else use,)
    if shape.direction == "causal":
        return (GENERATE,)
    if predicts_next(shape, objective):
        return GENERATE._replace(what=BOTH), FILL._replace(what=BOTH)
    return (FILL,)


def predicts_next(shape: ModelShape, objective: str) -> bool:
    """Whether the vector of a token predicts the token after it; otherwise it predicts the token itself.

    A bidirectional model does so only if its objective masks tokens: otherwise it would see what it predicts.
    """
    if objective not in OBJECTIVES:
        return shape.direction == "causal"
    found = OBJECTIVES.load(objective)
    return found.predicts_next and (shape.direction == "causal" or found.masks_tokens)
