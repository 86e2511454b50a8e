"""The run folder: one training, one folder; one of the three parcels that cross rooms.

`recipe.toml`, `environment.json`, `metrics.jsonl`, `ledger.json`, `checkpoints/`, `bundle/`, `result.json`. This file
knows where things are, whether a run may start here, and how to read a finished one.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from headswap.bundle import Bundle
from headswap.core.config import Recipe, load_recipe
from headswap.core.errors import InputError, SettingError, listed
from headswap.core.files import atomic_file, read_json, remove_folder, write_json
from headswap.training.evaluate import Prediction, predict_texts

log = logging.getLogger("headswap")
OWN_FILES = ("recipe.toml", "environment.json", "metrics.jsonl", "ledger.json", "result.json", "checkpoints", "bundle")
# A resumed run may differ in these without changing what it computes.
HARMLESS = {"machine.device", "training.logging_steps", "training.save_steps", "training.save_total_limit"}
R = TypeVar("R", bound=Recipe)


class Run:
    """A run folder, finished or on its way."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.replaces_another = False
        self._bundle: Bundle | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / "result.json").is_file() and not self.replaces_another

    @property
    def result(self) -> dict[str, Any]:
        """Final metrics, steps, tokens, seconds, tokens a second, peak memory."""
        return read_json(self.path / "result.json")

    @property
    def bundle(self) -> Bundle:
        """The model this run made, loaded once."""
        if self._bundle is None:
            self._bundle = Bundle.load(self.path)
        return self._bundle

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of `metrics.jsonl`."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            raise InputError(f"{self.path} has no metrics.jsonl, so it is not a run folder.")
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The label of each text, by name."""
        return [prediction.label for prediction in self.predict_scores(texts)]

    def predict_scores(self, texts: Sequence[str]) -> list[Prediction]:
        """The label and the score of every label for each text."""
        return predict_texts(self.bundle, texts)

    def append_metrics(self, line: dict[str, Any]) -> None:
        """Add a line to `metrics.jsonl`."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def cut_metrics(self, last_step: int) -> None:
        """Drop the lines after a step, so that a resumed run writes them again."""
        file = self.path / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= last_step]
        with atomic_file(file) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")

    def begin(self, recipe: Recipe, environment: dict[str, Any]) -> None:
        """Make the folder, once everything that can be checked beforehand has been."""
        if self.replaces_another:
            for entry in list(self.path.iterdir()):
                remove_folder(entry)
        check_unchanged(self, recipe)
        self.path.mkdir(parents=True, exist_ok=True)
        for leftover in list(self.path.rglob(".tmp-*")):  # of a writer that was killed
            remove_folder(leftover)
        recipe.save(self.path / "recipe.toml")
        self.write("environment.json", environment)

    def write(self, name: str, value: Any) -> None:
        """Write one of the JSON files of the folder."""
        write_json(self.path / name, value)


def open_run(out: str | Path, *, overwrite: bool = False, resume: bool = False) -> Run:
    """The run to start or to go on with; refuses a folder that holds something else. Nothing is written yet."""
    run = Run(out)
    if run.path.is_file():
        raise SettingError(f"--out {run.path} is a file. Give a folder.")
    contents = sorted(entry.name for entry in run.path.iterdir()) if run.path.is_dir() else []
    visible = [name for name in contents if not name.startswith(".tmp-")]
    if visible and not (overwrite or resume):
        raise SettingError(
            f"--out {run.path} is not empty. Choose another folder, go on with --resume, "
            "or replace the run with --overwrite."
        )
    foreign = [name for name in visible if name not in OWN_FILES]
    if foreign and overwrite:
        raise SettingError(
            f"--overwrite would remove {listed(foreign)} from {run.path}, which no run made. Move it away first."
        )
    run.replaces_another = overwrite and bool(contents)
    return run


def check_unchanged(run: Run, recipe: R) -> None:
    """Refuse to resume under settings that would have given another run."""
    file = run.path / "recipe.toml"
    if not file.exists():
        return
    before, now = _flat(load_recipe(type(recipe), file)), _flat(recipe)
    changed = [name for name in now if before.get(name) != now[name] and name not in HARMLESS]
    if changed:
        told = "; ".join(f"{name} was {before.get(name)!r} and is now {now[name]!r}" for name in changed)
        raise SettingError(
            f"{run.path} cannot be resumed with other settings: {told}. Use the old ones, or another --out."
        )


def _flat(recipe: Recipe) -> dict[str, Any]:
    sections = recipe.model_dump(mode="json")
    return {
        f"{section}.{name}": value
        for section, values in sections.items()
        if isinstance(values, dict)
        for name, value in values.items()
    }
