"""A stand-in for the module `ray`: actors without processes, whose jobs end when a test says so."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class Reference:
    """The result of a call: unknown, a value, or an error."""

    def __init__(self) -> None:
        self.value: Any = None
        self.is_ready = False

    def end(self, value: Any) -> None:
        self.value, self.is_ready = value, True


class Method:
    def __init__(self, actor: "Actor", name: str) -> None:
        self.actor, self.name = actor, name

    def remote(self, *arguments: Any) -> Reference:
        reference = Reference()
        self.actor.calls.append((self.name, arguments, reference))
        if self.name == "__ray_ready__" and self.actor.is_placed:
            reference.end(True)
        if self.name == "close":
            reference.end(None)
        return reference


class Actor:
    def __init__(self, options: dict[str, Any], arguments: tuple[Any, ...], *, is_placed: bool) -> None:
        self.options, self.arguments, self.is_placed = options, arguments, is_placed
        self.calls: list[tuple[str, tuple[Any, ...], Reference]] = []
        self.is_alive = True
        for name in ("run", "stop", "close", "__ray_ready__"):
            setattr(self, name, Method(self, name))

    @property
    def job(self) -> Reference:
        """The result of its last job."""
        return [reference for name, _, reference in self.calls if name == "run"][-1]

    def is_lost(self) -> None:
        self.is_alive = False
        self.job.end(RayActorError("lost"))


class FakeRay:
    """One machine with 4 CPUs."""

    exceptions = SimpleNamespace(RayError=RayError, RayActorError=RayActorError)

    def __init__(self, *, num_gpus: int = 0) -> None:
        self.actors: list[Actor] = []
        self.num_gpus, self.has_room = num_gpus, True

    def remote(self, kind: type) -> Any:
        def make(options: dict[str, Any]) -> Any:
            def start(*arguments: Any) -> Actor:
                self.actors.append(Actor(options, arguments, is_placed=self.has_room))
                return self.actors[-1]

            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=lambda **options: make(options))

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 4.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0} | ({"GPU": float(self.num_gpus)} if self.num_gpus else {})

    def wait(self, references: Sequence[Reference], *, num_returns: int = 1, timeout: float) -> tuple[list, list]:
        ready = [one for one in references if one.is_ready][:num_returns]
        return ready, [one for one in references if one not in ready]

    def get(self, reference: Reference) -> Any:
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value

    def kill(self, actor: Actor) -> None:
        was_alive, actor.is_alive = actor.is_alive, False
        for name, _, reference in actor.calls:
            if was_alive and name == "run" and not reference.is_ready:
                reference.end(RayActorError("killed"))
