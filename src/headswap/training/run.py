"""The run folder: one training, one folder; one of the three parcels that cross rooms.

`recipe.toml`, `environment.json`, `data.json` (what was read), `metrics.jsonl`, `ledger.json`, `checkpoints/`,
`bundle/`, `predictions.npz` (of the test set), `result.json`. This file knows where things are, whether a run may start
here, and how to read one.
"""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from headswap.bundle import Bundle
from headswap.core.config import Recipe, load_recipe, read_toml, validate
from headswap.core.errors import InputError, SettingError, listed
from headswap.core.files import atomic_file, read_json, remove_folder, write_json
from headswap.generate.config import SamplingSettings
from headswap.generate.generator import Generator
from headswap.training.answers import Answer
from headswap.training.predict import predict_texts

log = logging.getLogger("headswap")
OWN_FILES = {"recipe.toml", "environment.json", "data.json", "metrics.jsonl", "ledger.json", "result.json"}
OWN_FILES |= {"predictions.npz"}
OWN_FOLDERS = {"checkpoints", "bundle"}
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

    def predict(self, texts: Sequence[Any]) -> list[Any]:
        """Of each input, by its task: the label, the labels, the value, the tags of its words, or the answer's text.

        An input is a text; a pair of texts where the model reads pairs; a text or a list of words to tag; a pair
        (question, context) to answer.
        """
        return [answer.short for answer in self.predict_scores(texts)]

    def predict_scores(self, texts: Sequence[Any]) -> list[Answer]:
        """The whole answer for each input, with scores."""
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

    def generate(self, prompt: str, **settings: Any) -> str:
        """What follows a prompt; the settings are those of `headswap generate`."""
        return Generator(self.bundle).continue_text(prompt, validate(SamplingSettings, settings)).text

    def begin(self, recipe: Recipe, environment: dict[str, Any], data: dict[str, str]) -> None:
        """Make the folder, once everything that can be checked beforehand has been."""
        if self.replaces_another:
            for entry in list(self.path.iterdir()):
                remove_folder(entry)
        check_unchanged(self, recipe)
        self.check_data(data)
        self.path.mkdir(parents=True, exist_ok=True)
        for leftover in list(self.path.rglob(".tmp-*")):  # of a writer that was killed
            remove_folder(leftover)
        recipe.save(self.path / "recipe.toml")
        self.write("environment.json", environment)
        self.write("data.json", data)

    def check_data(self, data: dict[str, str]) -> None:
        """Refuse to go on with other texts than the run began with; `data` maps what was read to its checksum."""
        file = self.path / "data.json"
        before = read_json(file) if file.exists() else data
        changed = [name for name in data if before.get(name) != data[name]]
        if changed:
            raise SettingError(
                f"The {' and the '.join(changed)} changed since {self.path} began, so it cannot be resumed. "
                "Restore the files, or start anew with another --out or --overwrite."
            )

    def write(self, name: str, value: Any) -> None:
        """Write one of the JSON files of the folder."""
        write_json(self.path / name, value)


def open_run(
    out: str | Path, recipe: Recipe, *, overwrite: bool = False, resume: bool = False, reads: Sequence[str] = ()
) -> Run:
    """The run to start or to go on with; refuses a folder that holds something else. Nothing is written yet."""
    run = Run(out)
    if overwrite and resume:
        raise SettingError("--overwrite and --resume are both given. Give one: replace the run, or go on with it.")
    for name in reads:
        if Path(name).exists() and run.path.resolve() in (Path(name).resolve(), *Path(name).resolve().parents):
            raise SettingError(f"--out {run.path} holds {name}, which this run reads. Choose another folder.")
    if run.path.is_file():
        raise SettingError(f"--out {run.path} is a file. Give a folder.")
    contents = sorted(entry.name for entry in run.path.iterdir()) if run.path.is_dir() else []
    visible = [name for name in contents if not name.startswith(".tmp-")]
    if visible and not (overwrite or resume):
        raise SettingError(
            f"--out {run.path} is not empty. Choose another folder, go on with --resume, "
            "or replace the run with --overwrite."
        )
    foreign = [name for name in visible if name not in OWN_FILES | OWN_FOLDERS]
    if foreign and overwrite:
        raise SettingError(
            f"--overwrite would remove {listed(foreign)} from {run.path}, which no run made. Move it away first."
        )
    run.replaces_another = overwrite and bool(contents)
    if resume:
        _check_given(run, recipe)
    if not _can_be_made(run.path):
        raise SettingError(f"--out {run.path} cannot be written to. Choose a folder that can.")
    return run


def _can_be_made(path: Path) -> bool:
    """Whether the folder, or the nearest one above it that exists, takes new files."""
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return os.access(nearest, os.W_OK) and not str(nearest).startswith("/proc")


def _check_given(run: Run, recipe: Recipe) -> None:
    """Compare what was asked for with what the folder holds, before anything is read or built."""
    file = run.path / "recipe.toml"
    if not file.exists():
        return
    verb = read_toml(file).get("verb")
    if verb != getattr(recipe, "verb", None):
        raise SettingError(f"--out {run.path} holds a run of headswap {verb}. Choose another folder.")
    _compare(run, load_recipe(type(recipe), file), recipe, only_given=True)


def check_unchanged(run: Run, recipe: R) -> None:
    """Refuse to resume under settings that would have given another run."""
    file = run.path / "recipe.toml"
    if not file.exists():
        return
    _compare(run, load_recipe(type(recipe), file), recipe, only_given=False)


def _compare(run: Run, saved: Recipe, recipe: Recipe, *, only_given: bool) -> None:
    before, now = _flat(saved), _flat(recipe)
    changed = [
        name
        for name in now
        if before.get(name) != now[name] and name not in HARMLESS and not (only_given and now[name] is None)
    ]
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
