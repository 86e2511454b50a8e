"""Make the back end that the value of `--executor` names."""

from headswap.core.errors import SettingError
from headswap.study.executors.backend import Backend
from headswap.study.executors.local import LocalWorkers, visible_gpus

LOCAL = "local"
NAMES = (LOCAL, "ray", "ray:ADDRESS", "slurm", "slurm:PARTITION")


def default_jobs(name: str, device: str) -> int:
    """The number of jobs in parallel if none is given: one, or one per GPU that local jobs may use."""
    if name != LOCAL or device == "cpu":
        return 1
    return max(1, len(visible_gpus(device)))


def make_backend(name: str, *, parallel: int, cores: int, device: str = "auto") -> Backend:
    """The back end of a name: `local`, `ray`, `ray:ADDRESS`, `slurm` or `slurm:PARTITION`.

    `cores` is the number of CPU cores of this machine that jobs may use.
    """
    kind, _, place = name.partition(":")
    if kind == LOCAL and not place:
        return LocalWorkers(parallel, gpus=visible_gpus(device) if parallel > 1 else [])
    if kind == "ray":
        from headswap.study.executors.ray_workers import RayWorkers

        return RayWorkers(place or None, parallel=parallel, cores=cores, device=device)
    if kind == "slurm":
        from headswap.study.executors.slurm_jobs import SlurmJobs

        return SlurmJobs(place or None, device=device)
    raise SettingError(f"executor = '{name}' is not allowed. Give one of: {', '.join(NAMES)}.")
