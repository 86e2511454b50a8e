"""The arms of a comparison: which runs are one arm, and what it is called.

Runs are one arm if they start from the same base and all other settings are equal, except those in which runs of one
arm may differ, such as the seed. An arm is named by its base and by as few settings as tell the arms of this base
apart. Settings are compared within one base only: the shape of a new model is none of a trained base, and a setting
that all runs of a base share is part of what the base stands for in the comparison. Of a setting, one value is left out
of the names: the empty one, otherwise the default. A run of a study has the name that its arm has there.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from headswap.core.installed_bases import is_boxed
from headswap.core.local_paths import CHECKPOINT, shared_names
from headswap.core.settings import flattened
from headswap.finetuning.config import FinetuneRecipe
from headswap.study.setup.arm_bases import with_study
from headswap.study.setup.arms import BASELINES, SCRATCH
from headswap.study.statistics.study_files import PlannedRun
from headswap.training.resume_rules import FILES

FREE = {"training.seed", "data.num_train", "machine.threads", "machine.device"}
"""Settings in which runs of one arm may differ."""
BASE = "model.base"
BY_SIZE = ("training.num_train_epochs", "training.batch_size", "adaptation.unfreeze", "adaptation.head_init")
"""Settings whose defaults depend on the number of labels."""


def arm_names(flat: Mapping[Path, Mapping[str, Any]], sizes: Mapping[Path, int]) -> dict[Path, str]:
    """A name per run, from its settings and its number of labels; runs of one arm have the same name."""
    of_base = _base_names({str(settings[BASE]) for settings in flat.values()})
    groups: dict[str, list[Path]] = {}
    for path, settings in flat.items():
        groups.setdefault(of_base[str(settings[BASE])], []).append(path)
    names = {}
    for base, paths in groups.items():
        own = [flat[path] for path in paths]
        free = FREE | _free_by_size(own, [sizes[path] for path in paths])
        differing = [name for name in own[0] if name != BASE and name not in free and _num_arms(own, [name]) > 1]
        chosen = _fewest_settings(own, differing)
        shown = [_shown(name, [settings[name] for settings in own]) for name in chosen]
        for place, path in enumerate(paths):
            names[path] = " ".join([base, *filter(None, (values[place] for values in shown))])
    return {path: names[path] for path in flat}


def with_shared_files(
    flat: Mapping[Path, Mapping[str, Any]], planned: Mapping[Path, PlannedRun]
) -> dict[Path, dict[str, Any]]:
    """The settings of runs, with one path for files of several studies that have the same content.

    Every study has its own copy of its rows, and its own tokenizer and bases, so equal arms differ in these paths.
    """
    first: dict[tuple[str, str], str] = {}
    shared: dict[str, str] = {}
    for path, run in planned.items():
        for name in sorted(FILES & flat[path].keys()):
            for file in filter(None, _parts(flat[path][name])):
                if (content := run.content_of(name, file)) is not None:
                    shared[file] = first.setdefault((name, content), file)
    return {
        path: {name: _with_paths(value, shared) if name in FILES else value for name, value in settings.items()}
        for path, settings in flat.items()
    }


def with_study_names(names: Mapping[Path, str], planned: Mapping[Path, PlannedRun]) -> dict[Path, str]:
    """The names of runs, with the name from the study for every run that belongs to one.

    Arms of two studies that are called alike are one arm if some of their runs have the same settings. Otherwise the
    name of the study is added. A run outside of a study is part of the arm that has its settings.
    """
    settings: dict[tuple[Path, str], set[str]] = {}
    for path, run in planned.items():
        settings.setdefault((run.study, run.arm), set()).add(names[path])
    outside = {name for path, name in names.items() if path not in planned}
    places = {study: str(study) for study, _ in settings}
    studies = shared_names(places.values())
    final = {}
    for study, arm in settings:
        alike = [own for (_, other), own in settings.items() if other == arm]
        is_unique = bool(set.intersection(*alike)) and arm not in outside.difference(*alike)
        final[study, arm] = arm if is_unique else with_study(arm, studies[places[study]])
    of_settings: dict[str, set[str]] = {}
    for place, own in settings.items():
        for name in own:
            of_settings.setdefault(name, set()).add(final[place])
    found = {}
    for path, name in names.items():
        known = of_settings.get(name, set())
        own_name = next(iter(known)) if len(known) == 1 else name
        found[path] = final[planned[path].study, planned[path].arm] if path in planned else own_name
    return found


def _free_by_size(runs: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> set[str]:
    """Settings that depend on the number of labels only; another value with as many labels is another arm."""
    return {
        name
        for name in BY_SIZE
        if len({(size, settings.get(name)) for size, settings in zip(sizes, runs, strict=True)}) == len(set(sizes))
    }


def _base_names(bases: Collection[str]) -> dict[str, str]:
    """A name per base: `pretrained` if there is one, else its folder, with folders above it if two are called alike."""
    others = sorted(set(bases) - {SCRATCH})
    if len(others) == 1:
        return {SCRATCH: SCRATCH, others[0]: "pretrained"}
    places = {base: base if is_boxed(base) or base.startswith(CHECKPOINT) else os.path.abspath(base) for base in others}
    names = shared_names([*places.values(), SCRATCH, *BASELINES])  # a folder may be called as another arm
    return {SCRATCH: SCRATCH} | {base: names[place] for base, place in places.items()}


def _num_arms(runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    """How many arms these settings tell apart."""
    return len({json.dumps([settings[name] for name in names]) for settings in runs})


def _fewest_settings(runs: Sequence[Mapping[str, Any]], differing: Sequence[str]) -> list[str]:
    """Settings that tell the same arms apart as all differing ones, chosen one by one: the one that separates most."""
    chosen: list[str] = []
    while _num_arms(runs, chosen) < _num_arms(runs, differing):
        chosen.append(max(differing, key=lambda name: _num_arms(runs, [*chosen, name])))
    return [name for name in differing if name in chosen]


def _shown(name: str, values: Sequence[Any]) -> list[str]:
    """A setting per run as `name=value`; nothing for one value: the empty one, otherwise the default."""
    default = flattened(FinetuneRecipe()).get(name)
    plain = next((value for value in values if value in (None, "", [])), default)
    short = name.partition(".")[2]
    texts = _texts(values, is_path=name in FILES)
    return ["" if value == plain else f"{short}={text}" for value, text in zip(values, texts, strict=True)]


def _texts(values: Sequence[Any], *, is_path: bool) -> list[str]:
    """The values of a setting as texts; of a path no folder of this machine beyond what tells two apart."""
    every = [one for value in values for one in _parts(value) if one is not None]
    names = shared_names(every) if is_path else {}
    return [",".join(_text(names.get(one, one)) for one in _parts(value)) or "none" for value in values]


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _with_paths(value: Any, paths: Mapping[str, str]) -> Any:
    """The value of a setting, with other paths for some of its files."""
    return [paths.get(file, file) for file in value] if isinstance(value, list) else paths.get(value, value)


def _text(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
