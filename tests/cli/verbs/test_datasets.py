"""`headswap datasets`."""

import pytest

from cli_calls import call_json


def test_data_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    names = {entry["name"] for entry in call_json(capsys, "datasets")["datasets"]}
    assert any("movies" in name for name in names)
    assert any("chitchat" in name for name in names)
