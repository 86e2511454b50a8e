"""`--prepare-only`: the rows that another system gets."""

import json
from pathlib import Path
from typing import Any

import pytest

from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import read_splits
from headswap.study.row_export import export_rows
from study_fixture import planned, sections_of


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def sections(tmp_path: Path) -> dict[str, Any]:
    return sections_of(tmp_path, arms=("tfidf", "llm=not-written-yet.csv"), budgets=("40", "220", "all"), seeds=2)


def test_training_rows_are_those_of_the_jobs_of_the_study(tmp_path: Path, sections: dict[str, Any]) -> None:
    rows = export_rows(out=tmp_path / "out", sections=sections)
    names = {(entry["budget"], entry["seed"]): entry["file"] for entry in rows.content["train"]}
    assert set(names) == {(budget, seed) for budget in ("40", "220", "all") for seed in (1, 2)}
    sections["study"]["arms"] = ("tfidf",)
    _, _, plan = planned(tmp_path / "out", sections)
    for entry in plan.entries:
        splits = read_splits(load_recipe(FinetuneRecipe, None, plan.jobs[entry.job].sections | {
            "training": {"seed": entry.seed}
        }))  # fmt: skip
        written = lines(rows.folder / names[entry.budget, entry.seed])
        for split, examples in (("train", splits.train), ("validation", splits.validation)):
            chosen = [(row["text"], row["label"]) for row in written if row["split"] == split]
            assert chosen == [(example.text, example.label) for example in examples]


def test_a_row_has_the_same_id_in_every_file(tmp_path: Path, sections: dict[str, Any]) -> None:
    folder = export_rows(out=tmp_path / "out", sections=sections).folder
    small, large = ({row["row"]: row["text"] for row in lines(folder / f"train-{n}-seed1.jsonl")} for n in (40, 220))
    assert len(small) == 40
    assert small.items() <= large.items()


def test_test_rows_have_no_labels(tmp_path: Path, sections: dict[str, Any]) -> None:
    rows = export_rows(out=tmp_path / "out", sections=sections)
    written = lines(rows.folder / "test.jsonl")
    assert [set(row) for row in written] == [{"row", "text"}] * 60
    assert rows.content["test"]["rows"] == 60
    assert rows.content["labels"] == ["neg", "pos"]


def test_the_sentence_says_where_the_rows_are_and_what_the_answers_need(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    sentence = export_rows(out=tmp_path / "out", sections=sections).sentence()
    assert f"{tmp_path}/out/rows has 60 test rows without labels" in sentence
    assert "the columns row and prediction (one of 'neg', 'pos'), with budget and seed if" in sentence


def test_the_groups_of_training_rows_are_written(tmp_path: Path, sections: dict[str, Any]) -> None:
    for name in ("train", "test"):
        file = Path(sections["data"][name])
        marked = [row | {"author": f"{name} {number % 7}"} for number, row in enumerate(lines(file))]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in marked), encoding="utf-8")
    sections["data"]["group_column"] = "author"
    folder = export_rows(out=tmp_path / "out", sections=sections).folder
    assert {row["group"] for row in lines(folder / "train-40-seed1.jsonl")} <= {f"train {n}" for n in range(7)}
