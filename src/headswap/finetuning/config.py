"""Settings and the recipe of fine-tuning: data, starting point, head, adaptation, training. Free of torch."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from headswap.core.errors import SettingError, did_you_mean
from headswap.core.settings import Recipe, Settings
from headswap.data.config import LabelledSettings
from headswap.model.shape import (
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
from headswap.tasks.config import TaskSettings
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import MachineSettings, Positive, Steps, TrainingSettings

Unfreeze = Literal["at-once", "gradual"]


class HeadSettings(HeadShape):
    """How the new head reads the base; what fits the base is left open."""

    pooling: Pooling | None = None  # type: ignore[assignment]
    """How token vectors become one vector per sequence: last, mean, first, max, mean+max (both, concatenated), or
    weighted-mean (position-weighted mean: token i has weight i, SGPT's weighted mean). Default: weighted-mean for
    causal bases, mean for bidirectional ones. Heads that score every token (tag, span) do not use it."""


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

    def lora(self) -> LoraShape | None:
        """The adapters that are asked for."""
        if self.trainable != "lora":
            return None
        return LoraShape(rank=self.lora_rank, alpha=self.lora_alpha, targets=self.lora_targets)

    def check(self, *, is_scratch: bool) -> None:
        """Refuse settings that would have no effect."""
        if is_scratch and (given := self._beside({"trainable": "all", "unfreeze": "at-once"})):
            raise SettingError(f"{', '.join(given)} cannot be used with --base scratch: there is no base to adapt.")
        if self.trainable != "lora" and (given := self.not_default(("lora_rank", "lora_alpha", "lora_targets"))):
            raise SettingError(f"{', '.join(given)}: there are adapters under --trainable lora only.")
        if self.trainable == "head" and (given := self._beside({"unfreeze": "at-once", "layer_lr_decay": 1.0})):
            raise SettingError(f"{', '.join(given)}: under --trainable head no layer of the base moves.")

    def _beside(self, idle: dict[str, Any]) -> list[str]:
        """Which of these settings are given, other than with the value that changes nothing."""
        return [name for name in self.not_default(idle) if getattr(self, name) != idle[name]]


class FinetuneTraining(TaskSettings, TrainingSettings):
    """Settings of fine-tuning."""

    max_length: Annotated[int, Field(ge=2)] | None = None
    """Longest text in tokens, <sos> included; the base's limit by default. The share cut off is always reported."""
    num_train_epochs: Positive | None = None
    """Passes over the training set. By default fitted to its size: about 3,400 steps, 3 to 20 epochs."""
    early_stopping_patience: Steps | None = None
    """Stop after so many epochs without a better validation score. By default 5 where the number of epochs is left to
    us, else never."""


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
