"""Trackers read back with their own libraries: every number of metrics.jsonl and of the test set, once."""

from pathlib import Path
from typing import Any

import pytest

for package in ("tensorboard", "mlflow"):
    pytest.importorskip(package, reason=f"needs {package}: make test-ecosystem")

import headswap as hs
from headswap.training.observer import Observer
from headswap.training.tracker import final_values, numbers_of
from tiny import PRETRAIN

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("one_thread")]
Read = dict[str, list[tuple[int, float]]]


def expected(run: hs.Run) -> Read:
    """All numbers of a run: by name, the steps and values."""
    lines = [*run.metrics(), {"step": run.metrics()[-1]["step"], **final_values(run.result)}]
    found: Read = {}
    for line in lines:
        for name, value in numbers_of(line).items():
            found.setdefault(name, []).append((line["step"], value))
    return found


def tensorboard(run: hs.Run) -> Read:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "trackers" / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {name: [(one.step, one.value) for one in events.Scalars(name)] for name in events.Tags()["scalars"]}


def client(uri: str) -> Any:
    import mlflow

    return mlflow.MlflowClient(tracking_uri=uri)


def only_run(uri: str) -> Any:
    store = client(uri)
    experiment = store.get_experiment_by_name("headswap")
    (run,) = store.search_runs([experiment.experiment_id])
    return run


def mlflow_metrics(uri: str) -> Read:
    run, store = only_run(uri), client(uri)
    history = {name: store.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    return {name: sorted((one.step, one.value) for one in points) for name, points in history.items()}


def assert_same(found: Read, wanted: Read) -> None:
    """The same points; TensorBoard has float32. Of two values at one step (`epoch`, `seconds`) MLflow has the first."""
    assert found.keys() == wanted.keys()
    for name, points in wanted.items():
        if name in ("seconds", "epoch"):  # a step that is logged and evaluated has two lines
            assert {step for step, _ in found[name]} == {step for step, _ in points}
            continue
        assert [step for step, _ in found[name]] == [step for step, _ in points], name
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in points], rel=1e-6), name


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def local(run: hs.Run) -> str:
    (store,) = (run.path / "trackers").glob("mlflow*.db")
    return f"sqlite:///{store}"


def test_a_fine_tuning_is_read_back_with_its_test_figures(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.finetune(
        tiny_runs / "base", train=tiny_runs / "few.jsonl", validation=tiny_runs / "validation.jsonl",
        test=tiny_runs / "test.jsonl", out=tmp_path / "run",
        num_train_epochs=2, logging_steps=2, threads=1, report_to=["tensorboard", "mlflow"],
    )  # fmt: skip
    wanted = expected(run)
    assert {"train_loss", "eval_accuracy", "test_accuracy", "test_tfidf_accuracy"} <= wanted.keys()
    assert_same(tensorboard(run), wanted)
    assert_same(mlflow_metrics(local(run)), wanted)
    kept = only_run(local(run))
    assert (kept.info.status, kept.info.run_name) == ("FINISHED", "run")
    assert kept.data.params["data.train"] == "few.jsonl"
    assert kept.data.params["training.num_train_epochs"] == "2.0"


class Stop(Observer):
    """Ends the run at a step, as a crash does."""

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] == 7:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_and_resumed_has_every_point_once(tiny_runs: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        **PRETRAIN, "out": tmp_path / "run", "max_steps": 10, "logging_steps": 1, "save_steps": 4,
        "report_to": ["tensorboard", "mlflow"],
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        hs.pretrain(tiny_runs / "corpus.txt", observer=Stop(), **given)
    stopped = hs.Run(tmp_path / "run")
    assert only_run(local(stopped)).info.status == "KILLED"
    assert tensorboard(stopped)["train_loss"][-1][0] == 6
    run = hs.pretrain(tiny_runs / "corpus.txt", resume=True, **given)
    assert_same(tensorboard(run), expected(run))
    assert_same(mlflow_metrics(local(run)), expected(run))
    assert only_run(local(run)).info.status == "FINISHED"
    again = hs.pretrain(
        tiny_runs / "corpus.txt", **{**given, "overwrite": True, "max_steps": 3, "report_to": ["mlflow"]}
    )
    assert_same(mlflow_metrics(local(again)), expected(again))
    assert not (run.path / "trackers" / "tensorboard").exists()


def test_another_store_can_be_named_and_holds_a_run_per_folder(
    tiny_base: hs.Run, tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path / 'shared.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    run = hs.adapt(
        tiny_base, tiny_runs / "corpus.txt", out=tmp_path / "adapted", max_steps=3, threads=1, report_to="mlflow"
    )
    assert not (run.path / "trackers" / "mlflow.db").exists()
    assert_same(mlflow_metrics(uri), expected(run))
