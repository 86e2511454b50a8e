"""The objectives of pre-training, by name. A new objective is one file with its class and one line here."""

from collections.abc import Callable

from headswap.batches.config import MaskingSettings
from headswap.core.errors import InputError, listed
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
    """The objective of this name; for the masked ones the tokenizer must have `<mask>` and `<sep>`."""
    if name not in PRETRAINING:
        raise InputError(f"The objective '{name}' is unknown. Known are {listed(PRETRAINING)}.")
    return PRETRAINING[name](tokenizer, masking)
