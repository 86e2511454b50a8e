"""Writes src/headswap/api/signatures.py: the keyword arguments of the Python functions, from the settings models.

python tests/api/write_signatures.py
"""

import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from headswap.core.settings import Recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.study.setup.config import StudyRecipe

FILE = Path(__file__).parents[2] / "src" / "headswap" / "api" / "signatures.py"
SETS = ("train", "validation", "test")
RECIPES: dict[str, tuple[type[Recipe], str, tuple[str, ...]]] = {
    "PretrainOptions": (PretrainRecipe, "pretrain", ("corpus",)),
    "AdaptOptions": (AdaptRecipe, "adapt", ("corpus", "base")),
    "FinetuneOptions": (FinetuneRecipe, "finetune", ("base", *SETS)),
    "StudyOptions": (StudyRecipe, "run_study", ("corpus", "pretrain", "adapt", "finetune", *SETS)),
}


class Field(NamedTuple):
    """A setting, its type, and the settings model that it comes from."""

    name: str
    kind: str
    home: str


HEAD = '''"""Keyword arguments of the Python functions, from the settings models by tests/api/write_signatures.py."""

from os import PathLike
from typing import Literal, TypedDict

PathName = str | PathLike[str]
'''


def text() -> str:
    """What the file should hold: the settings that several functions share by settings model, then each function."""
    fields = {name: _fields(recipe, left_out) for name, (recipe, _, left_out) in RECIPES.items()}
    users: dict[Field, list[str]] = {}
    for name, own in fields.items():
        for field in own:
            users.setdefault(field, []).append(name)
    shared = {field: names for field, names in users.items() if len(names) > 1}
    groups: dict[tuple[str, ...], list[Field]] = {}
    for field, names in shared.items():
        groups.setdefault((field.home, *names), []).append(field)
    titles = [key[0] for key in groups]
    assert len(set(titles)) == len(titles), "two functions share different parts of one settings model"
    parts = [
        _class(_title(key[0]), ["TypedDict"], f"Settings of `{key[0]}` that several functions have.", group)
        for key, group in groups.items()
    ]
    for name, (_, function, _) in RECIPES.items():
        bases = [_title(key[0]) for key in groups if name in key[1:]]
        own = [field for field in fields[name] if field not in shared]
        parts.append(_class(name, bases, f"Settings of `headswap.{function}`.", own))
    return HEAD + "".join(parts)


def _fields(recipe: type[Recipe], left_out: tuple[str, ...]) -> list[Field]:
    found = []
    for section, entry in recipe.model_fields.items():
        if section in left_out and section in ("pretrain", "adapt", "finetune"):
            continue
        for setting, inner in getattr(entry.annotation, "model_fields", {}).items():
            if setting not in left_out:
                kind = _type(inner.annotation, setting)
                found.append(Field(setting, kind, _home(entry.annotation, setting, kind)))
    return found


def _home(settings: Any, setting: str, kind: str) -> str:
    """The most general settings model that has a setting with this type."""
    models = [base for base in settings.__mro__ if setting in getattr(base, "model_fields", {})]
    alike = [model for model in models if _type(model.model_fields[setting].annotation, setting) == kind]
    return alike[-1].__name__


def _title(settings: str) -> str:
    return f"{settings.removesuffix('Settings')}Options"


def _class(name: str, bases: list[str], about: str, fields: list[Field]) -> str:
    lines = [f'\n\nclass {name}({", ".join(bases)}, total=False):\n    """{about}"""\n']
    lines += [f"\n    {field.name}: {field.kind}" for field in fields]
    return "".join(lines) + "\n"


def _type(annotation: Any, setting: str) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type(get_args(annotation)[0], setting)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, get_args(annotation)))}]".replace("'", '"')
    if origin in (Union, types.UnionType):
        return " | ".join(_type(part, setting) for part in get_args(annotation))
    if origin is tuple:
        return f"tuple[{_type(get_args(annotation)[0], setting)}, ...]"
    if annotation is type(None):
        return "None"
    is_path = annotation is str and setting in ("tokenizer", "reference", "label_file")
    return "PathName" if is_path or setting.endswith("_label_file") else annotation.__name__


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    sys.exit(0)
