"""Test predictions: saved and read back; damaged files are refused."""

from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.finetuning.prediction_file import Predictions


def test_predictions_are_saved_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    made = Predictions(np.eye(2), np.array([0, 1]), ("a", "ü b"), np.array([1, 2**63], dtype="<u8"))
    made.save(tmp_path)
    again = Predictions.load(tmp_path)
    assert again.labels == ("a", "ü b")
    assert again.text_ids.tolist() == [1, 2**63]
    assert again.is_right.all()
    (tmp_path / "predictions.npz").write_bytes(b"PK damaged")
    with pytest.raises(InputError, match=r"predictions.npz cannot be read"):
        Predictions.load(tmp_path)
    (tmp_path / "predictions.npz").unlink()
    with pytest.raises(InputError, match="writes it if it has a test set"):
        Predictions.load(tmp_path)
