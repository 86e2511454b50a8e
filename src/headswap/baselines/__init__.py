"""Baselines: models without a Transformer, one file per task."""
