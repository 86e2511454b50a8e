"""Pooling: known answers, and the former name of `weighted-mean`."""

import torch

from headswap.model.pooling import pool


def test_each_sequence_is_pooled_separately() -> None:
    hidden = torch.tensor([[1.0, 5.0], [3.0, 1.0], [2.0, 2.0], [7.0, -1.0], [0.0, 4.0]])
    expected = {
        "last": [[3.0, 1.0], [0.0, 4.0]],
        "first": [[1.0, 5.0], [2.0, 2.0]],
        "mean": [[2.0, 3.0], [3.0, 5 / 3]],
        "max": [[3.0, 5.0], [7.0, 4.0]],
        "mean+max": [[2.0, 3.0, 3.0, 5.0], [3.0, 5 / 3, 7.0, 4.0]],
        "weighted-mean": [[7 / 3, 7 / 3], [16 / 6, 2.0]],
        "later": [[7 / 3, 7 / 3], [16 / 6, 2.0]],
    }
    for pooling, values in expected.items():
        torch.testing.assert_close(pool(hidden, torch.tensor([2, 3]), pooling), torch.tensor(values))
