"""Tasks one after the other, on a machine of a cluster, and names that are not allowed."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headswap.core import task_pool
from headswap.core.errors import InputError, RunError, SettingError
from headswap.core.surroundings import Surroundings
from headswap.core.task_pool import TaskPool, run_on_node


def write_number(folder: str, number: int) -> None:
    (Path(folder) / str(number)).write_text(os.environ.get("HEADSWAP_CACHE", ""))


def test_tasks_run_in_order_in_this_process(tmp_path: Path) -> None:
    done: list[int] = []
    with TaskPool("local") as pool:
        pool.run(write_number, [(str(tmp_path), number) for number in range(3)], lambda: done.append(len(done)))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "1", "2"]
    assert done == [0, 1, 2]


def test_numbered_tasks_are_counted_in_messages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="headswap"), TaskPool("local") as pool:
        pool.run_numbered(write_number, str(tmp_path), [2, 5], "number written")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["2", "5"]
    assert caplog.messages == ["1 of 2: number written.", "2 of 2: number written."]


def test_a_task_on_a_machine_has_the_surroundings_of_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYON_NUM_THREADS", "7")
    monkeypatch.chdir(tmp_path)
    place = Surroundings(variables={"HEADSWAP_CACHE": "of the caller"})
    monkeypatch.setenv("HEADSWAP_CACHE", "of the machine")
    assert run_on_node(write_number, (str(tmp_path), 4), place) is None
    assert (tmp_path / "4").read_text() == "of the caller"
    assert os.environ["RAYON_NUM_THREADS"] == "1"
    problem = run_on_node(write_number, (str(tmp_path / "not here"), 4), place)
    assert "cannot read" in str(problem)


class FakeRay:
    """Runs a task when it is waited for; references are (function, arguments)."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        def __init__(self, cause: Exception) -> None:
            super().__init__(f"trace\n{cause}")
            self.cause = cause

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self) -> None:
        self.most_running = self.num_running = 0
        self.canceled: list[Any] = []

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, function: Any) -> Any:
        def start(*arguments: Any) -> Any:
            self.num_running += 1
            self.most_running = max(self.most_running, self.num_running)
            return (function, arguments)

        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=start))

    def wait(self, references: list[Any], *, num_returns: int) -> Any:
        return references[:1], references[1:]

    def get(self, reference: Any) -> Any:
        self.num_running -= 1
        try:
            return reference[0](*reference[1])
        except Exception as problem:
            raise self.RayTaskError(problem) from None

    def cancel(self, reference: Any) -> None:
        self.canceled.append(reference)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRay:
    found = FakeRay()
    monkeypatch.setattr(task_pool, "connect", lambda address, num_cpus: (found, lambda: None))
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    return found


def fail(folder: str, number: int) -> None:
    if number == 1:
        raise InputError("the file is not text")
    if number == 2:
        raise ZeroDivisionError("of a number")


def test_only_a_few_tasks_are_given_to_ray_at_a_time(tmp_path: Path, ray: FakeRay) -> None:
    with TaskPool("ray:pluto:1") as pool:
        pool.run(write_number, [(str(tmp_path), number) for number in range(20)], lambda: None)
    assert len(list(tmp_path.iterdir())) == 20
    assert ray.most_running == 4


def test_a_failure_on_ray_is_that_of_the_task_and_ends_the_others(tmp_path: Path, ray: FakeRay) -> None:
    with TaskPool("ray") as pool:
        with pytest.raises(InputError, match=r"^the file is not text$"):
            pool.run(fail, [(str(tmp_path), number) for number in (0, 1, 0)], lambda: None)
        assert len(ray.canceled) == 1
        with pytest.raises(RunError, match="A task on the Ray cluster failed: of a number"):
            pool.run(fail, [(str(tmp_path), 2)], lambda: None)
        with pytest.raises(SettingError, match="cannot read"):
            pool.run(fail, [(str(tmp_path / "not here"), 0)], lambda: None)


@pytest.mark.parametrize("name", ["slurm", "local:2", "rays"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match=f"executor = '{name}' is not allowed"):
        TaskPool(name)
