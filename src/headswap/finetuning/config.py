"""Settings and the recipe of fine-tuning: data, starting point, head, adaptation, training. Free of torch."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from headswap.batches.config import Long
from headswap.core.errors import SettingError, did_you_mean
from headswap.core.settings import Recipe, Settings
from headswap.data.config import LabelledSettings
from headswap.defaults import POOLINGS
from headswap.model.shape import (
    DEFAULT_PRESET,
    LORA_TARGETS,
    Count,
    Direction,
    HeadShape,
    LoraShape,
    LoraTarget,
    Pooling,
    Preset,
    ShapeChanges,
    Share,
)
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import MachineSettings, Positive, Steps, TrainingSettings

Unfreeze = Literal["at-once", "gradual"]
LAYER_LR_DECAY, HEAD_LR_FACTOR = 0.8, 10.0
"""How a carried base moves by default: what is general stays, what is new hurries (docs/results.md has the figures)."""


class HeadSettings(HeadShape):
    """How the new head reads the base; what fits the base is left open."""

    pooling: Pooling | None = None  # type: ignore[assignment]
    """How token vectors become one vector: last, mean, first, max, mean and max side by side, or later, a mean in which
    a token weighs as much as its place, since it has read all before it. By default later where the base reads from
    left to right, mean where it reads both ways. Heads that read token by token (tag, span) have no use for it."""

    def shape(self, direction: Direction) -> HeadShape:
        """With the pooling that fits a base's direction."""
        return HeadShape(**self.model_dump(exclude={"pooling"}), pooling=self.pooling or POOLINGS[direction])


class AdaptationSettings(Settings):
    """Which weights of a base move in fine-tuning, and how."""

    trainable: str = "all"
    """What moves beside the new head: all, head (nothing else), top-N (the N upper layers), biases, or lora."""
    lora_rank: Count = 8
    """Rank of the adapters."""
    lora_alpha: Positive = 16.0
    """Adapters are scaled by alpha / rank."""
    lora_targets: tuple[LoraTarget, ...] = LORA_TARGETS
    """Matrices of a layer that get an adapter: qkv, output, gate, up, down; all of them by default."""
    unfreeze: Unfreeze | None = None
    """Whether all trainable layers move from the start (at-once), or one more each epoch, from the head down (gradual).
    By default gradual where all of a base that has read enough is trained and the last layer's turn comes within half
    of the epochs."""
    layer_lr_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    """Each layer's learning rate is this share of that of the layer above it. By default 0.8; 1 from scratch."""
    head_lr_factor: Positive | None = None
    """The new head's learning rate as a multiple of the top layer's. By default 10; 1 from scratch."""

    def model_post_init(self, _context: object) -> None:
        """top-N has a number, so the words cannot be listed as a type."""
        if not re.fullmatch(r"all|head|biases|lora|top-[1-9]\d*", self.trainable):
            raise SettingError(
                f"trainable = '{self.trainable}' is not allowed: it is all, head, biases, lora, or top-N with a number "
                f"of layers such as top-2.{did_you_mean(self.trainable, ('all', 'head', 'biases', 'lora'))}"
            )

    @property
    def top_layers(self) -> int | None:
        """N of top-N."""
        return int(self.trainable.removeprefix("top-")) if self.trainable.startswith("top-") else None

    def resolved(self, *, is_scratch: bool) -> Self:
        """With the paces written out; a base from scratch has nothing to be kept, so all of it moves alike."""
        if is_scratch and (given := self._beside({"trainable": "all", "unfreeze": "at-once"})):
            raise SettingError(f"{', '.join(given)} cannot be used with --base scratch: there is no base to adapt.")
        decay, factor = (1.0, 1.0) if is_scratch else (LAYER_LR_DECAY, HEAD_LR_FACTOR)
        if self.trainable == "head":
            decay = 1.0  # none of its layers moves
        return self.changed(
            layer_lr_decay=self.layer_lr_decay or decay,
            head_lr_factor=self.head_lr_factor or factor,
            unfreeze="at-once" if is_scratch else self.unfreeze,
        )

    def fitted(self, *, is_gradual: bool) -> Self:
        """With `unfreeze` written out, once base and run are known; parts of a base move at once."""
        fit: Unfreeze = "gradual" if is_gradual and self.trainable == "all" else "at-once"
        return self.changed(unfreeze=self.unfreeze or fit)

    def lora(self) -> LoraShape | None:
        """The adapters that are asked for."""
        if self.trainable != "lora":
            return None
        return LoraShape(rank=self.lora_rank, alpha=self.lora_alpha, targets=self.lora_targets)

    def check(self) -> None:
        """Settings that would have no effect are refused."""
        if self.trainable != "lora" and (given := self.not_default(("lora_rank", "lora_alpha", "lora_targets"))):
            raise SettingError(f"{', '.join(given)}: there are adapters under --trainable lora only.")
        if self.trainable == "head" and (given := self._beside({"unfreeze": "at-once", "layer_lr_decay": 1.0})):
            raise SettingError(f"{', '.join(given)}: under --trainable head no layer of the base moves.")

    def _beside(self, idle: dict[str, Any]) -> list[str]:
        """Which of these settings are given, other than with the value that changes nothing."""
        return [name for name in self.not_default(idle) if getattr(self, name) != idle[name]]


MetricName = Literal[
    "accuracy", "macro_f1", "micro_f1", "f1", "exact_match", "mse", "mae", "pearson", "spearman", "r2", "loss"
]


class FinetuneTraining(TrainingSettings):
    """Settings of fine-tuning."""

    max_length: Annotated[int, Field(ge=2)] | None = None
    """Longest text in tokens, <sos> included; the base's limit by default. The share cut off is always reported."""
    num_train_epochs: Positive | None = None
    """Passes over the training set. By default fitted to its size: about 3,400 steps, 3 to 20 epochs."""
    early_stopping_patience: Steps | None = None
    """Stop after so many epochs without a better validation score. By default 5 where the number of epochs is left to
    us, else never."""
    long: Long | None = None
    """What is done with texts longer than max_length: truncate keeps the beginning (default), head+tail the first
    quarter and the last three, windows everything, in overlapping windows whose scores are averaged. The tasks tag and
    span always read in windows."""
    doc_stride: Annotated[int, Field(ge=0)] | None = None
    """Tokens that neighbouring windows share; a quarter of a window by default."""
    max_answer_length: Steps = 30
    """Longest answer in tokens, in the task span."""
    metric_for_best_model: MetricName | None = None
    """What the best epoch is chosen by, on validation. By default accuracy (classify), micro_f1 (multilabel), mse
    (regress), f1 (tag, span)."""
    label_smoothing_factor: Share = 0.0
    """Share of each target spread over all labels."""
    class_weight: Literal["none", "balanced"] = "none"
    """balanced: every class weighs the same in the loss, however rare it is."""


class StartSettings(ShapeChanges):
    """Where a fine-tuned model starts."""

    base: str | None = None
    """Bundle, run folder or installed base (box:NAME) that is carried over, or scratch."""
    preset: Preset | None = None
    """Shape of a base from scratch: lab (4 layers of 200), small (6 of 256, default), modern (6 of 512), gpt2-small,
    bert-base."""
    direction: Direction | None = None
    """Attention direction of a base from scratch; causal by default, bidirectional for the tasks tag and span, which
    need what follows a word. A pre-trained base keeps its own."""
    dropout: Share | None = 0.1
    """Dropout on embeddings, attention and residual branches while fine-tuning."""

    def resolved(self, direction: Direction) -> Self:
        """With the defaults of a base from scratch written out; one that is carried over has its own."""
        if self.base != "scratch":
            return self
        return self.changed(preset=self.preset or DEFAULT_PRESET, direction=self.direction or direction)


class FinetuneRecipe(Recipe):
    """Everything that reproduces a fine-tuning run."""

    verb: Literal["finetune"] = "finetune"
    data: LabelledSettings = LabelledSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: StartSettings = StartSettings()
    head: HeadSettings = HeadSettings()
    adaptation: AdaptationSettings = AdaptationSettings()
    training: FinetuneTraining = FinetuneTraining()
    machine: MachineSettings = MachineSettings()
