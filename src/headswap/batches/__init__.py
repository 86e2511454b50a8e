"""Batches: the rows of a training step, and how they become one flat batch."""
