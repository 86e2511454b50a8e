"""How a model with each kind of head is used: one table for the bundle, its config, its card and the tasks."""

from typing import NamedTuple

from headswap.model.text_model import ModelShape


class Use(NamedTuple):
    """How a model is used, and how Hugging Face names such a model."""

    what: str
    """What the model is, with its article."""
    verb: str
    """The command, and the method of `headswap.Model`."""
    arguments: str
    """Arguments of an example command, after the folder."""
    call: str
    """The argument of the same call in Python."""
    pipeline_tag: str
    architecture: str


USES = {
    "classify": Use(
        "a classifier", "predict", "'your text'", '["your text"]',
        "text-classification", "HeadswapForSequenceClassification",
    ),
    "tag": Use(
        "a tagger", "predict", "'your text'", '["your text"]',
        "token-classification", "HeadswapForTokenClassification",
    ),
    "span": Use(
        "a question answerer", "predict", "'a context' --question 'your question'", '[("your question", "a context")]',
        "question-answering", "HeadswapForQuestionAnswering",
    ),
    "causal": Use(
        "a causal language model", "generate", "'your prompt'", '"your prompt"',
        "text-generation", "HeadswapForLanguageModelling",
    ),
    "bidirectional": Use(
        "a masked language model", "fill", "'a <mask> text'", '"a <mask> text"',
        "fill-mask", "HeadswapForLanguageModelling",
    ),
}  # fmt: skip
"""By kind of head; a language model by its attention direction."""
PAIR_ARGUMENTS, PAIR_CALL = "'first text' --text-pair 'second text'", '[("first text", "second text")]'


def use_of(shape: ModelShape, *, reads_pairs: bool = False) -> Use:
    """How a model of this shape is used."""
    use = USES[shape.direction if shape.head == "lm" else shape.head]
    return use._replace(arguments=PAIR_ARGUMENTS, call=PAIR_CALL) if reads_pairs else use
