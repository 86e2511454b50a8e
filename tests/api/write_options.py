"""Writes src/headswap/api/options.py: the keyword arguments of the Python functions, from the settings models.

python tests/api/write_options.py
"""

import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from headswap.core.settings import Recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.study.config import StudyRecipe

FILE = Path(__file__).parents[2] / "src" / "headswap" / "api" / "options.py"
SETS = ("train", "validation", "test")
RECIPES: dict[str, tuple[type[Recipe], str, tuple[str, ...]]] = {
    "PretrainOptions": (PretrainRecipe, "pretrain", ("corpus",)),
    "AdaptOptions": (AdaptRecipe, "adapt", ("corpus", "base")),
    "FinetuneOptions": (FinetuneRecipe, "finetune", ("base", *SETS)),
    "StudyOptions": (StudyRecipe, "run_study", ("corpus", "pretrain", "finetune", *SETS)),
}
HEAD = '''"""Keyword arguments of the Python functions, from the settings models by tests/api/write_options.py."""

from os import PathLike
from typing import Literal, TypedDict

PathName = str | PathLike[str]
'''


def text() -> str:
    """What the file should hold."""
    return HEAD + "".join(_options(name, *given) for name, given in RECIPES.items())


def _options(name: str, recipe: type[Recipe], function: str, left_out: tuple[str, ...]) -> str:
    lines = [f'\n\nclass {name}(TypedDict, total=False):\n    """Settings of `headswap.{function}`."""\n']
    for section, field in recipe.model_fields.items():
        if section in left_out and section in ("pretrain", "finetune"):
            continue
        for setting, inner in getattr(field.annotation, "model_fields", {}).items():
            if setting not in left_out:
                lines.append(f"\n    {setting}: {_type(inner.annotation, setting)}")
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
