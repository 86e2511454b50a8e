"""`--no-texts` of report and compare: no file that they write has a text of the data."""

import json
from pathlib import Path

import pytest

from headswap.cli.exit_codes import run
from headswap.core.files import read_json, write_json
from study_fixture import runs_of, snapshot


def texts_in(files: dict[str, bytes | None], study: Path) -> set[str]:
    """The names of the files that have a text of the labelled sets of a study."""
    rows = [line for role in ("train", "test") for line in (study / "data" / f"{role}.jsonl").read_text().splitlines()]
    texts = [json.loads(row)["text"].encode() for row in rows]
    return {name for name, content in files.items() if content and any(text in content for text in texts)}


def written(folder: Path, before: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """The files of a folder that are new or have other bytes than before."""
    return {name: content for name, content in snapshot(folder).items() if before.get(name, b"none") != content}


@pytest.fixture
def overlapping_study(study_copy: Path) -> Path:
    """A study whose overlap check found a test text, which its report shows."""
    prepared = read_json(study_copy / "data" / "prepared.json")
    text = json.loads((study_copy / "data" / "test.jsonl").read_text().splitlines()[0])["text"]
    example = {"kind": "exact", "from_row": 0, "to_row": 0, "similarity": 1.0, "from_text": text, "to_text": text}
    overlap = [row | {"exact_rows": 1, "rows": 1, "examples": [example]} for row in prepared["overlap"]]
    write_json(study_copy / "data" / "prepared.json", prepared | {"overlap": overlap})
    return study_copy


@pytest.mark.slow
def test_report_writes_no_text_into_any_file(overlapping_study: Path) -> None:
    study = overlapping_study
    before = snapshot(study)
    assert run(["report", str(study), "--quiet"]) == 0
    assert texts_in(written(study, before), study) >= {"report.html", "results.json"}
    assert run(["report", str(study), "--no-texts", "--quiet"]) == 0
    files = written(study, before)
    assert {"report.html", "report.md", "results.json", "results.csv"} <= files.keys()
    assert texts_in(files, study) == set()


@pytest.mark.slow
def test_compare_writes_no_text_into_any_file(finished_study: Path, tmp_path: Path) -> None:
    runs = [str(path) for path in runs_of(finished_study, "scratch-220-seed1-", "pretrained-220-seed1-")]
    assert run(["compare", *runs, "--out", str(tmp_path / "with"), "--quiet"]) == 0
    assert texts_in(snapshot(tmp_path / "with"), finished_study) >= {"report.html", "results.json"}
    assert run(["compare", *runs, "--out", str(tmp_path / "without"), "--no-texts", "--quiet"]) == 0
    files = snapshot(tmp_path / "without")
    assert {"report.html", "report.md", "results.json", "results.csv"} <= files.keys()
    assert texts_in(files, finished_study) == set()
