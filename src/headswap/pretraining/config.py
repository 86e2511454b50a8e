"""Settings and recipes of pre-training and adaptation. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.batches.config import MaskingSettings
from headswap.core.errors import SettingError
from headswap.core.settings import Recipe, Settings, check_exclusive
from headswap.data.config import ReadSettings
from headswap.model.shape import ModelSettings, Share
from headswap.registry import ObjectiveName
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import Epochs, OptimizerSettings, Positive, ProcessSettings, Seed, Steps


class PretrainTraining(OptimizerSettings):
    """Settings of pre-training."""

    exclusive = ("max_steps", "num_train_epochs", "max_tokens", "max_minutes")

    objective: ObjectiveName = "causal"
    """Pre-training objective. causal: predict the next token. masked: predict masked tokens from the text on both
    sides. masked+nsp: masked, and predict whether the second of two segments follows the first in its document (next
    sentence prediction). masked+sop: masked, and predict whether two neighbouring segments are in their original order
    (sentence order prediction). causal+masked: each step is either causal or masked, at random (GPT-BERT). Such a base
    can generate text and fill masks."""
    layout: Literal["packed", "documents"] = "packed"
    """How documents become sequences: packed concatenates the documents and cuts the result into windows of equal
    length; documents makes one sequence per document and truncates it at max_length."""
    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per sequence. Default: the context length of the preset (gpt2-small 1024, others
    512)."""
    num_train_epochs: Epochs | None = None
    """Number of passes over the corpus. Default: 1 if no other limit is given. Only one limit can be given: epochs,
    steps, tokens or minutes."""
    max_tokens: Steps | None = None
    """Stop after about this many training tokens."""
    max_minutes: Annotated[float, Field(gt=0, le=1e7)] | None = None
    """Stop after about this many minutes. A short speed test before training converts them to a number of steps."""
    batch_size: Steps = 32
    """Number of sequences per optimizer step, over all processes of torchrun together. A sequence has up to max_length
    tokens."""
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "cosine"
    """Schedule after warm-up: linear or cosine decay to 0, or constant."""
    weight_decay: Annotated[float, Field(ge=0)] | None = None  # type: ignore[assignment]
    """Weight decay: each step multiplies the weights by 1 - learning rate x this value. Biases and norms are not
    decayed. Default: 0.05; 2 if Muon is used under the conditions that --optimizer lists."""
    adam_beta2: Share = 0.98
    """beta2 of AdamW: decay rate of the running mean of the squared gradient."""
    held_out_fraction: Annotated[float, Field(ge=0, le=0.5)] = 0.01
    """Fraction of the documents that is kept for the held-out loss and not trained on (at most about 50,000 tokens, or
    the shortest document if all are longer)."""
    eval_steps: Steps | None = None
    """Compute the held-out loss every N steps; a base that can generate text also generates a short sample. Default:
    ten times per run, or fewer (at least twice) if that would take more than about a tenth of the training time."""
    learning_rate: Positive | None = None
    """Peak learning rate. Default: 0.001 x sqrt(256 / width); twice that if Muon is used under the conditions that
    --optimizer lists."""
    seed: Seed = 42
    """Seed of initialisation, data order, masking and dropout."""

    def check(self) -> None:
        """Check that at most one limit is given (a saved recipe may have max_steps beside max_minutes), and no setting
        without effect."""
        if self.muon_lr_factor is not None and self.optimizer != "muon":
            raise SettingError("muon_lr_factor has no effect with AdamW. Leave it out, or use --optimizer muon.")
        limits = [name for name in self.exclusive if name != "max_steps" or self.max_minutes is None]
        check_exclusive(self.model_dump(), limits)


class CorpusSettings(ReadSettings):
    """The unlabelled text."""

    corpus: tuple[str, ...] = ()
    """Files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a token store, a named data set, or - for
    standard input."""


class PretrainRecipe(Recipe):
    """All settings of a pre-training run."""

    verb: Literal["pretrain"] = "pretrain"
    corpus: CorpusSettings = CorpusSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    masking: MaskingSettings = MaskingSettings()
    training: PretrainTraining = PretrainTraining()
    machine: ProcessSettings = ProcessSettings()


class AdaptStart(Settings):
    """The base to adapt, and text of its old domain."""

    base: str | None = None
    """Bundle or run folder of a pre-trained base, an installed base (box:NAME), or a Hugging Face checkpoint: a folder
    (hf:FOLDER) or a name on the Hub (hf:NAME)."""
    reference: str | None = None
    """Text similar to that of the first pre-training. The loss on it before and after the run is reported; it shows
    how much the base forgets."""


class AdaptTraining(PretrainTraining):
    """Settings of continued pre-training."""

    objective: ObjectiveName | None = None  # type: ignore[assignment]
    """Pre-training objective, as in headswap pretrain. Default: that of the base. Another objective changes the kind of
    base, for example from causal to masked or to causal+masked. <mask> is added to the vocabulary if it is missing."""
    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per sequence. Default: the context length of the base."""
    learning_rate: Positive | None = None
    """Peak learning rate. Default: 0.0005 x sqrt(256 / width), which is half the default for pre-training a new
    base."""
    num_train_epochs: Epochs | None = None
    """Number of passes over the new text. Default: as many as make about 50 million tokens, but at least 1 and at most
    30. Only one limit can be given: epochs, steps, tokens or minutes."""
    max_minutes: Annotated[float, Field(gt=0, le=1e7)] | None = None
    """Stop after about this many minutes, but not later than after the default number of epochs. A short speed test
    before training converts minutes to a number of steps."""
    optimizer: Literal["adamw", "muon"] | None = None
    """adamw, or muon: Muon for the matrices of the layers and AdamW for embeddings, norms, biases and the head.
    Default: adamw."""
    weight_decay: Annotated[float, Field(ge=0)] | None = None
    """Weight decay: each step multiplies the weights by 1 - learning rate x this value. Biases and norms are not
    decayed. Default: 0.05."""
    load_best_model_at_end: bool = False
    """Keep the weights with the lowest held-out loss of all evaluations during the adaptation (see eval_steps);
    otherwise the last weights. Without held-out text the last weights are kept."""
    seed: Seed = 42
    """Seed of data order, masking and dropout."""


class AdaptRecipe(Recipe):
    """All settings of a run that continues the pre-training of a base on new text."""

    verb: Literal["adapt"] = "adapt"
    corpus: CorpusSettings = CorpusSettings()
    model: AdaptStart = AdaptStart()
    training: AdaptTraining = AdaptTraining()
    machine: ProcessSettings = ProcessSettings()
