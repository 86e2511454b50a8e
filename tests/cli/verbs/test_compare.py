"""`headswap compare`."""

import pytest

from headswap.cli.exit_codes import run


def test_compare_needs_two_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "one"]) == 2
    assert "compare needs at least two run folders" in capsys.readouterr().err
