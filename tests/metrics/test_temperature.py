"""The temperature of a classifier, compared with a search by hand."""

import numpy as np
import pytest
from scipy.special import softmax as scipy_softmax

from headswap.metrics.classification import log_loss
from headswap.metrics.temperature import calibration_effect, fitted_temperature, softmax


def overconfident(factor: float, *, num: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are `factor` times as large as those from which the labels are drawn."""
    stream = np.random.default_rng(0)
    logits = stream.normal(0, 1.5, (num, 3))
    shares = np.cumsum(scipy_softmax(logits, axis=1), axis=1)
    targets = (stream.random((num, 1)) > shares).sum(axis=1)
    return factor * logits, np.minimum(targets, 2)


@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
def test_the_temperature_is_the_factor_by_which_logits_are_too_large(factor: float) -> None:
    logits, targets = overconfident(factor)
    found = fitted_temperature(logits, targets)
    assert found == pytest.approx(factor, rel=0.05)
    losses = {value: log_loss(softmax(logits, value), targets) for value in (found / 1.05, found, found * 1.05)}
    assert min(losses, key=losses.__getitem__) == found


def test_calibration_lowers_log_loss_and_calibration_error_of_overconfident_scores() -> None:
    logits, targets = overconfident(3.0)
    found = calibration_effect(logits, targets, fitted_temperature(logits, targets))
    assert found["loss_after"] < found["loss_before"] - 0.1
    assert found["ece_after"] < 0.03 < found["ece_before"]
    assert found["num_examples"] == 4000


def test_probabilities_equal_scipys_and_large_logits_do_not_overflow() -> None:
    logits = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, -1000.0]])
    assert softmax(logits, 2.0) == pytest.approx(scipy_softmax(logits / 2, axis=1))
