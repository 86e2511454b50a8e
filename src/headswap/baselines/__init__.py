"""Baselines: models without a Transformer. One file per task; registry.py lists them."""
