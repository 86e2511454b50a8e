"""TensorBoard: event files in `trackers/tensorboard` of the run folder, read with `tensorboard --logdir`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headswap.training.run_folder import TRACKERS_FOLDER
from headswap.training.tracker import Tracker, numbers_of


class TensorBoard(Tracker):
    """One scalar per metric. A resumed run writes its events anew, since single events cannot be removed."""

    needs: ClassVar[tuple[str, ...]] = ("tensorboard",)
    extra: ClassVar[str] = "tensorboard"

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Replace the events of the run with the lines so far."""
        from torch.utils.tensorboard import SummaryWriter

        folder = self.run.path / TRACKERS_FOLDER / "tensorboard"
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self.writer: Any = SummaryWriter(str(folder))
        for line in lines:
            self.write(line["step"], numbers_of(line))
        self.writer.flush()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add one event per value."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self, *, is_finished: bool) -> None:
        """Write all events to the disk."""
        self.writer.close()
