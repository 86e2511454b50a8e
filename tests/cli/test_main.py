"""The entry point."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headswap.cli.main import main


def test_ctrl_c_prints_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    def interrupt(*_args: object, **_values: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headswap.bundle.bundle.Bundle.load", interrupt)
    monkeypatch.setattr("sys.argv", ["headswap", "predict", str(shared / "classifier"), "a film"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capsys.readouterr() == ("", "headswap: Interrupted.\n")


@pytest.mark.parametrize(("flag", "code"), [("--version", 0), ("--nosuch", 2)])
def test_a_process_of_torchrun_ends_without_finalization_of_python(flag: str, code: int) -> None:
    """Its output and exit code are those of any process, and functions of atexit are run."""
    script = (
        "import atexit, sys\n"
        "class Kept:\n"
        "    def __del__(self): print('finalized')\n"
        "kept = Kept()\n"
        "atexit.register(print, 'at exit')\n"
        f"sys.argv = ['headswap', '{flag}']\n"
        "from headswap.cli.main import main\n"
        "main()\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], env=os.environ | more, capture_output=True, text=True)
        for more in ({}, {"TORCHELASTIC_RUN_ID": "none", "RANK": "0"})
    ]
    assert [run.returncode for run in runs] == [code, code]
    assert runs[0].stdout == runs[1].stdout + "finalized\n"
    assert runs[1].stdout.endswith("at exit\n")
    assert runs[0].stderr == runs[1].stderr
