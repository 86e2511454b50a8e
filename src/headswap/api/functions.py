"""The Python face: flat keyword arguments, the same code that the verbs call.

Every setting of a verb is a keyword here; which section it belongs to is looked up, so a wrong name is an error that
says what was meant.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from headswap.api.model import Model
from headswap.api.run import Run
from headswap.core.errors import SettingError, did_you_mean
from headswap.core.settings import Recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.finetune import finetune as finetune_run
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.pretraining.pretrain import adapt as adapt_run
from headswap.pretraining.pretrain import pretrain as pretrain_run
from headswap.training.config import DeviceName
from headswap.training.observer import Observer
from headswap.training.run_folder import RunFolder

log = logging.getLogger("headswap")
PathName = str | PathLike[str]


def pretrain(
    corpus: PathName | Sequence[PathName] = (),
    *,
    out: PathName,
    config: PathName | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    **settings: Any,
) -> Run:
    """Pre-train a base on a corpus; the settings are those of `headswap pretrain`."""
    how = {"overwrite": overwrite, "resume": resume, "observer": observer}
    return _train(pretrain_run, PretrainRecipe, _with_corpus(settings, corpus), out=out, config=config, **how)


def adapt(
    base: PathName | Run | None = None,
    corpus: PathName | Sequence[PathName] = (),
    *,
    out: PathName,
    config: PathName | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    **settings: Any,
) -> Run:
    """Go on pre-training a base on a new corpus; the settings are those of `headswap adapt`."""
    if base is not None:
        settings["base"] = fspath(base)
    how = {"overwrite": overwrite, "resume": resume, "observer": observer}
    return _train(adapt_run, AdaptRecipe, _with_corpus(settings, corpus), out=out, config=config, **how)


def finetune(
    base: PathName | Run | None = None,
    *,
    out: PathName,
    config: PathName | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    **settings: Any,
) -> Run:
    """Fine-tune a base (a run, a bundle's path, or "scratch"); the settings are those of `headswap finetune`."""
    if base is not None:
        settings["base"] = fspath(base)
    how = {"overwrite": overwrite, "resume": resume, "observer": observer}
    return _train(finetune_run, FinetuneRecipe, settings, out=out, config=config, **how)


def run_study(
    dataset: str | None = None,
    *,
    out: PathName,
    config: PathName | None = None,
    jobs: int = 1,
    max_minutes: float | None = None,
    pretrain: dict[str, Any] | None = None,
    finetune: dict[str, Any] | None = None,
    with_texts: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """A study and its report; the settings are those of `headswap study`. Returns what `results.json` holds."""
    from headswap.study.config import StudyRecipe
    from headswap.study.report import write_report
    from headswap.study.run import conduct
    from headswap.study.runs import read_study

    if dataset is not None:
        settings = {"corpus": (dataset,), "train": dataset} | settings
    own = StudyRecipe.model_fields.keys() - {"pretrain", "finetune"}
    sections = sort_into_sections(settings, StudyRecipe, only=own)
    sections |= {name: part for name, part in (("pretrain", pretrain), ("finetune", finetune)) if part is not None}
    study = conduct(
        out=Path(out), config=Path(config) if config else None, sections=sections, jobs=jobs, max_minutes=max_minutes
    )
    for id, why in study.outcome.failed.items():
        log.warning("%s failed: %s", study.plan.jobs[id].name, why)
    return write_report(read_study(Path(out)), Path(out), with_texts=with_texts)


def load(path: PathName, *, device: DeviceName = "auto") -> Model:
    """The model of a bundle, of a run folder or of an installed base (`box:NAME`), on a device."""
    return Model.load(fspath(path), device=device)


def _train(
    train: Callable[..., RunFolder],
    recipe: type[Recipe],
    settings: dict[str, Any],
    *,
    out: PathName,
    config: PathName | None,
    **how: Any,
) -> Run:
    """What the training verbs do with flat settings."""
    sections = sort_into_sections(settings, recipe)
    done = train(out=Path(out), config=Path(config) if config else None, sections=sections, **how)
    return Run(done.path, device=sections.get("machine", {}).get("device", "auto"))


def _with_corpus(settings: dict[str, Any], corpus: PathName | Sequence[PathName]) -> dict[str, Any]:
    names = [corpus] if isinstance(corpus, str | PathLike) else list(corpus)
    return settings | ({"corpus": tuple(fspath(name) for name in names)} if names else {})


def sort_into_sections(
    settings: dict[str, Any], recipe: type[Recipe], *, only: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Flat names to the sections of a recipe (all, or only some) that hold them."""
    homes = section_of_setting(recipe, only=only)
    sections: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        if name not in homes:
            raise SettingError(f"{name} is not a setting.{did_you_mean(name, homes)}")
        sections.setdefault(homes[name], {})[name] = fspath(value) if isinstance(value, PathLike) else value
    return sections


def section_of_setting(recipe: type[Recipe], *, only: Collection[str] | None = None) -> dict[str, str]:
    """Which section of a recipe holds a setting; no name stands in two."""
    homes: dict[str, str] = {}
    for section, field in recipe.model_fields.items():
        if only is not None and section not in only:
            continue
        for name in getattr(field.annotation, "model_fields", {}):
            assert name not in homes, f"the setting {name} stands in [{homes[name]}] and [{section}]"
            homes[name] = section
    return homes
