"""A row of the bench: contests, measurements and their targets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .contest import Ratio, Side, hold, ratios


@dataclass(frozen=True)
class Target:
    """A target: the name of a peer or a measurement, and the smallest (or largest) value that meets it."""

    what: str
    wanted: float
    is_most: bool = False
    of_rate: bool = False
    """Whether the speed of the first side is meant, in units per second."""

    def is_met(self, value: float) -> bool:
        """Whether a value meets it."""
        return value <= self.wanted if self.is_most else value >= self.wanted


@dataclass
class Measured:
    """One contest of a row, or one set of measurements, ready for JSON."""

    title: str
    unit: str
    sides: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    measures: dict[str, float] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    floor: str = ""
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """As JSON, with the verdict on every target."""
        return {
            "title": self.title, "unit": self.unit, "sides": self.sides, "measures": self.measures,
            "ratios": [vars(ratio) for ratio in self.ratios], "floor": self.floor, "note": self.note,
            "targets": [self._judged(target) for target in self.targets],
        }  # fmt: skip

    def _judged(self, target: Target) -> dict[str, Any]:
        values = {ratio.peer: ratio.median for ratio in self.ratios} | self.measures
        if target.of_rate:
            values[target.what] = self.sides[0]["median"]
        value = values.get(target.what)
        return vars(target) | {"value": value, "is_met": value is not None and target.is_met(value)}


@dataclass(frozen=True)
class Setting:
    """Device, number of rounds and size of the bench."""

    device: str
    rounds: int
    is_tiny: bool = False
    """Shapes small enough for a test of the bench itself."""


Row = Callable[[Setting], list[Measured]]


def contest(
    title: str, sides: list[Side], setting: Setting, *, unit: str = "tok/s", targets: list[Target] | None = None,
    floor: str = "", note: str = "", rounds: int | None = None,
) -> Measured:  # fmt: skip
    """Run a contest and summarise it."""
    hold(sides, rounds=rounds or setting.rounds, device=setting.device)
    return Measured(
        title, unit, sides=[_summary(side) for side in sides], ratios=ratios(sides), targets=targets or [], floor=floor,
        note=note,
    )  # fmt: skip


def _summary(side: Side) -> dict[str, Any]:
    rates = sorted(side.rates)
    middle = (rates[(len(rates) - 1) // 2] + rates[len(rates) // 2]) / 2 if rates else None
    return {
        "name": side.name, "median": middle, "rates": side.rates, "set_up_seconds": round(side.set_up_seconds, 2),
        "failure": side.failure,
    }  # fmt: skip
