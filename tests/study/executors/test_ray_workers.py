"""Jobs on a Ray cluster, with a stand-in for Ray; tests/ecosystem/test_ray.py has the real one."""

from pathlib import Path
from typing import Any

import pytest

from fake_ray import FakeRay, RayError
from headswap.core.errors import SettingError
from headswap.study.executors import ray_workers
from headswap.study.executors.backend import Request
from headswap.study.executors.ray_workers import MOST_LOSSES, RayWorkers


class Cluster:
    """A pool on a stand-in for Ray."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, num_gpus: int = 0, device: str = "auto"):
        self.ray, self.folder, self.num_closed = FakeRay(num_gpus=num_gpus), folder, 0
        monkeypatch.setattr(ray_workers, "connect", lambda address, num_cpus: (self.ray, self._close))
        self.pool = RayWorkers(None, parallel=2, cores=2, device=device)

    def _close(self) -> None:
        self.num_closed += 1

    def start(self, *, threads: int = 1) -> Any:
        return self.pool.start(Request(self.folder / "job.json", self.folder / "job.log", threads, "{}"))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def test_only_paths_and_numbers_are_sent_and_an_actor_is_used_again(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.start()
    (actor,) = cluster.ray.actors
    assert first.exit_code() is None
    (call,) = [arguments for name, arguments, _ in actor.calls if name == "run"]
    assert call == (str(tmp_path / "job.json"), str(tmp_path / "job.log"), 1, "{}")
    actor.job.end((0, None))
    assert first.exit_code() == 0
    cluster.start()
    assert cluster.ray.actors == [actor]
    cluster.start()
    assert len(cluster.ray.actors) == 2, "the first one is busy"


def test_an_actor_reserves_its_threads_and_idle_ones_with_others_are_ended(cluster: Cluster) -> None:
    job = cluster.start(threads=1)
    cluster.ray.actors[0].job.end((0, None))
    assert job.exit_code() == 0
    cluster.start(threads=2)
    assert [actor.is_alive for actor in cluster.ray.actors] == [False, True]
    assert [actor.options["num_cpus"] for actor in cluster.ray.actors] == [1, 2]
    with pytest.raises(SettingError, match="needs 5 threads, but no machine of the Ray cluster has more than 4 CPUs"):
        cluster.start(threads=5)


def test_a_lost_machine_costs_no_job(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    job = cluster.start()
    cluster.ray.actors[0].is_lost()
    assert job.exit_code() is None
    assert "is started again elsewhere" in caplog.text
    cluster.ray.actors[1].job.end((3, None))
    assert job.exit_code() == 3, "the exit code of the second time"


def test_a_job_whose_machines_are_always_lost_fails_in_the_end(cluster: Cluster) -> None:
    job = cluster.start()
    for _ in range(MOST_LOSSES):
        cluster.ray.actors[-1].is_lost()
        assert job.exit_code() is None
    cluster.ray.actors[-1].is_lost()
    assert job.exit_code() == -9


def test_a_job_is_asked_to_stop_where_it_runs_and_is_not_started_again(cluster: Cluster) -> None:
    running, lost = cluster.start(), cluster.start()
    running.ask_to_stop()
    lost.ask_to_stop()
    assert [name for name, _, _ in cluster.ray.actors[0].calls if name == "stop"] == ["stop"]
    cluster.ray.actors[0].job.end((130, None))
    cluster.ray.actors[1].is_lost()
    assert (running.exit_code(), lost.exit_code()) == (130, 130)
    assert len(cluster.ray.actors) == 2
    assert not any(actor.is_alive for actor in cluster.ray.actors), "a worker gets no job after a stop request"


def test_a_job_that_waits_for_a_machine_is_stopped_too(cluster: Cluster) -> None:
    cluster.ray.has_room = False
    job = cluster.start()
    job.ask_to_stop()
    assert job.exit_code() == 130


def test_a_job_that_waits_gets_the_actor_of_the_next_job_that_ends(cluster: Cluster) -> None:
    first = cluster.start()
    cluster.ray.has_room = False
    waiting = cluster.start()
    running, unplaced = cluster.ray.actors
    running.job.end((0, None))
    assert first.exit_code() == 0
    assert not unplaced.is_alive
    assert waiting.exit_code() is None
    running.job.end((5, None))
    assert waiting.exit_code() == 5


def test_an_actor_that_a_waiting_job_cannot_use_frees_its_cores(cluster: Cluster) -> None:
    first = cluster.start(threads=1)
    cluster.ray.has_room = False
    cluster.start(threads=4)
    cluster.ray.actors[0].job.end((0, None))
    assert first.exit_code() == 0
    assert [actor.is_alive for actor in cluster.ray.actors] == [False, True]


def test_why_a_job_could_not_run_is_the_last_line_of_its_log(cluster: Cluster, tmp_path: Path) -> None:
    job, broken = cluster.start(), cluster.start()
    cluster.ray.actors[0].job.end((2, "The machine pluto cannot read the folder."))
    assert job.exit_code() == 2
    assert (tmp_path / "job.log").read_text() == "The machine pluto cannot read the folder.\n"
    cluster.ray.actors[1].job.end(RayError("no module named headswap"))
    assert broken.exit_code() == 2
    assert "Ray could not run the job: no module named headswap" in (tmp_path / "job.log").read_text()


@pytest.mark.parametrize(("num_gpus", "device", "expected"), [(0, "auto", 0), (8, "auto", 1), (8, "cpu", 0)])
def test_a_job_reserves_a_gpu_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_gpus: int, device: str, expected: int
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, num_gpus=num_gpus, device=device)
    cluster.start()
    assert cluster.ray.actors[0].options["num_gpus"] == expected


def test_closing_ends_the_idle_actors_and_stops_the_running_jobs(cluster: Cluster) -> None:
    done, _ = cluster.start(), cluster.start()
    cluster.ray.actors[0].job.end((0, None))
    assert done.exit_code() == 0
    cluster.pool.wait(0)
    cluster.pool.close()
    assert [name for name, _, _ in cluster.ray.actors[0].calls][-1] == "close"
    assert not cluster.ray.actors[0].is_alive
    assert [name for name, _, _ in cluster.ray.actors[1].calls][-1] == "stop"
    assert cluster.num_closed == 1
