"""Settings and the recipe of fine-tuning: data, base, head, adaptation, training. Does not import torch."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from headswap.core.errors import SettingError, did_you_mean
from headswap.core.settings import Recipe, Settings
from headswap.data.config import LabelledSettings
from headswap.model.shape import (
    LORA_TARGETS,
    Count,
    Direction,
    HeadNorm,
    HeadShape,
    HeadSimilarity,
    LoraShape,
    LoraTarget,
    Pooling,
    Preset,
    ShapeChanges,
    Share,
)
from headswap.tasks.config import TaskSettings
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import Epochs, Positive, ProcessSettings, Steps, TrainingSettings

Unfreeze = Literal["at-once", "gradual"]
HeadInit = Literal["random", "class-means", "linear"]
PairEncoding = Literal["joined", "separate"]


class HeadSettings(HeadShape):
    """The new head; pooling may be left open, its default depends on the base."""

    pooling: Pooling | None = None  # type: ignore[assignment]
    """How the token vectors of a text become one vector: last, mean, first, max, mean+max (both, concatenated), or
    weighted-mean (token i has weight i). The tasks tag and span do not use it. Default: weighted-mean with
    causal attention, mean with bidirectional."""
    head_similarity: HeadSimilarity | None = None  # type: ignore[assignment]
    """How a classifier scores labels: dot (dot product of the text vector and the weights of the label), or cosine (16
    times their cosine; the lengths of the two vectors have no effect). Default: cosine with 100 or more labels, if the
    base was pre-trained on at least 3 tokens per parameter; otherwise dot."""
    head_norm: HeadNorm | None = None  # type: ignore[assignment]
    """How the vector of a text is normalised before the head reads it: none, or layer (to mean 0 and variance 1, as a
    layer norm without weights does). Default: layer with --pair-encoding separate, otherwise none."""
    pair_encoding: PairEncoding | None = None
    """How a pair of texts is read: joined (both in one sequence with <sep> between them, a cross-encoder), or separate
    (each in a sequence of its own, a bi-encoder; the head reads both vectors, their absolute difference and their
    product). Default: separate; joined for a base that was trained on pairs in one sequence (masked+nsp, masked+sop, or
    fine-tuned so), and for a public checkpoint."""


class AdaptationSettings(Settings):
    """Which weights of the base are trained, and how fast."""

    trainable: str = "all"
    """Which weights are trained: all, head (only the new head), top-N (the top N layers, such as top-2), biases, or
    lora (LoRA adapters). The new head is always trained."""
    lora_rank: Count = 8
    """Rank of the LoRA adapters. Only with --trainable lora."""
    lora_alpha: Positive = 16.0
    """The output of LoRA adapters is scaled by alpha / rank. Only with --trainable lora."""
    lora_targets: tuple[LoraTarget, ...] = LORA_TARGETS
    """Weight matrix of each layer to which a LoRA adapter is added: qkv (queries, keys and values), output (of
    attention), gate (only with the activation swiglu), up or down (of the feed-forward block); repeat the flag for
    several. Only with --trainable lora. Default: all of them."""
    unfreeze: Unfreeze | None = None
    """at-once trains all layers from the start; gradual trains only the head in the first epoch and unfreezes one more
    layer per epoch, from the top down. Default: gradual if all weights are trained, the base was pre-trained on at
    least 3 tokens per parameter, and all layers are unfrozen within the first half of the epochs; otherwise at-once."""
    layer_lr_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    """Learning rate of a layer divided by that of the layer above it. The top layer has --learning-rate; with 1 all
    layers have it. Default: 0.8, or 1 from scratch."""
    head_lr_factor: Positive | None = None
    """Learning rate of the new head divided by --learning-rate. Default: 10, or 1 from scratch."""
    head_epochs: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Number of epochs at the start in which only the new head is trained. Default: 1 with --unfreeze gradual,
    otherwise 0."""
    head_init: HeadInit | None = None
    """Initial weights of the new head: random, class-means, or linear. With class-means a classifier scores the labels
    by how close the vector of a text is to the mean vector of each label's training texts. With linear the head of a
    classifier or regression begins as a logistic or ridge regression that is fitted to the vectors of the training
    texts. Both need head_bias, linear also --head-similarity dot. A base that was pre-trained on fewer than 3 tokens
    per parameter gets a random head. Default: linear with --pair-encoding separate and at most 10,000 training pairs,
    otherwise class-means with 10 or more labels, otherwise random."""

    def model_post_init(self, _context: object) -> None:
        """Check `trainable`; top-N contains a number, so a Literal type cannot list its values."""
        if not re.fullmatch(r"all|head|biases|lora|top-[1-9]\d{0,5}", self.trainable):
            raise SettingError(
                f"trainable = '{self.trainable}' is not allowed: it is all, head, biases, lora, or top-N with a number "
                f"of layers such as top-2.{did_you_mean(self.trainable, ('all', 'head', 'biases', 'lora'))}"
            )

    @property
    def top_layers(self) -> int | None:
        """N of top-N; None for other values of `trainable`."""
        return int(self.trainable.removeprefix("top-")) if self.trainable.startswith("top-") else None

    def lora(self) -> LoraShape | None:
        """The adapters under --trainable lora; otherwise None."""
        if self.trainable != "lora":
            return None
        return LoraShape(rank=self.lora_rank, alpha=self.lora_alpha, targets=self.lora_targets)

    def check(self, *, is_scratch: bool) -> None:
        """Raise an error for settings that have no effect."""
        neutral = {"trainable": "all", "unfreeze": "at-once", "head_epochs": 0, "head_init": "random"}
        if is_scratch and (given := self._given(neutral)):
            raise SettingError(f"{', '.join(given)} cannot be used with --base scratch: there is no base to adapt.")
        if self.trainable != "lora" and (given := self.not_default(("lora_rank", "lora_alpha", "lora_targets"))):
            raise SettingError(f"{', '.join(given)}: only used with --trainable lora.")
        neutral = {"unfreeze": "at-once", "layer_lr_decay": 1.0, "head_epochs": 0}
        if self.trainable == "head" and (given := self._given(neutral)):
            raise SettingError(
                f"{', '.join(given)}: no effect with --trainable head, which trains no layer of the base."
            )

    def _given(self, neutral: dict[str, Any]) -> list[str]:
        """Which of these settings are given with a value other than the neutral one."""
        return [name for name in self.not_default(neutral) if getattr(self, name) != neutral[name]]


class FinetuneTraining(TaskSettings, TrainingSettings):
    """Settings of fine-tuning."""

    max_steps: Steps | None = None
    """Number of optimizer steps, instead of num_train_epochs: if both are given, num_train_epochs has no effect."""
    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per text, including the start token <sos>. The run logs the share of tokens that is cut
    off. Default: the context length of the base; with --base scratch 512 (1024 with gpt2-small)."""
    batch_size: Steps = 16
    """Number of texts per optimizer step, over all processes of torchrun together. Default: 16; 32 from 36,267 training
    texts on, and doubled again each time the number of texts doubles."""
    num_train_epochs: Epochs | None = None
    """Number of passes over the training set. Default: as many as make about 3,400 steps, but at least 3 and at most
    20."""
    early_stopping_patience: Steps | None = None
    """Stop after this many epochs without a better validation score. Default: 5 if neither num_train_epochs nor
    max_steps is given, otherwise no early stopping."""
    token_dropout: Share | None = None
    """Probability with which each token of a training text is left out, drawn again in every step. Not for the tasks
    tag and span. Default: 0."""
    rdrop_alpha: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Weight of R-Drop: each step reads its texts twice with different dropout, and the divergence between the two
    predictions is added to the loss. Only for the tasks classify and tag. Default: 0 (off)."""
    adversarial_epsilon: Share = 0.0
    """Adversarial training: each step also reads its texts with token embeddings that are shifted in the direction in
    which the loss grows fastest, by this share of their norm. In consistency training the changed copies of the
    unlabelled texts are shifted too (virtual adversarial training). Default: 0 (off)."""


class StartSettings(ShapeChanges):
    """The base that is fine-tuned, or the shape of a new one."""

    base: str | None = None
    """The base to start from: a run folder of headswap pretrain or adapt, a bundle folder, an installed base
    (box:NAME), a Hugging Face checkpoint, which is a folder (hf:FOLDER) or a name on the Hub (hf:NAME); or scratch, to
    train a new model from random weights. Some defaults below depend on the number of tokens on which the base was
    pre-trained. If the base does not record it, like a Hugging Face checkpoint, at least 3 tokens per parameter are
    assumed."""
    preset: Preset | None = None
    """Shape of the new model with --base scratch: lab (4 layers of width 200), small (6 of width 256), modern (6 of
    width 512), llama (as modern, with RMSNorm), gpt2-small or bert-base (12 of width 768). Default: 2 layers of width
    128 with feed-forward layers of width 512, otherwise as small; if an option of the shape is given, small with that
    option."""
    direction: Direction | None = None
    """Attention direction: causal or bidirectional. A base that was trained with bidirectional
    attention only (masked, masked+nsp, masked+sop) cannot be made causal. Default: bidirectional for the tasks tag and
    span; for other tasks that of the base (causal+masked: bidirectional), and with --base scratch bidirectional (causal
    with the preset lab)."""
    dropout: Share | None = 0.1
    """Dropout on embeddings and residual branches during fine-tuning. For attention see attention_dropout."""


class ConsistencySettings(Settings):
    """Consistency training: texts without labels that are used during fine-tuning."""

    unlabelled: tuple[str, ...] = ()
    """Texts without labels for consistency training of a classifier: files, folders, glob patterns or addresses, as for
    a corpus. The model is trained to predict the same for a text and for a copy with some tokens left out or replaced.
    With --teachers these are the texts for distillation."""
    teachers: tuple[str, ...] = ()
    """Distillation: a fine-tuned classifier (run folder or bundle); repeat the flag for several. The
    targets of the unlabelled texts are then the mean probabilities of the teachers, and there is no consistency
    training."""
    consistency_weight: Positive = 1.0
    """Weight of the consistency loss in the sum with the loss of the labelled texts."""
    consistency_token_dropout: Share = 0.2
    """Probability with which each token of an unlabelled text is left out in its changed copy."""
    consistency_replacement: Share = 0.0
    """Probability with which each token of an unlabelled text is replaced in its changed copy, by a token that is drawn
    from the predictions of the base. The base must have its language modelling head. Default: 0 (off)."""
    consistency_threshold: Share = 0.8
    """An unlabelled text is used only if its most probable label has at least this probability."""
    consistency_temperature: Positive = 0.5
    """The target of an unlabelled text is the prediction for the unchanged text, with its logits divided by this
    temperature. Values below 1 sharpen the target."""
    consistency_ramp: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the steps, at the start of the run, in which the weight of the consistency loss rises linearly from 0 to
    consistency_weight."""
    unlabelled_batch_size: Steps | None = None
    """Number of unlabelled texts per optimizer step, over all processes of torchrun together. Default: 3 x
    batch_size."""


class FinetuneRecipe(Recipe):
    """All settings of a fine-tuning run."""

    verb: Literal["finetune"] = "finetune"
    data: LabelledSettings = LabelledSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: StartSettings = StartSettings()
    head: HeadSettings = HeadSettings()
    adaptation: AdaptationSettings = AdaptationSettings()
    training: FinetuneTraining = FinetuneTraining()
    consistency: ConsistencySettings = ConsistencySettings()
    machine: ProcessSettings = ProcessSettings()

    def of_run(self) -> Self:
        """The recipe that a run wrote, with what its version did where it did not have a setting of this one.

        Versions without `pair_encoding` read a pair as one sequence. Those without `head_norm` normalised the vectors
        of pairs in two sequences, and no others. A head that reads token by token has neither, and no pooling.
        """
        head, adaptation = self.head, self.adaptation
        if head.pair_encoding is None and self.data.text_pair_column is not None:
            head = head.changed(pair_encoding="joined")
        if head.head_norm is None and head.pooling is not None:
            head = head.changed(head_norm="layer" if head.pair_encoding == "separate" else "none")
        head = head if head.head_similarity is not None else head.changed(head_similarity="dot")
        adaptation = adaptation if adaptation.head_init is not None else adaptation.changed(head_init="random")
        return self.changed(head=head, adaptation=adaptation)
