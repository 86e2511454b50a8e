"""Keyword arguments of the Python functions, from the settings models by tests/api/write_signatures.py."""

from os import PathLike
from typing import Literal, TypedDict

PathName = str | PathLike[str]


class ReadOptions(TypedDict, total=False):
    """Settings of `ReadSettings` that several functions have."""

    documents: Literal["auto", "line", "paragraph", "file"]
    text_column: str


class TokenizerOptions(TypedDict, total=False):
    """Settings of `TokenizerSettings` that several functions have."""

    tokenizer: PathName | None
    kind: Literal["bpe", "unigram", "wordpiece", "word"]
    vocab_size: int | None
    lowercase: bool


class ShapeChangesOptions(TypedDict, total=False):
    """Settings of `ShapeChanges` that several functions have."""

    hidden_size: int | None
    num_hidden_layers: int | None
    num_attention_heads: int | None
    intermediate_size: int | None
    positions: Literal["sinusoidal", "learned", "rotary"] | None
    norm: Literal["pre", "post"] | None
    normalization: Literal["layer", "rms"] | None
    final_norm: bool | None
    activation: Literal["relu", "gelu", "gelu_tanh", "swiglu"] | None
    embedding_norm: bool | None
    type_vocab_size: int | None
    tied_head: bool | None
    lm_head_transform: Literal["none", "relu", "gelu", "gelu_tanh"] | None
    dropout: float | None
    attention_dropout: float | None


class ModelOptions(TypedDict, total=False):
    """Settings of `ModelSettings` that several functions have."""

    preset: Literal["lab", "small", "modern", "llama", "gpt2-small", "bert-base"]


class MaskingOptions(TypedDict, total=False):
    """Settings of `MaskingSettings` that several functions have."""

    mlm_probability: float
    mlm_probability_start: float | None
    mask_unit: Literal["token", "ngram", "word", "span"] | None
    mask_replace_prob: float
    random_replace_prob: float
    masked_share: float | None


class TrainingOptions(TypedDict, total=False):
    """Settings of `TrainingSettings` that several functions have."""

    max_steps: int | None
    batch_size: int
    gradient_accumulation_steps: int
    learning_rate: float | None
    lr_scheduler_type: Literal["linear", "cosine", "constant"]
    warmup_steps: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    max_grad_norm: float | None
    seed: int
    save_steps: int | None
    save_total_limit: int
    logging_steps: int
    on_nan: str


class PretrainTrainingOptions(TypedDict, total=False):
    """Settings of `PretrainTraining` that several functions have."""

    weight_decay: float | None
    layout: Literal["packed", "documents"]
    max_length: int | None
    num_train_epochs: float | None
    max_tokens: int | None
    max_minutes: float | None
    held_out_fraction: float
    eval_steps: int | None


class OptimizerOptions(TypedDict, total=False):
    """Settings of `OptimizerSettings` that several functions have."""

    optimizer: Literal["adamw", "muon"] | None
    muon_lr_factor: float | None


class MachineOptions(TypedDict, total=False):
    """Settings of `MachineSettings` that several functions have."""

    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16"]
    threads: int | None
    deterministic: bool
    fast: Literal["auto", "off"]
    allow_download: bool


class ProcessOptions(TypedDict, total=False):
    """Settings of `ProcessSettings` that several functions have."""

    parallel: Literal["ddp", "fsdp"]


class ColumnOptions(TypedDict, total=False):
    """Settings of `ColumnSettings` that several functions have."""

    text_column: str
    text_pair_column: str | None
    label_column: str
    label_separator: str
    tokens_column: str
    tags_column: str
    conll_word_column: int
    conll_tag_column: int | None
    context_column: str
    question_column: str
    answers_column: str
    answer_offsets: Literal["exact", "nearest"]


class LabelledOptions(TypedDict, total=False):
    """Settings of `LabelledSettings` that several functions have."""

    hold_out_from: int
    group_column: str | None
    unseen_labels: Literal["error", "wrong"]
    task: Literal["classify", "multilabel", "regress", "tag", "span"] | None
    label_file: PathName | None
    validation_label_file: PathName | None
    test_label_file: PathName | None
    num_train: int | None


class HeadOptions(TypedDict, total=False):
    """Settings of `HeadSettings` that several functions have."""

    pooling: Literal["last", "mean", "first", "max", "mean+max", "weighted-mean"] | None
    head_norm: Literal["none", "layer"] | None
    head_similarity: Literal["dot", "cosine"] | None
    pair_encoding: Literal["joined", "separate"] | None


class HeadShapeOptions(TypedDict, total=False):
    """Settings of `HeadShape` that several functions have."""

    head_hidden: Literal["none", "tanh", "relu", "gelu"]
    head_bias: bool
    head_dropout: float


class AdaptationOptions(TypedDict, total=False):
    """Settings of `AdaptationSettings` that several functions have."""

    trainable: str
    lora_rank: int
    lora_alpha: float
    lora_targets: tuple[Literal["qkv", "output", "gate", "up", "down"], ...]
    unfreeze: Literal["at-once", "gradual"] | None
    layer_lr_decay: float | None
    head_lr_factor: float | None
    head_epochs: float | None
    head_init: Literal["random", "class-means", "linear"] | None


class PretrainOptions(
    ReadOptions,
    TokenizerOptions,
    ShapeChangesOptions,
    ModelOptions,
    MaskingOptions,
    TrainingOptions,
    PretrainTrainingOptions,
    OptimizerOptions,
    MachineOptions,
    ProcessOptions,
    total=False,
):
    """Settings of `headswap.pretrain`."""

    objective: Literal["causal", "masked", "causal+masked", "masked+nsp", "masked+sop"]


class AdaptOptions(
    ReadOptions, TrainingOptions, PretrainTrainingOptions, OptimizerOptions, MachineOptions, ProcessOptions, total=False
):
    """Settings of `headswap.adapt`."""

    reference: PathName | None
    objective: Literal["causal", "masked", "causal+masked", "masked+nsp", "masked+sop"] | None
    load_best_model_at_end: bool


class FinetuneOptions(
    TokenizerOptions,
    ShapeChangesOptions,
    TrainingOptions,
    MachineOptions,
    ProcessOptions,
    ColumnOptions,
    LabelledOptions,
    HeadOptions,
    HeadShapeOptions,
    AdaptationOptions,
    total=False,
):
    """Settings of `headswap.finetune`."""

    preset: Literal["lab", "small", "modern", "llama", "gpt2-small", "bert-base"] | None
    direction: Literal["causal", "bidirectional"] | None
    weight_decay: float
    long: Literal["truncate", "head+tail", "windows"] | None
    doc_stride: int | None
    max_answer_length: int
    metric: (
        Literal[
            "accuracy", "macro_f1", "micro_f1", "f1", "exact_match", "mse", "mae", "pearson", "spearman", "r2", "loss"
        ]
        | None
    )
    metric_for_best_model: (
        Literal[
            "accuracy", "macro_f1", "micro_f1", "f1", "exact_match", "mse", "mae", "pearson", "spearman", "r2", "loss"
        ]
        | None
    )
    label_smoothing_factor: float
    class_weight: Literal["none", "balanced"]
    calibrate: bool
    max_length: int | None
    num_train_epochs: float | None
    early_stopping_patience: int | None
    token_dropout: float | None
    rdrop_alpha: float
    adversarial_epsilon: float
    unlabelled: tuple[str, ...]
    teachers: tuple[str, ...]
    consistency_weight: float
    consistency_token_dropout: float
    consistency_replacement: float
    consistency_threshold: float
    consistency_temperature: float
    consistency_ramp: float
    unlabelled_batch_size: int | None


class StudyOptions(
    TokenizerOptions,
    ShapeChangesOptions,
    ModelOptions,
    MaskingOptions,
    MachineOptions,
    ColumnOptions,
    LabelledOptions,
    HeadOptions,
    HeadShapeOptions,
    AdaptationOptions,
    total=False,
):
    """Settings of `headswap.run_study`."""

    documents: Literal["auto", "line", "paragraph", "file"]
    corpus_text_column: str
    arms: tuple[str, ...] | None
    budgets: tuple[str, ...]
    seeds: int
    base_seeds: int
    trials: int
    num_test: int | None
    max_length: int | None
    primary_arm: str | None
    metric: Literal["accuracy", "macro_f1", "micro_f1", "r2", "pearson", "f1", "exact_match"]
    on_overlap: Literal["drop", "report", "stop"]
    keep: Literal["bundles", "results"]
