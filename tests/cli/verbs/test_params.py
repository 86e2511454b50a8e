"""`headswap params`."""

import json
from pathlib import Path

import pytest

from cli_calls import call, call_json, call_wrong
from headswap.cli.app import make_app
from headswap.cli.exit_codes import run
from headswap.cli.help_page import entries_of
from headswap.cli.help_tables import HIDDEN
from headswap.finetuning.config import AdaptationSettings
from headswap.finetuning.layer_rates import count, freeze
from headswap.model.text_model import build_model
from tiny import tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = (
    "--hidden-size=32",
    "--num-hidden-layers=2",
    "--num-attention-heads=2",
    "--intermediate-size=48",
    "--vocab-size=61",
)
CHANGES = {
    "head": "tag", "num_labels": "7", "trainable": "head", "lora_rank": "3", "lora_targets": "qkv",
    "preset": "lab", "vocab_size": "99", "max_length": "77", "hidden_size": "64", "num_hidden_layers": "3",
    "intermediate_size": "32", "positions": "learned", "normalization": "rms", "final_norm": "no",
    "activation": "swiglu", "embedding_norm": "", "type_vocab_size": "3", "tied_head": "no",
    "lm_head_transform": "gelu", "pooling": "mean+max", "head_hidden": "tanh", "head_bias": "no",
}  # fmt: skip
"""Another value per setting of the help page; an empty text or no is for a flag without a value."""
SHAPES = [
    ("--head=none", "--positions=learned"),
    ("--head=lm",),
    ("--head=classify",),
    ("--head=classify", "--trainable=lora"),
]
"""The models in which one of the settings makes a difference."""


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


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_of_the_page_changes_a_count(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    flag, value = name.replace("_", "-"), CHANGES[name]
    given = f"--{flag}={value}" if value not in ("", "no") else f"--{value and 'no-'}{flag}"
    found = []
    for shape in SHAPES:
        plain = [*TINY, *shape]
        changed = [part for part in plain if not part.startswith(f"--{flag}=")]
        if name in ("lora_rank", "lora_targets") and "--trainable=lora" not in plain:
            continue
        if name == "trainable" and "--head=classify" not in plain:
            continue
        found.append(call_json(capsys, "params", *plain) != call_json(capsys, "params", *changed, given))
    assert any(found)


def test_settings_that_change_no_count_are_not_on_the_page_and_refused(capsys: pytest.CaptureFixture[str]) -> None:
    entries = [entry for entry in entries_of(make_app(), "params") if entry.name not in HIDDEN["params"]]
    named = {entry.name for entry in entries if entry.group not in ("Arguments", "Output")}
    assert named - set(CHANGES) == {"num_attention_heads"}, "its page says that it changes no count"
    for flag in ("--norm=post", "--dropout=0.3", "--head-dropout=0.3", "--head-similarity=cosine"):
        said = call_wrong(capsys, "params", "--head=classify", flag)
        assert f"{flag.partition('=')[0]}: no effect in headswap params. Leave it out." in said
    said = call_wrong(capsys, "params", "--head=classify", "--trainable=lora", "--lora-alpha=3", "--unfreeze=gradual")
    assert "--lora-alpha, --unfreeze: no effect in headswap params." in said
