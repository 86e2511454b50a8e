"""Baseline of question answering: a linear model that ranks the parts of a context.

A candidate is a run of words in one sentence. Its score is a sum over its first word, its last word and its length, so
the best of all candidates is found without building them: the features are the words at both edges, their shapes
together with the beginning of the question, the question's words nearby (weighted by their IDF in the training
contexts), and how many of them the sentence has. The weights are those of a logistic regression that tells right
answers from random candidates of the same context. Whether a question has an answer is decided by a threshold of the
score, chosen on questions about training contexts that were not fitted. Other settings were chosen on a fifth of PIAF's
training questions (docs/log.md).
"""

import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import CROSS_VALIDATION, ArmBaseline
from headswap.baselines.linear_tagger import word_shape
from headswap.baselines.tfidf import folds_without_strata
from headswap.data.records import SpanExample
from headswap.metrics.squad import f1, span_metrics
from headswap.tokens.marks import sentence_positions

WORD = re.compile(r"\w+|[^\w\s]")
STRENGTH = 0.3
MOST_WORDS = 16  # of an answer
NUM_WRONG = 30  # random candidates per training question
MOST_QUESTIONS = 5_000  # that are fitted, evenly spaced
DECAY = 0.8  # of a question word's weight per word of distance
HELD_OUT = 5  # every fifth context, where some questions have no answer; with fewer contexts every fifth question
SEED = 0


@dataclass(frozen=True)
class Context:
    """The words of a context: their places, the number of the sentence of each, and their features at both edges."""

    words: list[re.Match[str]]
    sentences: list[int]
    first: list[list[str]]
    last: list[list[str]]
    question: str
    """The beginning of the question, which tells what kind of answer it wants."""


def linear_answers(train: Sequence[SpanExample], test: Sequence[SpanExample]) -> dict[str, Any]:
    """The metrics on test of the best-ranked parts of the contexts."""
    return span_metrics(predict_answers(train, test), test, is_final=True)


def answer_outputs(
    train: Sequence[SpanExample], test: Sequence[SpanExample], labels: Sequence[str], metric: str
) -> tuple[list[str], dict[str, Any]]:
    """The predicted answers of test, and the score by cross-validation; the questions of a context are in one fold."""
    del labels
    held_out: list[str] = []
    scored: list[SpanExample] = []
    for rest, part in folds_without_strata(len(train), [example.context for example in train]):
        scored += [train[row] for row in part]
        held_out += predict_answers([train[row] for row in rest], [train[row] for row in part])
    score = span_metrics(held_out, scored).get(metric)
    return predict_answers(train, test), {CROSS_VALIDATION: score}


def predict_answers(train: Sequence[SpanExample], test: Sequence[SpanExample]) -> list[str]:
    """The answers to the questions of test; empty where a question is predicted to have none."""
    chosen, held = list(train[:: math.ceil(len(train) / MOST_QUESTIONS)]), list[SpanExample]()
    if any(not example.answers for example in chosen):
        chosen, held = _held_out(chosen)
    ranker = Ranker.fit(chosen, word_weights(train))
    if ranker is None:
        return [""] * len(test)
    threshold = _threshold([ranker.best(example) for example in held], held) if held else -math.inf
    found = [ranker.best(example) for example in test]
    return [text if score >= threshold else "" for text, score in found]


def _held_out(train: Sequence[SpanExample]) -> tuple[list[SpanExample], list[SpanExample]]:
    """The questions that are fitted, and those on which the threshold is chosen: about contexts that are not fitted."""
    numbers = {context: number for number, context in enumerate(dict.fromkeys(example.context for example in train))}
    units = [numbers[example.context] for example in train]
    if len(numbers) < HELD_OUT:
        units = list(range(len(train)))
    sides: tuple[list[SpanExample], list[SpanExample]] = ([], [])
    for example, unit in zip(train, units, strict=True):
        sides[unit % HELD_OUT == 0].append(example)
    return sides


@dataclass(frozen=True)
class Ranker:
    """The weights of the features."""

    weights: Mapping[str, float]
    idf: Mapping[str, float]

    @classmethod
    def fit(cls, train: Sequence[SpanExample], idf: Mapping[str, float]) -> "Ranker | None":
        """Logistic regression of right answers against random candidates; None if train has no answer."""
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression

        stream, rows, truth = random.Random(SEED), [], []
        for example in train:
            context = read_context(example, idf)
            right = {span for answer in example.answers if (span := _span_of(context, answer.start, answer.text))}
            wrong = _random_spans(context, stream) - right if right else set()
            for span in (*sorted(right), *sorted(wrong)):
                rows.append(_span_features(context, *span))
                truth.append(span in right)
        if len(set(truth)) < 2:
            return None
        vectorizer = CountVectorizer(analyzer=list, dtype=np.float64)
        features = vectorizer.fit_transform(rows)
        model = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=SEED).fit(features, truth)
        return cls(dict(zip(vectorizer.get_feature_names_out().tolist(), model.coef_[0].tolist(), strict=True)), idf)

    def best(self, example: SpanExample) -> tuple[str, float]:
        """The candidate with the highest score; the first of equal ones."""
        context = read_context(example, self.idf)
        size = len(context.words)
        if not size:
            return "", -math.inf
        first = np.array([self._sum(names) for names in context.first])
        last = np.array([self._sum(names) for names in context.last])
        sentences = np.array(context.sentences)
        best, place = -math.inf, (0, 1)
        for length in range(1, min(MOST_WORDS, size) + 1):
            scores = first[: size - length + 1] + last[length - 1 :] + self._sum(_length_features(context, length))
            scores[sentences[: size - length + 1] != sentences[length - 1 :]] = -math.inf
            start = int(scores.argmax())
            if scores[start] > best:
                best, place = float(scores[start]), (start, start + length)
        return example.context[context.words[place[0]].start() : context.words[place[1] - 1].end()], best

    def _sum(self, names: Sequence[str]) -> float:
        return sum(self.weights.get(name, 0.0) for name in names)


def read_context(example: SpanExample, idf: Mapping[str, float]) -> Context:
    """The words of a context and their features for this question."""
    asked = WORD.findall(example.question.lower())
    wanted = {word: idf.get(word, idf[""]) for word in asked if word.isalnum()}
    total = sum(wanted.values()) or 1.0
    kind = " ".join(asked[:2])
    starts = [*sentence_positions(example.context), len(example.context)]
    sentences = [list(WORD.finditer(example.context, start, end)) for start, end in pairwise(starts)]
    # fsum: the order of a set, and with it the last bit of a plain sum, differs from process to process
    shares = [
        math.fsum(wanted[name] for name in {word.group().lower() for word in sentence} & set(wanted)) / total
        for sentence in sentences
    ]
    order = sorted(range(len(sentences)), key=lambda number: -shares[number])
    words, numbers, first, last = [], [], [], []
    for number, sentence in enumerate(sentences):
        names = [word.group().lower() for word in sentence]
        shapes = [word_shape(word.group()) for word in sentence]
        matches = np.array([wanted.get(name, 0.0) for name in names])
        places = np.arange(len(names))
        near = (DECAY ** np.abs(places[:, None] - places) @ matches - matches) / total if names else places
        of_sentence = [f"rank={min(order.index(number), 5)}", f"share={round(shares[number] * 8)}"]
        names, shapes = ["", *names, ""], ["", *shapes, ""]
        for place in range(1, len(names) - 1):
            inside = f"asked={names[place] in wanted}"
            close = f"near={round(float(near[place - 1]) * 10)}"
            about = [inside, close, f"shape={shapes[place]}", f"{kind}|{shapes[place]}", f"word={names[place]}"]
            before, after = names[place - 1], names[place + 1]
            outer = [f"out={before}", f"outshape={shapes[place - 1]}", f"outasked={before in wanted}"]
            first.append([f"first {name}" for name in (*about, *outer, *of_sentence)])
            outer = [f"out={after}", f"outshape={shapes[place + 1]}", f"outasked={after in wanted}"]
            last.append([f"last {name}" for name in (*about, *outer)])
        words += sentence
        numbers += [number] * len(sentence)
    return Context(words, numbers, first, last, kind)


def word_weights(train: Sequence[SpanExample]) -> dict[str, float]:
    """The IDF of the words in the training contexts; the empty string has that of an unknown word."""
    contexts = {example.context for example in train}
    counts = Counter(word for context in contexts for word in set(WORD.findall(context.lower())))
    weights = {word: math.log((1 + len(contexts)) / (1 + count)) for word, count in counts.items()}
    return weights | {"": math.log(1 + len(contexts))}


def _length_features(context: Context, length: int) -> list[str]:
    return [f"length={length}", f"{context.question}|length={min(length, 6)}"]


def _span_features(context: Context, start: int, end: int) -> list[str]:
    return [*context.first[start], *context.last[end - 1], *_length_features(context, end - start)]


def _span_of(context: Context, start: int, text: str) -> tuple[int, int] | None:
    """The words of an answer, `end` not included; None if it has too many, or if no word ends where it ends."""
    inside = [n for n, word in enumerate(context.words) if start <= word.start() and word.end() <= start + len(text)]
    if not inside or len(inside) > MOST_WORDS or context.sentences[inside[0]] != context.sentences[inside[-1]]:
        return None
    return inside[0], inside[-1] + 1


def _random_spans(context: Context, stream: random.Random) -> set[tuple[int, int]]:
    found = set()
    for _ in range(NUM_WRONG):
        start = stream.randrange(len(context.words))
        end = min(len(context.words), start + stream.randint(1, MOST_WORDS))
        while context.sentences[end - 1] != context.sentences[start]:
            end -= 1
        found.add((start, end))
    return found


def _threshold(found: Sequence[tuple[str, float]], examples: Sequence[SpanExample]) -> float:
    """The score from which answers are given, with the highest F1 on these questions."""
    right = [[answer.text for answer in example.answers] for example in examples]
    scores = np.array([score for _, score in found])
    given = np.array([f1(text, own) for (text, _), own in zip(found, right, strict=True)])
    empty = np.array([f1("", own) for own in right])
    cuts = (-math.inf, *np.unique(scores).tolist(), math.inf)
    return float(max(cuts, key=lambda cut: float(np.where(scores >= cut, given, empty).sum())))


answers_baseline = ArmBaseline(
    "a linear model that ranks the parts of a context", answer_outputs, seconds_per_text=5e-2, version=2
)
