"""Names that settings have in other tools: a user who comes from one of them tries its names first."""

from collections.abc import Collection, Iterable

from headswap.core.errors import did_you_mean

ELSEWHERE = {
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "arms": "baselines",
    "base": "checkpoint checkpoint_dir init_from model model_name_or_path pretrained_model",
    "batch_size": "bs global_batch_size per_device_train_batch_size",
    "budgets": "num_labels shots sizes",
    "device": "accelerator cpu cuda devices gpu gpus no_cuda use_cpu",
    "dropout": "drop_mult",
    "early_stopping_patience": "early_stopping patience",
    "eval_steps": "eval_every eval_interval",
    "gradient_accumulation_steps": "accumulate_grad_batches accumulation_steps grad_accum",
    "hidden_size": "d_model dim embed_dim n_embd width",
    "jobs": "n_jobs num_proc num_workers workers",
    "label_column": "label_column_name",
    "learning_rate": "lr",
    "logging_steps": "log_every log_interval",
    "lr_scheduler_type": "lr_scheduler scheduler",
    "max_grad_norm": "clip grad_clip gradient_clip_val max_norm",
    "max_length": "block_size context_length max_len max_seq_len max_seq_length model_max_length seq_len seq_length",
    "max_new_tokens": "length max_length max_tokens",
    "max_steps": "iterations max_iters max_train_steps steps",
    "num_attention_heads": "heads n_head num_heads",
    "num_hidden_layers": "layers n_layer num_layers",
    "num_train": "max_train_samples",
    "num_train_epochs": "epochs max_epochs n_epoch n_epochs num_epochs",
    "objective": "mlm",
    "out": "out_dir output output_dir save_dir",
    "overwrite": "force overwrite_output_dir",
    "precision": "amp bf16 dtype fp16 fp32 mixed_precision",
    "resume": "resume_from_checkpoint",
    "save_steps": "save_every save_interval",
    "seeds": "n_seeds num_seeds",
    "temperature": "temp",
    "text_column": "text_column_name",
    "threads": "num_proc num_threads num_workers workers",
    "train": "train_file",
    "trainable": "freeze",
    "validation": "dev eval_file val valid validation_file",
    "vocab_size": "vocab",
    "warmup_steps": "lr_warmup_steps num_warmup_steps warmup warmup_iters warmup_ratio",
    "weight_decay": "wd",
}
"""Our names, and what they are called in transformers, nanoGPT, litgpt, fastai, Lightning and scikit-learn."""


def meant_setting(given: str, allowed: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the name that a setting has in another tool, or for a similar name; otherwise "".

    If another tool calls a setting so that is not allowed here, a similar name is not what was meant.
    """
    names = list(allowed)
    if called := settings_called(given, names):
        return f" Did you mean '{called[0]}'?"
    return "" if settings_called(given, ELSEWHERE) else did_you_mean(given, names)


def settings_called(given: str, allowed: Collection[str]) -> list[str]:
    """The allowed settings that another tool calls `given`."""
    return [name for name, others in ELSEWHERE.items() if name in allowed and given.lower() in others.split()]
