"""The designs that a study was run with: which tests were planned, with how many seeds, before what was scored.

`design.json` has one entry per design. A new entry is added when the same folder is run with another primary arm, other
seeds or another metric. `num_scored` is the number of runs that had a score at that time. If it is not 0, the change
may have been made because of results, and the report states what follows from that.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from headswap.core.errors import InputError, counted
from headswap.core.files import read_json, write_json
from headswap.study.setup.arm_bases import own_name
from headswap.study.setup.arms import BASELINES, LINEAR, OF_LINEAR, SCRATCH
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.folder import DESIGN
from headswap.study.statistics.significance import ALPHA, FEWEST_SEEDS_FOR_A_CLAIM, error_of_looks


@dataclass(frozen=True)
class Design:
    """What was planned, and how many runs had been scored before."""

    primary: str | None
    metric: str
    seeds: int
    num_scored: int = 0


def default_primary(arms: Sequence[str]) -> str | None:
    """`pretrained`, or the first arm that is neither a baseline nor from scratch; a linear one if there is no other."""
    others = [arm for arm in arms if arm not in (*BASELINES, SCRATCH)]
    not_linear = [arm for arm in others if own_name(arm) != LINEAR and not arm.startswith(OF_LINEAR)]
    return "pretrained" if "pretrained" in others else next(iter([*not_linear, *others]), None)


def discussed_arm(primary: str | None, run: Sequence[str]) -> str | None:
    """The arm that "What next" is about: the primary arm, without a run of it scratch, or else the last arm."""
    return primary if primary in run else SCRATCH if SCRATCH in run else next(reversed(run), None)


def record_design(recipe: StudyRecipe, arms: Sequence[str], folder: Path) -> None:
    """Add the design of a study to its folder, unless it is the last one there."""
    designs = read_designs(folder)
    settings = recipe.study
    last = designs[-1] if designs else None
    by_default = last.primary if last is not None and last.primary in arms else default_primary(arms)
    new = Design(settings.primary_arm or by_default, settings.metric, settings.seeds, _num_scored(folder))
    if last is None or (last.primary, last.metric, last.seeds) != (new.primary, new.metric, new.seeds):
        write_json(folder / DESIGN, [asdict(design) for design in [*designs, new]])


def read_designs(folder: Path) -> list[Design]:
    """The designs of a study, oldest first; a study of an earlier version has none."""
    if not (folder / DESIGN).exists():
        return []
    try:
        return [Design(**entry) for entry in read_json(folder / DESIGN)]
    except (InputError, TypeError):
        raise InputError(
            f"{folder / DESIGN} is damaged, so it is not known which tests were planned. Restore it from a copy, or "
            "delete it: then the report cannot state whether the design was changed after runs were scored."
        ) from None


def _num_scored(folder: Path) -> int:
    return sum(1 for _ in (folder / "runs").glob("*/predictions.npz")) if (folder / "runs").is_dir() else 0


def looks(designs: Sequence[Design]) -> tuple[int, ...]:
    """The numbers of seeds with which results could be looked at, in order."""
    found: list[int] = []
    for design in designs:
        if found and design.num_scored == 0:
            found.pop()  # the earlier design had no result
        found.append(design.seeds)
    grown = [number for place, number in enumerate(found) if number > max(found[:place], default=0)]
    return tuple(number for number in grown if number >= FEWEST_SEEDS_FOR_A_CLAIM)


def is_planned(designs: Sequence[Design]) -> bool:
    """Whether primary arm and metric are those that were named before anything was scored."""
    return not any(_changed(before, after) for before, after in pairwise(designs))


def _changed(before: Design, after: Design) -> list[tuple[str, str, str]]:
    """What was changed after runs were scored: name, old value, new value."""
    pairs = [("primary arm", before.primary, after.primary), ("metric", before.metric, after.metric)]
    return [(name, old or "none", new or "none") for name, old, new in pairs if old != new and after.num_scored]


def design_changes(designs: Sequence[Design]) -> list[str]:
    """Sentences about what was changed after runs were scored."""
    found = [
        f"The {name} was changed from {old} to {new} after {counted(after.num_scored, 'run')} had been scored, so no "
        "test of this report counts as planned."
        for before, after in pairwise(designs)
        for name, old, new in _changed(before, after)
    ]
    numbers = looks(designs)
    if len(numbers) > 1:
        found.append(
            f"Seeds were added after runs were scored ({', then '.join(map(str, numbers))}). If they were added "
            f"because of those scores, the error rate of a test is up to {error_of_looks(numbers):.2f}, not {ALPHA}."
        )
    return found
