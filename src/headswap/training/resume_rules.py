"""Which settings may change when a run is resumed.

- Settings that do not affect results, and paths of input files (checksums compare their content): allowed, logged.
- Settings that change results only by rounding: allowed, with a warning.
- A longer limit: allowed if the steps done so far would have been the same with it.
- Any other change is an error that states the setting.
"""

import logging
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError
from headswap.core.files import read_json
from headswap.core.local_paths import home_paths, shown_addresses
from headswap.core.settings import Recipe, flattened, load_recipe, read_toml
from headswap.training.checkpoint import find_checkpoints, step_of
from headswap.training.config import TrainingSettings

log = logging.getLogger("headswap")
WITHOUT_EFFECT = {
    "training.logging_steps",
    "training.save_steps",
    "training.save_total_limit",
    "training.eval_steps",
    "machine.allow_download",
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
    "consistency.unlabelled",
    "consistency.teachers",
}
"""Settings that are paths; `data.json` has the checksums of what was read from them."""
ROUNDING = {
    "machine.device": "rounding",
    "machine.deterministic": "rounding",
    "machine.threads": "rounding",
    "machine.parallel": "rounding",
    "machine.fast": "rounding and the random dropout masks",
    "training.gradient_accumulation_steps": "rounding and the random dropout masks",
}
LIMITS = ("max_steps", "num_train_epochs", "max_tokens", "max_minutes")
ENVIRONMENT = ("device", "precision", "threads", "processes")


def check_given(folder: Path, recipe: Recipe) -> bool:
    """Compare the given settings with those of the run in a folder, before any work; True if the limit is longer."""
    file = folder / "recipe.toml"
    if not file.exists():
        if find_checkpoints(folder / "checkpoints"):
            raise SettingError(
                f"{folder} has checkpoints and no recipe.toml, so their settings are unknown. Restore recipe.toml, or "
                "start again with another --out or with --overwrite."
            )
        return False
    read_record(folder / "data.json")  # a damaged file is an error before any work
    verb = read_toml(file).get("verb")
    if verb != getattr(recipe, "verb", None):
        raise SettingError(f"--out {folder} holds a run of headswap {verb}. Choose another folder.")
    return _compare(folder, load_recipe(type(recipe), file).of_run(), recipe, only_given=True)


def check_unchanged(folder: Path, recipe: Recipe) -> bool:
    """Raise an error if the resolved settings differ in a way that changes results; True if the limit is longer."""
    file = folder / "recipe.toml"
    return file.exists() and _compare(folder, load_recipe(type(recipe), file).of_run(), recipe, only_given=False)


def read_record(file: Path) -> dict[str, Any]:
    """One of the run's JSON objects; empty if the file does not exist."""
    content = read_json(file) if file.exists() else {}
    if not isinstance(content, dict):
        raise InputError(f"{file} is JSON, but not an object. Restore it from a copy, or start again with --overwrite.")
    return content


def log_changed_environment(folder: Path, environment: dict[str, Any]) -> None:
    """Warn if device, precision, threads, processes or PyTorch changed: results then differ by rounding."""
    try:
        before = read_record(folder / "environment.json") or environment
    except InputError:  # the file is only needed for this warning and is written again
        return
    changed = [f"{name} {before.get(name)}, now {environment[name]}" for name in ENVIRONMENT
               if before.get(name) != environment[name]]  # fmt: skip
    versions = before.get("versions")
    torch_before = versions.get("torch") if isinstance(versions, dict) else None
    if torch_before != environment["versions"]["torch"]:
        changed.append(f"torch {torch_before}, now {environment['versions']['torch']}")
    if changed:
        log.warning("The environment of this run changed (%s): results may differ by rounding.", "; ".join(changed))


def _compare(folder: Path, saved: Recipe, recipe: Recipe, *, only_given: bool) -> bool:
    before, now = home_paths(flattened(saved)), home_paths(flattened(recipe))
    changed = [
        name for name in now if before.get(name) != now[name] and not (only_given and now[name] is None)
    ]  # fmt: skip
    limits = [name for name in changed if name.removeprefix("training.") in LIMITS]
    refused = [
        f"{name} was {shown_addresses(before.get(name))!r} and is now {shown_addresses(now[name])!r}{why}"
        for name in changed
        if (why := _objection(name, before, now, folder, limits)) is not None
    ]
    if refused:
        raise SettingError(
            f"{folder} cannot be resumed with other settings: {'; '.join(refused)}. Use the old ones, or another --out."
        )
    if not only_given:  # check_given ran before: log each change once
        for name in changed:
            _log_change(name, before.get(name), now[name])
    return bool(limits)


def _log_change(name: str, old: Any, new: Any) -> None:
    old, new = shown_addresses(old), shown_addresses(new)
    if name in ROUNDING:
        log.warning("%s was %r and is now %r: results differ only by %s.", name, old, new, ROUNDING[name])
    else:
        log.info("%s was %r and is now %r; this does not change the steps done so far.", name, old, new)


def _objection(name: str, before: dict[str, Any], now: dict[str, Any], folder: Path, limits: list[str]) -> str | None:
    """Why a changed setting is an error, in brackets; None if the change is allowed."""
    if name in WITHOUT_EFFECT or name in ROUNDING or (name in FILES and _are_paths(before.get(name), now[name])):
        return None
    if name == "training.on_nan":
        old, new = (TrainingSettings(on_nan=value).most_skipped for value in (before[name], now[name]))
        return None if new >= old else " (fewer steps may be skipped than before)"
    if name in limits:
        return _limit_objection(name, before, now, folder)
    return ""


def _are_paths(old: Any, new: Any) -> bool:
    """Whether both values are paths; `base = scratch` is not."""
    return bool(old) and bool(new) and "scratch" not in (old, new)


def _limit_objection(name: str, before: dict[str, Any], now: dict[str, Any], folder: Path) -> str | None:
    old, new = before.get(name), now[name]
    if name == "training.max_steps" and now.get("training.max_minutes") is not None:
        return None  # computed from max_minutes, which is compared itself
    if old is None or new is None or new < old:
        return " (a limit can only be raised, and only the one that the run started with)"
    schedule, warmup = before.get("training.lr_scheduler_type"), before.get("training.warmup_steps") or 0
    if schedule != "constant":
        return f" (the {schedule} schedule depends on it, so the steps done so far would have been different)"
    if 0 < warmup < 1:
        return " (warmup_steps is a fraction of it, so the steps done so far would have been different)"
    first, last = before.get("masking.mlm_probability_start"), before.get("masking.mlm_probability")
    if first not in (None, last):
        return " (the share of masked tokens depends on it, so the steps done so far would have been different)"
    if name == "training.max_steps" and "training.metric_for_best_model" in before and _has_reached(folder, int(old)):
        return f" (step {old} was evaluated because the run ended there, and its weights may have been selected)"
    return None


def _has_reached(folder: Path, step: int) -> bool:
    checkpoints = find_checkpoints(folder / "checkpoints")
    return bool(checkpoints) and step_of(checkpoints[-1]) >= step
