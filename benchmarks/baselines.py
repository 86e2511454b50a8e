"""Linear baselines: the rule that chooses C with few labels, and the scores of tfidf, nbsvm and lsa (docs/results.md).

    python benchmarks/baselines.py choose CHOOSE_FOLDER      # rules for C on sets that no other figure uses
    python benchmarks/baselines.py score DATA OUT            # tfidf before and now, nbsvm and lsa on four test sets

CHOOSE_FOLDER has the folders trec, subj and clinc150 with train.csv.gz and test.csv.gz (`text`, `label`). DATA has the
folders imdb, cls-books and fr-reviews; Rotten Tomatoes and chitchat are those of the extra `demo`. Finished jobs of OUT
are not run again, except for TF-IDF as it was before, which is not kept.
"""

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App, Parameter
from seed_means import mean_interval
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from threadpoolctl import threadpool_limits

from headswap.baselines.classify import tfidf_baseline
from headswap.baselines.lsa import lsa_baseline
from headswap.baselines.lsa_space import TextSpace
from headswap.baselines.nbsvm import nbsvm_baseline
from headswap.baselines.tfidf import SOLVER, TOLERANCE, tfidf_features
from headswap.core.settings import load_recipe
from headswap.data.labelled import read_labelled
from headswap.data.records import Example
from headswap.data.stratify import stratified_subset
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import read_splits
from headswap.metrics.classification import log_loss
from headswap.study.jobs.job import run_job
from headswap.study.jobs.plan import make_plan
from headswap.study.jobs.planned_jobs import Plan
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.prepare import prepare
from headswap.tokens.lab_tokenizer import SPACE

app = App(help=__doc__)
STRENGTHS_BEFORE = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
CHOOSE_LABELS = {"trec": (50, 100, 200, 400, 1_000), "subj": (50, 100, 200, 400, 1_000), "clinc150": (150, 200, 400)}
NUM_CHOOSE_TEST = 1_000
ARMS = ("tfidf", "nbsvm", "lsa")
Strings = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]


def logistic(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)


def strength_before(features: Any, truth: Sequence[str]) -> float:
    """C as chosen before: no folds if some class has one example (then 1), the smallest of the best otherwise."""
    number = min(5, min(Counter(truth).values()))
    if number < 2:
        return 1.0
    folds = list(StratifiedKFold(number, shuffle=True, random_state=0).split(np.zeros(len(truth)), truth))
    found = {C: cross_val_score(logistic(C), features, truth, cv=folds).mean() for C in STRENGTHS_BEFORE}
    return max(STRENGTHS_BEFORE, key=found.__getitem__)


def tfidf_before(train: Sequence[Example], test: Sequence[Example]) -> np.ndarray:
    """The probabilities of TF-IDF + logistic regression with C as chosen before."""
    truth = [one.label for one in train]
    with threadpool_limits(1):
        features, test_features = tfidf_features([one.text for one in train], [one.text for one in test])
        return logistic(strength_before(features, truth)).fit(features, truth).predict_proba(test_features)


@app.command
def choose(folder: Path, *, seeds: int = 3, sets: Strings = tuple(CHOOSE_LABELS)) -> None:
    """Accuracy and log loss of TF-IDF by rule for C, and of nbsvm and lsa (its corpus: the texts of train)."""
    columns = ("before", "now", "C=1", "C=10", "C=100", "C=1000", "nbsvm", "lsa")
    print(f"| set, labels | {' | '.join(columns)} | C before | C now |\n|{'---|' * (len(columns) + 3)}")
    for name in sets:
        train, test = (
            read_labelled(str(folder / name / f"{part}.csv.gz"), text_column="text", label_column="label")
            for part in ("train", "test")
        )
        test = [test[row] for row in stratified_subset(test, min(NUM_CHOOSE_TEST, len(test)), 0)]
        space, _ = TextSpace.fit(one.text for one in train)
        for number in CHOOSE_LABELS[name]:
            with threadpool_limits(1):
                rows = [_rules(train, test, number, seed, space) for seed in range(1, seeds + 1)]
            cells = [
                f"{np.mean([row[column][0] for row in rows]):.3f} ({np.mean([row[column][1] for row in rows]):.2f})"
                for column in columns
            ]
            chosen = [" ".join(f"{row[column][2]:g}" for row in rows) for column in ("before", "now")]
            print(f"| {name}, {number:,} | {' | '.join([*cells, *chosen])} |", flush=True)


def _rules(
    train: Sequence[Example], test: Sequence[Example], number: int, seed: int, space: TextSpace
) -> dict[str, tuple[float, float, float]]:
    """Accuracy, log loss and C of every column, at one number of labels and one seed."""
    part = [train[row] for row in stratified_subset(train, number, seed)]
    labels, truth = sorted({one.label for one in part}), [one.label for one in part]
    targets = np.array([labels.index(one.label) for one in test])
    features, test_features = tfidf_features([one.text for one in part], [one.text for one in test])

    def scored(probabilities: np.ndarray, C: float) -> tuple[float, float, float]:
        return float((probabilities.argmax(axis=1) == targets).mean()), log_loss(probabilities, targets), C

    def fitted(C: float) -> tuple[float, float, float]:
        return scored(logistic(C).fit(features, truth).predict_proba(test_features), C)

    found = {f"C={C}": fitted(float(C)) for C in (1, 10, 100, 1000)}
    found["before"] = fitted(strength_before(features, truth))
    for name, baseline in (("now", tfidf_baseline), ("nbsvm", nbsvm_baseline), ("lsa", lsa_baseline)):
        probabilities, chosen = baseline.fit(part, test, labels, "accuracy", space=space)
        found[name] = scored(probabilities, chosen["C"])
    return found


def study_data(name: str, data: Path, out: Path) -> dict[str, Any]:
    """The sections `study` and `data` of a set; rows of raw files are written to `out` first."""
    if name == "rotten-tomatoes":
        named = "movies:rotten-tomatoes"
        return {"study": {"corpus": (named,)}, "data": {"train": named, "test": f"{named}/test"}}
    if name == "chitchat":
        return {"study": {"corpus": (name,)}, "data": {"train": name, "test": f"{name}/test"}}
    folder = out / "files" / name
    folder.mkdir(parents=True, exist_ok=True)
    if name == "imdb":
        corpus = str(data / "imdb" / "unsup.jsonl.gz")
        rows = {part: _lines(data / "imdb" / f"{part}.jsonl.gz") for part in ("train", "test")}
    else:
        corpus = str(data / "fr-reviews" / "reviews.jsonl.gz")
        parts = {part: _pieces(data / name, part) for part in ("train", "valid", "test")}
        rows = {"train": parts["train"] + parts["valid"], "test": parts["test"]}
    for part, every in rows.items():
        lines = (json.dumps({"text": row["text"], "label": str(row["label"])}) + "\n" for row in every)
        (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    return {
        "study": {"corpus": (corpus,)},
        "data": {part: str(folder / f"{part}.jsonl") for part in ("train", "test")},
    }


def _lines(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _pieces(folder: Path, part: str) -> list[dict[str, Any]]:
    """The raw texts of sentencepiece pieces, with their labels."""
    texts = (folder / f"{part}.review.spm").read_text(encoding="utf-8").splitlines()
    labels = (folder / f"{part}.label").read_text(encoding="utf-8").split()
    joined = ["".join(text.split(" ")).replace(SPACE, " ").strip() for text in texts]
    return [{"text": text, "label": label} for text, label in zip(joined, labels, strict=True)]


@app.command
def score(
    data: Path,
    out: Path,
    *,
    sets: Strings = ("imdb", "rotten-tomatoes", "chitchat", "cls-books"),
    labels: Strings = ("100", "400", "1600"),
    seeds: int = 5,
    num_test: int = 2_000,
) -> None:
    """Test accuracy of the baselines, each scored once per seed, with the settings of this version."""
    for name in sets:
        sections = study_data(name, data, out)
        own = {"arms": ARMS, "budgets": labels, "seeds": seeds, "num_test": num_test}
        recipe = load_recipe(StudyRecipe, None, {**sections, "study": {**sections["study"], **own}})
        prepared = prepare(recipe, out / name)
        plan = make_plan(recipe, read_arms(recipe), prepared, out / name)
        for job in plan.jobs.values():
            run_job(json.loads(json.dumps(vars(job), default=list)))
        print(f"\n{name}: {prepared.num_rows}, {len(prepared.labels)} labels, dropped {prepared.dropped}")
        _print_scores(plan, labels)


def _print_scores(plan: Plan, labels: Sequence[str]) -> None:
    spaces = [json.loads((Path(job.folder) / "result.json").read_text()) for job in plan.jobs.values()
              if job.kind == "space"]  # fmt: skip
    print("space:", {key: value for key, value in spaces[0].items() if key != "fingerprint"})
    print(f"| labels | tfidf before | tfidf | nbsvm | lsa | seconds: {', '.join(ARMS)} |\n|{'---|' * 6}")
    for budget in labels:
        found: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        for entry in (entry for entry in plan.entries if entry.budget == budget):
            folder = Path(plan.jobs[entry.job].folder)
            with np.load(folder / "predictions.npz") as arrays:
                is_right = arrays["probabilities"].argmax(axis=1) == arrays["targets"]
            found.setdefault(entry.arm, []).append(float(is_right.mean()))
            seconds.setdefault(entry.arm, []).append(json.loads((folder / "result.json").read_text())["seconds"])
            if entry.arm == "tfidf":
                found.setdefault("before", []).append(_before(plan.jobs[entry.job].sections))
        cells = [_cell(found[name]) for name in ("before", *ARMS)]
        times = ", ".join(f"{np.mean(seconds[name]):.1f}" for name in ARMS)
        print(f"| {int(budget):,} | {' | '.join(cells)} | {times} |", flush=True)


def _before(sections: dict[str, Any]) -> float:
    splits = read_splits(load_recipe(FinetuneRecipe, None, sections))
    probabilities = tfidf_before([*splits.train, *splits.validation], splits.test)
    targets = np.array([splits.labels.index(one.label) for one in splits.test])
    return float((probabilities.argmax(axis=1) == targets).mean())


def _cell(values: Sequence[float]) -> str:
    mean = mean_interval(values)
    span = "" if mean.low is None else f" ({mean.low:.3f} to {mean.high:.3f})"
    return f"{mean.mean:.3f}{span}"


if __name__ == "__main__":
    app()
