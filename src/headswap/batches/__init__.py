"""Batches: which rows a step sees, and how they become one flat batch."""
