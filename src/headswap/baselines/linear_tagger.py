"""Baseline of tagging: a linear model of each word, its neighbours, its shape and its affixes.

One linear support vector machine per tag scores every word. The best sequence of tags is found with the Viterbi
algorithm: an entity that train always begins with B- (or S-) is predicted in the same way, so an I- never follows O or
another type. The strength C, the tolerance and the features were chosen on the validation part of ATIS (docs/log.md).
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import ArmBaseline
from headswap.baselines.tag import Tags, scores_of_tags, tags_and_score
from headswap.baselines.tfidf import check_size
from headswap.data.records import TaggedExample
from headswap.data.tagged import OUTSIDE, PREFIXES

STRENGTH = 0.3
TOLERANCE = 1e-2
NEIGHBOURS = 2  # words on each side
AFFIXES = (1, 2, 3, 4)  # lengths in characters
MOST_FEATURES = 100_000  # the most frequent ones; memory is features x tags
NAME = "a linear tagger"
FORBIDDEN = -1e9


def linear_tagger(
    train: Sequence[TaggedExample], test: Sequence[TaggedExample], *, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """The metrics on test of a linear model that is fitted to the words of train."""
    return scores_of_tags(predict_tags(train, test), train, test, labels)


def tagger_outputs(
    train: Sequence[TaggedExample], test: Sequence[TaggedExample], labels: Sequence[str], metric: str
) -> Tags:
    """The tags of the linear model as the outputs of an arm."""
    return tags_and_score(predict_tags, train, test, labels, metric)


def predict_tags(train: Sequence[TaggedExample], test: Sequence[TaggedExample]) -> list[list[str]]:
    """The tags of every sentence of test."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.svm import LinearSVC

    truth = [tag for example in train for tag in example.tags]
    if len(set(truth)) == 1:
        return [[truth[0]] * len(example.tokens) for example in test]
    vectorizer = CountVectorizer(analyzer=list, binary=True, max_features=MOST_FEATURES, dtype=np.float64)
    features = vectorizer.fit_transform(word for example in train for word in word_features(example.tokens))
    check_size(len(set(truth)), features.shape[1], what="features", model=NAME)
    model = LinearSVC(C=STRENGTH, tol=TOLERANCE, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rare tag may stop at the largest number of passes
        model.fit(features, truth)
    tags = [str(tag) for tag in model.classes_]
    allowed = allowed_transitions(tags, train)
    found = []
    for example in test:
        scores = model.decision_function(vectorizer.transform(word_features(example.tokens)))
        if len(tags) == 2:  # one score per word: that of the second tag
            scores = np.stack([-scores, scores], axis=1)
        found.append([tags[number] for number in best_sequence(scores, *allowed)])
    return found


def word_features(tokens: Sequence[str]) -> Iterator[list[str]]:
    """The features of each word of a sentence: words and word pairs around it, affixes, shapes."""
    edge = [""] * NEIGHBOURS
    words = [*edge, *(token.lower() for token in tokens), *edge]
    shapes = [*edge, *map(word_shape, tokens), *edge]
    for place in range(NEIGHBOURS, NEIGHBOURS + len(tokens)):
        window = words[place - NEIGHBOURS : place + NEIGHBOURS + 1]
        word = words[place]
        yield [
            "bias",
            *(f"w{number}={other}" for number, other in enumerate(window)),
            *(f"p{number}={one} {two}" for number, (one, two) in enumerate(pairwise(window))),
            *(f"prefix={word[:length]}" for length in AFFIXES if len(word) > length),
            *(f"suffix={word[-length:]}" for length in AFFIXES if len(word) > length),
            *(f"s{number}={shapes[place + number]}" for number in (-1, 0, 1)),
        ]


def word_shape(token: str) -> str:
    """Letters as X and x, digits as 9, at most two of a kind in a row: `Boeing-747` is `Xxx-99`."""
    kinds = "".join(
        "X" if letter.isupper() else "x" if letter.isalpha() else "9" if letter.isdigit() else letter
        for letter in token
    )
    return re.sub(r"(.)\1{2,}", r"\1\1", kinds)


def allowed_transitions(tags: Sequence[str], train: Sequence[TaggedExample]) -> tuple[np.ndarray, np.ndarray]:
    """Penalties of a tag at the beginning of a sentence, and after another tag: 0, or `FORBIDDEN`.

    In IOB2 and BIOES an I- or E- continues an entity of its type. A scheme in which an entity may begin with I- (train
    has such entities) has no rule, and neither have plain tags.
    """
    first, pairs = np.zeros(len(tags)), np.zeros((len(tags), len(tags)))
    if any(_is_broken(before, tag) for example in train for before, tag in _transitions(example.tags)):
        return first, pairs
    for number, tag in enumerate(tags):
        first[number] = FORBIDDEN * _is_broken(OUTSIDE, tag)
        pairs[:, number] = [FORBIDDEN * _is_broken(before, tag) for before in tags]
    return first, pairs


def best_sequence(scores: np.ndarray, first: np.ndarray, pairs: np.ndarray) -> list[int]:
    """The tags (their numbers) with the largest sum of scores (words x tags) and penalties: the Viterbi algorithm."""
    best, sources = scores[0] + first, []
    for of_word in scores[1:]:
        sums = best[:, None] + pairs
        sources.append(sums.argmax(axis=0))
        best = sums.max(axis=0) + of_word
    found = [int(best.argmax())]
    for source in reversed(sources):
        found.append(int(source[found[-1]]))
    return found[::-1]


def _transitions(tags: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip((OUTSIDE, *tags), tags, strict=False)


def _is_broken(before: str, tag: str) -> bool:
    """Whether a tag continues an entity that the tag before it does not begin or continue."""
    if not tag.startswith(PREFIXES) or tag[0] not in "IE":
        return False
    return not (before.startswith(("B-", "I-")) and before[2:] == tag[2:])


tagger_baseline = ArmBaseline(
    "a linear model of each word, its neighbours, its shape and its affixes",
    tagger_outputs,
    seconds_per_text=2e-2,
    version=2,
)
