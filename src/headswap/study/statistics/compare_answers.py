"""Add the answers of other systems to a comparison that is not part of a study (`headswap compare NAME=FILE`).

The test rows are those of the compared runs, or of a test file if only answers are compared. A file without the column
`budget` counts at every number of labels that the others have.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from headswap.core.errors import Collected, InputError, SettingError, did_you_mean, listed
from headswap.data.columns import COLUMN_EXTENSIONS, column_names
from headswap.data.config import ColumnSettings
from headswap.data.labelled import one_file, read_labelled
from headswap.data.open_text import extension_of
from headswap.data.records import Example, unit_of, whole_text
from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.study.jobs.answer_runs import result_of, target_rows
from headswap.study.setup.answer_file import SCORE, Answers, TargetRows, read_answers
from headswap.study.setup.arms import BASELINES, SCRATCH
from headswap.study.statistics.design import default_primary
from headswap.study.statistics.results import NO_BUDGET, Budget
from headswap.study.statistics.runs import SEPARATOR, ScoredRun, StudyRuns, compared_metric
from headswap.tasks.choose import DEFAULT_TASK, named_task


def split_arguments(given: Sequence[str]) -> tuple[list[Path], dict[str, str]]:
    """The run folders, and the files of answers per name: `NAME=FILE` that is no existing path."""
    folders, files = [], {}
    for argument in given:
        if "=" not in argument or Path(argument).exists():
            folders.append(Path(argument))
            continue
        name, file = (part.strip() for part in argument.split("=", 1))
        if not name or not file:
            raise SettingError(f"'{argument}' is neither a run folder nor NAME=FILE, as in llm=llm.csv.")
        if name in files:
            raise SettingError(f"Two files of answers are called '{name}'. Give them different names.")
        files[name] = file
    return folders, files


def read_test(test: str, columns: ColumnSettings, *, files: Mapping[str, str]) -> tuple[list[Example], TargetRows]:
    """A test set and its rows; its labels are those that it has and those that a file of answers has scores of."""
    examples = read_labelled(
        test,
        text_column=columns.text_column,
        label_column=columns.label_column,
        text_pair_column=columns.text_pair_column,
    )
    paths = [path for path in map(one_file, files.values()) if extension_of(path) in COLUMN_EXTENSIONS]
    scored = {name.removeprefix(SCORE) for path in paths for name in column_names(path) if name.startswith(SCORE)}
    return examples, target_rows(examples, sorted({example.label for example in examples} | scored))


def rows_of_runs(study: StudyRuns) -> TargetRows:
    """The test rows that the compared runs were scored on."""
    first = study.runs[0].predictions
    if not isinstance(first, Predictions):
        raise SettingError(
            f"Answers of other systems can be compared with classifiers, and {study.runs[0].folder} is a run of the "
            f"task {study.task}. Leave NAME=FILE out."
        )
    return TargetRows(first.targets, first.labels, first.text_ids, first.group_ids)


def add_answers(study: StudyRuns, files: Mapping[str, str], rows: TargetRows) -> StudyRuns:
    """Add one arm per file of answers; the problems of all files are one error."""
    collected = Collected()
    found: dict[str, Answers] = {}
    for name, file in files.items():
        if name in study.arms:
            raise SettingError(f"An arm is already called '{name}'. Give the answers of {file} another name.")
        with collected.trying():
            found[name] = read_answers(file, rows)
    collected.raise_found()
    given = {cell[0] for answers in found.values() for cell in answers.cells if cell[0] is not None}
    by_labels = {int(budget): Budget(budget, int(budget)) for budget in given} | {
        one.labels: one for one in study.budgets
    }
    budgets = [by_labels[labels] for labels in sorted(by_labels)] or [Budget("", NO_BUDGET)]
    for name, answers in found.items():
        for (budget, seed), predictions in answers.cells.items():
            for place in budgets:
                if budget is None or int(budget) == place.labels:
                    folder = Path(answers.file) / f"{budget}-{seed}"  # identifies the run; there is no such folder
                    result = result_of(name, answers.record(), predictions)
                    study.runs.append(
                        ScoredRun(name, place.name, place.labels, seed, folder, predictions, result, [], None)
                    )
        study.arms.append(name)
    study.primary = default_primary(study.arms)
    return study


def of_answers(
    files: Mapping[str, str], examples: Sequence[Example], rows: TargetRows, *, metric: str | None = None
) -> StudyRuns:
    """A comparison of files of answers alone."""
    by = compared_metric(metric, named_task(DEFAULT_TASK))
    study = add_answers(StudyRuns(None, [], [], metric=by, unit=unit_of(examples)), files, rows)
    study.texts = [whole_text(example, separator=SEPARATOR) for example in examples]
    return study


def with_reference(study: StudyRuns, reference: str | None) -> StudyRuns:
    """The comparison with the arm that all others are compared with; None: scratch and the best baseline."""
    if reference is not None and reference not in study.arms:
        raise SettingError(
            f"reference is '{reference}', which is not an arm.{did_you_mean(reference, study.arms)} Arms are "
            f"{listed(study.arms)}."
        )
    study.reference = reference
    if reference is None and study.primary is not None and not {SCRATCH, *BASELINES}.isdisjoint(study.arms):
        study.prepared.setdefault("notes", []).append(
            f"The runs were scored before this comparison. The tests of {study.primary} count as planned only if it "
            "was named before that."
        )
    return study


def check_same_texts(study: StudyRuns, examples: Sequence[Example], test: str) -> None:
    """Refuse a test file that is not the one that the runs were scored on."""
    ids = text_ids([whole_text(example) for example in examples])
    known = study.runs[0].predictions.text_ids
    if ids.shape != known.shape or (ids != known).any():
        raise InputError(
            f"{test} is not the test set of {study.runs[0].folder}. Leave --test out: the rows are those of the runs."
        )
