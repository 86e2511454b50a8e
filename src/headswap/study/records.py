"""What a study records of itself, as the report reads it: the plan, what the guard found, which jobs were run again.

The study writes each of these files again when it is run, so a damaged one is no loss; the sentence about it has the
command.
"""

import shlex
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.study.folder import PLAN, RECIPE
from headswap.study.outputs import RECORD

CELL = ("arm", "budget", "labels", "seed")
"""What an entry of the plan says of its run."""


def read_plan(out: Path) -> dict[str, Any]:
    """The plan of a study; a damaged one is written again by the study itself."""
    try:
        plan = read_json(out / PLAN)
        jobs, entries = plan["jobs"].values(), plan["entries"]
        is_whole = all({"folder", "kind", "name"} <= job.keys() for job in jobs) and all(
            {*CELL, "job", "base"} <= entry.keys() and entry["job"] in plan["jobs"] for entry in entries
        )
    except (InputError, KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise InputError(f"{out / PLAN} is damaged. {_command(out)} writes it again and keeps the jobs that are done.")
    return plan


def read_prepared(out: Path) -> dict[str, Any]:
    """What the guard found; a damaged record of it leaves a note."""
    file = out / "data" / "prepared.json"
    try:
        content = read_json(file) if file.exists() else {}
    except InputError:
        content = None
    if isinstance(content, dict) and all(isinstance(content.get(name, []), list) for name in ("overlap", "notes")):
        return content
    return {
        "notes": [f"{file} is damaged, so overlaps between sets are not reported. {_command(out)} writes it again."]
    }


def _command(out: Path) -> str:
    return shlex.join(["headswap", "study", "--config", str(out / RECIPE), "--out", str(out)])


def damage_sentence(name: str, why: str, out: Path) -> str:
    """That a job is missing from a report, why, and how it is run again."""
    return f"The job {name} is missing because it is damaged ({why}); run it again with: {_command(out)}"


def record_of(folder: Path) -> Path:
    """Where it is written what was wrong with a job before it was run again."""
    return folder.parent.parent / "logs" / f"{folder.name}{RECORD}"


def record_sentence(name: str, file: Path) -> str:
    """That a job was run again, and why."""
    try:
        content = read_json(file)
    except InputError:
        content = None
    why = content.get("damage") if isinstance(content, dict) else None
    return f"The job {name} was found damaged ({why or 'what was wrong is no longer known'}) and was run again."
