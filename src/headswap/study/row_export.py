"""Write the rows of a study for another system, such as an LLM: `headswap study --prepare-only`.

The folder `rows/` of the study has `test.jsonl` (the test rows without their labels), one file of training rows per
budget and seed, and `rows.json`, which describes them. Every row has an id that contains a hash of its text; the file
of answers names test rows by it (setup/answer_file.py). Training rows are marked as train or validation, as in the
study.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import SettingError, counted, listed
from headswap.core.files import write_json
from headswap.core.ownership import OwnFiles
from headswap.core.settings import Settings, load_recipe
from headswap.data.labelled import read_labelled
from headswap.data.records import Example, whole_text
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import row_ids, text_ids
from headswap.finetuning.splits import read_splits
from headswap.study.initialize import initialize
from headswap.study.setup.answer_file import BUDGET, PREDICTION, ROW, SCORE, SEED, TEXT
from headswap.study.setup.arms import read_arms
from headswap.study.setup.budgets import data_section, usable_budgets
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.setup.folder import ROWS, locked_folder
from headswap.study.setup.prepare import Prepared
from headswap.study.setup.row_files import write_rows
from headswap.tasks.choose import named_task
from headswap.tasks.text_task import PAIR

OWN_FILES = OwnFiles(files=(".+",))
TEST = "test.jsonl"


@dataclass(frozen=True)
class ExportedRows:
    """The folder of rows for another system, and the content of its `rows.json`."""

    folder: Path
    content: dict[str, Any]

    def sentence(self) -> str:
        """Where the rows are, and what the file of answers needs."""
        labels, test = self.content["labels"], self.content["test"]
        num_files = counted(len(self.content["train"]), "file")
        return (
            f"{self.folder} has {counted(test['rows'], 'test row')} without labels ({TEST}) and {num_files} of "
            f"training rows; rows.json describes them. Answer every row of {TEST} in a .csv, .tsv, .jsonl or .parquet "
            f"file with the columns {ROW} and {PREDICTION} (one of {listed(labels)}), with {BUDGET} and {SEED} if the "
            f"answers depend on the training rows, and, if there are probabilities, with one column {SCORE}LABEL per "
            "label. Then run the same command without --prepare-only and with the arm NAME=FILE in --arms."
        )


def export_rows(
    *,
    out: Path,
    config: Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    overwrite: bool = False,
) -> ExportedRows:
    """Prepare and plan a study, and write its rows for another system; nothing is trained."""
    recipe = with_default_arms(load_recipe(StudyRecipe, config, sections))
    task = named_task(recipe.data.task)
    if task.prediction_kind != "classes":
        raise SettingError(
            f"--prepare-only writes rows for another classifier, and this study is of the task {task.name}. Leave it "
            "out, or use --task classify."
        )
    arms = [arm for arm in read_arms(recipe) if arm.answers is None]  # answers are made from these rows
    with locked_folder(out) as lock:
        prepared, _ = initialize(recipe, arms, out, lock, overwrite=overwrite)
        budgets, _ = usable_budgets(recipe, prepared)
        with atomic_folder(out.resolve() / ROWS, OWN_FILES) as folder:
            content = _Export(recipe, prepared, folder).write(budgets)
            write_json(folder / "rows.json", content)
    return ExportedRows(out / ROWS, content)


class _Export:
    def __init__(self, recipe: StudyRecipe, prepared: Prepared, folder: Path) -> None:
        self.recipe, self.prepared, self.folder = recipe, prepared, folder
        self.pair = PAIR if recipe.data.text_pair_column is not None else None

    def write(self, budgets: list[str]) -> dict[str, Any]:
        prepared = self.prepared
        examples = {
            role: read_labelled(file, text_column="text", label_column="label", text_pair_column=self.pair)
            for role, file in (("train", prepared.train), ("validation", prepared.validation), ("test", prepared.test))
            if file is not None
        }
        ids = {role: row_ids(role, text_ids(list(map(whole_text, rows)))) for role, rows in examples.items()}
        self.id_of = {
            (rows[0].source, row.line): id
            for role, rows in examples.items()
            for row, id in zip(rows, ids[role], strict=True)
        }
        write_rows(self.folder / TEST, ({ROW: self._id(row), **self._texts(row)} for row in examples["test"]))
        files = [
            self._training_rows(budget, seed) for budget in budgets for seed in range(1, self.recipe.study.seeds + 1)
        ]
        return {
            "labels": list(prepared.labels),
            "test": {"file": TEST, "rows": len(examples["test"]), "digest": prepared.digests["test"]},
            "train": files,
            "answers": {
                "columns": [ROW, PREDICTION],
                "optional": [BUDGET, SEED, *(f"{SCORE}{label}" for label in prepared.labels)],
                "budgets": budgets,
                "seeds": list(range(1, self.recipe.study.seeds + 1)),
            },
        }

    def _training_rows(self, budget: str, seed: int) -> dict[str, Any]:
        """Write the rows of one budget and seed; the split is the one that the arms of the study use."""
        sections = {"data": data_section(self.recipe, self.prepared, budget), "training": {"seed": seed}}
        splits = read_splits(load_recipe(FinetuneRecipe, None, sections))
        name = f"train-{budget}-seed{seed}.jsonl"
        rows = [("train", row) for row in splits.train] + [("validation", row) for row in splits.validation]
        write_rows(self.folder / name, (self._row(row) | {"split": split} for split, row in rows))
        sizes = {"train": len(splits.train), "validation": len(splits.validation)}
        return {"file": name, BUDGET: budget, SEED: seed, "labels": len(rows), **sizes}

    def _row(self, example: Example) -> dict[str, str]:
        row = {ROW: self._id(example), **self._texts(example), "label": example.label}
        return row if example.group is None else row | {"group": example.group}

    def _texts(self, example: Example) -> dict[str, str]:
        return {TEXT: example.text} | ({} if example.text_pair is None else {PAIR: example.text_pair})

    def _id(self, example: Example) -> str:
        return self.id_of[example.source, example.line]
