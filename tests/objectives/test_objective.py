"""Every pre-training objective end to end: training, bundles, fill, embed, adapt."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.cli.exit_codes import run
from headswap.registry import OBJECTIVES
from tiny import STORY_SETTINGS, sentences

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=list(OBJECTIVES))
def base(request: pytest.FixtureRequest, stories: Path) -> Any:
    """One base per objective."""
    steps = 400 if request.param == "masked+nsp" else 250
    settings = {**STORY_SETTINGS, "max_steps": steps, "vocab_size": 280, "held_out_fraction": 0.2}
    unit = {} if "causal" in request.param else {"mask_unit": "word"}
    out = stories / request.param
    return hs.pretrain(stories / "corpus.txt", out=out, objective=request.param, learning_rate=5e-3, **settings, **unit)


def test_every_objective_gets_below_the_unigram_entropy(base: Any) -> None:
    result = base.result
    assert result["loss"] < result["references"]["unigram_entropy"] - 0.3
    assert (result["bits_per_byte"] is None) == ("causal" not in result["objective"])
    lines = [line for line in base.metrics() if "train_loss" in line]
    for name in ("nsp", "sop"):
        asked = result["objective"].endswith(name)
        assert (f"{name}_accuracy" in result) == asked
        assert (result.get(f"{name}_pairs", 0) > 0) == asked
        assert all((f"train_{name}_loss" in line) == asked for line in lines)


def test_a_bundle_of_every_objective_reloads_to_the_same_outputs_and_scores(base: Any, stories: Path) -> None:
    assert hs.load(base.path).bundle.verify() == []
    first = json.loads(_output(["evaluate", str(base.path), str(stories / "corpus.txt"), "--json"]))
    second = json.loads(_output(["evaluate", str(base.path), str(stories / "corpus.txt"), "--json"]))
    assert first == second
    assert first["loss"] == pytest.approx(base.result["loss"], abs=0.5)


def _output(argv: list[str]) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert run(argv) == 0
    return stream.getvalue()


def test_every_base_can_be_fine_tuned(base: Any, stories: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    rows = [json.dumps({"text": text, "label": label}) for text, label in sentences(64, seed=5)]
    file.write_text("\n".join(rows), encoding="utf-8")
    settings = {"num_train_epochs": 1, "device": "cpu", "threads": 1}
    run = hs.finetune(base, train=file, out=tmp_path / "run", **settings)
    ledger = json.loads((run.path / "ledger.json").read_text())
    tensors = [row for row in ledger["tensors"] if row["tensor"].startswith("base.")]
    assert all(row["status"] == "carried" for row in tensors)
    dropped = {row["tensor"].split(".")[0] for row in ledger["tensors"] if row["status"] == "dropped"}
    assert ("pair_head" in dropped) == ("+" in base.result["objective"] and "causal" not in base.result["objective"])


def test_fill_and_generate_name_the_right_verb_in_their_errors(base: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if base.result["objective"] == "causal+masked":
        assert [run([verb, str(base.path), "the film was <mask>", "--quiet"]) for verb in ("generate", "fill")] == [
            0,
            0,
        ]
        return
    is_causal = base.result["objective"] == "causal"
    fits, wrong = ("generate", "fill") if is_causal else ("fill", "generate")
    assert run([fits, str(base.path), "the film was <mask>", "--quiet"]) == 0
    assert run([wrong, str(base.path), "the film was <mask>"]) == 2
    assert f"Use headswap {fits}." in capsys.readouterr().err


def test_embed_gives_one_vector_per_text_independent_of_the_batch(base: Any, tmp_path: Path) -> None:
    texts = [text for text, _ in sentences(7, seed=9)]
    file = tmp_path / "vectors.npy"
    assert run(["embed", str(base.path), *texts, "--out", str(file), "--quiet"]) == 0
    vectors = np.load(file, allow_pickle=False)
    assert vectors.shape == (7, 32)
    alone = json.loads(_output(["embed", str(base.path), texts[3]]))
    np.testing.assert_allclose(vectors[3], alone["vector"], atol=1e-5)


def test_a_text_without_a_mask_cannot_be_filled(stories: Path, base: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if base.result["objective"] == "causal":
        return
    assert run(["fill", str(base.path), "the film was fine ."]) == 2
    assert "no <mask>" in capsys.readouterr().err


def test_adapting_lowers_the_loss_on_new_text_and_reports_the_loss_on_old_text(
    base: Any, stories: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.txt"
    text = [f"our {text.replace('the', 'this')} so they say . it is sold ." for text, _ in sentences(300, seed=8)]
    new.write_text("\n".join(text), encoding="utf-8")
    settings = {
        "max_steps": 60,
        "batch_size": 8,
        "held_out_fraction": 0.2,
        "device": "cpu",
        "threads": 1,
        "reference": stories / "corpus.txt",
    }
    run = hs.adapt(base, new, out=tmp_path / "adapted", **settings)
    result = run.result
    assert result["loss"] < result["before"]["loss"] - 0.2
    assert result["reference"]["loss_before"] == pytest.approx(base.result["loss"], abs=0.5)
    assert result["reference"]["loss_after"] != result["reference"]["loss_before"]
    assert run.model.bundle.tokenizer.fingerprint == base.model.bundle.tokenizer.fingerprint
    assert run.model.bundle.objective == base.result["objective"]
