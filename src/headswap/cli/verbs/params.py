"""`headswap params`."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from headswap.cli.flags import Adaptation, Model, Output, OutputFlags, refuse_hidden
from headswap.finetuning.config import AdaptationSettings
from headswap.model.shape import PRESET_VOCAB_SIZES, Count, HeadShape, ModelSettings
from headswap.registry import HEADS, HeadName

OfModel = Parameter(group=Group("Model"))

if TYPE_CHECKING:
    from headswap.model.parameter_count import ParameterCount
    from headswap.model.text_model import ModelShape


class CountedModel(ModelSettings):
    """The shape of the model that is counted."""

    num_attention_heads: Count | None = None
    """Number of attention heads per layer. It changes no count, but --hidden-size must be a multiple of it. Default:
    that of the preset."""


def params(
    bundle: str | None = None,
    /,
    *,
    vocab_size: Annotated[int | None, OfModel] = None,
    max_length: Annotated[int | None, OfModel] = None,
    head: HeadName = "none",
    num_labels: int | None = None,
    model: Annotated[CountedModel | None, Model] = None,
    head_shape: Annotated[HeadShape | None, Model] = None,
    adaptation: Annotated[AdaptationSettings | None, Adaptation] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Count the parameters of a model.

    The output has the number of parameters of each part, with its formula, and the number of trainable parameters. The
    parameters are counted twice, by formula and from the tensors; if the two counts differ, that is an error.

    Example: headswap params --preset lab --vocab-size 50001 --head classify --trainable lora

    Parameters
    ----------
    bundle
        Run folder or bundle of a model, or an installed base (box:NAME). Without it the flags describe the model.
    vocab_size
        Number of tokens in the vocabulary. [default: 50,001 with lab, 50,257 with gpt2-small, 30,522 with bert-base,
        16,000 with other presets]
    max_length
        Context length in tokens. It changes the count only with --positions learned. [default: that of the preset
        (gpt2-small 1024, others 512)]
    head
        Head of the model: none (the base alone), lm (language modelling), classify, compare (pairs of texts, one vector
        per text), tag or span.
    num_labels
        Number of labels, for the heads classify, compare and tag. [default: 2]
    """
    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import model_name, print_json
    from headswap.core.errors import SettingError
    from headswap.finetuning.layer_rates import freeze
    from headswap.model.parameter_count import count_parameters, count_parameters_of_shape
    from headswap.model.text_model import ModelShape

    refuse_hidden("params", model, head_shape, adaptation)
    if bundle is not None:
        given = (model, vocab_size, max_length, num_labels, head_shape, adaptation)
        if head != "none" or any(value is not None for value in given):
            raise SettingError("A bundle has its own shape and head. Leave out either the bundle or the other flags.")
        loaded = Bundle.load(bundle).model
        if loaded.shape.lora is not None:  # the weights that were trained
            freeze(loaded, AdaptationSettings(trainable="lora"))
        account, title = count_parameters(loaded), model_name(bundle)
    else:
        settings = model or CountedModel()
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
                raise SettingError("--trainable needs a model with a head. Pass --head classify.")
        whole = None
        if head != "none":
            labels = None if head == "lm" else HEADS.load(head).num_scores or num_labels or 2
            whole = ModelShape(base=shape, head=head, num_labels=labels, classifier=head_shape or HeadShape())
        account = _adapted(whole, adaptation) if whole and adaptation else count_parameters_of_shape(shape, whole)
        title = (
            f"{settings.preset}, vocabulary {shape.vocab_size:,}, {'base alone' if head == 'none' else f'{head} head'}"
        )
    if flags.json:
        print_json(account.as_json())
    else:
        _print(account, title)


def _print(account: "ParameterCount", title: str) -> None:
    from headswap.cli.display import print_table

    rows = [(part.name, part.formula, f"{part.count:,}") for part in account.parts]
    embedding = sum(part.count for part in account.parts if part.name in ("embedding", "positions", "segments"))
    rows.append(("total", "", f"{account.total:,}"))
    rows.append(("without embeddings", "", f"{account.total - embedding:,}"))
    rows.append(("trainable", "", f"{account.trainable:,}"))
    print_table(title, ("part", "formula", "parameters"), rows)


def _adapted(shape: "ModelShape", adaptation: AdaptationSettings) -> "ParameterCount":
    """The parameter count of a model of which only a part is trained."""
    from headswap.finetuning.layer_rates import freeze
    from headswap.model.parameter_count import count_parameters
    from headswap.model.text_model import build_empty

    model = build_empty(shape.changed(lora=adaptation.lora()))
    freeze(model, adaptation)
    return count_parameters(model)
