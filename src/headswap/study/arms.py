"""Arms: the models that a study compares, as changes to one pre-training and one fine-tuning recipe.

An arm is a name of the table below, an installed base, a bundle folder, or a recipe file. Its settings are looked up in
the recipes of the training verbs, so an arm with an unknown setting is an error before anything is trained.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError, absent, did_you_mean, raise_problems
from headswap.core.files import read_json
from headswap.core.installed_bases import OWN_BASE, PREFIX, base_folder, is_boxed
from headswap.core.manifest import MANIFEST, manifest_problems
from headswap.core.settings import Recipe, load_recipe, read_toml
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe
from headswap.registry import CLASSIFY_BASELINES
from headswap.study.config import StudyRecipe

BASELINES = tuple(CLASSIFY_BASELINES)
SCRATCH, BOX = "scratch", "box"
Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Arm:
    """One way to get a model."""

    name: str
    start: str
    """`baseline`, `scratch`, `base` (pre-trained by the study) or `bundle` (an existing base)."""
    pretrain: Sections = field(default_factory=dict)
    """Settings of its base that differ from those of the study."""
    finetune: Sections = field(default_factory=dict)
    bundle: str | None = None


NAMED: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    **dict.fromkeys(BASELINES, ("baseline", {}, {})),
    "scratch": (SCRATCH, {}, {}),
    "pretrained": ("base", {}, {}),
    "frozen": ("base", {}, {"trainable": "head"}),
    "lora": ("base", {}, {"trainable": "lora"}),
    "gradual": ("base", {}, {"unfreeze": "gradual"}),
    "masked": ("base", {"objective": "masked"}, {}),
    "masked+nsp": ("base", {"objective": "masked+nsp"}, {}),
    BOX: ("bundle", {}, {}),
}
"""Where an arm starts, and its changes to pre-training and to fine-tuning."""
MEANING = {
    **{name: CLASSIFY_BASELINES.load(name).meaning for name in BASELINES},
    "scratch": "random weights, all trained on the labels",
    "pretrained": "the pre-trained base, all weights fine-tuned",
    "frozen": "the pre-trained base, only the head fine-tuned",
    "lora": "the pre-trained base, fine-tuned with low-rank adapters (LoRA)",
    "gradual": "the pre-trained base, unfrozen layer by layer",
    "masked": "a base pre-trained with masked language modelling",
    "masked+nsp": "a base pre-trained with masked language modelling and next-sentence prediction",
    BOX: f"the installed base {PREFIX}{OWN_BASE}, all weights fine-tuned",
}


def read_arms(recipe: StudyRecipe) -> list[Arm]:
    """The arms of a study, each checked against the recipes of the training verbs."""
    found = [_arm(name) for name in recipe.study.arms]
    names = [arm.name for arm in found]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(f"Two arms are called '{repeated[0]}'. Rename one of the folders or files.")
    for arm in found:
        try:
            load_recipe(PretrainRecipe, None, arm.pretrain)
            load_recipe(FinetuneRecipe, None, arm.finetune)
        except SettingError as problem:
            raise SettingError(
                f"The arm '{arm.name}' has a setting that this version does not accept: {problem}"
            ) from None
    if any(arm.start == "base" for arm in found) and not recipe.study.corpus:
        first = next(arm.name for arm in found if arm.start == "base")
        raise SettingError(
            f"The arm '{first}' needs a corpus to pre-train on. Pass --corpus, or leave the arm out with --arms."
        )
    return found


def is_from_box(arm: str) -> bool:
    """Whether an arm starts from an installed base."""
    return arm == BOX or arm.startswith(PREFIX)


def _arm(name: str) -> Arm:
    if name == BOX or is_boxed(name):
        base = f"{PREFIX}{OWN_BASE}" if name == BOX else name
        base_folder(base)
        return Arm(name, "bundle", bundle=base)
    if name in NAMED:
        start, pretrain, finetune = NAMED[name]
        return Arm(
            name, start, _in_sections(name, pretrain, PretrainRecipe), _in_sections(name, finetune, FinetuneRecipe)
        )
    path = Path(name).expanduser()
    if path.suffix == ".toml":
        return _from_recipe(path)
    if path.is_dir():
        _check_base(name, path)
        return Arm(_own_name(path.resolve().name, "bundle"), "bundle", bundle=str(path.resolve()))
    if path.exists() or "/" in name:
        raise InputError(
            f"The arm {absent(path)}"
            if not path.exists()
            else f"The arm {name} is not a bundle folder. Give the folder of a base."
        )
    raise SettingError(
        f"'{name}' is not an arm.{did_you_mean(name, NAMED)} Arms are {', '.join(NAMED)}, "
        "box:NAME, a bundle folder, or a recipe."
    )


def _check_base(name: str, path: Path) -> None:
    """Refuse a bundle that is damaged or fine-tuned, before anything is trained."""
    from headswap.bundle.bundle import CARD, CONFIG, find_bundle

    folder = find_bundle(path)
    if (folder / MANIFEST).exists():
        raise_problems(manifest_problems(folder, leave=(CARD,)), hint=f"Restore the arm {name} from a copy.")
    config = read_json(folder / CONFIG)
    head = config.get("head") if isinstance(config, dict) else None
    if head != "lm":
        raise InputError(
            f"The arm {name} has been fine-tuned already (head: {head}), possibly on labels of this test set. "
            "Give the base that it was fine-tuned from."
        )


def _own_name(name: str, kind: str) -> str:
    """The name of a folder or file; a suffix is added to the name of a built-in arm."""
    return f"{name}-{kind}" if name in NAMED else name


def _from_recipe(path: Path) -> Arm:
    """The arm of a recipe file for fine-tuning or pre-training. The data are those of the study."""
    verb, name = read_toml(path).get("verb"), _own_name(path.stem, "recipe")
    if verb == "pretrain":
        sections = _given(load_recipe(PretrainRecipe, path), without=("corpus", "machine", "tokenizer"))
        return Arm(name, "base", pretrain=sections)
    if verb != "finetune":
        raise SettingError(f"{path} is a recipe of headswap {verb}. An arm needs a recipe of pretrain or finetune.")
    recipe = load_recipe(FinetuneRecipe, path)
    sections = _given(recipe, without=("data", "machine", "tokenizer"))
    base = sections.get("model", {}).pop("base", None)
    if base is None:
        return Arm(name, "base", finetune=sections)
    if base == SCRATCH:
        return Arm(name, SCRATCH, finetune=sections)
    place = base if is_boxed(base) else str(Path(base).expanduser().resolve())
    return Arm(name, "bundle", finetune=sections, bundle=place)


def _given(recipe: Recipe, *, without: tuple[str, ...]) -> Sections:
    values = recipe.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return {name: part for name, part in values.items() if isinstance(part, dict) and name not in without}


def _in_sections(arm: str, settings: Mapping[str, Any], kind: type[Recipe]) -> Sections:
    """Settings sorted into the sections of a recipe."""
    sections: Sections = {}
    for name, value in settings.items():
        home = next(
            (
                section
                for section, entry in kind.model_fields.items()
                if name in getattr(entry.annotation, "model_fields", {})
            ),
            None,
        )
        if home is None:
            raise SettingError(
                f"The arm '{arm}' needs the setting {name} = '{value}', which this version does not have. "
                "Leave the arm out with --arms."
            )
        sections.setdefault(home, {})[name] = value
    return sections
