"""Settings of `headswap export`, for all targets. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings
from headswap.model.shape import Pooling
from headswap.registry import EXPORTS


class ExportSettings(Settings):
    """Settings of single targets; every target declares those that it uses."""

    weights: Literal["float32", "float16", "bfloat16"] = "float32"
    """Number format of the weights (not onnx). float16 and bfloat16 halve the file and round the weights."""
    pooling: Pooling | None = None
    """How sentence-transformers pools the token vectors of a text. Default: as the head of a classifier; for other
    models weighted-mean if their attention is causal, otherwise mean."""
    normalize: bool = False
    """Whether sentence-transformers scales every vector to length 1."""

    quantize: Literal["int8"] | None = None
    """int8: round the weights of matrix products to 8-bit integers (onnx). --test is then required."""
    test: str | None = None
    """Labelled file on which the model is scored before and after the export (onnx)."""
    max_drop: Annotated[float, Field(ge=0, le=100)] = 0.5
    """Largest allowed drop of the test metric by the export, in points (onnx). A larger drop is an error."""

    def check(self, target: str) -> None:
        """Raise if a setting is given that the target does not use."""
        unused = [name for name in self.not_default(type(self).model_fields) if name not in EXPORTS.load(target).uses]
        if unused:
            raise SettingError(f"{', '.join(unused)}: no effect with --to {target}. Remove it.")
