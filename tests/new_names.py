"""Allow one more name in a setting whose values are a Literal, as an added name in that Literal would."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel


@contextmanager
def allowed(
    annotation: Any, setting: str, homes: Sequence[type[BaseModel]], users: Sequence[type[BaseModel]] = ()
) -> Iterator[None]:
    """`setting` of the models in `homes` has another annotation; `users` are models that contain them."""
    before = [model.model_fields[setting].annotation for model in homes]
    try:
        _set(setting, homes, [annotation] * len(homes), users)
        yield
    finally:
        _set(setting, homes, before, users)


def _set(
    setting: str, homes: Sequence[type[BaseModel]], annotations: Sequence[Any], users: Sequence[type[BaseModel]]
) -> None:
    for model, annotation in zip(homes, annotations, strict=True):
        model.model_fields[setting].annotation = annotation
    for model in (*homes, *users):
        model.model_rebuild(force=True)
