"""The baseline that reads the corpus: logistic regression on vectors of latent semantic analysis (LSA).

The vectors are those of a space of texts that was fitted on the unlabelled corpus. Whether they are used alone or
beside the TF-IDF features of the labelled texts is chosen together with C, by cross-validation on the labels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.classify import ClassifyBaseline
from headswap.baselines.linear import METRIC, Candidate, chosen_probabilities, logistic_candidates
from headswap.baselines.lsa_space import TextSpace
from headswap.baselines.tfidf import check_size, tfidf_features
from headswap.core.errors import InputError
from headswap.data.records import Example

MODEL = "LSA + logistic regression"
ALONE, BESIDE = "lsa", "lsa and tfidf"


def lsa_probabilities(
    train: Sequence[Example],
    test: Sequence[Example],
    labels: Sequence[str],
    metric: str = METRIC,
    space: TextSpace | None = None,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Logistic regression in the space; features and C are chosen by cross-validation on train alone."""
    from threadpoolctl import threadpool_limits

    if space is None:
        raise InputError("The baseline lsa needs a space of texts that was fitted on a corpus.")
    num_classes = len({example.label for example in train})
    check_size(num_classes, len(train), what="texts", model=MODEL)
    texts, test_texts = [example.text for example in train], [example.text for example in test]
    with threadpool_limits(1):  # as in classify.py
        vectors = space.vectors(texts), space.vectors(test_texts)
        features = tfidf_features(texts, test_texts, num_outputs=num_classes)
        both = [_beside(*pair) for pair in zip(vectors, features, strict=True)]
        check_size(num_classes, both[0].shape[1], what="features", model=MODEL)
        candidates: list[Candidate] = [
            *logistic_candidates(*both, features=BESIDE),
            *logistic_candidates(*vectors, features=ALONE),
        ]
        return chosen_probabilities(candidates, train, labels, metric)


def _beside(vectors: np.ndarray, tfidf: Any) -> Any:
    """Both kinds of features in one matrix, sparse if TF-IDF is."""
    if isinstance(tfidf, np.ndarray):
        return np.hstack([vectors, tfidf])
    from scipy.sparse import csr_matrix, hstack

    return hstack([csr_matrix(vectors), tfidf], format="csr")


lsa_baseline = ClassifyBaseline(
    "LSA (TF-IDF and truncated SVD of the corpus), with or without TF-IDF of the labelled texts; logistic regression",
    lsa_probabilities,
    seconds_per_text=8e-3,
    version=2,
    needs_space=True,
)
