"""Runs from end to end, in process, on the small grammar: what stands in the folder and what is refused."""

import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.core.errors import InputError, RunError, SettingError
from headswap.core.settings import load_recipe
from headswap.data.config import ReadSettings
from headswap.finetuning import finetune as finetune_module
from headswap.finetuning.config import FinetuneRecipe
from headswap.metrics.classification import classification_metrics, warn_of_collapse
from headswap.objectives.causal import CausalObjective
from headswap.pretraining import pretrain as pretrain_module
from headswap.pretraining import time_budget as probe_module
from headswap.pretraining.config import PretrainRecipe
from headswap.pretraining.corpus import split_documents, unigram_entropy
from headswap.tokens.cache import cached_store
from headswap.tokens.tokenizer import Tokenizer
from headswap.training.observer import Observer
from tiny import sentences, write_labelled

SHAPE: dict[str, Any] = {
    "preset": "lab",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
ONE_THREAD: dict[str, Any] = {"device": "cpu", "threads": 1}
PRETRAIN: dict[str, Any] = {**SHAPE, **ONE_THREAD, "max_length": 24, "batch_size": 8}
SCRATCH: dict[str, Any] = {**SHAPE, **ONE_THREAD, "base": "scratch", "max_length": 24, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, labelled sets and a base, made once."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    write_labelled(folder / "train.jsonl", 240, seed=1)
    write_labelled(folder / "few.jsonl", 60, seed=1)
    write_labelled(folder / "validation.jsonl", 30, seed=4)
    write_labelled(folder / "test.jsonl", 100, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        hs.pretrain(folder / "corpus.txt", out=folder / "base", max_steps=30, logging_steps=5, **PRETRAIN)
        hs.finetune(
            folder / "base",
            out=folder / "classifier",
            train=folder / "train.jsonl",
            test=folder / "test.jsonl",
            num_train_epochs=5,
            learning_rate=5e-3,
            **ONE_THREAD,
        )
    return folder


@pytest.fixture
def base(shared: Path) -> hs.Run:
    return hs.Run(shared / "base")


@pytest.fixture
def classifier(shared: Path) -> hs.Run:
    return hs.Run(shared / "classifier")


# What stands in the folder


def test_a_pretraining_folder_holds_all_that_is_promised(base: hs.Run) -> None:
    assert {entry.name for entry in base.path.iterdir()} == {
        "recipe.toml", "environment.json", "data.json", "metrics.jsonl", "checkpoints", "bundle", "result.json",
    }  # fmt: skip
    assert {"loss", "perplexity", "bits_per_byte", "references", "epochs", "steps", "tokens", "seconds",
            "tokens_per_second", "peak_memory_bytes", "device"} <= set(base.result)  # fmt: skip
    assert (base.path / "checkpoints" / "last" / "model.safetensors").is_file()
    assert base.result["steps"] == 30
    assert math.exp(base.result["loss"]) == pytest.approx(base.result["perplexity"])
    environment = json.loads((base.path / "environment.json").read_text())
    assert environment["threads"] == 1
    assert environment["versions"]["torch"]
    assert environment["seed"] == 42


def test_held_out_loss_stands_beside_its_reference_lines_and_below_knowing_nothing(base: hs.Run) -> None:
    references = base.result["references"]
    assert references["ln_vocabulary"] == pytest.approx(math.log(base.model.bundle.tokenizer.vocab_size))
    assert references["unigram_entropy"] < references["ln_vocabulary"]
    assert base.result["loss"] < references["ln_vocabulary"] - 1


def test_metrics_hold_training_and_held_out_loss_by_step(base: hs.Run) -> None:
    train = [line for line in base.metrics() if "train_loss" in line]
    held_out = [line for line in base.metrics() if "eval_loss" in line]
    assert [line["step"] for line in train] == [5, 10, 15, 20, 25, 30]
    assert held_out[0]["step"] == 0, "evaluated before the first step"
    assert held_out[-1]["step"] == 30
    assert train[-1]["train_loss"] < train[0]["train_loss"]
    assert all(isinstance(line["sample"], str) for line in held_out)
    assert train[-1]["tokens"] == base.result["tokens"]


@pytest.mark.parametrize(("name", "kind"), [("base", PretrainRecipe), ("classifier", FinetuneRecipe)])
def test_the_resolved_recipe_reloads_equal(shared: Path, tmp_path: Path, name: str, kind: type) -> None:
    recipe = load_recipe(kind, shared / name / "recipe.toml")
    recipe.save(tmp_path / "again.toml")
    assert load_recipe(kind, tmp_path / "again.toml") == recipe
    assert (tmp_path / "again.toml").read_bytes() == (shared / name / "recipe.toml").read_bytes()
    assert recipe.training.learning_rate is not None
    assert recipe.training.max_length == 24


@pytest.mark.parametrize("limit", [{"num_train_epochs": 0.3}, {"max_tokens": 900}, {"max_steps": 5}])
def test_a_saved_recipe_makes_the_same_run_again(shared: Path, tmp_path: Path, limit: dict[str, Any]) -> None:
    first = hs.pretrain(shared / "corpus.txt", out=tmp_path / "first", **PRETRAIN, **limit)
    second = hs.pretrain(config=first.path / "recipe.toml", out=tmp_path / "second")
    assert (first.path / "recipe.toml").read_bytes() == (second.path / "recipe.toml").read_bytes()
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (first, second)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("start", ["base", "scratch"])
def test_a_saved_recipe_fine_tunes_the_same_again(shared: Path, tmp_path: Path, start: str) -> None:
    shape = SCRATCH if start == "scratch" else {**ONE_THREAD, "base": shared / "base"}
    first = hs.finetune(train=shared / "few.jsonl", out=tmp_path / "first", max_steps=3, **shape)
    second = hs.finetune(config=first.path / "recipe.toml", out=tmp_path / "second")
    assert (first.path / "recipe.toml").read_bytes() == (second.path / "recipe.toml").read_bytes()
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (first, second)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    recipe = load_recipe(FinetuneRecipe, first.path / "recipe.toml")
    assert recipe.model.preset == ("lab" if start == "scratch" else None)


def test_what_is_wrong_with_several_files_is_told_at_once(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("text,stars\na,1\n")
    with pytest.raises(InputError) as caught:
        hs.finetune(
            "scratch", train=tmp_path / "tran.jsonl", validation=shared / "validation.json", test=tmp_path / "test.csv",
            out=tmp_path / "run",
        )  # fmt: skip
    said = str(caught.value).splitlines()
    assert said[0] == f"{tmp_path / 'tran.jsonl'} does not exist."
    assert said[1].endswith(f"Did you mean '{shared / 'validation.jsonl'}'?")
    assert "test.csv has no column 'label'" in said[2]
    assert not (tmp_path / "run").exists()


def test_finetuning_from_a_base_learns_the_grammar_and_scores_test(classifier: hs.Run) -> None:
    test = classifier.result["test"]
    assert test["accuracy"] > 0.95
    assert test["macro_f1"] > 0.95
    assert np.array(test["confusion"]).sum() == test["num_examples"] == 100
    assert test["majority_share"] == 0.5
    assert classifier.model.predict(["the film was superb .", "the film was dull ."]) == ["pos", "neg"]
    scores = classifier.model.predictions(["the film was superb ."])[0].scores
    assert sum(scores.values()) == pytest.approx(1)


def test_a_finetuning_folder_holds_all_that_is_promised(classifier: hs.Run) -> None:
    assert {entry.name for entry in classifier.path.iterdir()} == {
        "recipe.toml", "environment.json", "data.json", "metrics.jsonl", "ledger.json", "checkpoints", "bundle",
        "result.json", "predictions.npz",
    }  # fmt: skip
    assert {"base", "num_train", "num_validation", "best_epoch", "truncated_share", "stopped_early", "history", "test",
            "steps", "tokens", "seconds", "tokens_per_second", "peak_memory_bytes"} <= set(
        classifier.result
    )  # fmt: skip
    assert (classifier.result["num_train"], classifier.result["num_validation"]) == (192, 48)


def test_the_ledger_says_that_the_base_was_carried_whole(shared: Path) -> None:
    ledger = json.loads((shared / "classifier" / "ledger.json").read_text())
    start = load_file(shared / "base" / "bundle" / "model.safetensors")
    base_tensors = [name for name in start if name.startswith("base.")]
    assert ledger["carried"]["tensors"] == len(base_tensors)
    assert ledger["carried"]["parameters"] == sum(start[name].numel() for name in base_tensors)
    assert {row["tensor"] for row in ledger["tensors"] if row["status"] == "carried"} == set(base_tensors)
    assert {row["tensor"] for row in ledger["tensors"] if row["status"] == "new"} == {
        "head.output.weight",
        "head.output.bias",
    }
    assert ledger["source"] == str(shared / "base")


def test_validation_is_scored_before_the_first_step_and_after_every_epoch(classifier: hs.Run) -> None:
    scored = [line for line in classifier.metrics() if "eval_accuracy" in line]
    assert [line["epoch"] for line in scored] == [0, 1, 2, 3, 4, 5]
    assert [line["epoch"] for line in classifier.result["history"]] == [0, 1, 2, 3, 4, 5]


# Choosing


def worse_and_worse(self: Any, metrics: dict[str, Any]) -> list[float]:
    """A score that falls with every evaluation, so that the first epoch is the best."""
    self.calls = getattr(self, "calls", 0) + 1
    return [-float(self.calls)]


def test_the_bundle_is_the_best_by_validation_and_the_last_checkpoint_the_last(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune_module._Finetuning, "_score", worse_and_worse)
    data = {"train": shared / "train.jsonl", "test": shared / "test.jsonl", "lr_scheduler_type": "constant"}
    run = hs.finetune(out=tmp_path / "run", num_train_epochs=3, **data, **SCRATCH)
    assert run.result["best_epoch"] == 1
    best = load_file(run.path / "bundle" / "model.safetensors")
    kept = load_file(run.path / "checkpoints" / "best-00000012" / "model.safetensors")
    last = load_file(run.path / "checkpoints" / "last" / "model.safetensors")
    assert all(torch.equal(best[name], kept[name]) for name in best)
    assert not torch.equal(best["base.embedding.weight"], last["base.embedding.weight"])
    # The test set was scored with the weights that were chosen.
    bundle = hs.load(run.path / "bundle").bundle
    predicted = [answer.label for answer in finetune_predictions(bundle, shared / "test.jsonl")]
    truth = [label for _, label in sentences(100, seed=2)]
    hits = sum(guess == label for guess, label in zip(predicted, truth, strict=True))
    assert hits / 100 == run.result["test"]["accuracy"]


def finetune_predictions(bundle: hs.Bundle, file: Path) -> list[Any]:
    from headswap.inference.predict import predict_texts

    return predict_texts(bundle, [json.loads(line)["text"] for line in file.read_text().splitlines()], max_length=24)


def test_early_stopping_ends_after_the_patience_and_says_so(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune_module._Finetuning, "_score", worse_and_worse)
    run = hs.finetune(
        out=tmp_path / "run", train=shared / "train.jsonl", num_train_epochs=6, early_stopping_patience=2, **SCRATCH
    )
    assert run.result["stopped_early"] is True
    assert run.result["steps"] == 3 * 12
    assert run.result["best_epoch"] == 1


def test_under_200_labels_nothing_is_held_out_and_nothing_is_chosen(shared: Path, tmp_path: Path) -> None:
    run = hs.finetune(out=tmp_path / "run", train=shared / "few.jsonl", num_train_epochs=2, **SCRATCH)
    assert (run.result["num_train"], run.result["num_validation"]) == (60, 0)
    assert run.result["best_epoch"] == 2
    assert not list((run.path / "checkpoints").glob("best-*"))
    assert not any("eval_accuracy" in line for line in run.metrics())
    kept, last = (load_file(run.path / name / "model.safetensors") for name in ("bundle", "checkpoints/last"))
    assert all(torch.equal(kept[name], last[name]) for name in kept)


def test_a_validation_file_is_used_and_leaves_train_whole(shared: Path, tmp_path: Path) -> None:
    run = hs.finetune(
        out=tmp_path / "run",
        train=shared / "few.jsonl",
        validation=shared / "validation.jsonl",
        num_train_epochs=1,
        **SCRATCH,
    )
    assert (run.result["num_train"], run.result["num_validation"]) == (60, 30)


@pytest.mark.parametrize("role", ["validation", "test"])
def test_a_label_that_train_does_not_have_is_named(shared: Path, tmp_path: Path, role: str) -> None:
    odd = tmp_path / "odd.jsonl"
    odd.write_text('{"text": "the film was fine .", "label": "pos"}\n{"text": "so so", "label": "neutral"}\n')
    with pytest.raises(InputError, match="neutral"):
        hs.finetune(out=tmp_path / "run", train=shared / "few.jsonl", **{role: odd}, **SCRATCH)
    assert not (tmp_path / "run").exists()


def test_one_class_for_everything_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logits = torch.tensor([[2.0, 1.0]] * 4)
    metrics = classification_metrics(logits, np.array([0, 1, 1, 0]), ("neg", "pos"))
    assert (metrics["accuracy"], metrics["macro_f1"]) == (0.5, pytest.approx(1 / 3))
    with caplog.at_level(logging.WARNING):
        warn_of_collapse(metrics, role="validation")
    assert "predicts 'neg' for all 4 texts of validation" in caplog.text
    caplog.clear()
    fine = classification_metrics(torch.tensor([[2.0, 1.0], [1.0, 2.0]]), np.array([0, 1]), ("neg", "pos"))
    warn_of_collapse(fine, role="validation")
    assert not caplog.text


# The folder


def test_a_folder_that_is_not_empty_is_refused(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    for overwrite, word in ((False, "not empty"), (True, "notes.txt")):
        with pytest.raises(SettingError, match=word):
            hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=1, overwrite=overwrite, **PRETRAIN)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_overwrite_replaces_a_run(shared: Path, tmp_path: Path) -> None:
    first = hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=4, **PRETRAIN)
    assert first.result["steps"] == 4
    with pytest.raises(SettingError, match="not empty"):
        hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=2, **PRETRAIN)
    second = hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=2, overwrite=True, **PRETRAIN)
    assert second.result["steps"] == 2
    assert max(line["step"] for line in second.metrics()) == 2
    assert not (second.path / "checkpoints" / "step-00000004").exists()


def test_an_overwrite_that_cannot_start_leaves_the_old_run(shared: Path, tmp_path: Path) -> None:
    run = hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=2, **PRETRAIN)
    before = run.result
    with pytest.raises(InputError):
        hs.pretrain(tmp_path / "missing.txt", out=tmp_path / "run", max_steps=2, overwrite=True, **PRETRAIN)
    assert run.result == before


def test_adapting_with_a_mistyped_reference_leaves_the_old_run(base: hs.Run, shared: Path, tmp_path: Path) -> None:
    settings = {"max_steps": 1, "device": "cpu", "threads": 1, "out": tmp_path / "run"}
    run = hs.adapt(base, shared / "corpus.txt", **settings)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"corpsu\.txt does not exist"):
        hs.adapt(base, shared / "corpus.txt", reference=str(shared / "corpsu.txt"), overwrite=True, **settings)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_resuming_a_finished_run_does_nothing_and_returns_it(
    base: hs.Run, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain_module, "drive", lambda *_: pytest.fail("trained again"))
    before = (base.path / "result.json").read_bytes()
    again = hs.pretrain(shared / "corpus.txt", out=base.path, max_steps=30, resume=True, **PRETRAIN)
    assert again.path == base.path
    assert again.result == base.result
    assert (base.path / "result.json").read_bytes() == before


def test_resume_with_nothing_there_starts_afresh(shared: Path, tmp_path: Path) -> None:
    run = hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_steps=2, resume=True, **PRETRAIN)
    assert run.result["steps"] == 2


class StopAt(Observer):
    """Fails at a step, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] == self.step:
            raise RuntimeError("stopped by the test")


def test_resuming_with_other_settings_is_refused_and_names_them(shared: Path, tmp_path: Path) -> None:
    given = {"out": tmp_path / "run", "max_steps": 6, "save_steps": 1, **PRETRAIN}
    with pytest.raises(RuntimeError, match="by the test"):
        hs.pretrain(shared / "corpus.txt", logging_steps=2, observer=StopAt(4), **given)
    with pytest.raises(SettingError, match=r"training\.learning_rate was .* and is now 0\.5"):
        hs.pretrain(shared / "corpus.txt", logging_steps=2, learning_rate=0.5, resume=True, **given)
    run = hs.pretrain(shared / "corpus.txt", logging_steps=3, resume=True, **given)  # harmless, so allowed
    assert run.result["steps"] == 6


def test_an_unfinished_run_has_no_bundle_and_says_how_to_get_one(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="by the test"):
        hs.pretrain(
            shared / "corpus.txt", out=tmp_path / "run", max_steps=4, save_steps=1, logging_steps=2,
            observer=StopAt(2), **PRETRAIN,
        )  # fmt: skip
    with pytest.raises(InputError, match=r"has not finished.*--resume"):
        hs.load(tmp_path / "run")


def test_a_preparation_that_fails_leaves_no_folder_behind(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.txt"):
        hs.pretrain(tmp_path / "missing.txt", out=tmp_path / "run", **PRETRAIN)
    with pytest.raises(InputError, match=r"missing\.jsonl"):
        hs.finetune(out=tmp_path / "run", train=tmp_path / "missing.jsonl", **SCRATCH)
    with pytest.raises(InputError, match="nowhere"):
        hs.finetune(tmp_path / "nowhere", out=tmp_path / "run", train=shared / "few.jsonl", **ONE_THREAD)
    assert not (tmp_path / "run").exists()


# Limits


def test_minutes_become_steps_once_and_resuming_does_not_probe_again(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = []

    def probe(minutes: float, *_: Any, **__: Any) -> int:
        probes.append(minutes)
        return 6

    monkeypatch.setattr(probe_module, "_probed_steps", probe)
    given = {"out": tmp_path / "run", "max_minutes": 3.0, "save_steps": 1, "logging_steps": 2, **PRETRAIN}
    with pytest.raises(RuntimeError, match="by the test"):
        hs.pretrain(shared / "corpus.txt", observer=StopAt(4), **given)
    assert load_recipe(PretrainRecipe, tmp_path / "run" / "recipe.toml").training.max_steps == 6
    run = hs.pretrain(shared / "corpus.txt", resume=True, **given)
    assert run.result["steps"] == 6
    assert probes == [3.0]
    again = hs.pretrain(config=run.path / "recipe.toml", out=tmp_path / "again")
    assert again.result["steps"] == 6
    assert probes == [3.0], "a saved recipe brings its steps along"


def test_a_real_probe_finds_steps_and_moves_no_weight(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_module, "PROBE_SECONDS", 0.05)
    run = hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_minutes=0.003, **PRETRAIN)
    steps = load_recipe(PretrainRecipe, run.path / "recipe.toml").training.max_steps
    assert steps is not None
    assert run.result["steps"] == steps >= 1
    same = hs.pretrain(shared / "corpus.txt", out=tmp_path / "same", max_steps=steps, **PRETRAIN)
    weights = [load_file(path / "bundle" / "model.safetensors") for path in (run.path, same.path)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_limit_in_tokens_is_met_to_within_a_batch(shared: Path, tmp_path: Path) -> None:
    run = hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", max_tokens=1_000, **PRETRAIN)
    assert abs(run.result["tokens"] - 1_000) <= 2 * 8 * 24


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"max_steps": 3, "num_train_epochs": 1}, "max_steps and num_train_epochs"),
        ({"max_tokens": 3, "max_minutes": 1}, "max_tokens and max_minutes"),
    ],
)
def test_two_limits_are_refused(shared: Path, tmp_path: Path, limits: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        hs.pretrain(shared / "corpus.txt", out=tmp_path / "run", **PRETRAIN, **limits)


# Held out


def test_held_out_documents_are_never_trained_on_and_are_the_same_for_every_seed(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, scored = [], []
    make_batch = CausalObjective.make_batch

    def spy(self: CausalObjective, pieces: Any, stream: Any) -> Any:
        into.append(set(pieces.documents.tolist()))
        return make_batch(self, pieces, stream)

    monkeypatch.setattr(CausalObjective, "make_batch", spy)
    metrics = pretrain_module.held_out_metrics

    def scoring(*arguments: Any, **named: Any) -> Any:
        nonlocal into
        into = scored[-1]
        result = metrics(*arguments, **named)
        into = trained[-1]
        return result

    monkeypatch.setattr(pretrain_module, "held_out_metrics", scoring)
    for seed in (1, 2):
        trained.append([])
        scored.append([])
        into = trained[-1]
        hs.pretrain(
            shared / "corpus.txt", out=tmp_path / str(seed), num_train_epochs=1, held_out_fraction=0.1, seed=seed,
            **PRETRAIN,
        )  # fmt: skip
    train, held_out = ([set().union(*sets[run]) for run in (0, 1)] for sets in (trained, scored))
    assert held_out[0] == held_out[1]
    assert len(held_out[0]) == 30
    assert all(not train[run] & held_out[run] for run in (0, 1))
    assert train[0] == train[1] == set(range(300)) - held_out[0], "an epoch reads every other document"


def test_a_corpus_of_one_document_holds_nothing_out_and_says_that_the_loss_is_missing(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "one.txt").write_text("the film was fine and the story was warm .\n")
    run = hs.pretrain(tmp_path / "one.txt", out=tmp_path / "run", max_steps=2, tokenizer=shared / "base", **PRETRAIN)
    assert run.result["loss"] is None
    assert "Held-out loss is missing" in caplog.text


def test_unigram_entropy_of_a_known_corpus(shared: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(shared / "base")
    assert len(tokenizer.encode(".")) == 1
    (tmp_path / "c.txt").write_text(".\n" * 8)
    store = cached_store([str(tmp_path / "c.txt")], ReadSettings(documents="line"), tokenizer)
    assert unigram_entropy(store, tokenizer) == pytest.approx(math.log(2)), "half of the tokens are <eos>"
    train, held_out = split_documents(store, 0.25)
    assert (len(train), len(held_out)) == (6, 2)


# Bases and tokenizers


def test_a_tokenizer_that_is_not_the_bases_is_refused(shared: Path, tmp_path: Path) -> None:
    other = hs.pretrain(
        shared / "corpus.txt", out=tmp_path / "other", max_steps=1, kind="word", vocab_size=64, **PRETRAIN
    )
    with pytest.raises(SettingError, match="is not the tokenizer of"):
        hs.finetune(
            shared / "base", out=tmp_path / "run", train=shared / "few.jsonl", tokenizer=other.path, **ONE_THREAD
        )


@pytest.mark.parametrize("name", ["hidden_size", "preset"])
def test_a_shape_beside_a_base_is_refused(shared: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=f"{name}: a base that is carried over has its own"):
        hs.finetune(shared / "base", out=tmp_path / "run", train=shared / "few.jsonl", **{name: SHAPE[name]})


def test_a_misspelt_setting_is_an_error_that_says_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"learning_rat is not a setting. Did you mean 'learning_rate'"):
        hs.pretrain("corpus.txt", out=tmp_path / "run", learning_rat=1)


# Numbers that are not finite


def test_a_loss_that_is_not_finite_stops_the_run_and_changes_nothing(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss_sum = CausalObjective.loss_sum
    calls = []

    def broken(self: CausalObjective, model: Any, batch: Any) -> Any:
        if model.training:
            calls.append(batch.documents)
        loss = loss_sum(self, model, batch)
        return loss * float("nan") if model.training and len(calls) >= 6 else loss

    monkeypatch.setattr(CausalObjective, "loss_sum", broken)
    with pytest.raises(RunError) as caught:
        hs.pretrain(
            shared / "corpus.txt", out=tmp_path / "run", max_steps=12, save_steps=2, seed=3, learning_rate=2e-3,
            lr_scheduler_type="constant", warmup_steps=0, eval_steps=100, **PRETRAIN,
        )  # fmt: skip
    message = str(caught.value)
    assert "Loss became nan at step 6 (seed 3, learning rate 0.002, documents " in message
    assert f"documents {calls[5][0]}, " in message
    assert "step-00000004" in message
    assert caught.value.exit_code == 1
    checkpoints = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*"))
    assert checkpoints == ["step-00000002", "step-00000004"]
    last = load_file(tmp_path / "run" / "checkpoints" / "last" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in last.values())
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_corpus_that_is_read_often_is_read_with_dropout(corpus_file: Path, tmp_path: Path) -> None:
    def run(name: str, **settings: Any) -> hs.Run:
        defaults = {**SHAPE, "preset": "small", "num_train_epochs": 5.0, "batch_size": 64, "max_length": 16}
        return hs.pretrain(corpus_file, out=tmp_path / name, **(defaults | settings))

    def dropout_of(run: hs.Run) -> float | None:
        assert run.model.bundle.model.base.layers[0].attention.dropout == 0
        assert run.model.bundle.model.base.layers[0].dropout == run.model.bundle.model.shape.base.dropout
        return load_recipe(PretrainRecipe, run.path / "recipe.toml").model.dropout

    often = run("often")
    assert dropout_of(often) == 0.1
    assert run("the same", dropout=0.1).result["loss"] == often.result["loss"]
    assert dropout_of(run("very often", num_train_epochs=11.0)) == 0.2
    assert dropout_of(run("once", num_train_epochs=1.0)) == 0
    assert dropout_of(run("masked", objective="masked")) == 0
    assert dropout_of(run("stated", dropout=0.0)) == 0
    assert run("lab", preset="lab").model.bundle.model.shape.base.dropout == 0


def test_epochs_that_are_left_to_us_are_many_and_end_when_validation_stops_rising(shared: Path, tmp_path: Path) -> None:
    ours = hs.finetune(out=tmp_path / "ours", train=shared / "train.jsonl", **SCRATCH)
    training = load_recipe(FinetuneRecipe, ours.path / "recipe.toml").training
    assert (training.num_train_epochs, training.early_stopping_patience) == (20, 5)
    best, last = ours.result["best_epoch"], max(line["epoch"] for line in ours.metrics() if "eval_loss" in line)
    assert last == min(20, best + 5)
    stated = hs.finetune(out=tmp_path / "stated", train=shared / "train.jsonl", num_train_epochs=1, **SCRATCH)
    assert load_recipe(FinetuneRecipe, stated.path / "recipe.toml").training.early_stopping_patience is None
