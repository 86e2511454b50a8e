"""Does `headswap suggest` choose better texts to label than chance? Accuracy after 50 labels and 50 more.

    python benchmarks/suggest.py --out runs/suggest.json

Reviews of `movies:imdb` are embedded once by an installed base. Per seed a logistic regression is fitted on 50 random
labels; 50 more texts are added at random, by uncertainty alone, or as `suggest` chooses them; the accuracy on test is
compared with that of the random choice. Differences are paired by seed; intervals are Student's, over seeds.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import t
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from headswap.bundle.bundle import Bundle
from headswap.core.files import write_json
from headswap.core.random_streams import numpy_stream
from headswap.data.named_sets import read_named_examples
from headswap.inference.embed import embed_texts
from headswap.inference.suggest import FEWEST_HELD, HELD_PER_CHOSEN, TINY, spread

WAYS = ("random", "uncertainty", "suggest")


def vectors_of(base: str, name: str, number: int, cache: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """The vectors and labels of the first texts of a set."""
    examples = read_named_examples(name)[:number]
    file = cache / f"{name.replace('/', '-').replace(':', '-')}-{number}.npy" if cache else None
    if file is not None and file.exists():
        vectors = np.load(file)
    else:
        vectors = embed_texts(Bundle.load(base), [example.text for example in examples])
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors)
    return vectors, np.array([example.label for example in examples])


def entropy_of(probabilities: np.ndarray) -> np.ndarray:
    """The uncertainty of each text, as in `suggest`."""
    scores = probabilities.clip(TINY, 1.0)
    return -(scores * np.log(scores)).sum(axis=1) / np.log(scores.shape[1])


def chosen(
    way: str, uncertainties: np.ndarray, vectors: np.ndarray, count: int, stream: np.random.Generator
) -> np.ndarray:
    """The places of the texts to label."""
    if way == "random":
        return stream.choice(len(vectors), count, replace=False)
    order = np.argsort(-uncertainties, kind="stable")
    if way == "uncertainty":
        return order[:count]
    held = order[: max(FEWEST_HELD, HELD_PER_CHOSEN * count)]
    near = vectors[held] - vectors[held].mean(axis=0)
    near /= np.maximum(np.linalg.norm(near, axis=1, keepdims=True), TINY)
    return held[spread(near, uncertainties[held], count)]


def main() -> None:
    """Measure and print one line per way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="box:reviews-en-2")
    parser.add_argument("--pool", type=int, default=2_000)
    parser.add_argument("--test", type=int, default=1_000)
    parser.add_argument("--start", type=int, default=50)
    parser.add_argument("--add", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    pool, labels = vectors_of(args.base, "movies:imdb/train", args.pool, args.cache)
    test, truth = vectors_of(args.base, "movies:imdb/test", args.test, args.cache)
    scaler = StandardScaler().fit(pool)
    scaled, scaled_test = scaler.transform(pool), scaler.transform(test)
    results: dict[str, list[float]] = {way: [] for way in ("start", *WAYS)}
    for seed in range(args.seeds):
        stream = numpy_stream(seed, "suggest")
        first = stream.choice(len(pool), args.start, replace=False)
        rest = np.setdiff1d(np.arange(len(pool)), first)

        def fitted(rows: np.ndarray) -> LogisticRegression:
            return LogisticRegression(C=0.01, max_iter=1_000).fit(scaled[rows], labels[rows])

        model = fitted(first)
        results["start"].append(float(model.score(scaled_test, truth)))
        uncertainties = entropy_of(model.predict_proba(scaled[rest]))
        for way in WAYS:
            more = rest[chosen(way, uncertainties, pool[rest].astype(np.float64), args.add, stream)]
            results[way].append(float(fitted(np.concatenate([first, more])).score(scaled_test, truth)))
    for way, values in results.items():
        print(
            f"{way:12} {np.mean(values):.4f} (standard deviation over {args.seeds} seeds {np.std(values, ddof=1):.4f})"
        )
    for way in WAYS[1:]:
        gains = np.subtract(results[way], results["random"])
        half = t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains))
        low, high = 100 * (gains.mean() - half), 100 * (gains.mean() + half)
        print(f"{way} - random: {100 * gains.mean():+.2f} points (95 % interval {low:+.2f} to {high:+.2f})")
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(
            args.out, {"settings": {name: str(value) for name, value in vars(args).items()}, "accuracy": results}
        )


if __name__ == "__main__":
    main()
