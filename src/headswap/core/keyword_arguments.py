"""Keyword arguments: each is sorted into the section of settings that it belongs to; an unknown one is refused."""

from collections.abc import Collection
from os import PathLike, fspath
from typing import Any

from headswap.core.errors import SettingError
from headswap.core.other_names import meant_setting
from headswap.core.settings import Recipe


def sort_into_sections(
    settings: dict[str, Any], recipe: type[Recipe], *, only: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Sort flat settings into the sections of a recipe (all, or only some)."""
    homes = section_of_setting(recipe, only=only)
    sections: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        if name not in homes:
            raise SettingError(f"{name} is not a setting.{meant_setting(name, homes)}")
        sections.setdefault(homes[name], {})[name] = fspath(value) if isinstance(value, PathLike) else value
    return sections


def section_of_setting(recipe: type[Recipe], *, only: Collection[str] | None = None) -> dict[str, str]:
    """The section of every setting of a recipe; no setting is in two sections."""
    homes: dict[str, str] = {}
    for section, field in recipe.model_fields.items():
        if only is not None and section not in only:
            continue
        for name in getattr(field.annotation, "model_fields", {}):
            assert name not in homes, f"the setting {name} is in [{homes[name]}] and [{section}]"
            homes[name] = section
    return homes
