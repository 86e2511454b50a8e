"""Settings and recipes of pre-training and of adaptation. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.batches.config import MaskingSettings
from headswap.core.settings import Recipe, Settings, check_exclusive
from headswap.data.config import ReadSettings
from headswap.model.shape import ModelSettings, Share
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import MachineSettings, Positive, Steps, TrainingSettings

ObjectiveName = Literal["causal", "masked", "masked+nsp", "masked+sop"]


class PretrainTraining(TrainingSettings):
    """Settings of pre-training."""

    exclusive = ("max_steps", "num_train_epochs", "max_tokens", "max_minutes")

    objective: ObjectiveName = "causal"
    """What is predicted: causal is the next token; masked is hidden tokens, from both sides; masked+nsp also asks
    whether two segments follow each other, masked+sop whether they are in their order."""
    layout: Literal["packed", "documents"] = "packed"
    """Rows of a batch: packed windows of equal length, or one document a row, cut at the limit, as the lab has it."""
    max_length: Annotated[int, Field(ge=2)] | None = None
    """Longest row in tokens; the preset's limit by default."""
    num_train_epochs: Positive | None = None
    """Passes over the corpus; 1 if no other limit is given."""
    max_tokens: Steps | None = None
    """Stop after about this many tokens."""
    max_minutes: Positive | None = None
    """Stop after about this long: a short probe turns it into a number of steps, once."""
    batch_size: Steps = 32
    """Rows per optimizer step, over all micro-batches and processes."""
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "cosine"
    """How the learning rate goes from its peak to the end."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.05
    """AdamW's weight decay; never on biases and norms."""
    adam_beta2: Share = 0.98
    """AdamW's second decay rate."""
    held_out_fraction: Annotated[float, Field(ge=0, le=0.5)] = 0.01
    """Share of the documents that is held out for the held-out loss (at most about 50,000 tokens)."""
    eval_steps: Steps | None = None
    """Held-out evaluation and a sampled continuation every so many steps; ten times a run by default."""

    def check(self) -> None:
        """At most one limit may be given, in a recipe too; but a probe writes max_steps beside max_minutes."""
        limits = [name for name in self.exclusive if name != "max_steps" or self.max_minutes is None]
        check_exclusive(self.model_dump(), limits)


class CorpusSettings(ReadSettings):
    """Where the unlabelled text is."""

    corpus: tuple[str, ...] = ()
    """Files, folders, globs, a token store, a named data set, or - for standard input."""


class PretrainRecipe(Recipe):
    """Everything that reproduces a pre-training run."""

    verb: Literal["pretrain"] = "pretrain"
    corpus: CorpusSettings = CorpusSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    masking: MaskingSettings = MaskingSettings()
    training: PretrainTraining = PretrainTraining()
    machine: MachineSettings = MachineSettings()


class AdaptStart(Settings):
    """The base that goes on, and the text it came from."""

    base: str | None = None
    """Bundle or run folder of a pre-trained base, or an installed one (box:NAME)."""
    reference: str | None = None
    """Corpus of the old domain: its loss is told before and after, since new text can push old knowledge out."""


class AdaptTraining(PretrainTraining):
    """Settings of going on with pre-training."""

    objective: ObjectiveName | None = None  # type: ignore[assignment]
    """The base's own; it cannot be changed on the way."""


class AdaptRecipe(Recipe):
    """Everything that reproduces a run that goes on pre-training a base on new text."""

    verb: Literal["adapt"] = "adapt"
    corpus: CorpusSettings = CorpusSettings()
    model: AdaptStart = AdaptStart()
    training: AdaptTraining = AdaptTraining()
    machine: MachineSettings = MachineSettings()
