"""Load the saved bundle in a fresh process and compare its scores with the model in memory; a difference is an error.

A model can get worse by saving if the tokenizer, the head or the label order exists only in the training process, so
the check runs in another process. It is started early, because importing takes most of its time. A study checks one run
per arm in a fresh process and the others in the process that trained them, from the same files.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headswap.batches.labelled_rows import Row
from headswap.bundle.bundle import CONFIG, Bundle
from headswap.core.current_folder import new_python
from headswap.core.errors import RunError
from headswap.core.files import read_json, write_json
from headswap.core.manifest import write_manifest
from headswap.inference.outputs import outputs_of

TOLERANCE = 1e-3
MOST_EXAMPLES = 32
PROGRAM = "from headswap.finetuning.reload_check import answer; answer()"


class FreshProcess:
    """A new Python process that answers one request."""

    def __enter__(self) -> "FreshProcess":
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(new_python("-c", PROGRAM), text=True, **pipes)  # type: ignore[call-overload]
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def scores(self, folder: Path, rows: Sequence[Row]) -> list[Any]:
        """The scores of some rows, computed from the saved bundle alone."""
        asked = [
            {name: None if part is None else part.tolist() for name, part in parts.items()} | {"split": row.split}
            for row in rows
            for parts in ({"ids": row.ids, "segments": row.segments, "wanted": row.wanted},)
        ]
        found, problem = self.process.communicate(json.dumps({"folder": str(folder), "rows": asked}))
        if self.process.returncode:
            raise RunError(f"{folder} cannot be loaded by a fresh process:\n{problem.strip()}")
        return json.loads(found)


class SameProcess:
    """Loads the saved bundle in this process."""

    def __enter__(self) -> "SameProcess":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def scores(self, folder: Path, rows: Sequence[Row]) -> list[Any]:
        """The scores of some rows, computed from the saved bundle."""
        return list(outputs_of(Bundle.load(folder).model, rows))


Reader = FreshProcess | SameProcess


def check_reload(reader: Reader, bundle: Bundle, folder: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """Compare the scores of a saved bundle, read by `reader`, with the model in memory; record it in the bundle."""
    asked = list(rows[:MOST_EXAMPLES])
    here = outputs_of(bundle.model.cpu(), asked)
    there = [np.array(scores, dtype=np.float32) for scores in reader.scores(folder, asked)]
    pairs = list(zip(here, there, strict=True))
    gap = max(float(np.abs(one - other).max()) if one.shape == other.shape else float("inf") for one, other in pairs)
    if not gap <= TOLERANCE:
        raise RunError(
            f"{folder} does not predict the same as the model in memory: the scores differ by up to {gap:.3g} on "
            f"{len(asked)} examples. Do not use it; please report this with the run folder."
        )
    found = {"examples": len(asked), "largest_difference": gap}
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {"reload_check": found})
    write_manifest(folder)
    return found


def answer() -> None:
    """The program of the fresh process: read the request from standard input, print the scores."""
    request = json.load(sys.stdin)
    rows = []
    for number, row in enumerate(request["rows"]):
        segments, wanted = (None if row[name] is None else np.array(row[name]) for name in ("segments", "wanted"))
        rows.append(Row(number, np.array(row["ids"]), segments, wanted=wanted, split=row["split"]))
    model = Bundle.load(request["folder"]).model
    json.dump([scores.tolist() for scores in outputs_of(model, rows)], sys.stdout)
