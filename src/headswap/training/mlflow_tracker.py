"""MLflow: a run with the settings as parameters and all metrics.

The store is `trackers/mlflow.db` in the run folder, unless MLFLOW_TRACKING_URI names another one.
`trackers/mlflow.json` has the id of the run, so a resumed run continues it. The usage statistics that MLflow sends are
switched off.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from headswap.core.files import read_json, write_json
from headswap.core.local_paths import shared_name
from headswap.core.settings import read_toml
from headswap.training.resume_rules import FILES
from headswap.training.run_folder import TRACKERS_FOLDER
from headswap.training.tracker import Tracker, numbers_of

URI, EXPERIMENT, TELEMETRY = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_DISABLE_TELEMETRY"
LONGEST_PARAMETER = 500
MOST_AT_ONCE = 1000  # the most metrics that MLflow accepts in one call
OPENED: set[str] = set()
"""Stores that this process has opened."""
STORE_LOGS = ("mlflow.store.db.utils", "alembic.runtime.migration")


class MLflow(Tracker):
    """One MLflow run per run folder."""

    needs: ClassVar[tuple[str, ...]] = ("mlflow", "sqlalchemy", "alembic")
    extra: ClassVar[str] = "mlflow"

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Create the MLflow run, or continue it; lines that it already has are not sent again."""
        os.environ.setdefault(TELEMETRY, "true")  # before the import
        import mlflow

        self.folder = self.run.path / TRACKERS_FOLDER
        self.folder.mkdir(exist_ok=True)
        file = self.folder / "mlflow.json"
        known = read_json(file) if file.exists() else {}
        self.known = known if isinstance(known, dict) else {}
        with _quiet_store():
            self.client: Any = mlflow.MlflowClient(tracking_uri=os.environ.get(URI) or self._own_store())
            self.id = self._known_run() or self._new_run()
        write_json(file, {"run_id": self.id, **({} if os.environ.get(URI) else {"store": self.store.name})})
        names = self.client.get_run(self.id).data.metrics
        self.sent = {
            (name, one.step) for name in names for one in self.client.get_metric_history(self.id, name)
        }  # fmt: skip
        for line in lines:
            self.write(line["step"], numbers_of(line))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Send the values of a step that were not sent before."""
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        new = {name: value for name, value in values.items() if (name, step) not in self.sent}
        now = get_current_time_millis()
        metrics = [Metric(name, value, now, step) for name, value in new.items()]
        for first in range(0, len(metrics), MOST_AT_ONCE):
            self.client.log_batch(self.id, metrics=metrics[first : first + MOST_AT_ONCE])
        self.sent |= {(name, step) for name in new}

    def close(self, *, is_finished: bool) -> None:
        """State whether the run is finished."""
        self.client.set_terminated(self.id, status="FINISHED" if is_finished else "KILLED")

    def _own_store(self) -> str:
        """The store in the run folder. MLflow keeps stores open, so one that was removed needs another name."""
        given = self.known.get("store")
        self.store = self.folder / (given if given in os.listdir(self.folder) else "mlflow.db")
        number = 1
        while str(self.store.resolve()) in OPENED and not self.store.exists():
            number += 1
            self.store = self.folder / f"mlflow-{number}.db"
        OPENED.add(str(self.store.resolve()))
        return f"sqlite:///{self.store.resolve()}"

    def _known_run(self) -> str | None:
        """The id of the MLflow run that this folder has, if the store still has it."""
        from mlflow.exceptions import MlflowException

        id = self.known.get("run_id")
        if not isinstance(id, str):
            return None
        try:
            self.client.update_run(id, status="RUNNING")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return id

    def _new_run(self) -> str:
        from mlflow.entities import Param

        name = os.environ.get(EXPERIMENT) or "headswap"
        found = self.client.get_experiment_by_name(name)
        files = None if os.environ.get(URI) else (self.folder.resolve() / "mlflow").as_uri()
        experiment = found.experiment_id if found else self.client.create_experiment(name, artifact_location=files)
        made = self.client.create_run(experiment, run_name=self.run.path.resolve().name)
        recipe = read_toml(self.run.path / "recipe.toml")
        given = [Param(name, value[:LONGEST_PARAMETER]) for name, value in parameters_of(recipe).items()]
        self.client.log_batch(made.info.run_id, params=given)
        return made.info.run_id


def parameters_of(recipe: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a recipe as `section.name`; of a path only the name, since the store may be shared."""
    found: dict[str, str] = {}
    for section, values in recipe.items():
        for name, value in values.items() if isinstance(values, dict) else [("", values)]:
            key = f"{section}.{name}".rstrip(".")
            if key in FILES:
                value = [shared_name(one) for one in value] if isinstance(value, list) else shared_name(str(value))
            found[key] = str(value)
    return found


@contextmanager
def _quiet_store() -> Iterator[None]:
    """Keep MLflow from printing one line per table that it creates."""
    loggers = [logging.getLogger(name) for name in STORE_LOGS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
