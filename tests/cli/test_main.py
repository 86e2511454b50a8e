"""The entry point."""

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
