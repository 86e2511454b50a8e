"""What may change between a run and its resumption.

Settings that change nothing that is computed are taken and said, and so are files that lie elsewhere now: what is read
from them is compared by its checksum. Settings that change it by rounding alone are taken with a warning. A longer
limit is taken where the steps done so far would have been the same under it. All else is refused, by name.
"""

import logging
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError
from headswap.core.files import read_json
from headswap.core.settings import Recipe, flattened, load_recipe, read_toml
from headswap.training.checkpoint import find_checkpoints, step_of
from headswap.training.config import TrainingSettings

log = logging.getLogger("headswap")
WITHOUT_EFFECT = {
    "training.logging_steps",
    "training.save_steps",
    "training.save_total_limit",
    "training.eval_steps",
}
FILES = {
    "corpus.corpus",
    "data.train",
    "data.validation",
    "data.test",
    "data.label_file",
    "data.validation_label_file",
    "data.test_label_file",
    "model.base",
    "tokenizer.tokenizer",
}
"""Where something is read from of which data.json has the checksum."""
ROUNDING = {
    "machine.device": "rounding",
    "machine.deterministic": "rounding",
    "machine.fast": "rounding and the dropout drawn",
    "training.gradient_accumulation_steps": "rounding and the dropout drawn",
}
LIMITS = ("max_steps", "num_train_epochs", "max_tokens", "max_minutes")
ENVIRONMENT = ("device", "precision", "threads", "processes")


def check_given(folder: Path, recipe: Recipe) -> bool:
    """Compare what was asked for with what a folder holds, before anything is read or built; True for a longer run."""
    file = folder / "recipe.toml"
    if not file.exists():
        if find_checkpoints(folder / "checkpoints"):
            raise SettingError(
                f"{folder} has checkpoints and no recipe.toml, so it cannot be known what they are of. "
                "Restore it, or start anew with another --out or --overwrite."
            )
        return False
    read_record(folder / "data.json")  # a broken one is told before anything is built
    verb = read_toml(file).get("verb")
    if verb != getattr(recipe, "verb", None):
        raise SettingError(f"--out {folder} holds a run of headswap {verb}. Choose another folder.")
    return _compare(folder, load_recipe(type(recipe), file), recipe, only_given=True)


def check_unchanged(folder: Path, recipe: Recipe) -> bool:
    """Refuse to resume under settings that would have given another run; True where it is a longer one."""
    file = folder / "recipe.toml"
    return file.exists() and _compare(folder, load_recipe(type(recipe), file), recipe, only_given=False)


def read_record(file: Path) -> dict[str, Any]:
    """One of the JSON objects that a run keeps of itself; empty where it has none."""
    content = read_json(file) if file.exists() else {}
    if not isinstance(content, dict):
        raise InputError(f"{file} is JSON, but not an object. Restore it from a copy, or start anew with --overwrite.")
    return content


def say_if_elsewhere(folder: Path, environment: dict[str, Any]) -> None:
    """Warn where a resumed run computes on something else than it began on: then the bits may differ."""
    try:
        before = read_record(folder / "environment.json") or environment
    except InputError:  # it is written anew, and only this warning rests on it
        return
    told = [f"{name} {before.get(name)}, now {environment[name]}" for name in ENVIRONMENT
            if before.get(name) != environment[name]]  # fmt: skip
    versions = before.get("versions")
    torch_before = versions.get("torch") if isinstance(versions, dict) else None
    if torch_before != environment["versions"]["torch"]:
        told.append(f"torch {torch_before}, now {environment['versions']['torch']}")
    if told:
        log.warning("This run began elsewhere (%s): it goes on the same but for rounding.", "; ".join(told))


def _compare(folder: Path, saved: Recipe, recipe: Recipe, *, only_given: bool) -> bool:
    before, now = flattened(saved), flattened(recipe)
    changed = [
        name for name in now if before.get(name) != now[name] and not (only_given and now[name] is None)
    ]  # fmt: skip
    limits = [name for name in changed if name.removeprefix("training.") in LIMITS]
    refused = [
        f"{name} was {before.get(name)!r} and is now {now[name]!r}{why}"
        for name in changed
        if (why := _objection(name, before, now, folder, limits)) is not None
    ]
    if refused:
        raise SettingError(
            f"{folder} cannot be resumed with other settings: {'; '.join(refused)}. Use the old ones, or another --out."
        )
    if not only_given:  # said once
        for name in changed:
            _say(name, before.get(name), now[name])
    return bool(limits)


def _say(name: str, old: Any, new: Any) -> None:
    if name in ROUNDING:
        log.warning("%s was %r and is now %r: the results are the same but for %s.", name, old, new, ROUNDING[name])
    else:
        log.info("%s was %r and is now %r; what is computed stays the same.", name, old, new)


def _objection(name: str, before: dict[str, Any], now: dict[str, Any], folder: Path, limits: list[str]) -> str | None:
    """Why a changed setting is refused (to be put behind it), or None where it is harmless."""
    if name in WITHOUT_EFFECT or name in ROUNDING or (name in FILES and _may_have_moved(before.get(name), now[name])):
        return None
    if name == "training.on_nan":
        old, new = (TrainingSettings(on_nan=value).most_skipped for value in (before[name], now[name]))
        return None if new >= old else " (fewer steps may be skipped than before)"
    if name in limits:
        return _limit_objection(name, before, now, folder)
    return ""


def _may_have_moved(old: Any, new: Any) -> bool:
    """Whether both name files; a base from scratch is none."""
    return bool(old) and bool(new) and "scratch" not in (old, new)


def _limit_objection(name: str, before: dict[str, Any], now: dict[str, Any], folder: Path) -> str | None:
    old, new = before.get(name), now[name]
    if name == "training.max_steps" and now.get("training.max_minutes") is not None:
        return None  # follows from the minutes, which are looked at themselves
    if old is None or new is None or new < old:
        return " (a run can be made longer, by the limit it began with, and not shorter)"
    schedule, warmup = before.get("training.lr_scheduler_type"), before.get("training.warmup_steps") or 0
    if schedule != "constant":
        return (
            f" (the {schedule} schedule of the learning rate depends on it, so the steps done would have been others)"
        )
    if 0 < warmup < 1:
        return " (warmup_steps is a share of it, so the steps done would have been others)"
    if name == "training.max_steps" and "training.metric_for_best_model" in before and _has_reached(folder, int(old)):
        return f" (step {old} was scored because the run ended there, and may have been chosen)"
    return None


def _has_reached(folder: Path, step: int) -> bool:
    checkpoints = find_checkpoints(folder / "checkpoints")
    return bool(checkpoints) and step_of(checkpoints[-1]) >= step
