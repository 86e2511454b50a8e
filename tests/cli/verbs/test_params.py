"""`headswap params`."""

import json
from pathlib import Path

import pytest

from cli_calls import call, call_json, call_wrong
from headswap.cli.exit_codes import run
from headswap.finetuning.config import AdaptationSettings
from headswap.finetuning.layer_rates import count, freeze
from headswap.model.text_model import build_model
from tiny import tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")


def test_parameters_of_the_lab_model(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    given = ["params", "--preset", "lab", "--vocab-size", "100", "--head"]
    assert call_json(capsys, *given, "lm")["total"] == 1_008_100
    found = call_json(capsys, *given, "classify")
    assert found["total"] == 988_402 == sum(part["count"] for part in found["parts"])
    assert call_json(capsys, "params", shared / "base")["trainable"] > 0
    assert "has its own shape" in call_wrong(capsys, "params", shared / "base", "--preset", "lab")
    assert "1,008,100" in call(capsys, *given, "lm")


@pytest.mark.parametrize("trainable", ["all", "head", "top-1", "biases", "lora"])
def test_params_counts_trainable_and_all_parameters(trainable: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--preset", "small", "--hidden-size", "32", "--num-hidden-layers", "2", "--intermediate-size", "48"]
    argv = ["params", *shape, "--vocab-size", "61", "--head", "classify", "--trainable", trainable, "--json"]
    assert run(argv) == 0
    account = json.loads(capsys.readouterr().out)
    settings = AdaptationSettings(trainable=trainable)
    whole = tiny_model_shape(head="classify").changed(num_labels=2, lora=settings.lora())
    model = build_model(whole, seed=0)
    freeze(model, settings)
    assert (account["total"], account["trainable"]) == count(model)
