"""The card: labels and figures, no absolute path, and code that runs."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from bundles import make_bundle
from headswap.bundle.card import card_text
from headswap.cli.exit_codes import run
from headswap.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
CODE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def test_the_card_names_the_labels_and_how_it_was_made(saved: Path) -> None:
    card = (saved / "README.md").read_text()
    assert "labels: bad, good, middling" in card
    assert "- seed: 3" in card
    assert "library_name: headswap" in card


@pytest.mark.parametrize(
    ("base", "shown"),
    [
        ("/home/me/runs/base", "base"),
        ("/home/me/runs/base/bundle", "base"),
        ("runs/base", "base"),
        ("box:reviews-en", "box:reviews-en"),
        ("scratch", "scratch"),
    ],
)
@pytest.mark.parametrize("key", ["base", "adapted from", "went on from"])
def test_a_base_is_shown_by_its_name_and_never_by_an_absolute_path(
    tokenizer: Tokenizer, key: str, base: str, shown: str
) -> None:
    card = card_text(replace(make_bundle(tokenizer), card={key: base, "data": "/home/me/train.csv", "seed": 1}))
    assert f"- {key}: {shown}\n- data: train.csv\n- seed: 1\n" in card
    assert "/home" not in card


@pytest.mark.parametrize(
    ("head", "direction", "is_pair", "call"),
    [
        ("lm", "causal", False, "model.generate("),
        ("lm", "bidirectional", False, "model.fill("),
        ("classify", "causal", False, "model.predict("),
        ("classify", "causal", True, "model.predict("),
        ("tag", "causal", False, "model.predict("),
        ("span", "causal", False, "model.predict("),
    ],
)
def test_the_code_of_a_card_runs_in_its_folder(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    head: str, direction: str, is_pair: bool, call: str,
) -> None:  # fmt: skip
    bundle = make_bundle(tokenizer, head, direction=direction)
    replace(bundle, task=bundle.task.changed(reads_pairs=is_pair)).save(tmp_path / "bundle")
    monkeypatch.chdir(tmp_path / "bundle")
    blocks = dict(CODE.findall(Path("README.md").read_text()))
    assert set(blocks) == {"sh", "python"}
    assert call in blocks["python"]
    assert run(shlex.split(blocks["sh"])[1:]) == 0
    assert capsys.readouterr().out.strip()
    exec(blocks["python"], {})
    assert capsys.readouterr().out.strip()
