"""The check of a bundle: every kind of damage is found, and a sound bundle passes all checks."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from headswap.bundle.bundle import Bundle
from headswap.bundle.check import CHECKS, check_bundle
from headswap.cli.exit_codes import run
from headswap.core.manifest import write_manifest
from headswap.data.records import Document
from headswap.model.text_model import build_model
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import build_store
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import sentences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def folder(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    shape = tiny_model_shape(head="classify", vocab_size=tokenizer.vocab_size)
    Bundle(build_model(shape, seed=3), tokenizer, ("bad", "good", "middling")).save(tmp_path / "bundle")
    return tmp_path / "bundle"


def unsound(folder: Path) -> dict[str, str]:
    return {check.name: check.message for check in check_bundle(folder) if not check.is_sound}


def test_a_bundle_as_it_was_saved_is_sound(folder: Path) -> None:
    checks = check_bundle(folder)
    assert [check.name for check in checks] == list(CHECKS)
    assert all(check.is_sound for check in checks), checks


def change_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def spoil_weights(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["head.output.bias"][0] = float("nan")
    save_file(state, folder / "model.safetensors")


def nudge_weights(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["head.output.bias"][0] += 0.01
    save_file(state, folder / "model.safetensors")


def other_tokenizer(folder: Path) -> None:
    documents = [Document("other words entirely", "tests", 1)]
    train_tokenizer(documents, TokenizerSettings(kind="bpe", vocab_size=290)).save(folder / "tokenizer.json")


@pytest.mark.parametrize(
    ("damage", "check", "words"),
    [
        (lambda folder: (folder / "README.md").write_text("mine"), "files", r"README\.md has 4 bytes"),
        (lambda folder: (folder / "golden.json").unlink(), "files", r"golden\.json is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "files", r"has no manifest\.json"),
        (lambda folder: (folder / "x.bin").write_bytes(pickle.dumps(1)), "nothing foreign", r"x\.bin may be a pickle"),
        (lambda folder: os.symlink("/etc/passwd", folder / "notes"), "nothing foreign", "notes is a link"),
        (other_tokenizer, "tokenizer", "the model was trained with"),
        (
            lambda folder: change_config(folder, label2id={"bad": 1, "good": 0, "middling": 2}),
            "labels",
            "one number and back",
        ),
        (spoil_weights, "weights", r"head\.output\.bias holds numbers that are not finite"),
        (nudge_weights, "golden outputs", "golden outputs differ"),
        (lambda folder: (folder / "golden.json").write_text("{}"), "golden outputs", "holds no golden outputs"),
    ],
)
def test_damage_is_found_by_its_check(folder: Path, damage: Callable[[Path], object], check: str, words: str) -> None:
    import re

    damage(folder)
    if check not in ("files", "nothing foreign"):
        write_manifest(folder)  # the manifest is updated, so only the other checks can find the damage
        assert "files" not in unsound(folder)
    assert re.search(words, unsound(folder)[check])


def test_doctor_checks_bundles_and_stores_and_exits_with_1_on_damage(
    folder: Path, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Verdict: no problems."
    nudge_weights(folder)
    assert run(["doctor", str(folder), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["problems"] == 2
    assert [check["name"] for check in answer["checks"] if not check["is_sound"]] == ["files", "golden outputs"]
    documents = [Document(text, "tests", line) for line, (text, _) in enumerate(sentences(20), 1)]
    build_store(documents, tokenizer, tmp_path / "store")
    assert run(["doctor", str(tmp_path / "store")]) == 0
    assert "20 documents" in capsys.readouterr().out
    content = bytearray((tmp_path / "store" / "ids.bin").read_bytes())
    content[3] ^= 1
    (tmp_path / "store" / "ids.bin").write_bytes(content)
    assert run(["doctor", str(tmp_path / "store")]) == 1
    assert "ids.bin is damaged" in capsys.readouterr().out
