"""Strict settings and recipes.

Each setting is defined once, as a field of a frozen pydantic model; the docstring of the field is its help text. A
*recipe* consists of several such models, its sections. Its values come from a TOML file and from flags; flags take
precedence. All values are validated together, and all problems are reported in one error.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from headswap.core.errors import SettingError, absent, listed, raise_problems
from headswap.core.files import atomic_file
from headswap.core.local_paths import expanded_paths, home_paths
from headswap.core.other_names import meant_setting, settings_called

LONGEST_VALUE = 200
"""Characters of a wrong value that a message shows."""


class Settings(BaseModel):
    """A frozen group of settings; unknown names are errors, and the docstring of a field is its help text."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_truth_values(cls, values: Any) -> Any:
        """`true` is no number, although Python would read it as 1."""
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, bool) and name in cls.model_fields and not _may_be_bool(cls.model_fields[name]):
                raise ValueError(f"{name} = {str(value).lower()} is not allowed: it must not be true or false")
        return values

    exclusive: ClassVar[tuple[str, ...]] = ()
    """Settings that exclude each other: a flag for one of them removes the others from the recipe."""

    def changed(self, **values: Any) -> Self:
        """A validated copy with some values replaced."""
        return type(self)(**(self.model_dump(exclude_unset=True) | values))

    def not_default(self, names: Iterable[str]) -> list[str]:
        """Those of the named settings that differ from their default."""
        fields = type(self).model_fields
        return [name for name in names if getattr(self, name) != fields[name].default]


def _may_be_bool(field: FieldInfo) -> bool:
    return field.annotation in (bool, Any) or bool in get_args(field.annotation)


class Recipe(Settings):
    """The settings that reproduce a run, in sections."""

    def save(self, path: Path) -> None:
        """Write all values, including defaults, as TOML; None is left out, and no path is absolute."""
        values = home_paths(self.model_dump(mode="json", exclude_none=True))
        with atomic_file(path) as temporary:
            temporary.write_bytes(tomli_w.dumps(values).encode())

    def of_run(self) -> Self:
        """The recipe that a run wrote, with what its version did where it did not have a setting of this one."""
        return self


def flattened(recipe: Recipe) -> dict[str, Any]:
    """All settings of a recipe as JSON values, by `section.name`; values outside of sections are left out."""
    return {
        f"{section}.{name}": value
        for section, values in recipe.model_dump(mode="json").items()
        if isinstance(values, dict)
        for name, value in values.items()
    }


S = TypeVar("S", bound=Settings)
R = TypeVar("R", bound=Recipe)


def load_recipe(kind: type[R], path: Path | None, sections: Mapping[str, Settings | Mapping | None] | None = None) -> R:
    """The recipe of the file `path` (if given), with the values that are set in `sections` in place of its own."""
    values = expanded_paths(read_toml(path)) if path else {}
    for section, given in (sections or {}).items():
        if given is None:
            continue
        overlay = dict(given) if isinstance(given, Mapping) else given.model_dump(exclude_unset=True)
        check_exclusive(overlay, _exclusive(kind, section))
        below = values.get(section, {})
        if isinstance(below, dict):
            below = {name: value for name, value in below.items() if not _is_replaced(kind, section, name, overlay)}
            overlay = below | overlay
        values[section] = overlay
    return validate(kind, values, origin=str(path) if path else None)


def _exclusive(kind: type[Recipe], section: str) -> tuple[str, ...]:
    settings = kind.model_fields[section].annotation if section in kind.model_fields else None
    return getattr(settings, "exclusive", ())


def check_exclusive(values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise if more than one of the settings `names` has a value."""
    given = [name for name in names if values.get(name) is not None]
    if len(given) > 1:
        raise SettingError(f"{' and '.join(given)} exclude each other. Give one of them.")


def _is_replaced(kind: type[Recipe], section: str, name: str, overlay: Mapping[str, Any]) -> bool:
    """Whether a flag sets one of the settings that exclude this one."""
    together = _exclusive(kind, section)
    return name in together and any(overlay.get(other) is not None for other in together)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML recipe file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"The recipe {absent(path)}") from None
    except IsADirectoryError:
        raise SettingError(f"The recipe {path} is a folder. Give the .toml file inside it.") from None
    except UnicodeDecodeError:
        raise SettingError(f"The recipe {path} is not UTF-8 text. Save it as UTF-8.") from None
    except ValueError as problem:  # also for a number with thousands of digits
        raise SettingError(f"The recipe {path} is not valid TOML: {problem}.") from None
    except RecursionError:
        raise SettingError(f"The recipe {path} is not valid TOML: it is nested too deeply.") from None


def validate(kind: type[S], values: Mapping[str, Any], *, origin: str | None = None) -> S:
    """Build a recipe or one group of settings; all problems are raised as one `SettingError`."""
    try:
        return kind(**values)
    except ValidationError as problems:
        raise_problems(problem_sentences(problems, kind, origin=origin), error=SettingError)
        raise


def problem_sentences(problems: ValidationError, kind: type[BaseModel], *, origin: str | None = None) -> list[str]:
    """One sentence per problem that pydantic found."""
    where = f" ({origin})" if origin else ""
    found = problems.errors()
    # A recipe of another command has many wrong settings; only that is reported.
    of_verb = [problem for problem in found if problem["loc"] == ("verb",)]
    return [_sentence(problem, kind, where) for problem in of_verb or found]


def _sentence(problem: Any, kind: type[BaseModel], where: str) -> str:
    path = [part for part in problem["loc"] if isinstance(part, str) and "[" not in part]
    name = ".".join(path)
    if problem["type"] == "extra_forbidden":
        return f"{name} is not a setting{where}.{_hint(kind, path)}"
    if problem["type"] == "value_error":
        return f"{str(problem['ctx']['error']).rstrip('.')}{where}."
    if problem["type"] == "missing":
        return f"{name} is missing{where}."
    message = problem["msg"].removeprefix("Input ").replace("Input ", "it ")
    return f"{name} = {_shortened(problem['input'])} is not allowed{where}: it {message}."


def _hint(kind: type[BaseModel], path: list[str]) -> str:
    """The setting that was meant: of this section, of another section, or with a similar name."""
    name, allowed = path[-1], _fields_at(kind, path[:-1])
    if not settings_called(name, allowed):
        sections = {section: _fields_at(kind, [section]) for section in kind.model_fields}
        if found := [section for section, fields in sections.items() if name in fields]:
            return f" It belongs to the section {' or '.join(f'[{section}]' for section in found)}."
        for section, fields in sections.items():
            if called := settings_called(name, fields):
                return f" Did you mean '{called[0]}' of the section [{section}]?"
    return meant_setting(name, allowed) or f" Allowed here: {listed(sorted(allowed), most=40)}."


def _shortened(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # a number of thousands of digits
        return "a number with too many digits"
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}..."


def _fields_at(kind: type[BaseModel], path: list[str]) -> set[str]:
    for part in path:
        field = kind.model_fields.get(part)
        inner = getattr(field, "annotation", None)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return set()
        kind = inner
    return set(kind.model_fields)
