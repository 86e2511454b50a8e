"""Settings of a study: arms, budgets, seeds, overlap check. Imports no torch."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from headswap.batches.config import MaskingSettings
from headswap.core.settings import Recipe, Settings
from headswap.data.config import FEWEST_FOR_CHOOSING, DocumentUnit, LabelledSettings, TaskName
from headswap.finetuning.config import AdaptationSettings, FinetuneTraining, HeadSettings, StartSettings
from headswap.model.shape import ModelSettings, Share
from headswap.pretraining.config import AdaptTraining, PretrainTraining
from headswap.tasks.config import MetricName
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import MachineSettings, Seed

ALL = "all"
FEWEST_LABELS = 2
MOST_TRIALS = 5
Count = Annotated[int, Field(ge=1)]


class StudySettings(Settings):
    """What is compared, and how often it is run."""

    corpus: tuple[str, ...] = ()
    """Unlabelled text for pre-training: files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a token
    store or named data sets (see headswap datasets)."""
    documents: DocumentUnit = "auto"
    """How a plain text file of the corpus is split into documents: line (one document per line), paragraph (separated
    by blank lines), file (the whole file is one document), or auto (paragraph if at least 10 % of the lines are blank,
    otherwise line)."""
    corpus_text_column: str = "text"
    """Name of the column with the texts, for a corpus of .jsonl, .csv, .tsv or .parquet files."""
    arms: tuple[str, ...] | None = None
    """Arms: the models to compare, separated by commas. Baselines of the task classify: majority (the most frequent
    label), tfidf (TF-IDF + logistic regression), lsa (logistic regression on LSA vectors; the LSA is fitted on the
    corpus), nbsvm (Naive-Bayes features + logistic regression), pairs (a linear model of how two texts overlap and
    differ); docs/study.md lists those of other tasks. Without pre-training: scratch (random weights). A base that the
    study pre-trains on the corpus: pretrained (all weights are fine-tuned), frozen (only the new head is trained), lora
    (LoRA adapters), gradual (layers are unfrozen one by one), masked, causal+masked and masked+nsp (bases with these
    objectives), linear (a linear model on the vectors of the base; not for tag and span). Another base: box (the
    installed base box:reviews-en-2), box:NAME (another installed base), hf:FOLDER or hf:NAME (a Hugging Face
    checkpoint, as a folder or by its name on the Hub), or a bundle or run folder. A base that is first trained on the
    corpus and the training texts: adapted (box:reviews-en-2) or adapted:BASE. Consistency training on unlabelled
    texts: consistency:BASE, where BASE is pretrained, adapted or another base; consistency alone is
    consistency:adapted, or consistency:pretrained if box:reviews-en-2 cannot be used. A linear model on the vectors
    of another base: linear:BASE. Also a recipe file of headswap pretrain or finetune (x.toml is the arm x), or
    NAME=FILE: the answers of another system, such as an LLM, to the test rows (see --prepare-only). Default: the
    baselines of the task (classify: majority, tfidf, for pairs of texts also pairs, and lsa if --corpus has texts),
    scratch, pretrained if there is a corpus, and adapted if box:reviews-en-2 is installed, --max-length is not above
    its context length, the corpus is no token store and the task is not span."""
    budgets: tuple[str, ...] = ("100", "400", "1600", ALL)
    """Budgets: the numbers of labelled examples that a run may use, or all, separated by commas. From 200 on (see
    --hold-out-from), a run holds out 20 % of them (at most 2,000) as its validation set. Exceptions: baselines and
    linear arms are trained on all labels of the budget, and so is scratch below 2,000 labels (task classify, --trials
    1; not with --preset lab, --finetune.calibrate, --finetune.early-stopping-patience or another --hold-out-from). With
    --validation nothing is held out at the budget all."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 5
    """Number of runs per arm and budget. Each seed draws its own sample of labelled examples, which all arms share, and
    has its own initialisation and data order."""
    base_seeds: Count = 1
    """Number of bases, each with its own seed, that are pre-trained or adapted for each arm that needs one. The
    fine-tuning runs of the arm are divided among them."""
    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = 1
    """Number of learning rates that every trained arm tries in each run that has a validation set (by default from 200
    labels on): the first ones of its default times 1, 0.5, 2, 0.25 and 4. The best one on validation is scored on test.
    A study with N trials takes up to N times as long. With 1, every arm has its default learning rate."""
    num_test: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Number of test examples that are scored: a fixed sample, drawn as the label subsets are. Default: all."""
    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per text, in pre-training, adaptation and fine-tuning. Default: the context length of
    the base, which for a new base is that of its preset (gpt2-small 1024, others 512)."""
    primary_arm: str | None = None
    """The arm that the study is mainly about. Its comparisons with scratch and with the best baseline are the planned
    tests, which are fixed before any run is scored; all other tests are exploratory. Default: pretrained, otherwise the
    first arm that is neither a baseline nor scratch nor linear, otherwise the first linear one."""
    metric: Literal["accuracy", "macro_f1", "micro_f1", "r2", "pearson", "f1", "exact_match"] = "accuracy"
    """Metric by which the arms are compared: accuracy or macro_f1 (classify), micro_f1 or macro_f1 (multilabel), r2 or
    pearson (regress), f1 (tag), f1 or exact_match (span). It also selects the best epoch of every run and
    the regularisation of the baselines. Default: the first one that is listed for the task."""
    on_overlap: Literal["drop", "report", "stop"] = "drop"
    """What to do with texts of train, validation or corpus that overlap with the test set: drop (remove them; test set
    and token stores are not changed), report (only count them), or stop. A text overlaps if it is equal or nearly equal
    to a test text, if it contains at least half of one, or if one contains at least half of it; two pairs of texts
    overlap if both texts are equal or nearly equal. Overlap of train or corpus with validation is treated in the same
    way."""
    keep: Literal["bundles", "results"] = "bundles"
    """What a finished fine-tuning run keeps: bundles (the model, the results and the predictions), or results (the
    results and predictions only)."""

    @model_validator(mode="before")
    @classmethod
    def _former_name(cls, values: Any) -> Any:
        """In older recipes `on_overlap` is called `on_leak`."""
        if not isinstance(values, dict) or "on_leak" not in values:
            return values
        kept = {name: value for name, value in values.items() if name != "on_leak"}
        return {"on_overlap": values["on_leak"], **kept}

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
        if value is None:
            return None
        given = [value] if isinstance(value, str | int) else list(value)
        return tuple(part.strip() for item in given for part in str(item).split(",") if part.strip())

    @field_validator("budgets")
    @classmethod
    def _are_budgets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for part in value:
            if part != ALL and not (re.fullmatch(r"[0-9]{1,12}", part) and int(part) >= FEWEST_LABELS):
                raise ValueError(f"budgets holds '{part}'; a budget is a number of labels (at least 2), or all")
        if not value:
            raise ValueError("budgets is empty; give at least one number of labels, or all")
        ordered = sorted({part for part in value if part != ALL}, key=int)
        return (*ordered, *([ALL] if ALL in value else []))

    @field_validator("arms")
    @classmethod
    def _are_arms(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        if not value:
            raise ValueError("arms is empty; give at least one arm")
        return tuple(dict.fromkeys(value))


class StudyData(LabelledSettings):
    """The labelled sets of a study."""

    train: str | None = None
    """Labelled training set: a file (.jsonl, .csv, .tsv, .parquet, .conll, .json of SQuAD, or plain text with its
    labels in label_file, see --help-all), or a named data set such as movies (see headswap datasets)."""
    validation: str | None = None
    """Labelled validation set of runs with the budget all; it is used to choose the best epoch. Baselines and linear
    arms, which have no epochs, are trained on it too. Without it, and at all other budgets, each run holds out a part
    of its labels for validation (see --budgets)."""
    test: str | None = None
    """Labelled test set, on which all runs are scored. Required, unless a named data set has one."""
    task: TaskName | None = None
    """What the models predict: classify (one label per text), multilabel (any number of labels per text), regress (one
    number per text), tag (one tag per word), span (the part of a text that answers a question). Default: the
    task that fits the format of the training set, as in headswap finetune; regress must be given."""
    hold_out_from: Annotated[int, Field(ge=2, le=10**9)] = FEWEST_FOR_CHOOSING
    """With at least this many labels a run holds out a part of them for validation (see --budgets). With fewer labels
    it is trained on all of them, for a fixed number of epochs, and keeps the last weights."""
    num_train: Annotated[int, Field(ge=2)] | None = None
    """Not allowed in a study: --budgets sets the numbers of labels."""


class StudyFinetune(FinetuneTraining):
    """Settings of every fine-tuning run of a study; the seed is set by the study."""

    seed: Seed = 42
    """Not allowed: a study numbers its seeds itself (see --seeds)."""
    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per text in fine-tuning. Default: that of --max-length, otherwise that of
    --pretrain.max-length, otherwise the context length of the base."""
    metric: MetricName | None = None
    """Metric that selects the best epoch of every run. Default: that of --metric."""
    dropout: Share | None = StartSettings.model_fields["dropout"].default
    """Dropout on embeddings and residual branches during fine-tuning. For attention see attention_dropout."""


class StudyPretrain(PretrainTraining):
    """Settings of every pre-training of a study."""

    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per sequence in pre-training. Default: that of --max-length, otherwise the context
    length of the preset."""
    seed: Seed = 42
    """Not allowed: a study numbers its bases itself (see --base-seeds)."""


class StudyAdapt(AdaptTraining):
    """Settings of every adaptation of a base in a study."""

    max_length: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Maximum number of tokens per sequence in adaptation. Default: that of --max-length, otherwise the context length
    of the base."""
    seed: Seed = 42
    """Not allowed: a study numbers its bases itself (see --base-seeds)."""


class StudyRecipe(Recipe):
    """All settings of a study."""

    verb: Literal["study"] = "study"
    study: StudySettings = StudySettings()
    data: StudyData = StudyData()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    head: HeadSettings = HeadSettings()
    adaptation: AdaptationSettings = AdaptationSettings()
    masking: MaskingSettings = MaskingSettings()
    pretrain: StudyPretrain = StudyPretrain()
    adapt: StudyAdapt = StudyAdapt()
    finetune: StudyFinetune = StudyFinetune()
    machine: MachineSettings = MachineSettings()
