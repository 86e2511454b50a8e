"""Settings of training, and the recipes of the two training verbs. Free of torch."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator

from headswap.core.config import Recipe, Settings, check_exclusive
from headswap.model.config import DEFAULT_PRESET, Direction, ModelSettings, Preset, ShapeChanges, Share
from headswap.text.config import LabelledSettings, Long, MaskingSettings, ReadSettings, TokenizerSettings
from headswap.training.swap_config import AdaptationSettings, HeadSettings, Positive

Steps = Annotated[int, Field(ge=1)]
DeviceName = Literal["auto", "cpu", "cuda"]
FastName = Literal["auto", "off"]
PrecisionName = Literal["auto", "fp32", "bf16"]
MetricName = Literal[
    "accuracy", "macro_f1", "micro_f1", "f1", "exact_match", "mse", "mae", "pearson", "spearman", "r2", "loss"
]
ObjectiveName = Literal["causal", "masked", "masked+nsp", "masked+sop"]


class MachineSettings(Settings):
    """What a run is computed on; none of it changes what is computed beyond rounding."""

    device: DeviceName = "auto"
    """Where to compute: auto takes a CUDA device if there is one."""
    precision: PrecisionName = "auto"
    """Number format of the large products: auto is bf16 on a CUDA device that has it, and for the training steps (not
    the scores) of a base of width 128 or more on a CPU that has it; else fp32."""
    threads: Steps | None = None
    """CPU threads; by default all cores. Results are bit-equal for equal thread counts."""
    deterministic: bool = False
    """On a CUDA device use only kernels that give the same bits every time; slower. A CPU always does."""
    fast: FastName = "auto"
    """auto takes the fast kernels and the compiler where they pay off, and says which; off computes everything plainly.
    The results are the same but for rounding."""


class TrainingSettings(Settings):
    """What pre-training and fine-tuning share."""

    max_steps: Steps | None = None
    """Stop after this many optimizer steps."""
    batch_size: Steps = 16
    """Sequences per optimizer step, over all micro-batches and processes."""
    gradient_accumulation_steps: Steps = 1
    """Micro-batches a process makes of its part of a batch: less memory, the same results but for the dropout drawn."""
    learning_rate: Positive | None = None
    """Peak learning rate. By default fitted to the width of the base."""
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "linear"
    """How the learning rate goes from its peak to the end."""
    warmup_steps: Annotated[float, Field(ge=0)] = 0.06
    """Steps of linear warm-up; a number below 1 is a share of all steps."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW's weight decay; never on biases and norms."""
    adam_beta1: Share = 0.9
    """AdamW's first decay rate."""
    adam_beta2: Share = 0.999
    """AdamW's second decay rate."""
    adam_epsilon: Positive = 1e-8
    """AdamW's epsilon."""
    max_grad_norm: Positive | None = 1.0
    """Clip the gradient to this norm."""
    seed: Annotated[int, Field(ge=0)] = 42
    """Seed of every stream: initialisation, order, dropout."""
    save_steps: Steps | None = None
    """Checkpoint every so many steps; by default at evaluations, once a minute has passed since the last one."""
    save_total_limit: Steps = 2
    """Checkpoints to keep."""
    logging_steps: Steps = 10
    """Write a line of training loss every so many steps."""
    on_nan: str = "stop"
    """What to do when a loss or gradient is not finite: stop, or skip:N to pass over at most N such steps, each
    recorded. No weight moves in such a step."""

    @field_validator("on_nan")
    @classmethod
    def _known_on_nan(cls, value: str) -> str:
        if not re.fullmatch(r"stop|skip:[1-9]\d{0,5}", value):
            raise ValueError(f"on_nan = {value!r} is not allowed. Give stop, or skip:N with a number of steps as N")
        return value

    @property
    def most_skipped(self) -> int:
        """How many steps may be skipped because they are not finite."""
        return 0 if self.on_nan == "stop" else int(self.on_nan.removeprefix("skip:"))


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


class CorpusSettings(ReadSettings):
    """Where the unlabelled text is."""

    corpus: tuple[str, ...] = ()
    """Files, folders, globs, a token store, a named data set, or - for standard input."""


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
