"""The bundle: model, tokenizer, labels and config as one folder."""
