"""What the help pages show, and in which order: one table per question.

A setting is named as in a recipe (`max_steps`); a setting of a study's trainings has the prefix of its flag
(`pretrain.max_steps`).
"""

ORDER = (
    "Arguments", "Data", "Base", "Study", "Training", "Pre-training", "Adaptation", "Fine-tuning", "Sampling", "Head",
    "Trainable weights", "Unlabelled texts", "Masking", "Tokenizer", "Model", "Machine", "Export", "Output",
)  # fmt: skip
"""The groups of a help page, from the first that a user needs to the last."""

RUN_OUTPUT = ("out", "config", "overwrite", "resume", "json", "quiet")
COMMON: dict[str, tuple[str, ...]] = {
    "pretrain": (
        "documents", "text_column",
        "objective", "max_minutes", "max_steps", "num_train_epochs", "batch_size", "learning_rate", "max_length",
        "seed", "tokenizer", "kind", "vocab_size", "lowercase",
        "preset", "hidden_size", "num_hidden_layers",
        "device", "precision", *RUN_OUTPUT,
    ),
    "adapt": (
        "documents", "text_column", "reference",
        "max_minutes", "max_steps", "num_train_epochs", "batch_size", "learning_rate", "max_length", "seed",
        "device", "precision", *RUN_OUTPUT,
    ),
    "finetune": (
        "train", "validation", "test", "task", "text_column", "label_column", "label_file", "num_train",
        "base", "num_train_epochs", "batch_size", "learning_rate", "max_length", "long", "metric", "seed",
        "pooling", "trainable", "preset",
        "device", "precision", *RUN_OUTPUT,
    ),
    "study": (
        "corpus", "train", "validation", "test", "text_column", "label_column",
        "arms", "budgets", "seeds", "base_seeds", "trials", "max_length", "on_overlap",
        "pretrain.max_minutes", "pretrain.objective", "finetune.num_train_epochs",
        "preset", "device",
        "out", "config", "jobs", "max_minutes", "no_texts", "overwrite", "json", "quiet",
    ),
    "evaluate": (
        "text_column", "label_column", "label_file", "documents", "max_length", "abstain_below", "device", "json",
        "quiet",
    ),
    "doctor": (
        "corpus", "train", "validation", "test", "task", "text_column", "label_column", "label_file", "documents",
        "max_length",
        "tokenizer", "preset", "json", "quiet",
    ),
    "params": (
        "head", "num_labels", "trainable", "lora_rank", "preset", "vocab_size", "max_length", "hidden_size",
        "num_hidden_layers", "num_attention_heads", "intermediate_size", "json", "quiet",
    ),
    "estimate": (
        "tokens", "epochs", "batch_size", "gradient_accumulation_steps", "objective", "gpus", "parallel", "gpu",
        "tflops", "bandwidth", "measure", "precision", "preset", "vocab_size", "max_length", "hidden_size",
        "num_hidden_layers", "num_attention_heads", "intermediate_size", "json", "quiet",
    ),
}  # fmt: skip
"""The settings that `--help` shows, by command, in the order within their group; other commands show all of theirs."""

HIDDEN: dict[str, tuple[str, ...]] = {
    "study": (
        "num_train", "pretrain.seed", "adapt.seed", "finetune.seed", "finetune.metric_for_best_model",
    ),
    "pretrain": ("allow_download",),
    "finetune": ("tied_head", "lm_head_transform"),
    "doctor": ("num_train", "hold_out_from", "unseen_labels"),
    "params": (
        "norm", "dropout", "attention_dropout", "head_dropout", "head_norm", "head_similarity", "lora_alpha",
        "unfreeze", "layer_lr_decay", "head_lr_factor", "head_epochs", "head_init",
    ),
    "estimate": ("norm",),
}  # fmt: skip
"""The settings that no page shows, because the command cannot use them or has another flag for the same."""

NEEDED: dict[str, tuple[str, ...]] = {"tokenizer": ("corpus",), "store": ("corpus",), "compare": ("runs",)}
"""Arguments of any number of values of which at least one must be given."""

ARGUMENTS = {"bundle": "MODEL"}
"""What an argument is called on the pages, where its name says too little."""

GROUPS: dict[str, str] = {
    **dict.fromkeys(
        (
            "corpus", "corpus_text_column", "documents", "file", "label_file", "label_column", "metric", "reference",
            "test", "text_column", "text_pair", "text_pair_column", "tokens_column", "question", "question_column",
            "context_column", "sentences",
            "max_length",
        ),
        "Data",
    ),
    "base": "Base",
    **dict.fromkeys(("about", "licence", "limits", "beside", "drop_duplicates"), "Data"),
    **dict.fromkeys(("minutes", "seeds"), "Study"),
    **dict.fromkeys(("tokenizer", "kind", "vocab_size", "lowercase", "side"), "Tokenizer"),
    **dict.fromkeys(("head", "num_labels", "preset", "pooling"), "Model"),
    **dict.fromkeys(("device", "fast", "precision", "allow_download", "executor", "shard_mb"), "Machine"),
    **dict.fromkeys(
        (
            "to", "out", "overwrite", "jobs", "no_texts", "all", "top_k", "abstain_below", "average_with", "normalize",
            "count",
        ),
        "Output",
    ),
}  # fmt: skip
"""The group of a flag that belongs to no section of settings, and of the few that are shown outside of theirs."""
OUTSIDE_THEIR_SECTION = ("base", "corpus", "corpus_text_column", "documents", "jobs")

VALUES: dict[str, str] = {
    **dict.fromkeys(
        (
            "train", "validation", "test", "file", "label_file", "validation_label_file", "test_label_file", "config",
            "about", "sentences", "beside",
        ),
        "FILE",
    ),
    "out": "PATH",
    "base": "BASE",
    "corpus": "PATH",
    "reference": "PATH",
    "tokenizer": "PATH",
    **dict.fromkeys(("arms", "budgets"), "LIST"),
    "primary_arm": "ARM",
    "unlabelled": "PATH...",
    **dict.fromkeys(("teachers", "average_with"), "MODEL..."),
}  # fmt: skip
"""What the value of a flag is called, where its type says too little."""
OWN_VALUES: dict[str, dict[str, str]] = {"compare": {"reference": "ARM", "metric": "METRIC"}}
"""The same for one command, where the flag means something else there."""
