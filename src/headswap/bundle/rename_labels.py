"""Rename the labels of a fine-tuned bundle; its weights and predictions stay the same.

`config.json` is checked against the manifest when a bundle is loaded, so that edited labels are noticed. This module
writes new names the right way: config, card and manifest together, and the other files as they are.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headswap.bundle.bundle import OWN_FILES, Bundle
from headswap.bundle.card import card_text
from headswap.bundle.config_json import label_entries
from headswap.bundle.untrusted import CARD, CONFIG
from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import InputError, SettingError, did_you_mean, listed
from headswap.core.files import read_json, write_json
from headswap.core.installed_bases import is_boxed
from headswap.core.manifest import MANIFEST, write_manifest

NAMELESS = ("regress", "span")
"""Tasks whose outputs have no names from the training set."""


def renamed_labels(bundle: Bundle, changes: Mapping[str, str]) -> tuple[str, ...]:
    """The labels of a bundle with some of them renamed at once, so that two names can also be swapped."""
    if bundle.model.shape.head == "lm" or bundle.task.task in NAMELESS:
        what = "a regression" if bundle.task.task == "regress" else bundle.what
        raise InputError(f"{bundle.path or 'The model'} is {what}, which has no labels to rename.")
    for old, new in changes.items():
        if old not in bundle.labels:
            raise SettingError(
                f"'{old}' is not a label of this model.{did_you_mean(old, bundle.labels)} "
                f"Its labels are {listed(bundle.labels, most=20)}."
            )
        if not isinstance(new, str) or not new.strip() or new != new.strip():
            raise SettingError(
                f"{new!r} cannot be the new name of '{old}': a label is a text without blanks around it."
            )
    labels = tuple(changes.get(label, label) for label in bundle.labels)
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        former = [old for old, new in zip(bundle.labels, labels, strict=True) if new == repeated[0]]
        raise SettingError(f"{listed(former)} would all be called '{repeated[0]}'. Choose another name.")
    return labels


def rename_labels(path: str | Path, changes: Mapping[str, str]) -> Bundle:
    """Rename labels of the bundle in a folder and return it; the folder is replaced atomically."""
    if is_boxed(path):
        raise SettingError(
            f"{path} is part of an installed package, whose checksums are verified. Copy its folder first."
        )
    bundle = Bundle.load(path)
    assert bundle.path is not None
    renamed = replace(bundle, labels=renamed_labels(bundle, changes))
    config = read_json(bundle.path / CONFIG) | label_entries(renamed.labels)
    with atomic_folder(bundle.path, OWN_FILES) as temporary:
        for file in bundle.path.iterdir():
            if file.name not in (CONFIG, CARD, MANIFEST):
                shutil.copyfile(file, temporary / file.name)
        write_json(temporary / CONFIG, config)
        (temporary / CARD).write_text(card_text(renamed), encoding="utf-8")
        write_manifest(temporary)
    return renamed


def parse_changes(given: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """`OLD=NEW` arguments as a mapping; if a label contains `=`, the longest label that fits is the old name."""
    changes: dict[str, str] = {}
    for part in given:
        if "=" not in part:
            raise SettingError(f"'{part}' is not OLD=NEW. Give the label, an equals sign and its new name.")
        fitting = [label for label in labels if part.startswith(f"{label}=")]
        old = max(fitting, key=len) if fitting else part.partition("=")[0]
        if old in changes:
            raise SettingError(f"'{old}' is renamed twice. Give one new name.")
        changes[old] = part[len(old) + 1 :]
    return changes
