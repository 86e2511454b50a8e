"""Pre-training: train a base on a corpus."""
