"""The jobs of a plan as data: their stage, their base, whether they are done, and what is written into plan.json."""

import json
from pathlib import Path

import pytest

from headswap.study.jobs.planned_jobs import BASE_KINDS, STAGES, Entry, Job, Plan


def job(folder: Path, kind: str = "finetune", *, base: Path | None = None, needs: tuple[str, ...] = ()) -> Job:
    sections = {"model": {"base": str(base)}} if base else {}
    return Job(id=f"{kind}-1", kind=kind, name=kind, folder=str(folder), sections=sections, needs=needs)


def test_what_others_need_has_an_earlier_stage(tmp_path: Path) -> None:
    assert max(STAGES[kind] for kind in ("tokenizer", "space", "sample")) < min(STAGES[kind] for kind in BASE_KINDS)
    assert job(tmp_path, "pretrain").stage < job(tmp_path, "finetune").stage


@pytest.mark.parametrize(
    ("place", "needs", "is_made"),
    [("runs/base", ("x",), True), ("elsewhere/base", ("x",), False), ("runs/base", (), False)],
)
def test_a_base_is_made_by_the_study_if_its_folder_is_beside_that_of_the_job(
    tmp_path: Path, place: str, needs: tuple[str, ...], is_made: bool
) -> None:
    base = tmp_path / place
    one = job(tmp_path / "runs" / "finetune", base=base, needs=needs)
    assert one.made_base == (str(base) if is_made else None)


def test_a_job_without_a_folder_is_neither_done_nor_damaged(tmp_path: Path) -> None:
    one = job(tmp_path / "runs" / "none")
    assert not one.is_done
    assert one.damage is None
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "none").write_text("a file")
    assert one.damage == "its folder is a file"


def test_a_plan_is_written_without_folders_of_this_machine(tmp_path: Path) -> None:
    one = job(tmp_path / "runs" / "finetune-1")
    written = json.dumps(Plan({one.id: one}, [Entry("scratch", "100", 100, 1, one.id)]).as_json())
    assert str(tmp_path) not in written
    assert json.loads(written)["jobs"]["finetune-1"]["folder"] == "finetune-1"
