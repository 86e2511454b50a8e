"""Read the runs that a study or a comparison is computed from.

Scores are never read from a file of results. They are computed from the predictions that each run saved. In a study a
damaged job counts as missing, with the reason. In a comparison a damaged run is an error, and so are different test
sets.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.errors import HeadswapError, InputError, SettingError, absent, did_you_mean, listed
from headswap.core.files import read_json
from headswap.core.settings import flattened, load_recipe, read_toml
from headswap.data.config import LabelledSettings
from headswap.data.records import whole_text
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import AnyPredictions, Predictions, load_predictions, text_ids
from headswap.study.jobs.damage_records import missing_sentence, record_file, rerun_sentence
from headswap.study.jobs.job_outputs import damage, has_finished
from headswap.study.setup.answer_file import VERB
from headswap.study.setup.arm_bases import is_existing_base
from headswap.study.setup.arms import SCRATCH
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.folder import PLAN, RECIPE
from headswap.study.statistics.arm_names import arm_names, with_shared_files, with_study_names
from headswap.study.statistics.design import Design, default_primary, read_designs
from headswap.study.statistics.results import EPOCH_METRICS, Budget, MissingRun
from headswap.study.statistics.study_files import CELL, planned_runs, read_plan, read_prepared
from headswap.tasks.choose import DEFAULT_TASK, named_task
from headswap.tasks.task import Task
from headswap.tasks.text_task import PAIR
from headswap.training.run_folder import METRICS, RunFolder, read_metrics

SEPARATOR = " | "
"""Between the two texts of a pair in a report."""


@dataclass(frozen=True)
class ScoredRun:
    """One run of one arm at one budget with one seed, and its test predictions."""

    arm: str
    budget: str
    labels: int
    seed: int
    folder: Path
    predictions: AnyPredictions
    result: dict[str, Any]
    history: list[dict[str, Any]]
    """Evaluations per epoch, from epoch 0 on."""
    rows: str | None
    """Checksum of its training set."""
    base: str | None = None
    """Id of the job that pre-trained its base in this study."""
    labelled: str | None = None
    """Checksum of its training and validation set together; only in a comparison that has baselines."""

    @property
    def classes(self) -> Predictions:
        """The predictions of a classifier."""
        assert isinstance(self.predictions, Predictions)
        return self.predictions

    @property
    def is_external(self) -> bool:
        """Whether another system made it, such as an LLM."""
        return self.result.get("verb") == VERB


@dataclass(frozen=True)
class PretrainedBase:
    """A base that was pre-trained for the study."""

    name: str
    folder: Path
    result: dict[str, Any]
    history: list[dict[str, Any]]


@dataclass
class StudyRuns:
    """The runs of a study or of a comparison: everything that a report is computed from."""

    out: Path | None
    """The folder of the study; None for a comparison."""
    runs: list[ScoredRun]
    arms: list[str]
    bases: dict[str, list[PretrainedBase]] = field(default_factory=dict)
    """Per arm."""
    missing: list[MissingRun] = field(default_factory=list)
    recipe: StudyRecipe | None = None
    prepared: dict[str, Any] = field(default_factory=dict)
    """Content of `prepared.json`."""
    texts: list[str] | None = None
    """The test texts, if they can be read."""
    metric: str = "accuracy"
    task: str = DEFAULT_TASK
    unit: str = "text"
    """What one test example is: text, pair, sentence, question."""
    primary: str | None = None
    """The arm that the planned tests are about."""
    designs: list[Design] = field(default_factory=list)
    """The designs that the study was run with, oldest first."""
    reference: str | None = None
    """The arm that all others are compared with; None: scratch and the best baseline."""
    arguments: Sequence[str] = ()
    """Of a comparison with the answers of other systems: the arguments of the command."""

    @property
    def budgets(self) -> list[Budget]:
        """The budgets with runs, smallest first."""
        return sorted({Budget(run.budget, run.labels) for run in self.runs}, key=lambda budget: budget.labels)

    @property
    def fullest_budget(self) -> int:
        """Labels of the largest budget among those with the most arms, at which arms are shown next to each other."""
        arms = {budget.labels: {run.arm for run in self.runs if run.labels == budget.labels} for budget in self.budgets}
        return max(arms, key=lambda labels: (len(arms[labels]), labels))

    @property
    def given_bases(self) -> list[str]:
        """The arms that fine-tune a base from a folder, and have its name; none if all arms have one reference."""
        if self.reference is not None:
            return []
        named = {run.arm for run in self.runs if run.arm != SCRATCH and run.result.get("base") == run.arm}
        return [arm for arm in self.arms if arm in named and not is_existing_base(arm)]

    def by_seed(self, arm: str, labels: int) -> dict[int, ScoredRun]:
        """The runs of an arm at a budget, per seed; a system with one answer per text has one run, of seed `SINGLE`."""
        return {run.seed: run for run in self.runs if run.arm == arm and run.labels == labels}


def read_study(out: Path) -> StudyRuns:
    """Read the finished runs of a study."""
    if not (out / PLAN).exists():
        problem = absent(out) if not out.exists() else f"{out} holds no study: it has no {PLAN}."
        raise InputError(f"{problem} Give the folder of headswap study.")
    plan = read_plan(out)
    recipe = load_recipe(StudyRecipe, out / RECIPE)
    designs = read_designs(out)
    study = StudyRuns(
        out, [], [], recipe=recipe, prepared=read_prepared(out), metric=recipe.study.metric, designs=designs,
        task=recipe.data.task or DEFAULT_TASK, unit=named_task(recipe.data.task).unit(recipe.data),
    )  # fmt: skip
    folders = {id: out / "runs" / job["folder"] for id, job in plan["jobs"].items()}
    names = {id: job["name"] for id, job in plan["jobs"].items()}
    bases = {entry["job"]: folders.get(entry["base"]) for entry in plan["entries"]}
    damaged = {
        id: why for id, job in plan["jobs"].items() if (why := damage(job["kind"], folders[id], base=bases.get(id)))
    }
    intact = {id: folder for id, folder in folders.items() if has_finished(folder) and id not in damaged}
    runs = [
        _scored_run(intact[entry["job"]], *(entry[name] for name in CELL), base=entry["base"])
        if entry["job"] in intact
        else None
        for entry in plan["entries"]
    ]
    common = _most_common_test([run for run in runs if run is not None])
    for entry, run in zip(plan["entries"], runs, strict=True):
        if run is not None and _test_of(run) != common:
            damaged[entry["job"]] = "it was scored on other texts than the other jobs"
        _add_run(study, entry, run, damaged.get(entry["job"]))
        if run is not None and entry["base"] in intact:
            _add_base(study, entry["arm"], names[entry["base"]], intact[entry["base"]])
    study.primary = designs[-1].primary if designs else default_primary(study.arms)
    notes = [missing_sentence(names[id], why, out) for id, why in damaged.items()]
    if notes and not study.runs:
        raise InputError("\n".join(["No finished job of this study is intact, so there is nothing to report.", *notes]))
    notes += [
        rerun_sentence(names[id], file)
        for id in intact
        if id not in damaged and (file := record_file(folders[id])).exists()
    ]
    study.prepared["notes"] = [*study.prepared.get("notes", []), *notes, *_row_numbers(study)]
    check_same_test(study.runs)
    is_pair = recipe.data.text_pair_column is not None
    rows = LabelledSettings(task=recipe.data.task, text_pair_column=PAIR if is_pair else None)
    study.texts = _texts(out / "data" / "test.jsonl", study.runs, rows)
    return study


def _row_numbers(study: StudyRuns) -> list[str]:
    """Where row numbers count the rows of different files: test texts were drawn after the overlap check."""
    assert study.recipe is not None
    if study.recipe.study.num_test is None:
        return []
    return [
        f"--num-test {study.recipe.study.num_test}: the numbers of test rows in the error analysis and the "
        "disagreements count the rows of data/test.jsonl, which has the drawn ones; those in the overlap check "
        "count all rows of the test set."
    ]


def _add_run(study: StudyRuns, entry: dict[str, Any], run: ScoredRun | None, damage: str | None) -> None:
    """Add the run of one entry of the plan, or record it as missing."""
    if entry["arm"] not in study.arms:
        study.arms.append(entry["arm"])
    if run is not None and damage is None:
        study.runs.append(run)
    else:
        reason = f"damaged: {damage}" if damage else None
        study.missing.append(MissingRun(**{name: entry[name] for name in CELL}, reason=reason))


def _add_base(study: StudyRuns, arm: str, name: str, folder: Path) -> None:
    known = study.bases.setdefault(arm, [])
    if folder not in [base.folder for base in known]:
        known.append(PretrainedBase(name, folder, read_json(folder / "result.json"), _history(folder)))


def _test_of(run: ScoredRun) -> tuple[Any, ...]:
    """What runs must share to be compared."""
    return run.predictions.test_key


def _most_common_test(runs: Sequence[ScoredRun]) -> Any:
    """The test set of most runs; a run of a study with another one is damaged."""
    counts = Counter(_test_of(run) for run in runs)
    return max(counts, key=counts.__getitem__, default=None)


def compared_metric(given: str | None, task: Task, trained_by: Collection[str | None] = ()) -> str:
    """The metric of a comparison: the given one, otherwise the one that all runs were trained by, if it has a test."""
    if given is not None and (name := given.replace("-", "_").lower()) in task.study_metrics:
        return name
    if given is not None:
        raise SettingError(
            f"metric is '{given}', but runs of the task {task.name} are compared by {listed(task.study_metrics)}."
            f"{did_you_mean(given, task.study_metrics)}"
        )
    common = next(iter(trained_by)) if len(set(trained_by)) == 1 else None
    return common if common in task.study_metrics else task.study_metrics[0]


def read_runs(paths: Sequence[Path], *, metric: str | None = None) -> StudyRuns:
    """Read fine-tuning runs; runs with other settings are other arms, and runs of a study have its arms.

    They are compared by `metric`; None is the one that they were trained by, see `compared_metric`.
    """
    recipes = {path: _finetune_recipe(path) for path in paths}
    results = {path: RunFolder(path).result for path in paths}
    sizes = {path: result["num_train"] + result["num_validation"] for path, result in results.items()}
    planned = planned_runs(paths)
    flat = with_shared_files({path: flattened(one) for path, one in recipes.items()}, planned)
    names = with_study_names(arm_names(flat, sizes), planned)
    runs = [
        _scored_run(
            path, names[path], str(sizes[path]), sizes[path], recipes[path].training.seed,
            base=planned[path].base if path in planned else None,
        )
        for path in paths
    ]  # fmt: skip
    seen: dict[tuple[str, int, int], Path] = {}
    for run in runs:
        cell = (run.arm, run.labels, run.seed)
        if cell in seen:
            raise InputError(f"{seen[cell]} and {run.folder} are the same arm, budget and seed. Leave one out.")
        seen[cell] = run.folder
    check_same_test(runs)
    arms = list(dict.fromkeys(run.arm for run in runs))
    data = recipes[paths[0]].data
    task = named_task(data.task)
    by = compared_metric(metric, task, [result.get("metric") for result in results.values()])
    study = StudyRuns(None, runs, arms, metric=by, task=task.name, unit=task.unit(data), primary=default_primary(arms))
    if data.test and Path(data.test).is_file():
        study.texts = _texts(Path(data.test), runs, data)
    return study


def check_same_test(runs: Sequence[ScoredRun]) -> None:
    """Refuse runs that were not scored on the same texts and labels in the same order."""
    if not runs:
        raise InputError(
            "No run is finished yet, so there is nothing to report. Resume the study with the same command."
        )
    first = runs[0]
    for run in runs[1:]:
        if _test_of(run) != _test_of(first):
            raise InputError(
                f"{run.folder} was scored on another test set than {first.folder}, so they cannot be compared. "
                "Score both on the same file."
            )


def _scored_run(folder: Path, arm: str, budget: str, labels: int, seed: int, *, base: str | None = None) -> ScoredRun:
    return ScoredRun(
        arm, budget, labels, seed, folder, load_predictions(folder), read_json(folder / "result.json"),
        _history(folder), read_json(folder / "data.json").get("training set"), base,
    )  # fmt: skip


def _history(folder: Path) -> list[dict[str, Any]]:
    """Evaluations per epoch; a baseline has none."""
    lines = read_metrics(folder) if (folder / METRICS).exists() else []
    keys = (*EPOCH_METRICS, "eval_perplexity")
    return [line for line in lines if any(line.get(key) is not None for key in keys)]


def _texts(file: Path, runs: Sequence[ScoredRun], data: LabelledSettings) -> list[str] | None:
    """The test texts, unless the file has changed since the runs were scored."""
    try:
        examples = named_task(data.task).read(str(file), data, data.test_label_file)
    except HeadswapError:
        return None
    ids = text_ids([whole_text(example) for example in examples])
    is_same = np.array_equal(ids, runs[0].predictions.text_ids)
    return [whole_text(example, separator=SEPARATOR) for example in examples] if is_same else None


def _finetune_recipe(path: Path) -> FinetuneRecipe:
    file = path / "recipe.toml"
    if not file.exists():
        raise InputError(
            f"{absent(path)}" if not path.exists() else f"{path} is not a run folder: it has no recipe.toml."
        )
    verb = read_toml(file).get("verb")
    if verb != "finetune":
        raise SettingError(f"{path} is a run of headswap {verb}; compare takes runs of headswap finetune.")
    if not (path / "result.json").exists():
        raise InputError(f"{path} is not finished. Finish it with --resume first.")
    recipe = load_recipe(FinetuneRecipe, file).of_run()
    if not named_task(recipe.data.task).study_metrics:
        raise SettingError(
            f"{path} is a run of the task {recipe.data.task}, which has no metric with a validated test, so its runs "
            "cannot be compared."
        )
    if recipe.data.test is None and "test" not in RunFolder(path).result:
        raise InputError(f"{path} was not scored on a test set. Run the fine-tuning again with --test FILE.")
    if why := damage("finetune", path):
        raise InputError(f"{path} is damaged ({why}). Run the fine-tuning again with --overwrite, or leave it out.")
    return recipe
