"""Studies on a real Ray cluster of several node processes: bits, lost machines, and a driver that is killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs ray: make test-ecosystem")
psutil = pytest.importorskip("psutil", reason="needs psutil: make test-ecosystem")

from headswap.study.executors.job_queue import Executor
from headswap.study.executors.ray_workers import RayWorkers
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import Job
from headswap.study.run import run_study
from study_fixture import RecordingWatcher, planned, sections_of

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("one_thread")]
DRIVER = """
import json, sys
from pathlib import Path
from headswap.study.run import run_study
run_study(out=Path(sys.argv[1]), sections=json.loads(Path(sys.argv[2]).read_text()), executor="ray:" + sys.argv[3])
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without CPUs and two machines with one CPU each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=1) for _ in range(2)]  # type: ignore[attr-defined]
    yield made
    made.shutdown()


def assert_same_bits(ours: Path, theirs: Path) -> None:
    """All weights and predictions of two studies, and the messages of their jobs."""
    names = [file.relative_to(ours) for pattern in ("*.safetensors", "*.npz") for file in ours.rglob(pattern)]
    assert len(names) >= 4
    for name in names:
        if name.suffix == ".npz":
            one, other = np.load(ours / name), np.load(theirs / name)
            assert all(np.array_equal(one[key], other[key]) for key in one.files), name
        else:
            assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    for log in (ours / "logs").glob("*.log"):
        if not log.name.startswith("probe"):
            other_text = (theirs / "logs" / log.name).read_text().replace(str(theirs), str(ours))
            assert other_text == log.read_text(), log.name


def test_a_study_on_a_cluster_has_the_bits_and_the_logs_of_a_local_one(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = sections_of(tmp_path, arms=("majority", "scratch", "pretrained"), budgets=("40",), seeds=1)
    for name in ("local", f"ray:{cluster.address}"):
        monkeypatch.setenv("HEADSWAP_CACHE", str(tmp_path / f"cache-{name[:3]}"))
        study = run_study(out=tmp_path / name[:3], sections=given, executor=name, jobs=2)
        assert not study.outcome.failed
    assert_same_bits(tmp_path / "loc", tmp_path / "ray")


def processes_of(node: Any) -> list[Any]:
    """The processes of a machine of the cluster."""
    raylets = [psutil.Process(info.process.pid) for info in node.all_processes["raylet"]]
    return [*raylets, *(child for raylet in raylets for child in raylet.children(recursive=True))]


def runs_jobs(node: Any) -> bool:
    """Whether a worker program runs on a machine of the cluster."""
    for process in processes_of(node):
        with suppress(psutil.NoSuchProcess):
            if "headswap.study.executors.worker" in process.cmdline():
                return True
    return False


class Killing(RecordingWatcher):
    """When a fine-tuning has begun, kills all processes of a machine that runs jobs at once, as a power failure does.

    If only the raylet of a machine is killed, an actor that has not noticed it yet can still finish its job.
    """

    def __init__(self, cluster: Any) -> None:
        super().__init__()
        self.cluster, self.num_killed = cluster, 0

    def on_wait(self, running: list[Job]) -> None:
        has_begun = any((Path(job.folder) / "recipe.toml").exists() for job in running)
        if has_begun and not self.num_killed:
            node = next(node for node in self.cluster.workers if runs_jobs(node))
            for process in processes_of(node):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.cluster.remove_node(node, allow_graceful=False)
            self.num_killed = 1


def test_a_killed_machine_costs_no_job(tmp_path: Path, cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    given = sections_of(tmp_path, arms=("scratch",), budgets=("40",), seeds=2)
    given["finetune"] = {"num_train_epochs": 200}
    _, prepared, plan = planned(tmp_path / "out", given)
    seen = Killing(cluster)
    backend = RayWorkers(cluster.address, parallel=2, cores=1, device="cpu")
    executor = Executor(
        tmp_path / "out", Estimator(None, prepared), parallel=2, threads=1, keep="results", watcher=seen,
        backend=backend,
    )  # fmt: skip
    outcome = executor.run(plan.jobs.values())
    assert not outcome.failed
    assert {job.name for job in outcome.done} == {"tokenizer", "scratch-40-seed1", "scratch-40-seed2"}
    assert seen.num_killed == 1
    assert "its job is started again elsewhere" in caplog.text


def test_a_killed_driver_is_started_again(tmp_path: Path, cluster: Any) -> None:
    given = sections_of(tmp_path, arms=("majority", "scratch"), budgets=("40",), seeds=2)
    given["finetune"] = {"num_train_epochs": 60}
    (tmp_path / "sections.json").write_text(json.dumps(given), encoding="utf-8")
    out = tmp_path / "out"
    command = [sys.executable, "-c", DRIVER, str(out), str(tmp_path / "sections.json"), cluster.address]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as driver:
        while not list(out.glob("runs/scratch-*/recipe.toml")):
            assert driver.poll() is None, "it was killed too late"
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
    done_before = {file.parent.name for file in out.glob("runs/*/manifest.json")}
    study = run_study(out=out, sections=given, executor=f"ray:{cluster.address}")
    assert not study.outcome.failed
    assert len(list(out.glob("runs/*/manifest.json"))) == len(study.plan.jobs)
    again = {Path(job.folder).name for job in study.outcome.done}
    assert not again & done_before, "finished jobs are not run again"
