"""How tests call the command line: `call` for a command that must work, `call_wrong` for one that must be refused."""

import json
import subprocess
import sys
from typing import Any

import pytest

from headswap.cli.exit_codes import run
from tiny import ONE_LAYER

SHAPE = ONE_LAYER
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
MACHINE = ["--device=cpu", "--threads=1"]


def call(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """Standard output of a command that must work."""
    code = run([str(part) for part in argv])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def call_json(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    """The one object that a verb prints with --json."""
    out = call(capsys, *argv, "--json")
    assert out.count("\n") == 1, "one object on one line"
    return json.loads(out)


def call_wrong(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 2) -> str:
    """The message of a command that must be refused."""
    found = run([str(part) for part in argv])
    out, err = capsys.readouterr()
    assert found == code, err
    assert out == "", "nothing on standard output"
    assert err.startswith("headswap: ")
    assert "Traceback" not in err
    assert err.rstrip().endswith((".", "?"))
    return err


def modules_after(*argv: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = (
        "import sys\nfrom headswap.cli.exit_codes import run\n"
        f"assert run({list(argv)!r}) == 0\n"
        "print('\\n' + ' '.join(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())
