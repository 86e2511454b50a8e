"""Settings of a study: arms, budgets, seeds, overlap check. Imports no torch."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from headswap.batches.config import MaskingSettings
from headswap.core.settings import Recipe, Settings
from headswap.data.config import DocumentUnit, LabelledSettings
from headswap.finetuning.config import AdaptationSettings, FinetuneTraining, HeadSettings, StartSettings
from headswap.model.shape import ModelSettings, Share
from headswap.pretraining.config import PretrainTraining
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import MachineSettings

ALL = "all"
FEWEST_LABELS = 2
Count = Annotated[int, Field(ge=1)]


class StudySettings(Settings):
    """What is compared, and how often it is run."""

    corpus: tuple[str, ...] = ()
    """Unlabelled text for pre-training: files, folders, globs, a token store or named data sets."""
    documents: DocumentUnit = "auto"
    """Unit of one corpus document in a plain text file: a line, a paragraph, the whole file, or auto."""
    corpus_text_column: str = "text"
    """Name of the corpus column with the text."""
    arms: tuple[str, ...] = ("majority", "tfidf", "scratch", "pretrained")
    """Models to compare: a name (also frozen, lora, gradual, masked, masked+nsp, box), an installed base (box:NAME),
    a bundle folder, or a recipe."""
    budgets: tuple[str, ...] = ("100", "400", "1600", ALL)
    """Numbers of labels, including those for model selection; all is the whole training set."""
    seeds: Count = 5
    """Fine-tuning runs per arm and budget; each seed has its own labels, initialisation and order."""
    base_seeds: Count = 1
    """Pre-training runs per base; the seeds are distributed over them."""
    num_test: Annotated[int, Field(ge=2)] | None = None
    """Number of test examples to score on, a fixed stratified sample; by default all."""
    max_length: Annotated[int, Field(ge=2)] | None = None
    """Maximum length in tokens, for pre-training and fine-tuning."""
    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Metric that arms are compared by. It also chooses the epoch of every run and the strength of TF-IDF."""
    on_leak: Literal["drop", "report", "stop"] = "drop"
    """For test texts that are also in train, validation or corpus: drop them there, report them, or stop."""
    keep: Literal["bundles", "results"] = "bundles"
    """What a finished fine-tuning run keeps: also its bundle, or only results and predictions."""

    @field_validator("corpus", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("metric", mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        """`macro-f1` and `macro_f1` are the same."""
        return value.replace("-", "_").lower() if isinstance(value, str) else value

    @field_validator("arms", "budgets", mode="before")
    @classmethod
    def _parts(cls, value: Any) -> Any:
        """`100,400`, `100 400` and `[100, 400]` are the same."""
        given = [value] if isinstance(value, str | int) else list(value)
        return tuple(part.strip() for item in given for part in str(item).split(",") if part.strip())

    @field_validator("budgets")
    @classmethod
    def _are_budgets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for part in value:
            if part != ALL and not (part.isdecimal() and int(part) >= FEWEST_LABELS):
                raise ValueError(f"budgets holds '{part}'; a budget is a number of labels (at least 2), or all")
        if not value:
            raise ValueError("budgets is empty; give at least one number of labels, or all")
        ordered = sorted({part for part in value if part != ALL}, key=int)
        return (*ordered, *([ALL] if ALL in value else []))

    @field_validator("arms")
    @classmethod
    def _are_arms(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("arms is empty; give at least one arm")
        return tuple(dict.fromkeys(value))


class StudyFinetune(FinetuneTraining):
    """Settings of every fine-tuning run of a study; the seed is set by the study."""

    dropout: Share | None = StartSettings.model_fields["dropout"].default
    """Dropout on embeddings, attention and residual branches during fine-tuning."""


class StudyRecipe(Recipe):
    """All settings of a study."""

    verb: Literal["study"] = "study"
    study: StudySettings = StudySettings()
    data: LabelledSettings = LabelledSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    head: HeadSettings = HeadSettings()
    adaptation: AdaptationSettings = AdaptationSettings()
    masking: MaskingSettings = MaskingSettings()
    pretrain: PretrainTraining = PretrainTraining()
    finetune: StudyFinetune = StudyFinetune()
    machine: MachineSettings = MachineSettings()
