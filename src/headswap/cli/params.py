"""`headswap params`."""

from typing import TYPE_CHECKING, Annotated

from headswap.cli.flags import Adaptation, Model, Output, OutputFlags
from headswap.finetuning.config import AdaptationSettings
from headswap.model.shape import PRESET_VOCAB_SIZES, HeadName, HeadShape, ModelSettings

if TYPE_CHECKING:
    from headswap.model.parameter_count import ParameterCount
    from headswap.model.text_model import ModelShape


def params(
    bundle: str | None = None,
    /,
    *,
    vocab_size: int | None = None,
    max_length: int | None = None,
    head: HeadName = "none",
    num_labels: int | None = None,
    model: Annotated[ModelSettings | None, Model] = None,
    head_shape: Annotated[HeadShape | None, Model] = None,
    adaptation: Annotated[AdaptationSettings | None, Adaptation] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Count the parameters of a model, by formula and from its tensors; the two must agree.

    Example: headswap params --preset lab --vocab-size 50001 --head classify --trainable lora

    Parameters
    ----------
    bundle
        Bundle, run folder or box:NAME; without it the model is the one that --preset and its like describe.
    vocab_size
        Vocabulary size; the preset's own by default.
    max_length
        Number of positions; the preset's own by default.
    head
        Which head to count: none is the base alone.
    num_labels
        Classes of a classification or tagging head, 2 by default.
    """
    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, print_table
    from headswap.core.errors import SettingError
    from headswap.finetuning.layer_rates import freeze
    from headswap.model.parameter_count import count_parameters, count_parameters_of_shape
    from headswap.model.text_model import ModelShape

    if bundle is not None:
        given = (model, vocab_size, max_length, num_labels, head_shape, adaptation)
        if head != "none" or any(value is not None for value in given):
            raise SettingError("A bundle has its own shape and head. Leave the bundle out, or the other flags.")
        loaded = Bundle.load(bundle).model
        if loaded.shape.lora is not None:  # what was trained in it, and would be again
            freeze(loaded, AdaptationSettings(trainable="lora"))
        account, title = count_parameters(loaded), bundle
    else:
        settings = model or ModelSettings()
        for name, value, least in (
            ("vocab-size", vocab_size, 1),
            ("num-labels", num_labels, 2),
            ("max-length", max_length, 1),
        ):
            if value is not None and value < least:
                raise SettingError(f"--{name} {value} is not allowed: it should be at least {least}.")
        shape = settings.shape(vocab_size=vocab_size or PRESET_VOCAB_SIZES[settings.preset], max_length=max_length)
        if adaptation is not None:
            adaptation.check(is_scratch=False)
            if head == "none":
                raise SettingError("--trainable is for a model with a head. Pass --head classify.")
        whole = None
        if head != "none":
            labels = None if head == "lm" else 2 if head == "span" else num_labels or 2
            whole = ModelShape(base=shape, head=head, num_labels=labels, classifier=head_shape or HeadShape())
        account = _adapted(whole, adaptation) if whole and adaptation else count_parameters_of_shape(shape, whole)
        title = (
            f"{settings.preset}, vocabulary {shape.vocab_size:,}, {'base alone' if head == 'none' else f'{head} head'}"
        )
    if flags.json:
        print_json(account.as_json())
        return
    rows = [(part.name, part.formula, f"{part.count:,}") for part in account.parts]
    embedding = sum(part.count for part in account.parts if part.name in ("embedding", "positions", "segments"))
    rows.append(("total", "", f"{account.total:,}"))
    rows.append(("without embeddings", "", f"{account.total - embedding:,}"))
    rows.append(("trainable", "", f"{account.trainable:,}"))
    print_table(title, ("part", "formula", "parameters"), rows)


def _adapted(shape: "ModelShape", adaptation: AdaptationSettings) -> "ParameterCount":
    """The parameter count of a model of which only a part moves."""
    from headswap.finetuning.layer_rates import freeze
    from headswap.model.parameter_count import count_parameters
    from headswap.model.text_model import build_empty

    model = build_empty(shape.changed(lora=adaptation.lora()))
    freeze(model, adaptation)
    return count_parameters(model)
