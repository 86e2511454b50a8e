"""Masking: the documented shares, whole words for every kind of tokenizer, a function of position and step only."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headswap.batches.config import MaskingSettings
from headswap.batches.masking import CorpusTokens, MaskedTokens, Masker, joined_tokens
from headswap.core.errors import SettingError
from headswap.core.random_streams import Draws
from headswap.data.records import Document
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import sentences
from tiny_tokenizers import KINDS

# Words that the tokenizers were not trained on are split into several tokens.
TEXT = " ".join(f"{text} unfathomably" for text, _ in sentences(400, seed=3))


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Tokenizer:
    documents = [Document(text, "tests", number) for number, (text, _) in enumerate(sentences(60), 1)]
    return train_tokenizer(
        documents, TokenizerSettings(kind=request.param, vocab_size=270 if request.param == "bpe" else 120)
    )


def tokens_of(tokenizer: Tokenizer, text: str = TEXT, *, document: int = 0) -> CorpusTokens:
    marked = tokenizer.encode_batch_marked([text])[0]
    return joined_tokens([(marked.ids.astype(np.int64), document, 1, marked.word_starts)])


def mask(tokenizer: Tokenizer, tokens: CorpusTokens, *, step: int = 0, **settings: object) -> MaskedTokens:
    return Masker(tokenizer, MaskingSettings.model_validate(settings))(tokens, Draws(7, "mask", step))


def within(count: int, total: int, share: float) -> bool:
    """Whether a count is within four standard deviations of its expectation."""
    return abs(count - total * share) < 4 * (total * share * (1 - share)) ** 0.5


def test_fifteen_per_cent_are_chosen_and_split_80_10_10(tokenizer: Tokenizer) -> None:
    tokens = tokens_of(tokenizer)
    chosen = masked = kept = replaced = 0
    for step in range(30):
        found = mask(tokenizer, tokens, step=step)
        seen, truth = found.ids[found.target_index], found.target_value
        chosen += len(truth)
        masked += int((seen == tokenizer.mask_id).sum())
        kept += int((seen == truth).sum())
        replaced += int(((seen != tokenizer.mask_id) & (seen != truth)).sum())
    total = 30 * len(tokens.ids)
    assert within(chosen, total, 0.15)
    assert within(masked, chosen, 0.8)
    # A random token is sometimes the original one: with probability 1 / (ordinary tokens).
    lucky = 0.1 / (tokenizer.vocab_size - 6)
    assert within(kept, chosen, 0.1 + lucky)
    assert within(replaced, chosen, 0.1 - lucky)


def test_the_shares_are_settings(tokenizer: Tokenizer) -> None:
    settings = {"mlm_probability": 0.4, "mask_replace_prob": 1.0, "random_replace_prob": 0.0}
    found = mask(tokenizer, tokens_of(tokenizer), **settings)
    assert within(len(found.target_index), len(found.ids), 0.4)
    assert (found.ids[found.target_index] == tokenizer.mask_id).all()


def test_shares_with_a_sum_above_one_are_an_error() -> None:
    with pytest.raises(SettingError, match="together more than 1"):
        MaskingSettings(mask_replace_prob=0.8, random_replace_prob=0.3)


def test_special_tokens_are_never_masked_and_never_drawn_as_replacement(tokenizer: Tokenizer) -> None:
    ids = np.tile(np.arange(tokenizer.vocab_size), 40)
    tokens = joined_tokens([(ids, 0, 0, np.ones(len(ids), dtype=bool))])
    for unit in ("token", "word", "span"):
        found = mask(tokenizer, tokens, mlm_probability=0.9, mask_unit=unit, mask_replace_prob=0, random_replace_prob=1)
        specials = sorted(tokenizer.special_ids)
        assert not np.isin(found.target_value, specials).any()
        assert not np.isin(found.ids[found.target_index], specials).any()
        assert (found.ids[np.isin(ids, specials)] == ids[np.isin(ids, specials)]).all()


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_are_masked_as_a_whole_for_every_kind_of_tokenizer(kind: Tokenizer, unit: str) -> None:
    tokens = tokens_of(kind)
    assert tokens.word_starts is not None
    word = np.cumsum(tokens.word_starts) - 1
    ordinary = ~np.isin(tokens.ids, sorted(kind.special_ids))
    chosen = total = 0
    for step in range(20):
        found = mask(kind, tokens, step=step, mask_unit=unit)
        is_chosen = np.isin(np.arange(len(tokens.ids)), found.target_index)
        is_masked = found.ids == kind.mask_id
        for number in np.unique(word[is_chosen]):
            inside = (word == number) & ordinary
            assert is_chosen[inside].all()
            assert is_masked[inside].all() or not is_masked[inside].any()
        chosen += int(is_chosen.sum())
        total += int(ordinary.sum())
    assert chosen / total == pytest.approx(0.15, abs=0.02)


def test_spans_cover_several_words_and_words_do_not(tokenizer: Tokenizer) -> None:
    tokens = tokens_of(tokenizer)
    assert tokens.word_starts is not None
    word = np.cumsum(tokens.word_starts) - 1

    def neighbours(unit: str) -> float:
        """How often the word after a chosen word is chosen too."""
        pairs = hits = 0
        for step in range(20):
            words = np.unique(word[mask(tokenizer, tokens, step=step, mask_unit=unit).target_index])
            pairs, hits = pairs + len(words), hits + int(np.isin(words + 1, words).sum())
        return hits / pairs

    assert neighbours("word") < 0.25
    assert neighbours("span") > 0.6


def test_a_mask_depends_on_place_step_and_seed_but_not_on_the_batch(tokenizer: Tokenizer) -> None:
    first, second = tokens_of(tokenizer, document=3), tokens_of(tokenizer, document=9)
    alone = mask(tokenizer, second)
    parts = [(part.ids, int(part.documents[0]), 1, part.word_starts) for part in (first, second)]
    together = mask(tokenizer, joined_tokens(parts))
    assert (together.ids[len(first.ids) :] == alone.ids).all()
    assert mask(tokenizer, first).target_index.tolist() != alone.target_index.tolist()
    assert mask(tokenizer, second, step=1).target_index.tolist() != alone.target_index.tolist()
    other = Masker(tokenizer, MaskingSettings())(second, Draws(8, "mask", 0))
    assert other.target_index.tolist() != alone.target_index.tolist()


def test_ngrams_have_one_to_three_tokens_and_are_chosen_as_a_whole() -> None:
    ids = dict(zip(("sos_id", "pad_id", "eos_id", "unk_id", "mask_id", "sep_id"), range(6), strict=True))
    tokenizer: Any = SimpleNamespace(**ids, special_ids=frozenset(range(6)), vocab_size=40)
    masker = Masker(tokenizer, MaskingSettings(mask_unit="ngram", mask_replace_prob=1, random_replace_prob=0))
    tokens = joined_tokens([(np.full(6_000, 9), 0, 0, None)])
    lengths: list[int] = []
    for step in range(4):
        found = masker(tokens, Draws(7, "mask", step))
        assert within(len(found.target_index) // 2, 3_000, 0.15)  # units of 2 tokens on average
        units = masker._units(tokens, Draws(7, "mask", step))
        lengths += np.bincount(units)[1:-1].tolist()  # the first and the last are cut
        chosen = np.isin(np.arange(6_000), found.target_index)
        assert all(len(set(chosen[units == unit])) == 1 for unit in range(50))
    counts = np.bincount(lengths)
    assert len(counts) == 4
    assert counts[1:] == pytest.approx(np.full(3, len(lengths) / 3), rel=0.01)


def test_ngrams_do_not_depend_on_where_a_document_is_cut() -> None:
    ids = dict(zip(("sos_id", "pad_id", "eos_id", "unk_id", "mask_id", "sep_id"), range(6), strict=True))
    tokenizer: Any = SimpleNamespace(**ids, special_ids=frozenset(range(6)), vocab_size=40)
    masker = Masker(tokenizer, MaskingSettings(mask_unit="ngram"))
    whole = joined_tokens([(np.full(600, 9), 0, 0, None)])
    halves = joined_tokens([(np.full(300, 9), 0, 0, None), (np.full(300, 9), 0, 300, None)])
    first, second = (masker(tokens, Draws(7, "mask", 3)).target_index for tokens in (whole, halves))
    assert set(first) ^ set(second) <= {298, 299, 300, 301, 302}, "only units at the cut differ"


def test_the_share_of_chosen_tokens_changes_linearly_during_a_run() -> None:
    settings = MaskingSettings(mlm_probability_start=0.3)
    assert [settings.probability_at(progress) for progress in (0, 0.5, 1)] == pytest.approx([0.3, 0.225, 0.15])
    assert MaskingSettings().probability_at(0.0) == 0.15
