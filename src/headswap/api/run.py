"""`Run`: the folder of one training, with its result and its model."""

from functools import cached_property
from pathlib import Path
from typing import Any

from headswap.api.model import Model
from headswap.training.config import DeviceName
from headswap.training.run_folder import RunFolder


class Run:
    """A finished training: folder, result, metrics and model."""

    def __init__(self, path: str | Path, *, device: DeviceName = "auto") -> None:
        self.path, self.device = Path(path), device

    def __repr__(self) -> str:
        return f"Run({self.path.name!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def result(self) -> dict[str, Any]:
        """What `result.json` holds: final metrics, baselines, steps, tokens, seconds, peak memory."""
        return RunFolder(self.path).result

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of `metrics.jsonl`: losses on the way, evaluations."""
        return RunFolder(self.path).metrics()

    @cached_property
    def model(self) -> Model:
        """The model that this run made, loaded when first used."""
        return Model.load(self.path, device=self.device)

    def plot(self, *, path: str | Path | None = None) -> Any:
        """Draw losses and evaluations as a matplotlib figure; `path` also saves it (.png, .svg, .pdf)."""
        from headswap.api.plot import plot_metrics

        return plot_metrics(self.metrics(), title=self.path.name, path=path)
