"""The methods section of a report: data, learning rates, statistics, commands that reproduce it, versions."""

import shlex
from pathlib import Path

from headswap import __version__
from headswap.core.files import read_json
from headswap.core.local_paths import local_path
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.study.folder import RECIPE
from headswap.study.groups import test_groups
from headswap.study.runs import StudyRuns

STATISTICS = (
    "A budget of n labels includes the labels for model selection: one fifth (at most 2,000) selects the epoch, the "
    "rest is for training. Below 200 labels nothing is held out and the last epoch is used. TF-IDF is trained on all n "
    "labels.",
    "Label subsets are stratified and nested: each larger subset contains the smaller ones. At one seed all arms have "
    "the same subset. The seed also sets the initialisation and the order of the examples. Each run is scored on the "
    "test set once.",
    "Intervals and tests are over seeds and test texts, which are both samples: a two-way analysis of variance with "
    "crossed random effects on the values per seed and text, Student's t with Satterthwaite's degrees of freedom. "
    "Differences are paired by seed and by text. The values of macro-F1 are jackknife pseudo-values. With 3 or more "
    "bases the test is over means per base. docs/verdicts.md has the error rates and the power of the test.",
    "The best baseline of a budget is the one with the highest score by cross-validation on the labels of the budget.",
    "TF-IDF: word 1-2-grams, sublinear term frequency, logistic regression, C selected by cross-validation on the same "
    "labels. With the budget all it has the same labels at every seed, so its scores have no spread.",
    "Seeds needed: the number of seeds that shows the observed difference, plus and minus its standard error, with a "
    "power of 80 %, at the observed spread and a level of .05 divided by the number of comparisons.",
)
ON_OVERLAP = {"drop": "removed from train, validation and corpus", "report": "reported only", "stop": "an error"}


def methods(study: StudyRuns) -> list[str]:
    """Data, learning rates and statistics, in sentences."""
    found = list(STATISTICS)
    if (groups := test_groups(study)) is not None:
        found.append(
            f"The test texts belong to {int(groups.max()) + 1:,} groups. Intervals and tests are over seeds and "
            "groups, because the texts of one group are not independent."
        )
    if rates := _learning_rates(study):
        found.insert(0, f"Learning rates (given or default): {'; '.join(rates)}.")
    if study.recipe is not None:
        settings, rows = study.recipe.study, study.prepared.get("num_rows", {})
        corpus = ", ".join(Path(source).name or source for source in settings.corpus) or "none"
        documents = f" ({rows['corpus']:,} documents)" if "corpus" in rows else ""
        sizes = ", ".join(f"{rows[name]:,} {name}" for name in ("train", "validation", "test") if name in rows)
        on_overlap = f"{ON_OVERLAP[settings.on_leak]} (--on-leak {settings.on_leak})"
        found.insert(0, f"Corpus: {corpus}{documents}. Labelled data: {sizes}. Overlap: {on_overlap}.")
    return found


def _learning_rates(study: StudyRuns) -> list[str]:
    """The learning rates of each fine-tuned arm at its largest budget, from the recipes of its runs."""
    found = []
    for arm in study.arms:
        runs = [run for run in study.runs if run.arm == arm and (run.folder / "recipe.toml").exists()]
        if not runs:
            continue
        recipes = {run.labels: load_recipe(FinetuneRecipe, run.folder / "recipe.toml") for run in runs}
        recipe = recipes[max(recipes)]
        rates = f"{arm} {recipe.training.learning_rate:g}"
        if (decay := recipe.adaptation.layer_lr_decay) not in (None, 1.0):
            rates += f", times {decay:g} per layer downwards"
        if (factor := recipe.adaptation.head_lr_factor) not in (None, 1.0):
            rates += f", times {factor:g} for the head"
        if gradual := sorted(labels for labels, one in recipes.items() if one.adaptation.unfreeze == "gradual"):
            rates += ", one more layer unfrozen per epoch"
            rates += "" if len(gradual) == len(recipes) else f" (up to {gradual[-1]:,} labels)"
        found.append(rates)
    return found


def commands(study: StudyRuns) -> str:
    """The commands that reproduce a study, its bases and one of its runs, or a comparison."""
    if study.out is None:
        folders = [local_path(str(run.folder)) for run in study.runs if run.folder.exists()]
        return shlex.join(["headswap", "compare", *folders])
    out = shlex.quote(local_path(str(study.out)))
    lines = [
        f"headswap study --config {out}/{RECIPE} --out AGAIN",
        f"headswap report {out}",
    ]
    bases = {base.folder.name for found in study.bases.values() for base in found}
    lines += [f"headswap pretrain --config {out}/runs/{name}/recipe.toml --out AGAIN" for name in sorted(bases)]
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
