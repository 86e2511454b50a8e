"""Which texts to label next: uncertain ones that do not resemble each other, in a stable order, from a stream."""

from collections.abc import Iterator

import numpy as np
import pytest

import headswap as hs
from headswap.core.errors import InputError
from headswap.inference import suggest as suggesting
from headswap.inference.suggest import Suggestion, suggest_texts, uncertainty_of
from headswap.tasks.predictions import LabelPrediction, LabelScores, LabelsPrediction
from tiny import sentences

TEXTS = [text for text, _ in sentences(60, seed=7)]


def prediction(*scores: float) -> LabelPrediction:
    return LabelPrediction("a", LabelScores({name: number for number, name in enumerate("abc")}, np.array(scores)))


def test_uncertainty_is_0_for_a_sure_answer_and_1_for_a_uniform_one() -> None:
    assert uncertainty_of(prediction(1.0, 0.0, 0.0)) == pytest.approx(0.0, abs=1e-9)
    assert uncertainty_of(prediction(1 / 3, 1 / 3, 1 / 3)) == pytest.approx(1.0)
    assert 0 < uncertainty_of(prediction(0.9, 0.05, 0.05)) < uncertainty_of(prediction(0.5, 0.4, 0.1)) < 1
    several = LabelsPrediction((), LabelScores({"a": 0, "b": 1}, np.array([0.5, 1.0])))
    assert uncertainty_of(several) == pytest.approx(0.5)


def test_the_most_uncertain_texts_are_held_and_equal_texts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.1, 0.9, 0.5, 0.9, 0.7, 0.2]
    texts = ["one", "two", "three", "TWO ", "four", "five"]
    found = (
        Suggestion(row, text, value, prediction(1, 0, 0))
        for row, (text, value) in enumerate(zip(texts, values, strict=True), 1)
    )
    assert [one.row for one in suggesting._most_uncertain(found, 3)] == [2, 5, 3]


def test_texts_that_resemble_a_chosen_one_come_later() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert suggesting.spread(vectors, np.array([1.0, 0.99, 0.5]), 3) == [0, 2, 1]


def test_a_stream_gives_the_same_texts_every_time(tiny_classifier: hs.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggesting, "FEWEST_HELD", 20)
    monkeypatch.setattr(suggesting, "HELD_PER_CHOSEN", 2)

    def stream() -> Iterator[str]:
        yield from TEXTS

    bundle = tiny_classifier.model.bundle
    first = suggest_texts(bundle, stream(), 10)
    assert [one.text for one in first] == [TEXTS[one.row - 1] for one in first]
    assert len({one.text for one in first}) == 10
    assert [one.row for one in suggest_texts(bundle, TEXTS, 10)] == [one.row for one in first]
    uncertainties = sorted((uncertainty_of(one) for one in tiny_classifier.model.predictions(TEXTS)), reverse=True)
    assert min(one.uncertainty for one in first) >= uncertainties[30] - 1e-6  # only uncertain texts are chosen
    assert len(suggest_texts(bundle, ["one text", "One  text"], 10)) == 1


def test_a_model_without_labels_is_refused(tiny_base: hs.Run) -> None:
    with pytest.raises(InputError):
        suggest_texts(tiny_base.model.bundle, TEXTS, 5)
