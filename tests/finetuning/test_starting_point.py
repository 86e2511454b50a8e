"""The model before the first step of fine-tuning."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.core.errors import RunError, SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.starting_point import knows_pairs
from headswap.model import swap
from task_data import ROWS, paired, write_rows
from tiny import ONE_THREAD, PRETRAIN, STORY_SETTINGS


def test_a_tokenizer_other_than_that_of_the_base_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    other = hs.pretrain(
        tiny_runs / "corpus.txt", out=tmp_path / "other", max_steps=1, kind="word", vocab_size=64, **PRETRAIN
    )
    with pytest.raises(SettingError, match="is not the tokenizer of"):
        hs.finetune(
            tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", tokenizer=other.path, **ONE_THREAD
        )


def test_settings_of_a_new_tokenizer_are_an_error_with_a_base(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="kind cannot be set"):
        hs.finetune(tiny_runs / "base", train=tiny_runs / "few.jsonl", out=tmp_path / "x", kind="word")


@pytest.mark.parametrize(
    "setting", [{"hidden_size": 32}, {"preset": "small"}, {"final_norm": False}, {"type_vocab_size": 0}]
)
def test_a_shape_setting_is_an_error_with_a_base(tiny_runs: Path, tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(setting))}: the base has its own"):
        hs.finetune(tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", **setting)


def test_a_base_that_was_trained_on_labels_is_reported(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"train": tiny_runs / "few.jsonl", "max_steps": 1, **ONE_THREAD}
    hs.finetune(tiny_runs / "base", out=tmp_path / "first", **given)
    assert "was already trained on labels" not in caplog.text
    hs.finetune(tiny_runs / "classifier", out=tmp_path / "again", **given)
    assert "is a classifier: it was already trained on labels" in caplog.text


def test_a_base_whose_tensors_are_not_all_kept_is_an_error(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = swap.build_model

    def forgetful(*arguments: Any, **named: Any) -> Any:
        """Loses a layer: its tensors have another name."""
        model = build(*arguments, **named)
        state = model.state_dict
        model.state_dict = lambda: {name.replace("layers.1", "layers.x"): value for name, value in state().items()}
        return model

    monkeypatch.setattr(swap, "build_model", forgetful)
    with pytest.raises(RunError, match=r"Only \d+ of the base's \d+ tensors could be kept"):
        hs.finetune(tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", max_steps=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["tag", "span"])
def test_a_causal_base_reads_both_ways_if_every_token_is_predicted(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, task: str
) -> None:
    caplog.set_level("INFO")
    train = write_rows(tmp_path / "train.jsonl", ROWS[task](30))
    given = {"train": train, "max_steps": 2, **ONE_THREAD}
    run = hs.finetune(tiny_runs / "base", out=tmp_path / "both", **given)
    assert run.model.bundle.model.shape.direction == "bidirectional"
    assert "it is fine-tuned with bidirectional attention" in caplog.text
    assert load_recipe(FinetuneRecipe, run.path / "recipe.toml").model.direction == "bidirectional"
    again = hs.finetune(config=run.path / "recipe.toml", out=tmp_path / "again")
    assert (again.path / "recipe.toml").read_bytes() == (run.path / "recipe.toml").read_bytes()
    caplog.clear()
    kept = hs.finetune(tiny_runs / "base", out=tmp_path / "one", direction="causal", **given)
    assert kept.model.bundle.model.shape.direction == "causal"
    assert "the prediction for a word does not use the text after it" in caplog.text
    assert "bidirectional" not in caplog.text


def test_the_tag_of_a_word_depends_on_the_words_after_it(tiny_runs: Path, tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.jsonl", ROWS["tag"](30))
    scores = {}
    for direction in ("bidirectional", "causal"):
        run = hs.finetune(
            tiny_runs / "base", out=tmp_path / direction, train=train, max_steps=2, direction=direction, **ONE_THREAD
        )
        texts = run.model.predictions(["the film was good", "the film was bad"])
        scores[direction] = [text.scores[0] for text in texts]
    assert scores["causal"][0] == scores["causal"][1]
    assert scores["bidirectional"][0] != scores["bidirectional"][1]


@pytest.mark.parametrize(("given", "pooling"), [({}, "weighted-mean"), ({"direction": "bidirectional"}, "mean")])
def test_a_classifier_keeps_the_direction_of_its_base_unless_another_one_is_given(
    tiny_runs: Path, tmp_path: Path, given: dict[str, Any], pooling: str
) -> None:
    run = hs.finetune(
        tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", max_steps=1, **ONE_THREAD, **given
    )
    shape = run.model.bundle.model.shape
    assert (shape.direction, shape.classifier.pooling) == (given.get("direction", "causal"), pooling)


def test_a_masked_base_is_not_made_causal(tiny_runs: Path, tmp_path: Path) -> None:
    base = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "base", objective="masked", max_steps=1, **PRETRAIN)
    with pytest.raises(SettingError, match=r"direction is causal, but the attention of .* is bidirectional"):
        hs.finetune(base, train=tiny_runs / "few.jsonl", out=tmp_path / "run", direction="causal", **ONE_THREAD)


def test_pairs_are_read_as_two_sequences_unless_the_base_was_trained_on_pairs(
    tiny_runs: Path, stories: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Segment embeddings alone do not tell: a masked base of the preset bert-base has them, too."""
    train = write_rows(tmp_path / "train.jsonl", paired(40, seed=1))
    settings: dict[str, Any] = STORY_SETTINGS | {"preset": "bert-base", "max_steps": 1}
    corpus = stories / "corpus.txt"
    masked = hs.pretrain(corpus, out=tmp_path / "masked", objective="masked", **settings)
    pairs = hs.pretrain(corpus, out=tmp_path / "pairs", objective="masked+nsp", **settings)
    expected = {tiny_runs / "base": "separate", masked.path: "separate", pairs.path: "joined"}
    heads = {"separate": "compare", "joined": "classify"}
    given: dict[str, Any] = {"train": train, "text_pair_column": "text_pair", "max_steps": 2, **ONE_THREAD}
    for base, encoding in expected.items():
        out = tmp_path / f"{base.name}-run"
        caplog.clear()
        run = hs.finetune(base, out=out, **given)
        assert f"(--pair-encoding {encoding})" in caplog.text
        assert run.model.bundle.model.shape.head == heads[encoding]
        assert load_recipe(FinetuneRecipe, run.path / "recipe.toml").head.pair_encoding == encoding
        again = hs.finetune(config=run.path / "recipe.toml", out=tmp_path / f"{base.name}-again")
        assert (again.path / "bundle/model.safetensors").read_bytes() == (
            run.path / "bundle/model.safetensors"
        ).read_bytes()
        tuned = hs.finetune(run, out=tmp_path / f"{base.name}-tuned", **given)
        assert tuned.model.bundle.model.shape.head == heads[encoding], "a fine-tuned base is read as it was trained"
        other = {"separate": "joined", "joined": "separate"}[encoding]
        given_other = given | {"pair_encoding": other, "out": tmp_path / f"{base.name}-not"}
        assert hs.finetune(base, **given_other).model.bundle.model.shape.head == heads[other]


def test_pairs_are_read_as_one_sequence_by_public_checkpoints(tiny_runs: Path) -> None:
    base = Bundle.load(tiny_runs / "base")
    assert not knows_pairs(base)
    assert knows_pairs(replace(base, card={})), "a checkpoint from elsewhere does not record its training tokens"
