"""Defaults of fine-tuning and of training from scratch: learning rate, batch size, epochs, unfreezing, the new head."""

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headswap.defaults.pretraining import two_digits
from headswap.model.shape import (
    DEFAULT_PRESET,
    FORMER_POOLINGS,
    Direction,
    HeadNorm,
    HeadShape,
    HeadSimilarity,
    Pooling,
    ShapeChanges,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headswap.finetuning.config import FinetuneRecipe, FinetuneTraining, HeadInit, HeadSettings, PairEncoding

log = logging.getLogger("headswap")
FINETUNE_RATE_AT_256 = 1e-4
"""Fine-tuning a sufficiently trained base; narrower bases: times sqrt(256 / width)."""
SCRATCH_RATE_AT_256 = 3e-4
"""Training from scratch; other widths as in pre-training."""
SCRATCH_SETTINGS: dict[str, dict[str, Any]] = {
    "model": {
        "direction": "bidirectional",
        "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512,
    },
}  # fmt: skip
"""Settings of training from scratch that differ from those of fine-tuning a base, by section of the recipe: a model
without pre-training has its own best shape, direction and so on. They had the highest mean accuracy on three sets
without reported figures (docs/log.md). A setting that is given takes precedence; if any setting of the shape is given,
none of the shape is taken from here. The preset `lab` takes none of them: it is the lab's model."""
SCRATCH_HOLD_OUT_FROM = 2_000
"""In a study of classifiers the arm scratch holds nothing out below this number of labels: with 1,000 labels a hold-out
cost it 1 to 5 points (docs/log.md)."""
CLASS_MEANS_FROM = 10
"""The head of a classifier with at least so many labels starts from class means (`head_init`), if the base is
sufficiently trained: it gained 4.4 and 1.3 points with 150 labels, and nothing with 2 and 6 (docs/log.md)."""
COSINE_FROM = 100
"""The same for a head that scores labels by cosines (`head_similarity`): with 150 classes it gained 4 points over a
random head, and 3 to 6 beside class means. With 34 classes and long texts the scores were lower (docs/log.md)."""
LINEAR_HEAD_UP_TO = 10_000
"""A head that compares the vectors of two texts begins as a linear model of up to so many training pairs, if the base
is sufficiently trained: it gained 4 and 14 points with 100 pairs (docs/results.md). The fit takes longer with more."""
UNDERTRAINED_RATE_AT_256 = 6e-4
"""Fine-tuning a base that saw fewer than `LEAST_TOKENS_PER_PARAMETER`."""
LEAST_TOKENS_PER_PARAMETER = 3.0
"""A base is sufficiently trained from this number of training tokens per parameter on."""
FINETUNE_BATCH_SIZE = 16
"""Rows per step; larger for large sets (`finetuning_batch_size`)."""
FINETUNE_STEPS = 3_400
FINETUNE_EPOCHS = (3, 20)
FINETUNE_PATIENCE = 5
EVALUATIONS_ON_TRAIN = 4
"""How often a run without a validation set computes metrics on its training set after the first step. They decide
nothing, and on a CPU they took a tenth of the time of a fine-tuning with 100 labels."""
POOLINGS: dict[Direction, Pooling] = {"causal": "weighted-mean", "bidirectional": "mean"}
"""In a causal model later tokens have seen more context, so they get more weight; elsewhere all tokens are equal."""
SHAPE_NAMES = frozenset({"preset", *ShapeChanges.model_fields}) - {"dropout", "attention_dropout"}
"""Settings of the section `model` that change the shape of a new model."""
LAYER_LR_DECAY, HEAD_LR_FACTOR = 0.8, 10.0
"""Learning rates fall by 0.8 per layer downwards; the new head gets 10 times the rate of the top layer."""
MOST_GRADUAL = 0.5
"""Gradual unfreezing is the default where every layer is unfrozen within this share of the run."""


@dataclass(frozen=True)
class FinetuningFacts:
    """What the defaults of fine-tuning depend on."""

    hidden_size: int
    num_layers: int
    num_rows: int
    steps_per_epoch: int
    tokens_per_parameter: float | None
    """Training tokens of the base per parameter: 0 from scratch, None where the base does not record it."""
    pooling: Pooling | None
    """Pooling of the new head; None where the head reads token by token."""
    num_classes: int | None = None
    """Number of labels of a classifier whose class layer reads the vector of a text; otherwise None."""
    head_similarity: HeadSimilarity = "dot"
    """How the new head scores labels."""
    head_norm: HeadNorm = "none"
    """How the vector of a text is normalised for the new head."""
    pair_encoding: "PairEncoding | None" = None
    """How pairs of texts are read; None for single texts."""
    compares_vectors: bool = False
    """Whether the head compares the vectors of two texts, and could begin as a linear model."""


def with_scratch_settings(given: "Mapping[str, Mapping[str, Any]]") -> dict[str, dict[str, Any]]:
    """The sections of a recipe of training from scratch: `SCRATCH_SETTINGS` below the settings that are given."""
    sections = {name: dict(values) for name, values in given.items()}
    if sections.get("model", {}).get("preset") == "lab":
        return sections
    for name, values in SCRATCH_SETTINGS.items():
        has_shape = name == "model" and not SHAPE_NAMES.isdisjoint(sections.get(name, {}))
        own = {key: value for key, value in values.items() if not (has_shape and key in SHAPE_NAMES)}
        sections[name] = own | sections.get(name, {})
    return sections


def resolve_start(recipe: "FinetuneRecipe", *, direction: Direction) -> "FinetuneRecipe":
    """The recipe with layer rates filled in and, from scratch, with preset and attention direction."""
    adaptation, model = recipe.adaptation, recipe.model
    is_scratch = model.base == "scratch"
    decay, factor = (1.0, 1.0) if is_scratch else (LAYER_LR_DECAY, HEAD_LR_FACTOR)
    if adaptation.trainable == "head":
        decay = 1.0  # no layer is trained
    adaptation = adaptation.changed(
        layer_lr_decay=adaptation.layer_lr_decay or decay,
        head_lr_factor=adaptation.head_lr_factor or factor,
        unfreeze="at-once" if is_scratch else adaptation.unfreeze,
    )
    if is_scratch:
        model = model.changed(preset=model.preset or DEFAULT_PRESET, direction=model.direction or direction)
    return recipe.changed(adaptation=adaptation, model=model)


def resolve_finetuning(recipe: "FinetuneRecipe", facts: FinetuningFacts) -> "tuple[FinetuneRecipe, int]":
    """The recipe with every open setting filled in, and its number of steps."""
    training, per_parameter = recipe.training, facts.tokens_per_parameter
    if training.learning_rate is None:
        if per_parameter and not is_well_trained(per_parameter):
            log.info(
                "The base was trained on only %.2g tokens per parameter, so a higher learning rate is used.",
                per_parameter,
            )
        rate = finetuning_rate(facts.hidden_size, tokens_per_parameter=per_parameter)
        training = training.changed(learning_rate=rate)
    if training.max_steps is None and training.num_train_epochs is None:
        epochs = finetuning_epochs(facts.num_rows, training.batch_size)
        patience = training.early_stopping_patience or FINETUNE_PATIENCE
        training = training.changed(num_train_epochs=epochs, early_stopping_patience=patience)
    steps = training.max_steps or math.ceil((training.num_train_epochs or 1) * facts.steps_per_epoch)
    num_epochs = steps / facts.steps_per_epoch
    is_gradual = recipe.adaptation.trainable == "all" and unfreezes_gradually(
        num_epochs, facts.num_layers, tokens_per_parameter=per_parameter
    )
    default = "gradual" if is_gradual else "at-once"
    adaptation = recipe.adaptation.changed(
        unfreeze=recipe.adaptation.unfreeze or default,
        head_init=recipe.adaptation.head_init or head_init(facts, has_bias=recipe.head.head_bias),
    )
    head = recipe.head.changed(head_similarity=facts.head_similarity, pair_encoding=facts.pair_encoding)
    if facts.pooling is not None:
        head = head.changed(pooling=facts.pooling, head_norm=facts.head_norm)
    return recipe.changed(training=training, adaptation=adaptation, head=head), steps


def head_shape(
    recipe: "FinetuneRecipe",
    direction: Direction,
    *,
    num_classes: int | None,
    tokens_per_parameter: float | None,
    pair_encoding: "PairEncoding | None" = None,
) -> HeadShape:
    """The new head, with its open settings: the pooling by the attention direction, the similarity by the classes, the
    norm by how pairs are read.

    `num_classes` and the others are those of `FinetuningFacts`. A linear model scores by dot products.
    """
    head = recipe.head
    similarity = head_similarity(num_classes, tokens_per_parameter=tokens_per_parameter)
    similarity = head.head_similarity or ("dot" if recipe.adaptation.head_init == "linear" else similarity)
    others = head.model_dump(exclude={"pooling", "head_norm", "head_similarity", "pair_encoding"})
    norm = head.head_norm or ("layer" if pair_encoding == "separate" else "none")
    pooling = head.pooling or POOLINGS[direction]
    return HeadShape(**others, pooling=pooling, head_norm=norm, head_similarity=similarity)


def pair_encoding(head: "HeadSettings", *, knows_pairs: bool) -> "PairEncoding":
    """How pairs of texts are read: as two sequences, unless the base knows how to read two texts in one."""
    return head.pair_encoding or ("joined" if knows_pairs else "separate")


def finetuning_rate(hidden_size: int, *, tokens_per_parameter: float | None) -> float:
    """The rate for a base that was trained on so many tokens per parameter (0: from scratch, None: not known)."""
    if is_well_trained(tokens_per_parameter):
        return two_digits(FINETUNE_RATE_AT_256 * math.sqrt(256 / min(256, hidden_size)))
    rate = UNDERTRAINED_RATE_AT_256 if tokens_per_parameter else SCRATCH_RATE_AT_256
    return two_digits(rate * math.sqrt(256 / hidden_size))


def finetuning_batch_size(num_rows: int) -> int:
    """16, and more for large sets: as much as leaves the fewest epochs at least `FINETUNE_STEPS` steps.

    So the time of a step counts at most twice as often as with a small set, however large the set is.
    """
    batch_size = FINETUNE_BATCH_SIZE
    while FINETUNE_EPOCHS[0] * num_rows >= FINETUNE_STEPS * 2 * batch_size:
        batch_size *= 2
    return batch_size


def batch_size_of(training: "FinetuneTraining", num_examples: int) -> int:
    """The batch size of a fine-tuning: the setting if it is given, otherwise the default for so many examples."""
    is_given = "batch_size" in training.model_fields_set
    return training.batch_size if is_given else finetuning_batch_size(num_examples)


def finetuning_epochs(num_examples: int, batch_size: int) -> float:
    """Enough epochs for about `FINETUNE_STEPS` steps, within bounds."""
    fewest, most = FINETUNE_EPOCHS
    return float(min(most, max(fewest, round(FINETUNE_STEPS * batch_size / num_examples))))


def head_init(facts: FinetuningFacts, *, has_bias: bool = True) -> "HeadInit":
    """The first weights of a new head: if the base is sufficiently trained, a linear model for pairs that are read as
    two sequences, and class means for many classes.

    A head without a bias can have neither.
    """
    if not has_bias or not is_well_trained(facts.tokens_per_parameter):
        return "random"
    if facts.compares_vectors and facts.head_similarity == "dot" and facts.num_rows <= LINEAR_HEAD_UP_TO:
        return "linear"
    return "class-means" if facts.num_classes is not None and facts.num_classes >= CLASS_MEANS_FROM else "random"


def head_similarity(num_classes: int | None, *, tokens_per_parameter: float | None) -> HeadSimilarity:
    """How a new head scores labels: by cosines for many classes, if the base is sufficiently trained."""
    has_many = num_classes is not None and num_classes >= COSINE_FROM
    return "cosine" if has_many and is_well_trained(tokens_per_parameter) else "dot"


def is_well_trained(tokens_per_parameter: float | None) -> bool:
    """Whether a base is sufficiently trained; one that does not record it is assumed to be."""
    return tokens_per_parameter is None or tokens_per_parameter >= LEAST_TOKENS_PER_PARAMETER


def unfreezes_gradually(num_epochs: float, num_layers: int, *, tokens_per_parameter: float | None) -> bool:
    """Whether gradual unfreezing is the default: the base is sufficiently trained, and with one more layer per epoch
    all layers are trained for at least half of the run."""
    return is_well_trained(tokens_per_parameter) and num_layers + 1 <= MOST_GRADUAL * num_epochs


def values_behind_finetuning(num_labels: int, num_classes: int = 2) -> list[float | str]:
    """The same for a fine-tuning with so many labelled texts and classes."""
    rates = [FINETUNE_RATE_AT_256, SCRATCH_RATE_AT_256, UNDERTRAINED_RATE_AT_256, LEAST_TOKENS_PER_PARAMETER]
    first_names = {now: former for former, now in FORMER_POOLINGS.items()}  # job ids of older studies stay the same
    poolings = [first_names.get(pooling, pooling) for pooling in POOLINGS.values()]
    batch_size = finetuning_batch_size(num_labels)
    larger: list[float | str] = [batch_size] if batch_size != FINETUNE_BATCH_SIZE else []  # as above, for small sets
    means: list[float | str] = ["class-means"] if num_classes >= CLASS_MEANS_FROM else []
    means += ["cosine"] if num_classes >= COSINE_FROM else []
    return [*rates, FINETUNE_STEPS, *FINETUNE_EPOCHS, FINETUNE_PATIENCE, *poolings, MOST_GRADUAL, *larger, *means]
