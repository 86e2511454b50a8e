"""Which overlaps bias scores."""

from headswap.data.overlap import Overlap
from headswap.study.setup.overlap_rules import HARMFUL_PAIRS, PAIRS, harmful_rows


def test_only_overlaps_that_bias_scores_are_dropped() -> None:
    overlap = [Overlap(first, second, num_rows=9, exact=[number]) for number, (first, second) in enumerate(PAIRS)]
    drop, sentences = harmful_rows(overlap, lambda role: "text")
    assert drop == {"train": {0, 3}, "validation": {1}, "corpus": {2, 4}}
    assert len(sentences) == len(HARMFUL_PAIRS) == 5
    assert all(second in ("test", "validation") for _, second in HARMFUL_PAIRS)


def test_passages_are_reported_and_not_dropped() -> None:
    drop, sentences = harmful_rows([Overlap("train", "test", num_rows=9, passages=[4])], lambda role: "text")
    assert not any(drop.values())
    assert not sentences
