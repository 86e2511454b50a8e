"""Every pre-training objective end to end: training, bundles, fill, embed, adapt."""

import contextlib
import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError, SettingError
from headswap.objectives.registry import PRETRAINING
from headswap.pretraining.warnings import PlateauWarning
from tiny import NOUNS, TINY_SETTINGS, sentences

SETTINGS = {**TINY_SETTINGS, "max_length": 48}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus of documents of several sentences."""
    folder = tmp_path_factory.mktemp("objectives")
    texts = [text for text, _ in sentences(900)]
    documents = [" ".join(texts[at : at + 6]) for at in range(0, len(texts), 6)]
    (folder / "corpus.txt").write_text("\n".join(documents) + "\n", encoding="utf-8")
    (folder / "lines.txt").write_text("\n".join(text.rstrip(" .") for text in texts[:200]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=list(PRETRAINING))
def base(request: pytest.FixtureRequest, shared: Path) -> Any:
    """One base per objective."""
    steps = 400 if request.param == "masked+nsp" else 250
    settings = {**SETTINGS, "max_steps": steps, "vocab_size": 280, "held_out_fraction": 0.2}
    unit = {} if request.param == "causal" else {"mask_unit": "word"}
    out = shared / request.param
    return hs.pretrain(shared / "corpus.txt", out=out, objective=request.param, learning_rate=5e-3, **settings, **unit)


def test_every_objective_gets_below_the_unigram_entropy(base: Any) -> None:
    result = base.result
    assert result["loss"] < result["references"]["unigram_entropy"] - 0.3
    assert (result["bits_per_byte"] is None) == (result["objective"] != "causal")
    lines = [line for line in base.metrics() if "train_loss" in line]
    for name in ("nsp", "sop"):
        asked = result["objective"].endswith(name)
        assert (f"{name}_accuracy" in result) == asked
        assert (result.get(f"{name}_pairs", 0) > 0) == asked
        assert all((f"train_{name}_loss" in line) == asked for line in lines)


def test_a_bundle_of_every_objective_reloads_to_the_same_outputs_and_scores(base: Any, shared: Path) -> None:
    assert hs.load(base.path).bundle.verify() == []
    first = json.loads(_output(["evaluate", str(base.path), str(shared / "corpus.txt"), "--json"]))
    second = json.loads(_output(["evaluate", str(base.path), str(shared / "corpus.txt"), "--json"]))
    assert first == second
    assert first["loss"] == pytest.approx(base.result["loss"], abs=0.5)


def _output(argv: list[str]) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert run(argv) == 0
    return stream.getvalue()


def test_every_base_can_be_fine_tuned(base: Any, shared: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    rows = [json.dumps({"text": text, "label": label}) for text, label in sentences(64, seed=5)]
    file.write_text("\n".join(rows), encoding="utf-8")
    settings = {"num_train_epochs": 1, "device": "cpu", "threads": 1}
    run = hs.finetune(base, train=file, out=tmp_path / "run", **settings)
    ledger = json.loads((run.path / "ledger.json").read_text())
    tensors = [row for row in ledger["tensors"] if row["tensor"].startswith("base.")]
    assert all(row["status"] == "carried" for row in tensors)
    dropped = {row["tensor"].split(".")[0] for row in ledger["tensors"] if row["status"] == "dropped"}
    assert ("pair_head" in dropped) == ("+" in base.result["objective"])


def test_fill_and_generate_name_the_right_verb_in_their_errors(base: Any, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_fill_learns_the_grammar(shared: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "max_steps": 250, "learning_rate": 5e-3, "kind": "word", "objective": "masked"}
    masked = hs.pretrain(shared / "corpus.txt", out=tmp_path / "masked", **settings)
    answer = json.loads(_output(["fill", str(masked.path), "the <mask> was fine .", "--json", "--top-k", "8"]))
    assert {candidate["token"] for candidate in answer["masks"][0]} == set(NOUNS)
    assert sum(candidate["score"] for candidate in answer["masks"][0]) > 0.9
    assert answer["text"].startswith(f"the {answer['masks'][0][0]['token']} was fine")


def test_a_text_without_a_mask_cannot_be_filled(shared: Path, base: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if base.result["objective"] == "causal":
        return
    assert run(["fill", str(base.path), "the film was fine ."]) == 2
    assert "no <mask>" in capsys.readouterr().err


def test_masks_do_not_depend_on_accumulation(shared: Path, tmp_path: Path) -> None:
    losses = []
    for parts in (1, 4):
        settings = {**SETTINGS, "max_steps": 6, "logging_steps": 1, "objective": "masked+nsp", "vocab_size": 280}
        run = hs.pretrain(
            shared / "corpus.txt", out=tmp_path / str(parts), gradient_accumulation_steps=parts, **settings
        )
        losses.append([line["train_loss"] for line in run.metrics() if "train_loss" in line])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_run_logs_examples_of_inputs_and_targets(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**SETTINGS, "max_steps": 1, "vocab_size": 280}
    hs.pretrain(shared / "corpus.txt", out=tmp_path / "masked", objective="masked", **settings)
    shown = [record.getMessage() for record in caplog.records if "Example row with its targets" in record.getMessage()]
    assert any("<mask>[" in line for line in shown)
    caplog.clear()
    hs.pretrain(shared / "corpus.txt", out=tmp_path / "pairs", objective="masked+nsp", **settings)
    shown = [record.getMessage() for record in caplog.records if "Example row with its targets" in record.getMessage()]
    assert "<sep>" in shown[0]
    assert " pair) <sos>" in shown[0]
    caplog.clear()
    hs.pretrain(shared / "corpus.txt", out=tmp_path / "causal", **settings)
    assert any("<sos> -> the | the ->" in record.getMessage() for record in caplog.records)


def test_a_plateau_at_the_unigram_entropy_is_one_warning(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**SETTINGS, "max_steps": 40, "eval_steps": 5, "learning_rate": 1e-7, "objective": "masked"}
    hs.pretrain(shared / "corpus.txt", out=tmp_path / "flat", **settings)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("the unigram entropy" in record.getMessage() for record in warnings) == 1


@pytest.mark.parametrize(("loss", "place"), [(5.0, "at"), (4.9, "at"), (6.0, "above")])
def test_the_warning_states_whether_the_loss_is_at_or_above_the_entropy(
    caplog: pytest.LogCaptureFixture, loss: float, place: str
) -> None:
    PlateauWarning(5.0, is_masked=False).check(loss, 50, 100, 1e-3)
    assert f"is still {place} the unigram entropy 5.000" in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask_unit": "word"}, "no effect with the causal objective"),
        ({"objective": "masked+nsp", "layout": "documents"}, "rows are pairs"),
        ({"objective": "masked+nsp", "type_vocab_size": 1}, "needs 2"),
    ],
)
def test_settings_that_do_not_apply_to_the_objective_are_errors(
    shared: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=1, **SETTINGS, **settings)
    assert not (tmp_path / "run").exists()


def test_pairs_need_documents_of_several_sentences(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has two sentences"):
        hs.pretrain(shared / "lines.txt", out=tmp_path / "run", objective="masked+nsp", max_steps=1, **SETTINGS)


def test_adapting_lowers_the_loss_on_new_text_and_reports_the_loss_on_old_text(
    base: Any, shared: Path, tmp_path: Path
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
        "reference": shared / "corpus.txt",
    }
    run = hs.adapt(base, new, out=tmp_path / "adapted", **settings)
    result = run.result
    assert result["loss"] < result["before"]["loss"] - 0.2
    assert result["reference"]["loss_before"] == pytest.approx(base.result["loss"], abs=0.5)
    assert result["reference"]["loss_after"] != result["reference"]["loss_before"]
    assert run.model.bundle.tokenizer.fingerprint == base.model.bundle.tokenizer.fingerprint
    assert run.model.bundle.objective == base.result["objective"]


def test_adapting_with_another_objective_is_an_error(base: Any, shared: Path, tmp_path: Path) -> None:
    other = "masked" if base.result["objective"] == "causal" else "causal"
    with pytest.raises(SettingError, match="was pre-trained with"):
        hs.adapt(base, shared / "corpus.txt", out=tmp_path / "run", objective=other)
