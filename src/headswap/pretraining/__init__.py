"""Pre-training: a corpus in, a base out."""
