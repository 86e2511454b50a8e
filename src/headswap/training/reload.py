"""Saved, then read back by a fresh process: the same predictions, or the run has failed.

Half of all reports of a model that "got worse when saved" are a tokenizer, a head or a label order that stayed behind
in the old process. So the check does not happen in it.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headswap.bundle import CONFIG, Bundle
from headswap.core.errors import RunError
from headswap.core.files import read_json, write_json
from headswap.core.manifest import write_manifest
from headswap.training.evaluate import logits_of

TOLERANCE = 1e-3
MOST_EXAMPLES = 32
PROGRAM = "from headswap.training.reload import answer; answer()"


def check_reload(bundle: Bundle, folder: Path, sequences: Sequence[np.ndarray]) -> dict[str, Any]:
    """Compare a saved bundle's answers in a fresh process with those of the model at hand; record it in the bundle."""
    asked = [[int(id) for id in ids] for ids in sequences[:MOST_EXAMPLES]]
    here = logits_of(bundle.model.cpu(), [np.array(ids) for ids in asked]).numpy()
    there = np.array(fresh_process(folder, asked))
    gap = float(np.abs(here - there).max()) if here.shape == there.shape else float("inf")
    if not gap <= TOLERANCE or (here.argmax(1) != there.argmax(1)).any():
        raise RunError(
            f"{folder} does not predict what the model in memory does: the scores differ by {gap:.3g} on "
            f"{len(asked)} examples. Do not use it; please report this with the run folder."
        )
    found = {"examples": len(asked), "largest_difference": gap}
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {"reload_check": found})
    write_manifest(folder)
    return found


def fresh_process(folder: Path, sequences: list[list[int]]) -> list[list[float]]:
    """The logits that a new Python makes with nothing but the folder."""
    question = json.dumps({"folder": str(folder), "sequences": sequences})
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=question, capture_output=True, text=True)
    if done.returncode:
        raise RunError(f"{folder} cannot be loaded by a fresh process:\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def answer() -> None:
    """What the fresh process does: read the question, print the logits."""
    question = json.load(sys.stdin)
    model = Bundle.load(question["folder"]).model
    json.dump(logits_of(model, [np.array(ids) for ids in question["sequences"]]).tolist(), sys.stdout)
