"""Coverage and accuracy of a classifier that abstains."""

import numpy as np

from headswap.metrics.abstention import abstention_point

PROBABILITIES = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
TARGETS = np.array([0, 1, 1, 0])


def test_coverage_and_accuracy_are_those_of_the_answered_texts() -> None:
    found = abstention_point(PROBABILITIES, TARGETS, 0.75)
    assert (found.below, found.coverage, found.accuracy, found.num_abstained) == (0.75, 0.5, 0.5, 2)
    everything = abstention_point(PROBABILITIES, TARGETS, 0.5)
    assert (everything.coverage, everything.accuracy) == (1.0, 0.5)


def test_a_probability_equal_to_the_limit_is_answered() -> None:
    assert abstention_point(PROBABILITIES, TARGETS, 0.9).num_abstained == 3


def test_without_answers_there_is_no_accuracy() -> None:
    found = abstention_point(PROBABILITIES, TARGETS, 0.95)
    assert (found.coverage, found.accuracy) == (0.0, None)
