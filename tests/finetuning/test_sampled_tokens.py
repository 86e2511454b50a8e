"""Tokens drawn from the base: their probabilities, what they depend on, and a run that uses them."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.batches.labelled_rows import ExampleBatches, Row
from headswap.batches.token_dropout import TokenDropout
from headswap.batches.unlabelled_rows import ViewBatches
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.finetuning.sampled_tokens import SampledTokens
from headswap.tokens.tokenizer import Tokenizer
from tiny import ONE_THREAD, SCRATCH, sentences

pytestmark = pytest.mark.usefixtures("one_thread")
OBJECTIVES = {"causal": "causal", "masked": "bidirectional", "causal+masked": "bidirectional"}


def language_model(tokenizer: Tokenizer, objective: str) -> Bundle:
    """An untrained base with peaked predictions."""
    bundle = make_bundle(tokenizer.with_mask_and_sep(), "lm", direction=OBJECTIVES[objective])
    with torch.no_grad():
        bundle.model.base.embedding.weight.mul_(12)
    return Bundle(bundle.model, bundle.tokenizer, (), objective)


def sampler(base: Bundle, *, share: float = 0.4, seed: int = 3) -> SampledTokens:
    return SampledTokens(base, share, seed, nullcontext)


def rows_of(base: Bundle, count: int) -> list[Row]:
    frame = base.tokenizer.frame
    texts = [text for text, _ in sentences(count, seed=4)]
    return [Row(number, frame.around(ids[:30])) for number, ids in enumerate(base.tokenizer.encode_batch(texts))]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_token_is_drawn_with_the_probability_that_the_base_gives_it(tokenizer: Tokenizer, objective: str) -> None:
    base = language_model(tokenizer, objective)
    start, word = base.tokenizer.frame.around(base.tokenizer.encode_batch(["film"])[0])[:2]
    ids, count = np.array([start, word]), 12_000
    shown = np.array([start, base.tokenizer.mask_id]) if objective != "causal" else ids
    with torch.no_grad():
        hidden = base.model.hidden(flat_batch([shown]))[1 - int(base.predicts_next)]
        logits = base.model.token_logits(hidden[None])[0]
    logits[sorted(base.tokenizer.special_ids)] = -torch.inf
    expected = logits.softmax(dim=0).numpy()
    assert 0.05 < expected.max() < 0.95, "the probabilities differ"

    drawn = sampler(base, share=0.999)([Row(0, ids)] * count, np.arange(count), 1)
    found = np.bincount([row.ids[1] for row in drawn], minlength=len(expected)) / count
    assert abs(found - expected).sum() / 2 < 0.09, "total variation distance"
    assert all(row.ids[0] == start for row in drawn)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_share_of_the_tokens_is_replaced_and_special_ones_are_neither_replaced_nor_drawn(
    tokenizer: Tokenizer, objective: str
) -> None:
    base = language_model(tokenizer, objective)
    rows = rows_of(base, 150)
    changed = sampler(base)(rows, np.arange(150), 2)
    specials = list(base.tokenizer.special_ids)
    before, after = (np.concatenate([row.ids for row in some]) for some in (rows, changed))
    assert [row.example for row in changed] == [row.example for row in rows]
    assert np.array_equal(np.isin(before, specials), np.isin(after, specials))
    assert 0.25 < (before != after)[~np.isin(before, specials)].mean() < 0.42, "some are drawn as they were"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_tokens_depend_on_seed_step_and_row_and_not_on_the_other_rows(tokenizer: Tokenizer, objective: str) -> None:
    base = language_model(tokenizer, objective)
    rows, numbers = rows_of(base, 20), np.arange(20)

    def ids(found: list[Row]) -> list[list[int]]:
        return [row.ids.tolist() for row in found]

    whole = ids(sampler(base)(rows, numbers, 5))
    assert ids(sampler(base)(rows[7:9], numbers[7:9], 5)) == whole[7:9]
    assert ids(sampler(base)(rows, numbers, 6)) != whole
    assert ids(sampler(base, seed=4)(rows, numbers, 5)) != whole
    assert ids(sampler(base)(rows, numbers + 1, 5)) != whole
    assert ids(sampler(base, share=1e-12)(rows, numbers, 5)) == ids(rows)


def test_the_division_into_micro_batches_changes_no_token(tokenizer: Tokenizer) -> None:
    base = language_model(tokenizer, "causal")
    labelled = [
        Row(row.example, row.ids, target_index=np.zeros(1, dtype=np.int64), target_value=np.array([0]))
        for row in rows_of(base, 9)
    ]
    views = ViewBatches(
        ExampleBatches(labelled, batch_size=6, seed=5, is_per_token=False), rows_of(base, 31), batch_size=10,
        change=TokenDropout(0.2, 5, base.tokenizer.special_ids), weight=1.0, ramp_steps=0, replacements=sampler(base),
    )  # fmt: skip

    def changed(count: int) -> list[list[int]]:
        found = []
        for batch in views.micro_batches(3, count=count):
            assert batch.views_2P is not None
            texts = np.split(batch.ids_N.numpy(), np.cumsum(batch.lengths)[:-1])
            found += [texts[place].tolist() for place in batch.views_2P[1].tolist()]
        return found

    assert changed(1) == changed(4)
    plain = ViewBatches(views.labelled, views.rows, 10, views.change, 1.0, 0).micro_batches(3, count=1)[0]
    assert plain.lengths == views.micro_batches(3, count=1)[0].lengths, "the same tokens are left out"


def test_a_run_with_replacements_resumes_bit_for_bit(tmp_path: Path, tiny_base: hs.Run) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(text for text, _ in sentences(60, seed=8)))
    settings: dict[str, Any] = {
        **ONE_THREAD, "base": tiny_base, "train": sentences(24, seed=2), "num_train_epochs": 3, "save_steps": 1,
        "seed": 5, "unlabelled": (str(tmp_path / "texts.txt"),), "consistency_threshold": 0.2,
        "consistency_replacement": 0.3,
    }  # fmt: skip
    whole = hs.finetune(**settings, out=tmp_path / "whole")

    class Stop(hs.Observer):
        def on_evaluation(self, line: dict[str, Any]) -> None:
            if line["epoch"] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.finetune(**settings, out=tmp_path / "stopped", observer=Stop())
    resumed = hs.finetune(**settings, out=tmp_path / "stopped", resume=True)
    without = hs.finetune(**settings | {"consistency_replacement": 0.0}, out=tmp_path / "without")
    first, second, third = (load_file(run.path / "bundle" / "model.safetensors") for run in (whole, resumed, without))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], third[name]) for name in first), "replacements change what is learned"


def test_a_base_that_predicts_no_tokens_is_refused(tmp_path: Path, tiny_classifier: hs.Run) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(text for text, _ in sentences(20, seed=8)))
    settings: dict[str, Any] = {
        "train": sentences(24), "unlabelled": (str(tmp_path / "texts.txt"),), "consistency_replacement": 0.3,
    }  # fmt: skip
    with pytest.raises(SettingError, match="the base is a classifier and predicts no tokens"):
        hs.finetune(tiny_classifier, **settings, **ONE_THREAD, out=tmp_path / "a")
    with pytest.raises(SettingError, match="random weights predict no useful tokens"):
        hs.finetune(**settings, **SCRATCH, out=tmp_path / "b")
    with pytest.raises(SettingError, match="consistency_replacement: only used with --unlabelled"):
        hs.finetune(tiny_classifier, train=sentences(24), consistency_replacement=0.3, **ONE_THREAD, out=tmp_path / "c")
