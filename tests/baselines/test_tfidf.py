"""TF-IDF features: rotation changes neither the inner products nor a fitted model."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from headswap.baselines import tfidf
from headswap.baselines.classify import tfidf_baseline
from headswap.data.records import Example
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def test_rotated_features_have_the_same_inner_products() -> None:
    vectors = csr_matrix(np.random.default_rng(0).random((6, 40)))
    train, test = tfidf.rotate_features(vectors[:4], vectors[4:])
    np.testing.assert_allclose(train @ train.T, (vectors[:4] @ vectors[:4].T).toarray())
    np.testing.assert_allclose(test @ train.T, (vectors[4:] @ vectors[:4].T).toarray())


def test_a_model_fitted_on_rotated_features_is_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = examples(60, 1), [*examples(40, 2), Example("a film of the story", "neg", "x", 1)]
    rotated = tfidf_baseline(train, test)
    monkeypatch.setattr(tfidf, "MAX_ROWS_TO_ROTATE", 0)
    assert tfidf_baseline(train, test) == rotated


@pytest.mark.parametrize(
    ("rows", "columns", "entries", "num_outputs", "is_sparse"),
    [
        (1_500, 11_860, 24_959, 6, True),  # many questions
        (400, 63_898, 139_768, 2, False),  # few reviews
        (4_000, 384_553, 1_456_955, 2, True),
        (400, 2_796, 6_329, 150, False),
        (1_000, 5_341, 15_676, 150, True),
        (4_999, 30_000, 60_000, 400, False),  # more coefficients than fit into memory
    ],
)
def test_short_texts_keep_the_sparse_matrix_and_long_ones_are_rotated(
    rows: int, columns: int, entries: int, num_outputs: int, is_sparse: bool
) -> None:
    class Features:
        shape, nnz = (rows, columns), entries

    assert tfidf._is_faster_sparse(Features, num_outputs) == is_sparse
