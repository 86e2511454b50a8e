"""Settings of a study: arms, budgets, seeds, and what is done about leaks. Free of torch."""

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
    """What is compared with what, and how often."""

    corpus: tuple[str, ...] = ()
    """Unlabelled text to pre-train on: files, folders, globs, a token store or named data sets."""
    documents: DocumentUnit = "auto"
    """What one document of the corpus is in a plain text file: a line, a paragraph, the whole file, or auto."""
    corpus_text_column: str = "text"
    """Name of the text column of the corpus."""
    arms: tuple[str, ...] = ("majority", "tfidf", "scratch", "pretrained")
    """Ways to get a model, by name (also frozen, lora, gradual, masked, masked+nsp, box), an installed base (box:NAME),
    a bundle folder, or a recipe."""
    budgets: tuple[str, ...] = ("100", "400", "1600", ALL)
    """How many labels an arm may see, those for choosing among them; all is the whole training set."""
    seeds: Count = 5
    """How often each arm is fine-tuned at each budget: other labels, initialisation and order each time."""
    base_seeds: Count = 1
    """How often a base is pre-trained; the seeds are dealt out among the bases."""
    num_test: Annotated[int, Field(ge=2)] | None = None
    """Score on this many test examples only, a fixed stratified choice."""
    max_length: Annotated[int, Field(ge=2)] | None = None
    """Longest row and text in tokens, for pre-training and fine-tuning alike."""
    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """What arms are compared by."""
    on_leak: Literal["drop", "report", "stop"] = "drop"
    """Texts of test that also stand in train, validation or corpus: drop them there, report them, or stop."""
    keep: Literal["bundles", "results"] = "bundles"
    """What is kept of a finished fine-tuning: its bundle too, or only results and predictions."""

    @field_validator("corpus", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("arms", "budgets", mode="before")
    @classmethod
    def _parts(cls, value: Any) -> Any:
        """`100,400` and `100 400` and `[100, 400]` are the same."""
        given = [value] if isinstance(value, str | int) else list(value)
        return tuple(part.strip() for item in given for part in str(item).split(",") if part.strip())

    @field_validator("budgets")
    @classmethod
    def _are_budgets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for part in value:
            if part != ALL and not (part.isdecimal() and int(part) >= FEWEST_LABELS):
                raise ValueError(f"budgets holds '{part}'; a budget is a number of labels from 2 on, or all")
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
    """Settings of every fine-tuning of a study; its seed is the study's."""

    dropout: Share | None = StartSettings.model_fields["dropout"].default
    """Dropout on embeddings, attention and residual branches while fine-tuning."""


class StudyRecipe(Recipe):
    """Everything that reproduces a study."""

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
