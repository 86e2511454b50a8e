"""Files of answers of another system, for tests: to the rows that `--prepare-only` wrote, or to a test file."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headswap.study.row_export import export_rows

OTHER = {"neg": "pos", "pos": "neg"}


def asked(out: Path, sections: dict[str, Any]) -> list[dict[str, str]]:
    """The test rows of a study with their true labels: `row`, `text`, `label`."""
    export_rows(out=out, sections=sections)
    rows = [json.loads(line) for line in (out / "rows" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    truth = [
        json.loads(line)["label"] for line in (out / "data" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return [row | {"label": label} for row, label in zip(rows, truth, strict=True)]


def answers_of(rows: Sequence[dict[str, str]], *, num_wrong: int, **more: Any) -> list[dict[str, Any]]:
    """One answer per row, the first `num_wrong` of them wrong."""
    return [
        {"row": row["row"], "prediction": OTHER[row["label"]] if place < num_wrong else row["label"], **more}
        for place, row in enumerate(rows)
    ]


def write_csv(file: Path, answers: Sequence[dict[str, Any]]) -> Path:
    """Write answers as .csv."""
    with file.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(answers[0]))
        writer.writeheader()
        writer.writerows(answers)
    return file
