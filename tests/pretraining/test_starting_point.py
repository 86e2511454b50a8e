"""The tokenizer and the model before the first step of pre-training."""

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.registry import OBJECTIVES
from headswap.tokens.tokenizer import Tokenizer
from tiny import ONE_THREAD, PRETRAIN, STORY_SETTINGS, sentences, write_labelled

pytestmark = pytest.mark.usefixtures("one_thread")


def test_settings_of_a_new_tokenizer_are_an_error_with_a_given_tokenizer(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="vocab_size cannot be set"):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "x", tokenizer=tiny_runs / "base", vocab_size=100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask_unit": "word"}, "no effect with the causal objective"),
        ({"objective": "masked+nsp", "layout": "documents"}, "rows are pairs"),
        ({"objective": "masked+nsp", "type_vocab_size": 1}, "needs 2"),
    ],
)
def test_settings_that_do_not_apply_to_the_objective_are_errors(
    stories: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        hs.pretrain(stories / "corpus.txt", out=tmp_path / "run", max_steps=1, **STORY_SETTINGS, **settings)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of the small grammar, and a base per objective in `causal`, `masked` and `causal+masked`."""
    folder = tmp_path_factory.mktemp("grammar")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    for objective in ("causal", "masked", "causal+masked"):
        hs.pretrain(folder / "corpus.txt", out=folder / objective, objective=objective, max_steps=20, **PRETRAIN)
    return folder


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("causal", "masked"),
        ("causal", "causal+masked"),
        ("masked", "causal+masked"),
        ("masked", "causal"),
        ("causal+masked", "masked"),
        ("causal+masked", "causal"),
    ],
)
def test_a_base_is_adapted_to_another_objective_and_keeps_its_weights(
    grammar: Path, tmp_path: Path, old: str, new: str
) -> None:
    """With a learning rate of almost 0 the weights show where they are from."""
    settings = {"objective": new, "max_steps": 1, "learning_rate": 1e-12, **ONE_THREAD}
    run = hs.adapt(grammar / old, grammar / "corpus.txt", out=tmp_path / "run", **settings)
    before, bundle = Bundle.load(grammar / old), run.model.bundle
    kind = OBJECTIVES.load(new)
    assert (bundle.objective, bundle.model.shape.direction) == (new, kind.direction)
    assert {use.verb for use in bundle.uses} == {
        verb for verb, can in (("generate", kind.predicts_next), ("fill", kind.masks_tokens)) if can
    }
    state = bundle.model.state_dict()
    for name, tensor in before.model.state_dict().items():
        torch.testing.assert_close(state[name][: len(tensor)], tensor, atol=1e-6, rtol=0)
    again = hs.adapt(run, grammar / "corpus.txt", out=tmp_path / "again", max_steps=1, **ONE_THREAD)
    assert again.model.bundle.objective == new, "the new objective is the default of the next adaptation"


def test_losses_of_two_objectives_are_not_compared(grammar: Path, tmp_path: Path) -> None:
    settings = {"objective": "masked", "max_steps": 1, "out": tmp_path / "run", **ONE_THREAD}
    with pytest.raises(SettingError, match="objective is changed from causal to masked: losses of two objectives"):
        hs.adapt(grammar / "causal", grammar / "corpus.txt", reference=str(grammar / "corpus.txt"), **settings)
    assert hs.adapt(grammar / "causal", grammar / "corpus.txt", **settings).result["former_objective"] == "causal"
    same = hs.adapt(grammar / "causal", grammar / "corpus.txt", **{**settings, "objective": "causal"}, overwrite=True)
    assert "former_objective" not in same.result


def test_a_missing_mask_token_is_added_to_the_vocabulary(
    grammar: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after pre-training with a tokenizer from elsewhere; the other rows of the embedding are kept."""
    words = sorted({word for text, _ in sentences(300) for word in text.split()})
    vocabulary = {word: id for id, word in enumerate(("<sos>", "<pad>", "<eos>", "<unk>", *words))}
    bare = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    bare.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    file = tmp_path / "bare.json"
    bare.save(str(file))
    assert Tokenizer.load(file).mask_id is None
    causal = hs.pretrain(grammar / "corpus.txt", out=tmp_path / "causal", tokenizer=file, max_steps=2, **PRETRAIN)
    settings = {"objective": "masked", "max_steps": 1, "learning_rate": 1e-12, **ONE_THREAD}
    run = hs.adapt(causal, grammar / "corpus.txt", out=tmp_path / "run", **settings)
    before, bundle = causal.model.bundle, run.model.bundle
    assert bundle.tokenizer.mask_id is not None
    assert bundle.model.shape.base.vocab_size == before.model.shape.base.vocab_size + 2
    old, new = (one.model.base.embedding.weight for one in (before, bundle))
    torch.testing.assert_close(new[: len(old)], old, atol=1e-6, rtol=0)
    assert "Appended <mask> and <sep> to the vocabulary" in caplog.text
    assert hs.load(run.path).fill("the <mask> was fine .").masks


def test_causal_then_masked_learns_to_fill(grammar: Path, tmp_path: Path) -> None:
    settings = {"objective": "masked", "max_steps": 150, "learning_rate": 5e-3, **ONE_THREAD}
    run = hs.adapt(grammar / "causal", grammar / "corpus.txt", out=tmp_path / "run", **settings)
    assert run.result["objective"] == "masked"
    assert run.result["loss"] < run.result["before"]["loss"] - 1
    assert run.model.fill("the <mask> was fine .").masks[0][0].token.strip()
    train = write_labelled(tmp_path / "train.jsonl", 40)
    tuned = hs.finetune(run, train=train, out=tmp_path / "tuned", max_steps=2, **ONE_THREAD)
    assert tuned.model.bundle.model.shape.direction == "bidirectional"


def test_an_objective_with_segments_needs_a_base_that_has_them(grammar: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"masked\+nsp needs 2 segment embeddings, and the base has 0"):
        hs.adapt(grammar / "causal", grammar / "corpus.txt", out=tmp_path / "run", objective="masked+nsp")


def test_an_adaptation_masks_the_same_share_in_all_steps(grammar: Path, tmp_path: Path) -> None:
    settings = {"objective": "causal+masked", "max_steps": 1, **ONE_THREAD}
    run = hs.adapt(grammar / "causal", grammar / "corpus.txt", out=tmp_path / "run", **settings)
    masking = run.model.bundle.masking
    assert masking.mlm_probability_start == masking.mlm_probability == 0.15
