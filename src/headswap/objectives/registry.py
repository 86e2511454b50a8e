"""The objectives that need no labels, by name. A new one is a class and a line here."""

from collections.abc import Callable

from headswap.batches.config import MaskingSettings
from headswap.objectives.causal import CausalObjective
from headswap.objectives.masked import MaskedObjective
from headswap.objectives.objective import PretrainingObjective
from headswap.objectives.sentence_pairs import PairObjective
from headswap.tokens.tokenizer import Tokenizer

PRETRAINING: dict[str, Callable[[Tokenizer, MaskingSettings], PretrainingObjective]] = {
    "causal": lambda tokenizer, masking: CausalObjective(tokenizer),
    "masked": MaskedObjective,
    "masked+nsp": lambda tokenizer, masking: PairObjective(tokenizer, masking, kind="next"),
    "masked+sop": lambda tokenizer, masking: PairObjective(tokenizer, masking, kind="order"),
}


def make_objective(name: str, tokenizer: Tokenizer, masking: MaskingSettings) -> PretrainingObjective:
    """The objective of a name for a tokenizer, which has `<mask>` and `<sep>` where they are needed."""
    return PRETRAINING[name](tokenizer, masking)
