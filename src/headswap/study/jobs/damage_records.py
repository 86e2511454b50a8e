"""Records of damaged jobs: which job was damaged, why, and how it is run again.

A job that is run again because its outputs were damaged leaves a record in `logs/`, so that the report can mention it.
"""

import shlex
from pathlib import Path

from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.study.setup.folder import LOGS, RECIPE

SUFFIX = ".damaged.json"


def write_record(job_folder: Path, why: str) -> None:
    """Record what was wrong with a job before it is run again."""
    write_json(record_file(job_folder), {"damage": why})


def record_file(job_folder: Path) -> Path:
    """The file of a job's record."""
    return job_folder.parent.parent / LOGS / f"{job_folder.name}{SUFFIX}"


def rerun_sentence(name: str, record: Path) -> str:
    """That a job was run again, and why."""
    try:
        content = read_json(record)
    except InputError:
        content = None
    why = content.get("damage") if isinstance(content, dict) else None
    return f"The job {name} was found damaged ({why or 'the reason is no longer known'}) and was run again."


def missing_sentence(name: str, why: str, out: Path) -> str:
    """That a damaged job is missing from the report, and the command that runs it again."""
    return f"The job {name} is missing because it is damaged ({why}); run it again with: {study_command(out)}"


def study_command(out: Path) -> str:
    """The command that runs a study again; jobs that are done are kept."""
    return shlex.join(["headswap", "study", "--config", str(out / RECIPE), "--out", str(out)])
