"""The baselines of every task: what needs no Transformer stands beside it in the table.

classify: the majority class, TF-IDF with logistic regression (baselines.py). multilabel: the labels that most texts
have, one TF-IDF logistic regression a label. regress: the mean, TF-IDF with ridge regression. tag: the tag that each
word has most often. span: the sentence that shares most words with the question.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headswap.baselines.classify import MOST_FOLDS, MOST_ROWS_TO_TURN, SOLVER, TOLERANCE, baselines, kept_scores, turned
from headswap.data.config import TaskName
from headswap.data.content_hash import cache_folder
from headswap.data.records import Example, Labelled, SpanExample, TaggedExample, pair_as_text, whole_text
from headswap.data.tagged import OUTSIDE
from headswap.metrics.entities import tagging_metrics
from headswap.metrics.multilabel import best_thresholds, multilabel_metrics, present_labels
from headswap.metrics.regression import regression_metrics
from headswap.metrics.squad import span_metrics
from headswap.tokens.tokenizer import sentence_positions

VERSION = 1
STRENGTHS = (1.0, 10.0, 100.0)
PENALTIES = tuple(10.0**power for power in range(-3, 4))
WORD = re.compile(r"\w+")
Scores = dict[str, Any]


def task_baselines(task: TaskName, train: Sequence[Any], test: Sequence[Any]) -> Scores:
    """The baselines of a task; the same examples are scored once and then found in the cache."""
    if task == "classify":
        return baselines(*([pair_as_text(example, separator="\n") for example in part] for part in (train, test)))
    digest = hashlib.sha256(f"baselines {task} {VERSION}".encode())
    for examples in (train, test):
        digest.update(b"\x00set\x00")
        for example in examples:
            digest.update(f"{_text(example)}\x1f{example.label}\x1e".encode())
    file = cache_folder() / "baselines" / f"{digest.hexdigest()[:32]}.json"
    return kept_scores(file, lambda: {name: score(train, test) for name, score in OTHERS[task].items()})


def most_frequent_labels(train: Sequence[Example], test: Sequence[Example]) -> Scores:
    """The labels that half of the training texts have; if there is none, the most frequent one."""
    labels = _labels(train)
    shares = present_labels([example.labels for example in train], labels).mean(axis=0)
    is_given = shares >= min(0.5, shares.max())
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, np.broadcast_to(is_given, truth.shape), labels, is_final=True)


def tfidf_labels(train: Sequence[Example], test: Sequence[Example]) -> Scores:
    """One logistic regression a label; strength and thresholds are chosen by cross-validation on train alone."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    labels = _labels(train)
    wanted = present_labels([example.labels for example in train], labels)
    features, unseen = _tfidf(train, test)
    folds = KFold(min(MOST_FOLDS, len(train)), shuffle=True, random_state=0)
    scores = np.zeros((len(test), len(labels)))
    thresholds = np.full(len(labels), 0.5)
    with threadpool_limits(1):
        for number in range(len(labels)):
            target = wanted[:, number]
            counts = np.bincount(target, minlength=2)
            if counts.min() < 2 * folds.get_n_splits():  # too few to choose on, or only one side
                if counts.min():
                    model = LogisticRegression(C=10.0, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)
                    scores[:, number] = model.fit(features, target).predict_proba(unseen)[:, 1]
                else:
                    scores[:, number] = float(target[0])
                continue
            best = (-1.0, 1.0, 0.5)
            for strength in STRENGTHS:
                model = LogisticRegression(C=strength, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)
                found = cross_val_predict(model, features, target, cv=folds, method="predict_proba")[:, 1:]
                cut = best_thresholds(found, target[:, None])
                f1 = multilabel_metrics(target[:, None], found >= cut, ["x"])["micro_f1"]
                best = max(best, (f1, strength, float(cut[0])))
            model = LogisticRegression(C=best[1], solver=SOLVER, tol=TOLERANCE, max_iter=1_000)
            scores[:, number] = model.fit(features, target).predict_proba(unseen)[:, 1]
            thresholds[number] = best[2]
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, scores >= thresholds, labels, is_final=True)


def mean_value(train: Sequence[Example], test: Sequence[Example]) -> Scores:
    """Always the mean of train."""
    truth = np.array([example.value for example in test])
    mean = float(np.mean([example.value for example in train]))
    return regression_metrics(truth, np.full(len(test), mean), is_final=True) | {"value": mean}


def tfidf_ridge(train: Sequence[Example], test: Sequence[Example]) -> Scores:
    """Word 1-2-gram TF-IDF and ridge regression; its penalty is chosen by cross-validation on train alone."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import KFold, cross_val_score
    from threadpoolctl import threadpool_limits

    features, unseen = _tfidf(train, test)
    values = np.array([example.value for example in train])
    folds = KFold(min(MOST_FOLDS, len(train)), shuffle=True, random_state=0)
    with threadpool_limits(1):
        errors = {
            alpha: cross_val_score(
                Ridge(alpha, random_state=0), features, values, cv=folds, scoring="neg_mean_squared_error"
            ).mean()
            for alpha in PENALTIES
        }
        alpha = max(PENALTIES, key=errors.__getitem__)
        predicted = Ridge(alpha, random_state=0).fit(features, values).predict(unseen)
    truth = np.array([example.value for example in test])
    return regression_metrics(truth, predicted, is_final=True) | {"alpha": alpha}


def most_frequent_tags(train: Sequence[TaggedExample], test: Sequence[TaggedExample]) -> Scores:
    """Of each word the tag that it has most often in train; of an unknown one the most frequent tag of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for example in train:
        every.update(example.tags)
        for token, tag in zip(example.tokens, example.tags, strict=True):
            counts[token][tag] += 1
    common = OUTSIDE if OUTSIDE in every else _first(every)
    known = {token: _first(own) for token, own in counts.items()}
    predicted = [[known.get(token, common) for token in example.tokens] for example in test]
    return tagging_metrics([example.tags for example in test], predicted, is_final=True)


def nearest_sentence(train: Sequence[SpanExample], test: Sequence[SpanExample]) -> Scores:
    """The sentence of the context that shares most words with the question; nothing is learnt."""
    del train
    return span_metrics([_nearest(example) for example in test], test, is_final=True)


def _nearest(example: SpanExample) -> str:
    wanted = set(WORD.findall(example.question.lower()))
    starts = [*sentence_positions(example.context), len(example.context)]
    sentences = [example.context[a:b].strip() for a, b in pairwise(starts)]
    return max(sentences, key=lambda sentence: len(wanted & set(WORD.findall(sentence.lower()))))


def _tfidf(train: Sequence[Example], test: Sequence[Example]) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    features = vectors.fit_transform([_text(example) for example in train])
    unseen = vectors.transform([_text(example) for example in test])
    return turned(features, unseen) if len(train) <= MOST_ROWS_TO_TURN else (features, unseen)


def _labels(train: Sequence[Example]) -> list[str]:
    return sorted({name for example in train for name in example.labels})


def _text(example: Labelled) -> str:
    """The text, or both texts of a pair: a linear model sees their words in one bag."""
    return whole_text(example, separator="\n")


def _first(counts: Counter[str]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))


OTHERS: dict[str, dict[str, Callable[[Sequence[Any], Sequence[Any]], Scores]]] = {
    "multilabel": {"majority": most_frequent_labels, "tfidf": tfidf_labels},
    "regress": {"mean": mean_value, "tfidf": tfidf_ridge},
    "tag": {"majority": most_frequent_tags},
    "span": {"nearest sentence": nearest_sentence},
}
