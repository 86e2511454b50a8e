"""Metrics: pure functions from predictions and truth to numbers."""
