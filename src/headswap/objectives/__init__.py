"""Objectives: how targets are made from text or labels, and how a model is scored on them."""
