"""Metrics of regression."""

from typing import Any

import numpy as np

from headswap.metrics.intervals import interval_of


def regression_metrics(truth: np.ndarray, predicted: np.ndarray, *, is_final: bool = False) -> dict[str, Any]:
    """MSE, MAE, Pearson and Spearman correlation, and R2; None where the values or the predictions are constant."""
    errors = predicted - truth
    spread = float(np.square(truth - truth.mean()).sum())
    metrics: dict[str, Any] = {
        "mse": float(np.square(errors).mean()),
        "mae": float(np.abs(errors).mean()),
        "pearson": correlation(truth, predicted),
        "spearman": correlation(ranks(truth), ranks(predicted)),
        "r2": float(1 - np.square(errors).sum() / spread) if spread else None,
        "num_examples": len(truth),
    }
    if is_final:
        counts = np.stack([np.square(errors), np.ones(len(truth))], axis=1)
        metrics["interval"] = interval_of("mse", counts, lambda sums: sums[..., 0] / sums[..., 1], is_share=False)
    return metrics


def correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Pearson's correlation, or None if one side is constant."""
    if any(np.ptp(side) <= 1e-12 * np.abs(side).max() for side in (first, second)):
        return None
    first, second = first - first.mean(), second - second.mean()
    return float((first * second).sum() / np.sqrt(np.square(first).sum() * np.square(second).sum()))


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values get the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse]
