"""The methods section of a report: data, learning rates, statistics, commands that reproduce it, versions."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from headswap import __version__
from headswap.baselines.linear_answers import STRENGTH as OF_ANSWERS
from headswap.baselines.linear_tagger import STRENGTH as OF_TAGGER
from headswap.baselines.lsa_space import DIMENSIONS, MOST_DOCUMENTS
from headswap.core.files import read_json
from headswap.core.local_paths import local_path, without_query
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.consistency import MOST_TEXTS
from headswap.registry import LINEAR_MODELS
from headswap.study.report.findings import enumerated
from headswap.study.report.tuning import tuning_sentences
from headswap.study.setup.arm_bases import is_adapted
from headswap.study.setup.arms import LINEAR, OF_CONSISTENCY, OF_LINEAR, PAIR
from headswap.study.setup.folder import RECIPE
from headswap.study.setup.row_files import CORPUS, TEXTS
from headswap.study.setup.unlabelled_texts import SCORED
from headswap.study.statistics.budget_words import budget_words
from headswap.study.statistics.groups import counted_groups
from headswap.study.statistics.runs import StudyRuns

STATISTICS = (
    "A budget of n {many} includes those for model selection: one fifth (at most 2,000) selects the epoch, the "
    "rest is for training. {nothing_held_out}, and the last epoch is used. Baselines are trained on all n {many}.",
    "Label subsets are {subsets}: each larger subset contains the smaller ones. At one seed all arms have "
    "the same subset. The seed also sets the initialisation and the order of the examples. Each run is scored on the "
    "test set once.",
    "Intervals and tests are over seeds and test {unit}s, which are both samples: a two-way analysis of variance with "
    "crossed random effects on the values per seed and {unit}, Student's t with Satterthwaite's degrees of freedom. "
    "Differences are paired by seed and by {unit}. {values}With 3 or more "
    "bases the test is over means per base. docs/verdicts.md has the error rates and the power of the test.",
    "The best baseline of a budget is the one with the highest score by cross-validation on the labels of the budget.",
    "Seeds needed: the number of seeds that shows the observed difference, plus and minus its standard error, with a "
    "power of 80 %, at the observed spread and a level of .05 divided by the number of comparisons. Where the test is "
    "over bases, it is a number of bases.",
)
TFIDF = (
    "TF-IDF: word 1-2-grams, sublinear term frequency, {name}, {selected} selected by cross-validation on the same "
    "labels. With the budget all it has the same labels at every seed, so its scores have no spread."
)
NOT_MEANS = {
    "classes": "The values of macro-F1",
    "values": "The values of R2 and of Pearson's correlation",
    "label sets": "The values of micro-F1 and of macro-F1",
    "tags": "The values of F1",
}
"""The metrics that are no means over examples, per kind of predictions."""
OF_KIND = {
    "values": "A point of difference is .01 of the score. R2 is 1 minus the mean squared error divided by the variance "
    "of the test values, so a difference in R2 has the sign of a difference in MSE. A constant prediction has the "
    "Pearson correlation 0. Label subsets are stratified by fifths of the values.",
    "label sets": "Micro-F1 counts all pairs of a text and a label. Macro-F1 is the mean F1 of all labels. The labels "
    "are those of the whole training set: a label without an example in a subset can hardly be predicted, and its test "
    "texts count. Label subsets are stratified by the rarest label of each text. All labels share one threshold, "
    "which is chosen on validation by micro-F1; with macro-F1 as the metric each label has its own. It is 0.5 without "
    "a validation set.",
    "tags": "F1 is that of entities, counted as seqeval does: type, first and last word must be right. Tags without "
    "prefixes are counted word by word. The tags are those of the whole training set. Label subsets are random samples "
    "of sentences.",
    "answers": "F1 and exact match are those of SQuAD, means over questions. A question without an answer is right "
    "only if none is predicted. Label subsets are random samples of questions that keep the share of unanswerable "
    "ones, and whole contexts are held out for validation.",
}
"""Sentences about metrics and label subsets, per kind of predictions."""
BASELINES = {
    "lsa": f"LSA: TF-IDF of the words of the corpus (a fixed sample of {MOST_DOCUMENTS:,} documents, if it has more), "
    f"reduced to at most {DIMENSIONS} dimensions by a truncated SVD that is fitted on the corpus alone, without labels "
    "and test texts; logistic regression on these vectors, alone or beside TF-IDF. Features and C are selected by "
    "cross-validation on the same labels.",
    "linear-tagger": f"linear-tagger: one linear support vector machine per tag on words, affixes and shapes, "
    f"C {OF_TAGGER:g} at all budgets.",
    "linear-answers": f"linear-answers: logistic regression that ranks the parts of a context, C {OF_ANSWERS:g} at all "
    "budgets. Where training questions have no answer, the score below which none is given is chosen on a fifth of the "
    "training contexts.",
    "nbsvm": "NB-SVM: word 1-2-grams weighted by their Naive-Bayes log ratios, logistic regression per class, C "
    "selected by cross-validation on the same labels.",
}
"""Sentences about baselines that not every study has."""
VECTORS = {
    True: "every pair is one vector: those of its two texts, each pooled over its tokens as in fine-tuning, their "
    "absolute difference and their product",
    False: "every text is one vector of the base, pooled over its tokens as in fine-tuning",
}
"""What the arm linear is fitted to, of pairs and of single texts."""
LINEAR_SENTENCE = (
    "{vectors}; {name} on these vectors, {selected} selected by cross-validation on the same labels. It is a convex "
    "fit to all labels of the budget, where the arm frozen trains its head by gradient steps and holds out a fifth of "
    "the labels to select the epoch."
)
PAIR_ENCODINGS = {
    "joined": "a pair of texts is one sequence, and attention covers both texts (--pair-encoding joined).",
    "separate": "the two texts of a pair are two sequences, and the head compares their vectors (--pair-encoding "
    "separate).",
}
"""How arms read pairs of texts."""
TWO_TEXTS = ("pair", "question")
HARMFUL = ("exact", "near", "contained")
ON_OVERLAP = {"drop": "removed from train, validation and corpus", "report": "reported only", "stop": "an error"}


def methods(study: StudyRuns) -> list[str]:
    """Data, learning rates and statistics, in sentences."""
    kind = study.runs[0].predictions.kind
    many = budget_words(study.task, study.unit).many
    hold_out_from = None if study.recipe is None else study.recipe.data.hold_out_from
    names = {
        "unit": study.unit,
        "many": many,
        "subsets": "stratified by label and nested" if kind == "classes" else "nested",
        "nothing_held_out": "Some runs hold nothing out"
        if hold_out_from is None
        else f"Below {hold_out_from:,} {many} nothing is held out",
        "values": f"{NOT_MEANS[kind]} are jackknife pseudo-values. " if kind in NOT_MEANS else "",
    }
    found = [sentence.format(**names) for sentence in STATISTICS]
    linear = LINEAR_MODELS.load(kind) if kind in LINEAR_MODELS else None
    if linear and "tfidf" in study.arms:
        found.append(TFIDF.format(name=linear.name, selected=linear.selected))
    found += [OF_KIND[kind]] if kind in OF_KIND else []
    found += [*(sentence for name, sentence in BASELINES.items() if name in study.arms)]
    if (groups := counted_groups(study)) is not None:
        number, what = groups
        found.append(
            f"The test {study.unit}s belong to {number:,} {what}s. Intervals and tests are over seeds "
            f"and {what}s, because the {study.unit}s of one {what} are not independent."
        )
    found[:0] = [*tuning_sentences(study), *_without_held_out_labels(study)]
    recipes = _recipes(study)
    found[:0] = _pair_encodings(recipes)
    if rates := _learning_rates(recipes, many):
        found.insert(0, f"Learning rates (given or default): {'; '.join(rates)}.")
    arms = [arm for arm in study.arms if arm == LINEAR or arm.startswith(OF_LINEAR)]
    if linear and arms:
        vectors = VECTORS[study.unit == PAIR]
        sentence = LINEAR_SENTENCE.format(vectors=vectors, name=linear.name, selected=linear.selected)
        found.insert(0, f"{', '.join(arms)}: {sentence}")
    if consistent := [arm for arm in study.arms if arm.startswith(OF_CONSISTENCY)]:
        found.insert(0, _consistency(study, consistent))
    if adapted := [arm for arm in study.arms if is_adapted(arm)]:
        found.insert(0, _adaptation(study, adapted))
    if study.recipe is not None:
        settings, rows = study.recipe.study, study.prepared.get("num_rows", {})
        corpus = ", ".join(Path(without_query(source)).name or source for source in settings.corpus) or "none"
        documents = f" ({rows['corpus']:,} documents)" if "corpus" in rows else ""
        sizes = ", ".join(f"{rows[name]:,} {name}" for name in ("train", "validation", "test") if name in rows)
        on_overlap = f"{ON_OVERLAP[settings.on_overlap]} (--on-overlap {settings.on_overlap})"
        labelled = f" Labelled data: {sizes}." if sizes else ""
        found.insert(0, f"Corpus: {corpus}{documents}.{labelled} Overlap: {on_overlap}.")
    return found


def _adaptation(study: StudyRuns, arms: list[str]) -> str:
    """What the adapted bases read before fine-tuning, and how much of it."""
    bases = {base.name: base.result for arm in arms for base in study.bases.get(arm, [])}
    read = [f"{name}: {one['tokens']:,} tokens in {one['epochs']:.3g} epochs" for name, one in bases.items()]
    sentence = (
        f"Adaptation ({', '.join(arms)}): before fine-tuning, the base was trained on the corpus and on all training "
        f"texts without their labels, also on those beyond the budget{_scored_texts(study)}."
    )
    return f"{sentence} It read {'; '.join(read)}." if read else sentence


def _scored_texts(study: StudyRuns) -> str:
    """Whether an adaptation read texts of the given validation set or of test: the end of a sentence."""
    rows = [row for row in study.prepared.get("overlap", []) if row["to"] in SCORED]
    if study.unit in TWO_TEXTS and all(row["from"] != TEXTS for row in rows):
        return ""  # an earlier version did not compare the single texts
    read = (CORPUS, TEXTS if study.unit in TWO_TEXTS else "train")
    found = []
    for row in rows:
        number = sum(row.get(f"{kind}_rows") or 0 for kind in HARMFUL)
        if number and row["from"] in read and row["from"] not in study.prepared.get("dropped", {}):
            found.append(f"{number:,} of {row['from']} in {row['to']}")
    if not found:
        return ", and on no text of a given validation set or of test"
    return f". Among them are texts that are also in validation or test and were not removed ({', '.join(found)})"


def _consistency(study: StudyRuns, arms: list[str]) -> str:
    """Which texts without labels the arms used, and how many."""
    rows = study.prepared.get("num_rows", {})
    num_texts = rows.get(CORPUS, 0) + rows.get(TEXTS, 0)
    which = f"a fixed random sample of {MOST_TEXTS:,} of" if num_texts > MOST_TEXTS else "all"
    return (
        f"Consistency training ({', '.join(arms)}): every step also reads unlabelled texts and trains the model to "
        "predict the same for a text and for the text with tokens left out. The texts are "
        f"{which} {num_texts:,} texts of the corpus and the training set, the same at all seeds and budgets, also "
        "those whose labels the budget leaves out. A run leaves out the texts that it is validated on."
    )


def _without_held_out_labels(study: StudyRuns) -> list[str]:
    """Which arms were trained on all labels of budgets at which other arms held some out."""
    sizes = {(run.arm, run.labels): run.result.get("num_validation") for run in study.runs}
    held_out = {labels for (_, labels), size in sizes.items() if size}
    found: dict[str, list[str]] = {}
    for (arm, labels), size in sorted(sizes.items()):
        if size == 0 and labels in held_out:
            found.setdefault(arm, []).append(f"{labels:,}")
    many = budget_words(study.task, study.unit).many
    return [
        f"{arm} held no labels out at {enumerated(budgets)} {many}: it was trained on all of them, and its last epoch "
        "is used."
        for arm, budgets in found.items()
    ]


def _recipes(study: StudyRuns) -> dict[str, dict[int, FinetuneRecipe]]:
    """The recipes of each fine-tuned arm, by number of labels; of several seeds that of the last."""
    found: dict[str, dict[int, FinetuneRecipe]] = {}
    for run in sorted(study.runs, key=lambda run: study.arms.index(run.arm)):
        if (file := run.folder / "recipe.toml").exists():
            found.setdefault(run.arm, {})[run.labels] = load_recipe(FinetuneRecipe, file).of_run()
    return found


def _pair_encodings(recipes: Mapping[str, Mapping[int, FinetuneRecipe]]) -> list[str]:
    """Which arms read a pair of texts as one sequence, and which as two."""
    found: dict[str, list[str]] = {}
    for arm, by_labels in recipes.items():
        recipe = by_labels[max(by_labels)]
        if (encoding := recipe.head.pair_encoding) is not None:
            found.setdefault(encoding, []).append(arm)
    return [f"{', '.join(arms)}: {PAIR_ENCODINGS[name]}" for name, arms in sorted(found.items())]


def _learning_rates(recipes: Mapping[str, Mapping[int, FinetuneRecipe]], many: str) -> list[str]:
    """The learning rates of each fine-tuned arm at its largest budget."""
    found = []
    for arm, by_labels in recipes.items():
        recipe = by_labels[max(by_labels)]
        rates = f"{arm} {recipe.training.learning_rate:g}"
        if (decay := recipe.adaptation.layer_lr_decay) not in (None, 1.0):
            rates += f", times {decay:g} per layer downwards"
        if (factor := recipe.adaptation.head_lr_factor) not in (None, 1.0):
            rates += f", times {factor:g} for the head"
        if gradual := sorted(labels for labels, one in by_labels.items() if one.adaptation.unfreeze == "gradual"):
            rates += ", one more layer unfrozen per epoch"
            rates += "" if len(gradual) == len(by_labels) else f" (up to {gradual[-1]:,} {many})"
        found.append(rates)
    return found


def commands(study: StudyRuns) -> str:
    """The commands that reproduce a study, its bases and one of its runs, or a comparison."""
    if study.out is None and study.arguments:
        parts = [given.rpartition("=") for given in study.arguments]  # NAME=FILE
        return shlex.join(["headswap", "compare", *(f"{name}{sign}{local_path(file)}" for name, sign, file in parts)])
    if study.out is None:
        folders = [local_path(str(run.folder)) for run in study.runs if run.folder.exists()]
        return shlex.join(["headswap", "compare", *folders])
    out = shlex.quote(local_path(str(study.out)))
    lines = [
        f"headswap study --config {out}/{RECIPE} --out AGAIN",
        f"headswap report {out}",
    ]
    bases = {base.folder.name: base.result.get("verb", "pretrain") for found in study.bases.values() for base in found}
    lines += [
        f"headswap {verb} --config {out}/runs/{name}/recipe.toml --out AGAIN" for name, verb in sorted(bases.items())
    ]
    tuned = next((run for run in study.runs if (run.folder / "recipe.toml").exists()), None)
    if tuned is not None:
        lines.append(
            f"headswap finetune --config {out}/runs/{tuned.folder.name}/recipe.toml --out AGAIN    # one of the runs"
        )
    return "\n".join(lines)


def versions(study: StudyRuns) -> str:
    """Versions and machine of the last run that recorded them."""
    files = [run.folder / "environment.json" for run in reversed(study.runs)]
    environments = [read_json(file) for file in files if file.exists()]
    if not environments:
        return f"headswap {__version__}"
    last = environments[0]
    packages = ", ".join(f"{name} {value}" for name, value in last["versions"].items() if value)
    machine = last["processor"] if last["device"] == "cpu" else last["device"]
    precisions = " or ".join(sorted({one["precision"] for one in environments}))
    threads = f"{last['threads']} thread{'' if last['threads'] == 1 else 's'} per fine-tuning run"
    return f"{packages}, Python {last['python']}; {machine}, {precisions}, {threads}."
