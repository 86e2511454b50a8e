"""Text: files -> documents -> tokenizer -> token store -> Batch; named data sets."""
