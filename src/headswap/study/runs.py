"""What a study or a comparison is computed from: run folders, read as they are.

A score is never taken from a file of results: it is computed again from the predictions that each run kept. A job of a
study that is damaged is missing, with the reason. Runs of a comparison that are damaged, or whose test sets differ, are
refused.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.errors import HeadswapError, InputError, SettingError, absent
from headswap.core.files import read_json
from headswap.core.settings import flattened, load_recipe, read_toml
from headswap.data.columns import COLUMN_EXTENSIONS
from headswap.data.documents import read_texts
from headswap.data.open_text import extension_of
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.study.arms import SCRATCH
from headswap.study.config import StudyRecipe
from headswap.study.folder import PLAN, RECIPE
from headswap.study.outputs import damage, has_finished
from headswap.study.records import CELL, damage_sentence, read_plan, read_prepared, record_of, record_sentence
from headswap.tasks.registry import named_task
from headswap.training.run_folder import METRICS, RunFolder, read_metrics

FREE = {"training.seed", "data.num_train", "machine.threads", "machine.device"}
"""Settings in which runs of one arm may differ."""


@dataclass(frozen=True)
class Scored:
    """One run of one arm at one budget with one seed."""

    arm: str
    budget: str
    labels: int
    seed: int
    folder: Path
    predictions: Predictions
    result: dict[str, Any]
    history: list[dict[str, Any]]
    """Evaluations by epoch, epoch 0 included."""
    rows: str | None
    """Checksum of the labels that it saw."""


@dataclass(frozen=True)
class Base:
    """A base that was pre-trained for the study."""

    name: str
    folder: Path
    result: dict[str, Any]
    history: list[dict[str, Any]]


@dataclass
class Material:
    """All that a report is computed from."""

    out: Path | None
    runs: list[Scored]
    arms: list[str]
    bases: dict[str, list[Base]] = field(default_factory=dict)
    """By arm."""
    missing: list[dict[str, Any]] = field(default_factory=list)
    """Cells of the plan without a result."""
    recipe: StudyRecipe | None = None
    prepared: dict[str, Any] = field(default_factory=dict)
    texts: list[str] | None = None
    metric: str = "accuracy"

    @property
    def budgets(self) -> list[tuple[str, int]]:
        """(name, labels), fewest first."""
        return sorted({(run.budget, run.labels) for run in self.runs}, key=lambda budget: budget[1])

    @property
    def fullest_budget(self) -> int:
        """Labels of the largest budget at which as many arms as possible have run, to look at them side by side."""
        arms = {labels: {run.arm for run in self.runs if run.labels == labels} for _, labels in self.budgets}
        return max(arms, key=lambda labels: (len(arms[labels]), labels))

    def of(self, arm: str, labels: int) -> dict[int, Scored]:
        """The runs of a cell by seed."""
        return {run.seed: run for run in self.runs if run.arm == arm and run.labels == labels}


def read_study(out: Path) -> Material:
    """The run folders of a study, as far as they are done."""
    if not (out / PLAN).exists():
        problem = absent(out) if not out.exists() else f"{out} holds no study: it has no {PLAN}."
        raise InputError(f"{problem} Give the folder of headswap study.")
    plan = read_plan(out)
    recipe = load_recipe(StudyRecipe, out / RECIPE)
    material = Material(out, [], [], recipe=recipe, prepared=read_prepared(out), metric=recipe.study.metric)
    folders = {id: out / "runs" / job["folder"] for id, job in plan["jobs"].items()}
    names = {id: job["name"] for id, job in plan["jobs"].items()}
    bases = {entry["job"]: folders.get(entry["base"]) for entry in plan["entries"]}
    damaged = {
        id: why for id, job in plan["jobs"].items() if (why := damage(job["kind"], folders[id], base=bases.get(id)))
    }
    whole = {id: folder for id, folder in folders.items() if has_finished(folder) and id not in damaged}
    runs = [
        _scored(whole[entry["job"]], *(entry[name] for name in CELL)) if entry["job"] in whole else None
        for entry in plan["entries"]
    ]
    common = _most_common_test([run for run in runs if run is not None])
    for entry, run in zip(plan["entries"], runs, strict=True):
        if run is not None and _test_of(run) != common:
            damaged[entry["job"]] = "it was scored on other texts than the other jobs"
        _take_in(material, entry, run, damaged.get(entry["job"]))
        if run is not None and entry["base"] in whole:
            _take_in_base(material, entry["arm"], names[entry["base"]], whole[entry["base"]])
    told = [damage_sentence(names[id], why, out) for id, why in damaged.items()]
    if told and not material.runs:
        raise InputError("\n".join(["No job of this study is whole, so there is nothing to report.", *told]))
    told += [
        record_sentence(names[id], file)
        for id in whole
        if id not in damaged and (file := record_of(folders[id])).exists()
    ]
    material.prepared["notes"] = [*material.prepared.get("notes", []), *told]
    check_same_test(material.runs)
    material.texts = _texts(out / "data" / "test.jsonl", material.runs)
    return material


def _take_in(material: Material, entry: dict[str, Any], run: Scored | None, damage: str | None) -> None:
    """Add the run of one entry of the plan, or that it is missing and why."""
    if entry["arm"] not in material.arms:
        material.arms.append(entry["arm"])
    if run is not None and damage is None:
        material.runs.append(run)
    else:
        reason = {"reason": f"damaged: {damage}"} if damage else {}
        material.missing.append({name: entry[name] for name in CELL} | reason)


def _take_in_base(material: Material, arm: str, name: str, folder: Path) -> None:
    known = material.bases.setdefault(arm, [])
    if folder not in [base.folder for base in known]:
        known.append(Base(name, folder, read_json(folder / "result.json"), _history(folder)))


def _test_of(run: Scored) -> tuple[tuple[str, ...], bytes, bytes]:
    """What runs must have in common to be compared: labels, texts and their order, truth."""
    found = run.predictions
    return found.labels, found.text_ids.tobytes(), found.targets.astype(np.int64).tobytes()


def _most_common_test(runs: Sequence[Scored]) -> Any:
    """The test set of most runs: in a study one that differs is damaged."""
    counts = Counter(_test_of(run) for run in runs)
    return max(counts, key=counts.__getitem__, default=None)


def read_runs(paths: Sequence[Path]) -> Material:
    """Fine-tunings made one by one: arms are told apart by the settings in which they differ."""
    recipes = {path: _finetune_recipe(path) for path in paths}
    results = {path: RunFolder(path).result for path in paths}
    sizes = {path: result["num_train"] + result["num_validation"] for path, result in results.items()}
    # Epochs that are fitted to the number of labels make no other arm; other epochs with as many labels do.
    epochs = {(sizes[path], recipe.training.num_train_epochs) for path, recipe in recipes.items()}
    leave = FREE | ({"training.num_train_epochs"} if len(epochs) == len({size for size, _ in epochs}) else set())
    names = _arm_names({
        path: {name: value for name, value in flattened(recipe).items() if name not in leave}
        for path, recipe in recipes.items()
    })  # fmt: skip
    runs = [_scored(path, names[path], str(sizes[path]), sizes[path], recipes[path].training.seed) for path in paths]
    seen: dict[tuple[str, int, int], Path] = {}
    for run in runs:
        cell = (run.arm, run.labels, run.seed)
        if cell in seen:
            raise InputError(f"{seen[cell]} and {run.folder} are the same arm, budget and seed. Leave one out.")
        seen[cell] = run.folder
    check_same_test(runs)
    material = Material(None, runs, list(dict.fromkeys(run.arm for run in runs)))
    data = recipes[paths[0]].data
    if data.test and Path(data.test).is_file():
        material.texts = _texts(Path(data.test), runs, text_column=data.text_column)
    return material


def check_same_test(runs: Sequence[Scored]) -> None:
    """Refuse runs that were not scored on the same texts, labels and order."""
    if not runs:
        raise InputError("No run is finished yet, so there is nothing to report. Go on with the study first.")
    first = runs[0]
    for run in runs[1:]:
        if _test_of(run) != _test_of(first):
            raise InputError(
                f"{run.folder} was scored on another test set than {first.folder}, so they cannot be compared. "
                "Score both on the same file."
            )


def _scored(folder: Path, arm: str, budget: str, labels: int, seed: int) -> Scored:
    return Scored(
        arm, budget, labels, seed, folder, Predictions.load(folder), read_json(folder / "result.json"),
        _history(folder), read_json(folder / "data.json").get("training set"),
    )  # fmt: skip


def _history(folder: Path) -> list[dict[str, Any]]:
    """Evaluations by epoch; a baseline has none."""
    lines = read_metrics(folder) if (folder / METRICS).exists() else []
    keys = ("eval_accuracy", "train_accuracy", "eval_loss", "eval_perplexity")
    return [line for line in lines if any(line.get(key) is not None for key in keys)]


def _texts(file: Path, runs: Sequence[Scored], *, text_column: str = "text") -> list[str] | None:
    """The test texts, if they are still the ones that the runs were scored on."""
    has_columns = extension_of(file) in COLUMN_EXTENSIONS
    try:
        texts = read_texts(str(file), text_column=text_column if has_columns else None)
    except HeadswapError:
        return None
    return texts if np.array_equal(text_ids(texts), runs[0].predictions.text_ids) else None


def _finetune_recipe(path: Path) -> FinetuneRecipe:
    file = path / "recipe.toml"
    if not file.exists():
        raise InputError(
            f"{absent(path)}" if not path.exists() else f"{path} is not a run folder: it has no recipe.toml."
        )
    verb = read_toml(file).get("verb")
    if verb != "finetune":
        raise SettingError(f"{path} is a run of headswap {verb}; compare takes fine-tunings.")
    if not (path / "result.json").exists():
        raise InputError(f"{path} is not finished. Finish it with --resume first.")
    recipe = load_recipe(FinetuneRecipe, file)
    if not named_task(recipe.data.task).keeps_predictions:
        raise SettingError(f"{path} is a run of the task {recipe.data.task}; compare takes classifiers.")
    if recipe.data.test is None and "test" not in RunFolder(path).result:
        raise InputError(f"{path} was not scored on a test set. Run the fine-tuning again with --test FILE.")
    if why := damage("finetune", path):
        raise InputError(f"{path} is damaged ({why}). Run the fine-tuning again with --overwrite, or leave it out.")
    return recipe


def _arm_names(flat: dict[Path, dict[str, Any]]) -> dict[Path, str]:
    """Runs with equal settings share a name made of what sets them apart from the others."""
    every = list(flat.values())
    bases = {str(settings["model.base"]) for settings in every}
    of_shape = {
        "model.preset",
        "model.direction",
        "tokenizer.tokenizer",
    }  # a base from scratch has these, others do not
    differing = [
        name
        for name in every[0]
        if len({json.dumps(settings[name]) for settings in every}) > 1
        and not (SCRATCH in bases and len(bases) > 1 and (name in of_shape or name.startswith("model.")))
        and not (len(bases) > 1 and len({json.dumps([s["model.base"], s[name]]) for s in every}) == len(bases))
        and name != "model.base"
    ]
    names = {}
    for path, settings in flat.items():
        base = str(settings["model.base"])
        own = SCRATCH if base == SCRATCH else "pretrained" if len(bases - {SCRATCH}) == 1 else Path(base).name
        more = [f"{name.partition('.')[2]}={settings[name]}" for name in differing]
        names[path] = " ".join([own, *more])
    return names
