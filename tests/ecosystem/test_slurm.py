"""A study on a real Slurm cluster, where there is one: bits, and a driver that is killed while its jobs run."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("submitit", reason="needs submitit: make test-ecosystem")
if shutil.which("sinfo") is None or subprocess.run(["sinfo"], capture_output=True).returncode != 0:
    pytest.skip("needs a Slurm cluster (Debian: slurm-wlm)", allow_module_level=True)

from headswap.study.run import run_study
from study_fixture import sections_of

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("one_thread")]
DRIVER = """
import json, sys
from pathlib import Path
from headswap.study.run import run_study
run_study(out=Path(sys.argv[1]), sections=json.loads(Path(sys.argv[2]).read_text()), executor="slurm")
"""


def test_a_killed_driver_takes_its_job_over_and_the_bits_are_those_of_local_jobs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = sections_of(tmp_path, arms=("scratch",), budgets=("40",), seeds=1)
    given["finetune"] = {"num_train_epochs": 60}
    (tmp_path / "sections.json").write_text(json.dumps(given), encoding="utf-8")
    local, out = tmp_path / "local", tmp_path / "slurm"
    assert not run_study(out=local, sections=given).outcome.failed
    command = [sys.executable, "-c", DRIVER, str(out), str(tmp_path / "sections.json")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as driver:
        while not list(out.glob("runs/scratch-*/recipe.toml")):
            assert driver.poll() is None, "it was killed too late"
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
    study = run_study(out=out, sections=given, executor="slurm")
    assert not study.outcome.failed
    assert "of an earlier process; it is taken over" in caplog.text
    names = [file.relative_to(local) for file in local.rglob("*.safetensors")]
    assert names
    for name in names:
        assert (local / name).read_bytes() == (out / name).read_bytes(), name
