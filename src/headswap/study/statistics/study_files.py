"""Read `plan.json` and `data/prepared.json` of a study for its report, and the plan for a comparison of its runs.

Every call of the study writes both files again. The message about a damaged file therefore names the command.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.study.jobs.damage_records import study_command
from headswap.study.setup.folder import DATA, PLAN
from headswap.study.statistics.results import SetOverlap

CELL = ("arm", "budget", "labels", "seed")
"""Fields of an entry of the plan that identify its run."""


@dataclass(frozen=True)
class PlannedRun:
    """What the plan of a study says about one of its runs."""

    study: Path
    arm: str
    base: str | None
    """Id of the job that pre-trained or adapted its base."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Checksums of the rows of its study, per role."""
    needs: Collection[str] = ()
    """Folders of the jobs whose outputs it reads; the name of a folder ends with the id of its job."""

    def content_of(self, setting: str, file: str) -> str | None:
        """What identifies a file of the study in every study: its rows, or the job that made it; else None."""
        section, _, role = setting.partition(".")
        if section == "data":
            return self.digests.get(role)
        parts = Path(file).parts
        made = next((place for place, part in enumerate(parts) if part in self.needs), None)
        return None if made is None else "/".join(parts[made:])


def read_plan(out: Path) -> dict[str, Any]:
    """The plan of a study; a damaged one is an error."""
    try:
        plan = read_json(out / PLAN)
        jobs, entries = plan["jobs"].values(), plan["entries"]
        is_valid = all({"folder", "kind", "name"} <= job.keys() for job in jobs) and all(
            {*CELL, "job", "base"} <= entry.keys() and entry["job"] in plan["jobs"] for entry in entries
        )
    except (InputError, KeyError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:
        raise InputError(
            f"{out / PLAN} is damaged. {study_command(out)} writes it again and keeps the jobs that are done."
        )
    return plan


def read_prepared(out: Path) -> dict[str, Any]:
    """The result of the overlap check; if its file is damaged, only a note."""
    file = out / DATA / "prepared.json"
    try:
        content = read_json(file) if file.exists() else {}
        for row in content.get("overlap", []):
            SetOverlap.from_json(row)
        is_valid = isinstance(content.get("notes", []), list)
    except (InputError, LookupError, TypeError, AttributeError):
        is_valid = False
    if is_valid:
        return content
    return {
        "notes": [f"{file} is damaged, so the overlap check is not reported. {study_command(out)} writes it again."]
    }


def planned_runs(folders: Iterable[Path]) -> dict[Path, PlannedRun]:
    """The entry of the plan for each run folder that belongs to a study; other folders are left out."""
    plans: dict[Path, dict[Path, PlannedRun]] = {}
    found = {}
    for folder in folders:
        place = Path(os.path.abspath(folder))
        study = place.parent.parent
        if study not in plans:
            plans[study] = _runs_of_plan(study)
        if place in plans[study]:
            found[folder] = plans[study][place]
    return found


def _runs_of_plan(study: Path) -> dict[Path, PlannedRun]:
    """The runs of a study by their folders; none if there is no plan or it is damaged."""
    try:
        plan = read_plan(study) if (study / PLAN).exists() else {"jobs": {}, "entries": []}
    except InputError:
        return {}
    runs: dict[Path, PlannedRun] = {}
    folders = {id: job["folder"] for id, job in plan["jobs"].items()}
    for entry in plan["entries"]:
        job = plan["jobs"][entry["job"]]
        needs = {folders[need] for need in job.get("needs", ()) if need in folders}
        run = PlannedRun(study, entry["arm"], entry["base"], job.get("digests") or {}, needs)
        runs.setdefault(study / "runs" / job["folder"], run)
    return runs
