"""Bundle: model, tokenizer, labels and config as one folder."""
