"""The base of an arm, as far as the name of the arm tells it: installed, adapted, or a public checkpoint.

Where arms of two studies are compared, the name of its study may follow that of an arm, as in `box (study-a)`.
"""

from headswap.core.installed_bases import PREFIX
from headswap.core.public_checkpoints import PREFIX as CHECKPOINT
from headswap.study.setup.arms import ADAPTED, BOX, OF_BASE, OF_CONSISTENCY, OF_LINEAR


def with_study(arm: str, study: str) -> str:
    """An arm of one of several studies that are compared."""
    return f"{arm} ({study})"


def own_name(arm: str) -> str:
    """An arm without the name of its study."""
    return arm.partition(" (")[0] if arm.endswith(")") else arm


def base_of(arm: str) -> str:
    """The base in the name of an arm, as in `linear:BASE` and `consistency:BASE`."""
    return arm.removeprefix(OF_LINEAR).removeprefix(OF_CONSISTENCY)


def is_from_box(arm: str) -> bool:
    """Whether an arm starts from an installed base."""
    base = own_name(base_of(arm))
    return base in (BOX, ADAPTED) or base.removeprefix(OF_BASE).startswith(PREFIX)


def is_adapted(arm: str) -> bool:
    """Whether the base of an arm is adapted by the study."""
    base = own_name(base_of(arm))
    return base == ADAPTED or base.startswith(OF_BASE)


def is_existing_base(arm: str) -> bool:
    """Whether an arm fine-tunes an installed or an adapted base, or a public checkpoint."""
    return arm == base_of(arm) and (is_from_box(arm) or is_adapted(arm) or arm.startswith(CHECKPOINT))
