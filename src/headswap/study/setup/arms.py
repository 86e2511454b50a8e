"""Arms: the models that a study compares, as changes to one pre-training and one fine-tuning recipe.

An arm is a name of the table below, an installed base, a bundle folder, or a recipe file. Its settings are looked up in
the recipes of the trainings, so an arm with an unknown setting is an error before anything is trained.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError, absent, did_you_mean, raise_problems
from headswap.core.files import read_json
from headswap.core.installed_bases import OWN_BASE, PREFIX, base_folder, is_boxed
from headswap.core.local_paths import home_path
from headswap.core.manifest import MANIFEST, manifest_problems
from headswap.core.public_checkpoints import PREFIX as CHECKPOINT
from headswap.core.public_checkpoints import checkpoint_folder, is_checkpoint
from headswap.core.settings import Recipe, load_recipe, read_toml
from headswap.data.config import LabelledSettings
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe
from headswap.registry import ARM_BASELINES, LINEAR_MODELS, Registry
from headswap.registry import BASELINES as FINETUNE_BASELINES
from headswap.study.setup.config import StudyRecipe
from headswap.tasks.choose import DEFAULT_TASK, named_task
from headswap.tokens.store import is_store

BASELINES = tuple(dict.fromkeys(name for of_task in ARM_BASELINES.values() for name in of_task))
"""Of all tasks."""
PAIR = "pair"
"""The unit of a study of pairs of texts (`Task.unit`)."""
SCRATCH, BOX, ADAPTED = "scratch", "box", "adapted"
LINEAR, CONSISTENCY = "linear", "consistency"
OF_BASE, OF_LINEAR, OF_CONSISTENCY = f"{ADAPTED}:", f"{LINEAR}:", f"{CONSISTENCY}:"
"""Before the name or the folder of the base."""
Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Arm:
    """One way to get a model."""

    name: str
    start: str
    """`baseline`, `scratch`, `base` (pre-trained by the study), `bundle` (an existing base), `adapted` (an existing
    base that the study trains further on its text), `linear` (a linear model on the vectors of a base) or
    `answers` (those of another system)."""
    pretrain: Sections = field(default_factory=dict)
    """Settings of its base that differ from those of the study."""
    finetune: Sections = field(default_factory=dict)
    bundle: str | None = None
    of: "Arm | None" = None
    """The arm whose base a linear arm uses."""
    answers: str | None = None
    """The file with the answers of another system."""
    is_consistent: bool = False
    """Whether it is fine-tuned with consistency training on texts without labels."""


NAMED: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    **dict.fromkeys(BASELINES, ("baseline", {}, {})),
    "scratch": (SCRATCH, {}, {}),
    "pretrained": ("base", {}, {}),
    "frozen": ("base", {}, {"trainable": "head"}),
    "lora": ("base", {}, {"trainable": "lora"}),
    "gradual": ("base", {}, {"unfreeze": "gradual"}),
    "masked": ("base", {"objective": "masked"}, {}),
    "masked+nsp": ("base", {"objective": "masked+nsp"}, {}),
    "causal+masked": ("base", {"objective": "causal+masked"}, {}),
    ADAPTED: (ADAPTED, {}, {}),
    LINEAR: (LINEAR, {}, {}),
    CONSISTENCY: (ADAPTED, {}, {}),
    BOX: ("bundle", {}, {}),
}
"""Where an arm starts, and its changes to pre-training and to fine-tuning."""
MEANING = {
    "scratch": "random weights, all trained on the labels",
    "pretrained": "the pre-trained base, all weights fine-tuned",
    "frozen": "the pre-trained base, only the head fine-tuned",
    "lora": "the pre-trained base, fine-tuned with low-rank adapters (LoRA)",
    "gradual": "the pre-trained base, unfrozen layer by layer",
    "masked": "a base pre-trained with masked language modelling",
    "masked+nsp": "a base pre-trained with masked language modelling and next-sentence prediction",
    "causal+masked": "a base pre-trained with causal and with masked language modelling, read in both directions",
    ADAPTED: "{base}, first trained on the corpus and the training texts, then all weights fine-tuned",
    CONSISTENCY: "the base of adapted, or of pretrained where the installed base cannot be used, all weights "
    "fine-tuned with consistency training on texts without labels",
    BOX: "{base}, all weights fine-tuned",
}
"""`base` is the installed base that the runs of the study used; another version may have had another one."""


def read_arms(recipe: StudyRecipe) -> list[Arm]:
    """The arms of a study, each checked against the recipes of the trainings."""
    found = [_arm(name, allow_download=recipe.machine.allow_download) for name in recipe.study.arms or ()]
    _check_task(found, recipe.data)
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
    if (primary := recipe.study.primary_arm) is not None and primary not in set(names) - {*BASELINES, SCRATCH}:
        trained = [name for name in names if name not in (*BASELINES, SCRATCH)]
        allowed = f"one of {', '.join(trained)}" if trained else "an arm other than scratch and the baselines"
        raise SettingError(f"primary_arm is '{primary}'; it must be {allowed} (--arms).")
    uses = {arm.name: "to pre-train on" for arm in found if "base" in (arm.start, arm.of and arm.of.start)}
    uses |= {arm.name: "to be fitted on" for arm in found if needs_space(arm)}
    if uses and not recipe.study.corpus:
        name, use = next(iter(uses.items()))
        raise SettingError(f"The arm '{name}' needs a corpus {use}. Pass --corpus, or leave the arm out with --arms.")
    of_texts = {arm.name: "is a token store of another tokenizer" for arm in found if adapts(arm)}
    of_texts |= {
        arm.name: "is a token store, which has no texts" for arm in found if needs_space(arm) or arm.is_consistent
    }
    if of_texts and (stores := [source for source in recipe.study.corpus if is_store(source)]):
        name, why = next(iter(of_texts.items()))
        raise SettingError(
            f"The arm '{name}' needs a corpus of text files: {stores[0]} {why}. "
            "Give the files that it was made from, or leave the arm out with --arms."
        )
    return found


def adapts(arm: Arm) -> bool:
    """Whether the base of an arm is adapted by the study."""
    return ADAPTED in (arm.start, arm.of and arm.of.start)


def needs_space(arm: Arm) -> bool:
    """Whether an arm is a baseline in a space of texts that the study fits on the corpus."""
    return arm.start == "baseline" and any(
        of_task.load(arm.name).needs_space for of_task in ARM_BASELINES.values() if arm.name in of_task
    )


def baselines_of(task: str | None) -> Registry[Any]:
    """The baselines of a task that are arms of its studies; None is the default task."""
    return ARM_BASELINES.get(task or DEFAULT_TASK, Registry())


def default_baselines(task: str | None, *, reads_pairs: bool) -> list[str]:
    """The baselines of a task that a study and a comparison have by default: those of `finetune` that are arms."""
    known = baselines_of(task)
    names = [name for name in FINETUNE_BASELINES.get(task or DEFAULT_TASK, {}) if name in known]
    return [name for name in names if reads_pairs or not known.load(name).reads_pairs]


def is_constant(arm: str, task: str | None) -> bool:
    """Whether an arm is a baseline that predicts the same for every example: its score is no estimate."""
    return arm in (known := baselines_of(task)) and known.load(arm).is_constant


def _check_task(arms: Sequence[Arm], data: LabelledSettings) -> None:
    """Refuse arms that do not fit the task of the study."""
    task = named_task(data.task)
    is_pair, known = data.text_pair_column is not None, baselines_of(data.task)
    for arm in arms:
        if arm.start == "baseline" and arm.name not in known:
            has = f"has {', '.join(known)}" if known else "has none"
            raise SettingError(
                f"The arm '{arm.name}' is not a baseline of the task {task.name}, which {has}. Leave it out (--arms)."
            )
        if arm.start == "baseline" and known.load(arm.name).reads_pairs and not is_pair:
            raise SettingError(
                f"The arm '{arm.name}' is for pairs of texts (--text-pair-column). Leave it out with --arms."
            )
        if arm.start == LINEAR and task.prediction_kind not in LINEAR_MODELS:
            raise SettingError(
                f"The arm '{arm.name}' needs one vector per example, which the task {task.name} does not have. Leave "
                "it out with --arms."
            )
        if (arm.start == "answers" or arm.is_consistent) and task.prediction_kind != "classes":
            raise SettingError(
                f"The arm '{arm.name}' is for classifiers, and this study is of the task {task.name}. Leave it out "
                "with --arms."
            )
        if arm.is_consistent and is_pair:
            raise SettingError(
                f"The arm '{arm.name}' is for single texts, and this study is of pairs. Leave it out with --arms."
            )


def saved_name(arm: str) -> str:
    """An arm as it is written into the recipe: a folder or file below the home folder as `~/...`."""
    name, sign, file = arm.partition("=")
    if sign and not Path(arm).exists():
        return f"{name}={home_path(file)}"
    for prefix in (OF_LINEAR, OF_CONSISTENCY, OF_BASE):
        if arm.startswith(prefix):
            return f"{prefix}{saved_name(home_path(arm.removeprefix(prefix)))}"
    return arm


def _checkpoint_arm(name: str, *, allow_download: bool) -> Arm:
    """The arm of a public checkpoint, called by the last part of its name."""
    from headswap.interop.hf_in import has_task_head

    folder = checkpoint_folder(name, allow_download=allow_download)
    if has_task_head(folder):
        raise InputError(
            f"The arm {name} has been fine-tuned already, possibly on labels of this test set. Give the checkpoint "
            "that it was fine-tuned from."
        )
    return Arm(f"{CHECKPOINT}{Path(name).name.removeprefix(CHECKPOINT)}", "bundle", bundle=_absolute(name))


def _absolute(name: str) -> str:
    """A base with an absolute path, so that jobs find it from another folder; box: and names of the Hub as they are."""
    if is_boxed(name):
        return name
    place = Path(os.path.expanduser(name.removeprefix(CHECKPOINT) if is_checkpoint(name) else name))
    if is_checkpoint(name):
        return f"{CHECKPOINT}{place.resolve()}" if place.is_dir() else name
    return str(place.resolve())


def _arm(name: str, *, allow_download: bool) -> Arm:
    if name == LINEAR or name.startswith(OF_LINEAR):
        of = _base_arm(name, OF_LINEAR, "pretrained", allow_download=allow_download)
        return Arm(LINEAR if name == LINEAR else f"{OF_LINEAR}{of.name}", LINEAR, of=of)
    if name == CONSISTENCY or name.startswith(OF_CONSISTENCY):
        of = _base_arm(name, OF_CONSISTENCY, ADAPTED, allow_download=allow_download)
        return replace(of, name=f"{OF_CONSISTENCY}{of.name}", is_consistent=True)
    if is_checkpoint(name):
        return _checkpoint_arm(name, allow_download=allow_download)
    if name == ADAPTED or name.startswith(OF_BASE):
        return _adapted(name, allow_download=allow_download)
    if name == BOX or is_boxed(name):
        base = f"{PREFIX}{OWN_BASE}" if name == BOX else name
        base_folder(base)
        return Arm(name, "bundle", bundle=base)
    if name in NAMED:
        start, pretrain, finetune = NAMED[name]
        return Arm(
            name, start, _in_sections(name, pretrain, PretrainRecipe), _in_sections(name, finetune, FinetuneRecipe)
        )
    path = Path(os.path.expanduser(name))
    if path.suffix == ".toml":
        return _from_recipe(path)
    if path.is_dir():
        _check_base(name, path)
        return Arm(_own_name(path.resolve().name, "bundle"), "bundle", bundle=str(path.resolve()))
    if "=" in name and not path.exists():
        return _from_answers(*name.split("=", 1))
    if path.exists() or "/" in name:
        raise InputError(
            f"The arm {absent(path)}"
            if not path.exists()
            else f"The arm {name} is not a bundle folder. Give the folder of a base."
        )
    raise SettingError(
        f"'{name}' is not an arm.{did_you_mean(name, NAMED)} Arms are {', '.join(NAMED)}, "
        "adapted:BASE, linear:BASE, consistency:BASE, box:NAME, hf:NAME, a bundle folder, a recipe, or NAME=FILE with "
        "the answers of another system."
    )


def _base_arm(name: str, prefix: str, default: str, *, allow_download: bool) -> Arm:
    """The arm whose base an arm `linear:BASE` or `consistency:BASE` uses."""
    given = name.removeprefix(prefix) if name.startswith(prefix) else default
    of = _arm(given, allow_download=allow_download)
    if of.start not in ("base", "bundle", ADAPTED) or of.pretrain or of.finetune or of.is_consistent:
        raise SettingError(
            f"'{name}' is not an arm: after {prefix} comes a base, that is pretrained, adapted, adapted:BASE, "
            "box:NAME, hf:NAME or a folder."
        )
    return of


def _adapted(name: str, *, allow_download: bool) -> Arm:
    """The arm that adapts an installed base, a public checkpoint, or the base in a folder."""
    base = f"{PREFIX}{OWN_BASE}" if name == ADAPTED else name.removeprefix(OF_BASE)
    if is_checkpoint(base):
        checkpoint = _checkpoint_arm(base, allow_download=allow_download)
        return Arm(f"{OF_BASE}{checkpoint.name}", ADAPTED, bundle=checkpoint.bundle)
    if is_boxed(base):
        base_folder(base)
        return Arm(name, ADAPTED, bundle=base)
    path = Path(os.path.expanduser(base))
    if not path.is_dir():
        raise InputError(
            f"The arm {name}: {absent(path)} Give adapted:BASE with a bundle or run folder, or an installed base."
            if not path.exists()
            else f"The arm {name}: {base} is not a bundle folder. Give the folder of a base."
        )
    _check_base(name, path)
    return Arm(f"{OF_BASE}{path.resolve().name}", ADAPTED, bundle=str(path.resolve()))


def _from_answers(name: str, file: str) -> Arm:
    """The arm of another system, whose answers are in a file; the file is read when the study is planned."""
    name = name.strip()
    if not name or not file or name in NAMED or is_boxed(name) or any(sign in name for sign in "/\\"):
        raise SettingError(
            f"'{name}={file}' is not an arm: the answers of another system need a name and a file, as in llm=llm.csv. "
            f"The name must have no slash and must not be one of {', '.join(NAMED)}."
        )
    return Arm(name, "answers", answers=os.path.expanduser(file))


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
    """The name of a folder or file; a suffix is added if it reads as a built-in arm, such as `box` and `box (1)`."""
    return f"{name}-{kind}" if name.partition(" (")[0] in NAMED else name


def _from_recipe(path: Path) -> Arm:
    """The arm of a recipe file for fine-tuning or pre-training. The data and the seeds are those of the study."""
    verb, name = read_toml(path).get("verb"), _own_name(path.stem, "recipe")
    if verb == "pretrain":
        sections = _given(load_recipe(PretrainRecipe, path), without=("corpus", "machine", "tokenizer"))
        sections.get("training", {}).pop("seed", None)
        return Arm(name, "base", pretrain=sections)
    if verb != "finetune":
        raise SettingError(f"{path} is a recipe of headswap {verb}. An arm needs a recipe of pretrain or finetune.")
    recipe = load_recipe(FinetuneRecipe, path)
    if recipe.consistency.teachers or recipe.consistency.unlabelled:
        raise SettingError(
            f"{path} has teachers or unlabelled texts. They may contain labels or texts beyond a budget, so an arm "
            "cannot have them. Use the arm consistency, or compare finished runs with headswap compare."
        )
    sections = _given(recipe, without=("data", "machine", "tokenizer"))
    sections.get("training", {}).pop("seed", None)
    base = sections.get("model", {}).pop("base", None)
    if base is None:
        return Arm(name, "base", finetune=sections)
    if base == SCRATCH:
        return Arm(name, SCRATCH, finetune=sections)
    return Arm(name, "bundle", finetune=sections, bundle=_absolute(base))


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
