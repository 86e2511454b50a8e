"""Sparse or rotated TF-IDF features: CPU seconds of the TF-IDF baseline with either, and whether both give one model.

    python benchmarks/tfidf_features.py FILE --labels 400 1000

FILE is a labelled file with the columns text and label. The features of each number of labels are made both ways, and
logistic regression with all strengths C is fitted to them by cross-validation, as the baseline does. One thread.
"""

import random
import time
from typing import Annotated

import numpy as np
from cyclopts import App, Parameter
from threadpoolctl import threadpool_limits

from headswap.baselines import tfidf
from headswap.baselines.linear import chosen_probabilities, logistic_candidates
from headswap.data.labelled import read_labelled
from headswap.data.records import Example

app = App(help=__doc__)
NUM_SCORED = 500


@app.default
def main(
    file: str,
    /,
    *,
    labels: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (400, 1_000),
    text_column: str = "text",
    label_column: str = "label",
) -> None:
    """Print one line per number of labels and kind of features."""
    examples = read_labelled(file, text_column=text_column, label_column=label_column)
    random.Random(0).shuffle(examples)
    scored = examples[-NUM_SCORED:]
    for count in labels:
        measure(examples[: min(count, len(examples) - NUM_SCORED)], scored)


def measure(train: list[Example], scored: list[Example]) -> None:
    """The two kinds of features with one training set."""
    names = sorted({example.label for example in train})
    texts = [example.text for example in train], [example.text for example in scored]
    made = tfidf.tfidf_features
    is_sparse = not isinstance(made(*texts, num_outputs=len(names))[0], np.ndarray)
    print(
        f"{len(train):,} texts, {len(names)} classes; the baseline uses {'sparse' if is_sparse else 'rotated'} features"
    )
    rule = tfidf._is_faster_sparse
    found = {}
    try:
        for kind, answer in (("sparse", True), ("rotated", False)):
            tfidf._is_faster_sparse = lambda *_, answer=answer: answer
            started = time.process_time()
            with threadpool_limits(1):
                candidates = logistic_candidates(*made(*texts))
                found[kind], chosen = chosen_probabilities(candidates, train, names, "accuracy")
            print(f"  {kind}: {time.process_time() - started:.1f} CPU seconds, {chosen}", flush=True)
    finally:
        tfidf._is_faster_sparse = rule
    print(f"  largest difference of a probability: {np.abs(found['sparse'] - found['rotated']).max():.1e}", flush=True)


if __name__ == "__main__":
    app()
