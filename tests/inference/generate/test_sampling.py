"""Sampling: probabilities and tokens with known answers."""

from collections import Counter

import pytest
import torch

from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.sampling import next_token, probabilities

LOGITS = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"temperature": 1.0}, [0.1, 0.2, 0.3, 0.4]),
        ({"temperature": 0.5}, [1 / 30, 4 / 30, 9 / 30, 16 / 30]),
        ({"temperature": 1.0, "top_k": 2}, [0, 0, 3 / 7, 4 / 7]),
        ({"temperature": 1.0, "top_k": 99}, [0.1, 0.2, 0.3, 0.4]),
        ({"temperature": 1.0, "top_p": 0.39}, [0, 0, 0, 1]),
        ({"temperature": 1.0, "top_p": 0.65}, [0, 0, 3 / 7, 4 / 7]),
        ({"temperature": 1.0, "top_p": 0.75}, [0, 2 / 9, 3 / 9, 4 / 9]),
        ({"temperature": 1.0, "top_k": 3, "top_p": 0.5}, [0, 0, 3 / 7, 4 / 7]),
    ],
)
def test_probabilities_have_known_answers(settings: dict[str, float], expected: list[float]) -> None:
    found = probabilities(LOGITS, SamplingSettings(**settings))
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_uniform_number_selects_its_token() -> None:
    settings = SamplingSettings(temperature=1.0)
    drawn = [next_token(LOGITS, settings, uniform) for uniform in (0.0, 0.09, 0.11, 0.29, 0.31, 0.61, 0.999999999)]
    assert drawn == [0, 0, 1, 1, 2, 3, 3]
    masked = torch.tensor([0.5, 0.5, 0.0]).log()
    assert next_token(masked, settings, 1 - 2**-53) == 1, "a token of probability 0 is never sampled"
    counts = Counter(next_token(LOGITS, settings, number / 1000) for number in range(1000))
    assert [counts[token] / 1000 for token in range(4)] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.002)
