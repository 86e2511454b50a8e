"""`headswap params`."""

from pathlib import Path

import pytest

from cli_calls import call, call_json, call_wrong


def test_parameters_of_the_lab_model(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    given = ["params", "--preset", "lab", "--vocab-size", "100", "--head"]
    assert call_json(capsys, *given, "lm")["total"] == 1_008_100
    found = call_json(capsys, *given, "classify")
    assert found["total"] == 988_402 == sum(part["count"] for part in found["parts"])
    assert call_json(capsys, "params", shared / "base")["trainable"] > 0
    assert "has its own shape" in call_wrong(capsys, "params", shared / "base", "--preset", "lab")
    assert "1,008,100" in call(capsys, *given, "lm")
