"""`--calibrate`: what it needs, and a sentence about what it changed."""

from collections.abc import Mapping
from typing import Any

from headswap.core.errors import SettingError, counted
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import LabelledSplits


def check_can_calibrate(recipe: FinetuneRecipe, splits: LabelledSplits) -> None:
    """Refuse `calibrate` where there is no validation set to fit the temperature on."""
    if recipe.training.calibrate and not splits.validation:
        examples = counted(len(splits.train), "training example")
        raise SettingError(
            f"calibrate needs a validation set, and none is held out of {examples} "
            f"(at least {recipe.data.hold_out_from} are needed). Pass --validation FILE, or leave --calibrate out."
        )


def calibration_sentence(found: Mapping[str, Any]) -> str:
    """The temperature, and log loss and calibration error before and after it."""
    if found["temperature"] == 1:
        return (
            "No temperature could be fitted, because every validation text is classified correctly: the probabilities "
            "stay as they are. A larger --validation set may help."
        )
    effects = [
        f"log loss {one['loss_before']:.3f} before, {one['loss_after']:.3f} after; calibration error "
        f"{one['ece_before']:.3f} before, {one['ece_after']:.3f} after ({role})"
        for role in ("validation", "test")
        if (one := found.get(role))
    ]
    return f"Calibrated with temperature {found['temperature']:.3g}, fitted on validation: {'; '.join(effects)}."
