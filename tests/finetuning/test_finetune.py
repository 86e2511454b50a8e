"""Fine-tuning from end to end, on the small grammar."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning import finetune as finetune_module
from headswap.finetuning.config import FinetuneRecipe
from headswap.inference.predict import predict_texts
from headswap.training import checkpoint
from tiny import ONE_THREAD, SCRATCH, sentences


def test_a_base_learns_the_grammar_and_scores_the_test_set(tiny_classifier: hs.Run) -> None:
    test = tiny_classifier.result["test"]
    assert test["accuracy"] > 0.95
    assert test["macro_f1"] > 0.95
    assert np.array(test["confusion"]).sum() == test["num_examples"] == 100
    assert test["majority_share"] == 0.5
    assert tiny_classifier.model.predict(["the film was superb .", "the film was dull ."]) == ["pos", "neg"]
    scores = tiny_classifier.model.predictions(["the film was superb ."])[0].scores
    assert sum(scores.values()) == pytest.approx(1)


def test_the_result_of_many_classes_is_small_and_can_be_read(tmp_path: Path) -> None:
    rows = [(f"word{number % 400} again", f"class {number % 400:03d}") for number in range(800)]
    settings = SCRATCH | {"max_steps": 2, "kind": "word", "vocab_size": 200}
    run = hs.finetune(train=rows, test=rows[:400], out=tmp_path / "run", **settings)
    test = run.result["test"]
    assert test["confusion"] is None
    assert 0 < len(test["largest_confusions"]) <= 50
    assert (run.path / "result.json").stat().st_size < 100_000
    assert len(run.model.predict_proba(["word7 again"])[0]) == 400
    assert "and 350 more" in (run.path / "bundle" / "README.md").read_text(encoding="utf-8")


def test_the_run_folder_has_all_documented_files_and_results(tiny_classifier: hs.Run) -> None:
    assert {entry.name for entry in tiny_classifier.path.iterdir()} == {
        "recipe.toml", "environment.json", "data.json", "metrics.jsonl", "ledger.json", "checkpoints", "bundle",
        "result.json", "predictions.npz",
    }  # fmt: skip
    assert {"base", "num_train", "num_validation", "best_epoch", "truncated_share", "stopped_early", "history", "test",
            "steps", "tokens", "seconds", "tokens_per_second", "peak_memory_bytes"} <= set(
        tiny_classifier.result
    )  # fmt: skip
    assert (tiny_classifier.result["num_train"], tiny_classifier.result["num_validation"]) == (192, 48)


@pytest.mark.parametrize(("epochs", "expected"), [(8, [0, 2, 4, 6, 8]), (3, [0, 1, 2, 3]), (9, [0, 3, 6, 9])])
def test_without_a_validation_set_metrics_on_the_training_set_are_computed_at_most_four_times(
    tmp_path: Path, epochs: int, expected: list[int]
) -> None:
    settings = SCRATCH | {"num_train_epochs": epochs, "batch_size": 8}
    run = hs.finetune(train=sentences(24), out=tmp_path / "run", **settings)
    assert [line["epoch"] for line in run.result["history"]] == expected
    assert all("train_accuracy" in line for line in run.result["history"])
    assert run.result["best_epoch"] == epochs


def test_checkpoints_between_two_evaluations_are_written_once_per_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SAVES", -1.0)
    settings: dict[str, Any] = SCRATCH | {"num_train_epochs": 8, "batch_size": 8, "save_total_limit": 100}

    class Stop(hs.Observer):
        def on_evaluation(self, line: dict[str, Any]) -> None:
            if line["epoch"] == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.finetune(train=sentences(24), out=tmp_path / "run", observer=Stop(), **settings)
    assert [folder.name for folder in sorted((tmp_path / "run" / "checkpoints").glob("step-*"))] == [
        "step-00000003", "step-00000006", "step-00000009",
    ], "epoch 3 has no evaluation"  # fmt: skip


def test_the_ledger_lists_every_tensor_of_the_base_as_kept(tiny_runs: Path) -> None:
    ledger = json.loads((tiny_runs / "classifier" / "ledger.json").read_text())
    start = load_file(tiny_runs / "base" / "bundle" / "model.safetensors")
    base_tensors = [name for name in start if name.startswith("base.")]
    assert ledger["carried"]["tensors"] == len(base_tensors)
    assert ledger["carried"]["parameters"] == sum(start[name].numel() for name in base_tensors)
    assert {row["tensor"] for row in ledger["tensors"] if row["status"] == "carried"} == set(base_tensors)
    assert {row["tensor"] for row in ledger["tensors"] if row["status"] == "new"} == {
        "head.output.weight",
        "head.output.bias",
    }
    assert ledger["source"] == "base", "its name, without the folders of this machine"


def test_the_validation_set_is_scored_before_the_first_step_and_after_every_epoch(tiny_classifier: hs.Run) -> None:
    scored = [line for line in tiny_classifier.metrics() if "eval_accuracy" in line]
    assert [line["epoch"] for line in scored] == [0, 1, 2, 3, 4, 5]
    assert [line["epoch"] for line in tiny_classifier.result["history"]] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("start", ["base", "scratch"])
def test_a_saved_recipe_gives_the_same_run_again(tiny_runs: Path, tmp_path: Path, start: str) -> None:
    shape = SCRATCH if start == "scratch" else {**ONE_THREAD, "base": tiny_runs / "base"}
    first = hs.finetune(train=tiny_runs / "few.jsonl", out=tmp_path / "first", max_steps=3, **shape)
    second = hs.finetune(config=first.path / "recipe.toml", out=tmp_path / "second")
    assert (first.path / "recipe.toml").read_bytes() == (second.path / "recipe.toml").read_bytes()
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (first, second)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    recipe = load_recipe(FinetuneRecipe, first.path / "recipe.toml")
    assert recipe.model.preset == ("lab" if start == "scratch" else None)


def worse_and_worse(self: Any, metrics: dict[str, Any]) -> list[float]:
    """A score that falls with every evaluation, so that the first epoch is the best."""
    self.calls = getattr(self, "calls", 0) + 1
    return [-float(self.calls)]


def test_the_bundle_has_the_best_weights_and_the_last_checkpoint_the_last_weights(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune_module._Finetuning, "_score", worse_and_worse)
    data = {"train": tiny_runs / "train.jsonl", "test": tiny_runs / "test.jsonl", "lr_scheduler_type": "constant"}
    run = hs.finetune(out=tmp_path / "run", num_train_epochs=3, **data, **SCRATCH)
    assert run.result["best_epoch"] == 1
    best = load_file(run.path / "bundle" / "model.safetensors")
    kept = load_file(run.path / "checkpoints" / "best-00000012" / "model.safetensors")
    last = load_file(run.path / "checkpoints" / "last" / "model.safetensors")
    assert all(torch.equal(best[name], kept[name]) for name in best)
    assert not torch.equal(best["base.embedding.weight"], last["base.embedding.weight"])
    # The test set was scored with the best weights.
    bundle = hs.load(run.path / "bundle").bundle
    predicted = [
        answer.label for answer in predict_texts(bundle, [text for text, _ in sentences(100, seed=2)], max_length=24)
    ]
    truth = [label for _, label in sentences(100, seed=2)]
    hits = sum(guess == label for guess, label in zip(predicted, truth, strict=True))
    assert hits / 100 == run.result["test"]["accuracy"]


def test_early_stopping_ends_the_run_after_the_patience(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune_module._Finetuning, "_score", worse_and_worse)
    run = hs.finetune(
        out=tmp_path / "run", train=tiny_runs / "train.jsonl", num_train_epochs=6, early_stopping_patience=2, **SCRATCH
    )
    assert run.result["stopped_early"] is True
    assert run.result["steps"] == 3 * 12
    assert run.result["best_epoch"] == 1


def test_below_200_examples_nothing_is_held_out_and_the_last_weights_are_kept(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.finetune(out=tmp_path / "run", train=tiny_runs / "few.jsonl", num_train_epochs=2, **SCRATCH)
    assert (run.result["num_train"], run.result["num_validation"]) == (60, 0)
    assert run.result["best_epoch"] == 2
    assert not list((run.path / "checkpoints").glob("best-*"))
    assert not any("eval_accuracy" in line for line in run.metrics())
    kept, last = (load_file(run.path / name / "model.safetensors") for name in ("bundle", "checkpoints/last"))
    assert all(torch.equal(kept[name], last[name]) for name in kept)


def test_with_a_validation_file_all_training_examples_are_used(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.finetune(
        out=tmp_path / "run",
        train=tiny_runs / "few.jsonl",
        validation=tiny_runs / "validation.jsonl",
        num_train_epochs=1,
        **SCRATCH,
    )
    assert (run.result["num_train"], run.result["num_validation"]) == (60, 30)


def test_finetuning_says_in_one_line_each_what_is_wrong_with_the_labels(
    tiny_base: hs.Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"text": f"one thing and number {number}", "label": "ab"[number % 2]} for number in range(40)]
    rows += [{"text": "one thing and number 3", "label": "a"}, {"text": "one thing and number 4", "label": "a"}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    hs.finetune(tiny_base, out=tmp_path / "run", train=tmp_path / "train.jsonl", max_steps=1, device="cpu")
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("Train: 1 text with different labels (line 4: 'b', line 41") for line in lines)
    assert any(line.startswith("Train: 1 of 42 texts repeats an earlier one") for line in lines)


def test_a_run_with_token_dropout_resumes_bit_for_bit_and_differs_from_one_without(tmp_path: Path) -> None:
    settings = {**SCRATCH, "train": sentences(60, seed=2), "num_train_epochs": 3, "save_steps": 3, "seed": 5}
    whole = hs.finetune(**settings, token_dropout=0.3, out=tmp_path / "whole")
    plain = hs.finetune(**settings, out=tmp_path / "plain")
    stopped = tmp_path / "stopped"

    class Stop(hs.Observer):
        def on_evaluation(self, line: dict[str, Any]) -> None:
            if line["epoch"] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.finetune(**settings, token_dropout=0.3, out=stopped, observer=Stop())
    resumed = hs.finetune(**settings, token_dropout=0.3, out=stopped, resume=True)
    first, second, other = (load_file(run.path / "bundle" / "model.safetensors") for run in (whole, resumed, plain))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.output.weight"], other["head.output.weight"])
    tagged = [{"tokens": ["a", "b"], "tags": ["X", "Y"]}] * 4
    with pytest.raises(SettingError, match="the task tag needs every token"):
        hs.finetune(train=tagged, token_dropout=0.3, out=tmp_path / "tags", **SCRATCH)


def test_early_stopping_without_a_validation_set_is_a_warning(
    tmp_path: Path, tiny_runs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = SCRATCH | {"num_train": 40, "num_train_epochs": 1}
    hs.finetune(out=tmp_path / "run", train=tiny_runs / "train.jsonl", early_stopping_patience=2, **few)
    assert "early_stopping_patience has no effect, because no validation set is held out." in caplog.text
