"""How many labels are held out to choose on."""

import pytest

from headswap.finetuning.splits import num_for_choosing


@pytest.mark.parametrize(
    ("num_labels", "wanted"), [(100, 0), (199, 0), (200, 40), (1_600, 320), (10_000, 2_000), (25_000, 2_000)]
)
def test_a_fifth_chooses_between_bounds(num_labels: int, wanted: int) -> None:
    assert num_for_choosing(num_labels) == wanted
