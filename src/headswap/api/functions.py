"""The functions of the Python interface: flat keyword arguments, the same code that the commands call.

Every setting of a command is a keyword here. `signatures.py` lists them with their types, so that an editor completes
them. A wrong name is an error that suggests the right one.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack

from headswap.api.inputs import PathName, Rows, as_corpus, as_labelled
from headswap.api.model import Model
from headswap.api.run import Run
from headswap.api.signatures import AdaptOptions, FinetuneOptions, PretrainOptions, StudyOptions
from headswap.core.keyword_arguments import sort_into_sections
from headswap.core.settings import Recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.finetune import finetune as finetune_run
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.pretraining.pretrain import adapt as adapt_run
from headswap.pretraining.pretrain import pretrain as pretrain_run
from headswap.registry import TrackerName
from headswap.training.config import DeviceName
from headswap.training.observer import Observer
from headswap.training.run_folder import RunFolder

log = logging.getLogger("headswap")


def pretrain(
    corpus: PathName | Sequence[PathName] | Rows = (),
    *,
    out: PathName,
    config: PathName | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    report_to: TrackerName | Sequence[TrackerName] = (),
    **settings: Unpack[PretrainOptions],
) -> Run:
    """Pre-train a base on a corpus.

    The corpus is one name or several (files, folders, data sets), a table with a column `text`, or `headswap.Texts`.
    The other settings are those of `headswap pretrain`.
    """
    how = {"overwrite": overwrite, "resume": resume, "observer": observer, "report_to": _names(report_to)}
    return _train(pretrain_run, PretrainRecipe, _with_corpus(settings, corpus), out=out, config=config, **how)


def adapt(
    base: PathName | Run | None = None,
    corpus: PathName | Sequence[PathName] | Rows = (),
    *,
    out: PathName,
    config: PathName | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    report_to: TrackerName | Sequence[TrackerName] = (),
    **settings: Unpack[AdaptOptions],
) -> Run:
    """Continue pre-training a base on a new corpus; the settings are those of `headswap adapt`."""
    how = {"overwrite": overwrite, "resume": resume, "observer": observer, "report_to": _names(report_to)}
    chosen = _with_corpus(_with_base(settings, base), corpus)
    return _train(adapt_run, AdaptRecipe, chosen, out=out, config=config, **how)


def finetune(
    base: PathName | Run | None = None,
    *,
    train: PathName | Rows | None = None,
    validation: PathName | Rows | None = None,
    test: PathName | Rows | None = None,
    out: PathName,
    config: PathName | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    report_to: TrackerName | Sequence[TrackerName] = (),
    **settings: Unpack[FinetuneOptions],
) -> Run:
    """Fine-tune a base (a run, the path of a bundle, `box:NAME`, `hf:NAME`, or "scratch") on labelled data.

    Each set is a file, the name of a data set, a pandas or polars frame, a `datasets.Dataset`, a list of dictionaries,
    or a list of (text, label) pairs. The other settings are those of `headswap finetune`.
    """
    how = {"overwrite": overwrite, "resume": resume, "observer": observer, "report_to": _names(report_to)}
    sets = {"train": train, "validation": validation, "test": test}
    chosen = _with_sets(_with_base(settings, base), sets)
    return _train(finetune_run, FinetuneRecipe, chosen, out=out, config=config, **how)


def run_study(
    dataset: str | None = None,
    *,
    corpus: PathName | Sequence[PathName] | Rows = (),
    train: PathName | Rows | None = None,
    validation: PathName | Rows | None = None,
    test: PathName | Rows | None = None,
    out: PathName,
    config: PathName | None = None,
    jobs: int | None = None,
    executor: str = "local",
    max_minutes: float | None = None,
    pretrain: PretrainOptions | None = None,
    adapt: AdaptOptions | None = None,
    finetune: FinetuneOptions | None = None,
    with_texts: bool = True,
    **settings: Unpack[StudyOptions],
) -> dict[str, Any]:
    """Run a study and write its report; the settings are those of `headswap study`. Returns what results.json holds."""
    from headswap.study.report.write import write_report
    from headswap.study.run import run_study as run_jobs
    from headswap.study.setup.config import StudyRecipe
    from headswap.study.statistics.runs import read_study

    chosen = _with_sets(_with_corpus(settings, corpus), {"train": train, "validation": validation, "test": test})
    if dataset is not None:
        chosen = {"corpus": (dataset,), "train": dataset} | chosen
    own = StudyRecipe.model_fields.keys() - {"pretrain", "adapt", "finetune"}
    sections = sort_into_sections(chosen, StudyRecipe, only=own)
    for name, part in (("pretrain", pretrain), ("adapt", adapt), ("finetune", finetune)):
        if part is not None:
            sections[name] = dict(part)
    study = run_jobs(
        out=Path(out), config=Path(config) if config else None, sections=sections, jobs=jobs, executor=executor,
        max_minutes=max_minutes,
    )  # fmt: skip
    for id, why in study.outcome.failed.items():
        log.warning("%s failed: %s", study.plan.jobs[id].name, why)
    return write_report(read_study(Path(out)), Path(out), with_texts=with_texts).as_json()


def load(path: PathName, *, device: DeviceName = "auto", allow_download: bool = False) -> Model:
    """The model of a bundle, a run folder, an installed base (`box:NAME`) or a public checkpoint (`hf:NAME`)."""
    return Model.load(fspath(path), device=device, allow_download=allow_download)


def _train(
    train: Callable[..., RunFolder],
    recipe: type[Recipe],
    settings: dict[str, Any],
    *,
    out: PathName,
    config: PathName | None,
    **how: Any,
) -> Run:
    """Sort flat settings into sections and train."""
    sections = sort_into_sections(settings, recipe)
    done = train(out=Path(out), config=Path(config) if config else None, sections=sections, **how)
    return Run(done.path, device=sections.get("machine", {}).get("device", "auto"))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _with_corpus(settings: Mapping[str, Any], corpus: Any) -> dict[str, Any]:
    is_given = isinstance(corpus, str | PathLike) or len(corpus) > 0
    return dict(settings) | ({"corpus": as_corpus(corpus)} if is_given else {})


def _with_base(settings: Mapping[str, Any], base: PathName | Run | None) -> dict[str, Any]:
    return dict(settings) | ({"base": fspath(base)} if base is not None else {})


def _with_sets(settings: Mapping[str, Any], sets: Mapping[str, Any]) -> dict[str, Any]:
    return dict(settings) | {role: as_labelled(given) for role, given in sets.items() if given is not None}
