"""Read `plan.json` and `data/prepared.json` of a study for its report.

Every call of the study writes both files again. The message about a damaged file therefore names the command.
"""

from pathlib import Path
from typing import Any

from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.study.jobs.damage_records import study_command
from headswap.study.setup.folder import DATA, PLAN
from headswap.study.statistics.results import SetOverlap

CELL = ("arm", "budget", "labels", "seed")
"""Fields of an entry of the plan that identify its run."""


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
