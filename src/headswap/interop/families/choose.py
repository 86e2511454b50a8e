"""The families that headswap knows, and which of them a checkpoint or a model belongs to."""

from headswap.core.errors import InputError, listed
from headswap.interop.families.bert import Bert, Roberta
from headswap.interop.families.distilbert import DistilBert
from headswap.interop.families.family import CheckpointConfig, Family
from headswap.interop.families.gpt2 import Gpt2
from headswap.interop.families.llama import EuroBert, Llama

FAMILIES: tuple[Family, ...] = (Llama(), Gpt2(), Bert(), DistilBert(), EuroBert(), Roberta())


def family_of(config: CheckpointConfig) -> Family:
    """The family that a config.json names."""
    found = config.get("model_type")
    for family in FAMILIES:
        if found in family.model_types:
            return family
    known = [name for family in FAMILIES for name in family.model_types]
    raise InputError(
        f"{config.origin}: model_type is {found!r}, an architecture that headswap cannot read. Known are "
        f"{listed(known, most=20)}."
    )
