"""Defaults that depend on the data and on the base."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.defaults.finetuning import (
    POOLINGS,
    FinetuningFacts,
    batch_size_of,
    finetuning_batch_size,
    finetuning_rate,
    head_init,
    head_shape,
    unfreezes_gradually,
    values_behind_finetuning,
    with_scratch_settings,
)
from headswap.defaults.pretraining import PretrainingFacts, pretraining_rate, resolve_pretraining
from headswap.finetuning.config import FinetuneRecipe, FinetuneTraining
from headswap.pretraining import pretrain
from headswap.pretraining.config import PretrainRecipe
from tiny import ONE_LAYER, ONE_THREAD, SCRATCH, TINY_LAYERS, sentences

SHAPE_FACTS: dict[str, Any] = {
    "hidden_size": 256,
    "num_layers": 6,
    "num_rows": 1_000,
    "steps_per_epoch": 50,
    "pooling": "mean",
}
SHAPE = {**ONE_LAYER, "hidden_size": 16, "intermediate_size": 16, "max_length": 24}


def facts_with(**changes: Any) -> FinetuningFacts:
    """What the defaults of some fine-tuning depend on."""
    return FinetuningFacts(**(SHAPE_FACTS | changes))


def recipe_with(**head: Any) -> FinetuneRecipe:
    """The recipe of a fine-tuning with these settings of the head."""
    return load_recipe(FinetuneRecipe, None, {"data": {"train": "x"}, "head": head})


@pytest.mark.parametrize(
    ("tokens_per_parameter", "at_128"), [(0.0, 4.2e-4), (2.99, 8.5e-4), (3.0, 1.4e-4), (20.0, 1.4e-4), (None, 1.4e-4)]
)
def test_the_rate_depends_on_the_training_tokens_per_parameter(
    tokens_per_parameter: float | None, at_128: float
) -> None:
    assert finetuning_rate(128, tokens_per_parameter=tokens_per_parameter) == at_128


def test_the_rate_of_sufficiently_trained_bases_does_not_fall_above_width_256() -> None:
    assert [finetuning_rate(width, tokens_per_parameter=5.0) for width in (256, 512)] == [1e-4, 1e-4]
    assert finetuning_rate(512, tokens_per_parameter=0.0) == 2.1e-4


@pytest.mark.parametrize(
    ("epochs", "layers", "tokens_per_parameter", "expected"),
    [
        (20, 6, 5.0, True),
        (14, 6, None, True),
        (13.9, 6, 5.0, False),
        (3, 6, 5.0, False),
        (20, 12, 5.0, False),
        (20, 6, 2.9, False),
        (20, 6, 0.0, False),
    ],
)
def test_gradual_unfreezing_is_the_default_in_long_runs_of_well_trained_bases(
    epochs: float, layers: int, tokens_per_parameter: float | None, expected: bool
) -> None:
    assert unfreezes_gradually(epochs, layers, tokens_per_parameter=tokens_per_parameter) == expected


def test_the_recorded_training_tokens_of_a_base_determine_its_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two steps are fewer than three tokens per parameter; 250 more steps are enough."""
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(60)), encoding="utf-8")
    rows = "".join(f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in sentences(24))
    (tmp_path / "train.jsonl").write_text(rows, encoding="utf-8")
    given = {"vocab_size": 280, "batch_size": 4, **ONE_THREAD}
    weak = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "weak", max_steps=2, **given, **SHAPE)
    before = Bundle.load(weak.path).tokens_trained
    assert before == pytest.approx(2 * 4 * 24, rel=0.1)
    strong = hs.adapt(weak, tmp_path / "corpus.txt", out=tmp_path / "strong", max_steps=250, batch_size=4, **ONE_THREAD)
    after = Bundle.load(strong.path).tokens_trained
    assert after == pytest.approx(before + 250 * 4 * 24, rel=0.1)
    rates = {}
    for name, base in (("weak", weak), ("strong", strong)):
        caplog.clear()
        with caplog.at_level("INFO", logger="headswap"):
            run = hs.finetune(
                base=base, train=tmp_path / "train.jsonl", out=tmp_path / f"tuned-{name}", max_steps=1, **ONE_THREAD
            )
        rates[name] = load_recipe(FinetuneRecipe, run.path / "recipe.toml").training.learning_rate
        assert ("tokens per parameter, so a higher learning rate is used" in caplog.text) == (name == "weak")
    assert rates == {
        "weak": finetuning_rate(16, tokens_per_parameter=0.5),
        "strong": finetuning_rate(16, tokens_per_parameter=4),
    }


def test_dropout_depends_on_the_number_of_epochs(corpus_file: Path, tmp_path: Path) -> None:
    def run(name: str, **settings: Any) -> hs.Run:
        defaults = {**TINY_LAYERS, "preset": "small", "num_train_epochs": 5.0, "batch_size": 64, "max_length": 16}
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


def test_the_default_number_of_epochs_comes_with_early_stopping(tiny_runs: Path, tmp_path: Path) -> None:
    default = hs.finetune(out=tmp_path / "default", train=tiny_runs / "train.jsonl", **SCRATCH)
    training = load_recipe(FinetuneRecipe, default.path / "recipe.toml").training
    assert (training.num_train_epochs, training.early_stopping_patience) == (20, 5)
    best, last = default.result["best_epoch"], max(line["epoch"] for line in default.metrics() if "eval_loss" in line)
    assert last == min(20, best + 5)
    stated = hs.finetune(out=tmp_path / "stated", train=tiny_runs / "train.jsonl", num_train_epochs=1, **SCRATCH)
    assert load_recipe(FinetuneRecipe, stated.path / "recipe.toml").training.early_stopping_patience is None


def test_job_ids_of_studies_keep_the_former_name() -> None:
    assert POOLINGS["causal"] == "weighted-mean"
    assert "later" in values_behind_finetuning(1_000)
    assert "weighted-mean" not in values_behind_finetuning(1_000)


OFTEN = PretrainingFacts(hidden_size=512, max_length=512, is_new=True, is_causal=True, is_gpu=True, epochs=10.3)


def resolved(facts: PretrainingFacts = OFTEN, *, preset: str = "modern", **training: object) -> tuple[object, ...]:
    """(optimizer, learning rate, weight decay, dropout) of a pre-training on these facts."""
    given = {"model": {"preset": preset}, "training": training}
    recipe = resolve_pretraining(load_recipe(PretrainRecipe, None, given), facts)
    found = recipe.training
    return found.optimizer, found.learning_rate, found.weight_decay, recipe.model.dropout


def test_text_that_is_read_many_times_on_a_gpu_is_trained_with_muon_and_more_decay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert resolved() == resolved(optimizer="muon") == ("muon", 1.42e-3, 2.0, 0.1)
    assert "so it uses Muon, a learning rate of 0.00142 and a weight decay of 2" in caplog.text


@pytest.mark.parametrize(
    "change", [{"epochs": 5.0}, {"is_gpu": False}, {"is_causal": False}, {"is_new": False}], ids=str
)
def test_other_runs_keep_adamw(change: dict[str, Any]) -> None:
    optimizer, rate, decay, _ = resolved(replace(OFTEN, **change))
    assert (optimizer, decay) == ("adamw", 0.05)
    assert rate == (7.1e-4 if change != {"is_new": False} else 3.6e-4)


def test_a_given_setting_keeps_the_others_at_their_values_for_adamw() -> None:
    assert resolved(learning_rate=1e-3) == ("adamw", 1e-3, 0.05, 0.2)
    assert resolved(weight_decay=0.0) == ("adamw", 7.1e-4, 0.0, 0.2)
    assert resolved(optimizer="adamw") == ("adamw", 7.1e-4, 0.05, 0.2)
    assert resolved(preset="small") == ("adamw", 7.1e-4, 0.05, 0.2)


def test_a_speed_test_uses_the_slower_optimizer_where_it_may_be_chosen() -> None:
    unknown = replace(OFTEN, epochs=None)
    assert resolved(unknown)[0] == "muon"
    assert resolved(replace(unknown, is_gpu=False))[0] == "adamw"


def test_a_factor_for_muon_is_refused_with_adamw(corpus_file: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="muon_lr_factor has no effect with AdamW"):
        hs.pretrain(corpus_file, out=tmp_path / "run", muon_lr_factor=7.0, max_steps=1, **ONE_THREAD)


def test_a_run_with_the_settings_for_repeated_text_is_resumed_by_the_same_call(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain, "PretrainingFacts", lambda **given: PretrainingFacts(**{**given, "is_gpu": True}))
    shape = {"preset": "modern", "vocab_size": 300, **SHAPE, **ONE_THREAD}
    given = {"num_train_epochs": 9, "batch_size": 64, "out": tmp_path / "run", **shape}
    losses = [hs.pretrain(corpus_file, **given, resume=is_again).result["loss"] for is_again in (False, True)]
    assert losses[0] == losses[1]
    saved = load_recipe(PretrainRecipe, tmp_path / "run" / "recipe.toml")
    assert (saved.training.optimizer, saved.training.weight_decay, saved.model.dropout) == ("muon", 2.0, 0.1)
    assert saved.training.learning_rate == pytest.approx(2 * pretraining_rate(16))


def test_the_batch_of_a_fine_tuning_grows_with_large_sets_only() -> None:
    sizes = {number: finetuning_batch_size(number) for number in (1, 25_000, 36_266, 36_267, 43_410, 72_534, 10**6)}
    assert sizes == {1: 16, 25_000: 16, 36_266: 16, 36_267: 32, 43_410: 32, 72_534: 64, 10**6: 512}
    for number, size in sizes.items():
        steps = 3 * number / size
        assert steps < 2 * 3_400, "three epochs are no longer than twice the usual number of steps"
        assert size == 16 or steps >= 3_400
    assert values_behind_finetuning(36_266) == values_behind_finetuning(10), "job ids of small sets stay the same"
    assert values_behind_finetuning(36_267) != values_behind_finetuning(10)


def test_a_batch_size_that_is_given_is_kept() -> None:
    assert batch_size_of(FinetuneTraining(), 100_000) == 64
    assert batch_size_of(FinetuneTraining(batch_size=16), 100_000) == 16


OWN_SCRATCH = {
    "model": {"direction": "bidirectional", "hidden_size": 16, "num_hidden_layers": 1, "dropout": 0.3},
    "training": {"token_dropout": 0.15},
}


def test_scratch_has_settings_of_its_own_below_those_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headswap.defaults.finetuning.SCRATCH_SETTINGS", OWN_SCRATCH)
    found = with_scratch_settings({"model": {"base": "scratch", "dropout": 0.2}, "data": {"train": "x"}})
    assert found == {
        "model": {
            "direction": "bidirectional",
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "dropout": 0.2,
            "base": "scratch",
        },
        "training": {"token_dropout": 0.15},
        "data": {"train": "x"},
    }
    shaped = with_scratch_settings({"model": {"preset": "modern"}})
    assert shaped["model"] == {"direction": "bidirectional", "dropout": 0.3, "preset": "modern"}, (
        "a given shape is whole"
    )


def test_the_lab_from_scratch_takes_no_settings_of_other_models() -> None:
    lab = {"model": {"base": "scratch", "preset": "lab"}, "data": {"train": "x"}}
    assert with_scratch_settings(lab) == lab


@pytest.mark.parametrize(
    ("num_classes", "tokens_per_parameter", "wanted"),
    [(9, 50.0, "random"), (10, 50.0, "class-means"), (10, 0.5, "random"), (None, 50.0, "random"), (10, 0, "random")],
)
def test_many_classes_start_from_class_means(num_classes: int | None, tokens_per_parameter: float, wanted: str) -> None:
    assert head_init(facts_with(num_classes=num_classes, tokens_per_parameter=tokens_per_parameter)) == wanted


@pytest.mark.parametrize(
    ("changes", "has_bias", "wanted"),
    [
        ({}, True, "linear"),
        ({"num_rows": 10_001}, True, "random"),
        ({"tokens_per_parameter": 2.9}, True, "random"),
        ({"tokens_per_parameter": None}, True, "linear"),
        ({"head_similarity": "cosine", "num_classes": 200}, True, "class-means"),
        ({"num_classes": 12}, True, "linear"),
        ({"num_classes": None}, True, "linear"),
        ({"compares_vectors": False}, True, "random"),
        ({}, False, "random"),
    ],
)
def test_a_head_that_compares_two_texts_begins_as_a_linear_model(
    changes: dict[str, Any], has_bias: bool, wanted: str
) -> None:
    facts = {"compares_vectors": True, "num_classes": 3, "tokens_per_parameter": 50.0, "num_rows": 1_000} | changes
    assert head_init(facts_with(**facts), has_bias=has_bias) == wanted


@pytest.mark.parametrize(
    ("num_classes", "tokens_per_parameter", "wanted"),
    [(99, 50.0, "dot"), (100, 50.0, "cosine"), (100, None, "cosine"), (100, 0.5, "dot"), (None, 50.0, "dot")],
)
def test_many_classes_are_scored_by_cosines_unless_the_setting_is_given(
    num_classes: int | None, tokens_per_parameter: float | None, wanted: str
) -> None:
    facts = {"num_classes": num_classes, "tokens_per_parameter": tokens_per_parameter}
    assert head_shape(recipe_with(), "causal", **facts).head_similarity == wanted
    for given in ("dot", "cosine"):
        assert head_shape(recipe_with(head_similarity=given), "causal", **facts).head_similarity == given


@pytest.mark.parametrize("encoding", [None, "joined", "separate"])
def test_the_vectors_of_two_texts_are_normalised_unless_the_setting_is_given(encoding: Any) -> None:
    facts: dict[str, Any] = {"num_classes": 3, "tokens_per_parameter": 50.0, "pair_encoding": encoding}
    assert head_shape(recipe_with(), "causal", **facts).head_norm == ("layer" if encoding == "separate" else "none")
    for given in ("none", "layer"):
        assert head_shape(recipe_with(head_norm=given), "causal", **facts).head_norm == given


def test_a_run_with_many_labels_has_a_cosine_head_in_its_recipe_and_bundle(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.defaults.finetuning.LEAST_TOKENS_PER_PARAMETER", 0.1)
    monkeypatch.setattr("headswap.defaults.finetuning.COSINE_FROM", 10)
    rows = [(f"{text} {number % 10}", f"label {number % 10}") for number, (text, _) in enumerate(sentences(40))]
    for labels, name in ((rows, "cosine"), (sentences(40), "dot")):
        run = hs.finetune(tiny_runs / "base", train=labels, max_steps=1, out=tmp_path / name, **ONE_THREAD)
        assert load_recipe(FinetuneRecipe, run.path / "recipe.toml").head.head_similarity == name
        entry = json.loads((run.path / "bundle" / "config.json").read_text())["classifier"]
        assert entry.get("head_similarity", "dot") == name
        assert Bundle.load(run.path).model.shape.classifier.head_similarity == name


def test_a_run_from_scratch_takes_them_and_its_recipe_makes_the_same_run_again(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.defaults.finetuning.SCRATCH_SETTINGS", OWN_SCRATCH)
    more = {"num_attention_heads": 2, "max_steps": 1, "max_length": 24, **ONE_THREAD}
    own = {key: value for key, value in OWN_SCRATCH["model"].items() if key not in ("hidden_size", "num_hidden_layers")}
    run = hs.finetune("scratch", train=tiny_runs / "train.jsonl", out=tmp_path / "run", vocab_size=300, **more)
    recipe = load_recipe(FinetuneRecipe, run.path / "recipe.toml")
    assert {name: getattr(recipe.model, name) for name in own} == own
    assert recipe.training.token_dropout == 0.15
    monkeypatch.setattr("headswap.defaults.finetuning.SCRATCH_SETTINGS", {})
    again = hs.finetune(config=run.path / "recipe.toml", out=tmp_path / "again")
    assert (again.path / "recipe.toml").read_bytes() == (run.path / "recipe.toml").read_bytes()
