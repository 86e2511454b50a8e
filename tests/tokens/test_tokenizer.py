"""Tokenizers: round trips, special tokens, fingerprints, files."""

import copy
import json
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from headswap.core.errors import InputError
from headswap.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer
from headswap.tokens.train_tokenizer import check_round_trip
from tiny import sentences
from tiny_tokenizers import EXTRA, KINDS, trained


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return trained(request.param)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return trained("bpe")


def test_special_tokens_have_the_first_six_ids(tokenizer: Tokenizer) -> None:
    assert [tokenizer.piece(id) for id in range(6)] == list(SPECIAL_TOKENS)
    ids = (tokenizer.sos_id, tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.mask_id, tokenizer.sep_id)
    assert ids == (0, 1, 2, 3, 4, 5)
    assert tokenizer.special_ids == frozenset(range(6))
    assert tokenizer.vocab_size <= 400


def test_special_tokens_in_a_text_stay_text(tokenizer: Tokenizer) -> None:
    unmistakable = tokenizer.special_ids - {tokenizer.unk_id}
    for name in SPECIAL_TOKENS:
        for text in (name, f"the {name} film", f"a{name}b", f"{name}{name}"):
            assert unmistakable.isdisjoint(tokenizer.encode(text).tolist()), text
            assert unmistakable.isdisjoint(tokenizer.encode_batch_marked([text])[0].ids.tolist()), text


def test_encode_with_specials_recognises_special_tokens(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_with_specials("the <mask> film").tolist()
    assert ids.count(tokenizer.mask_id) == 1
    assert ids[: ids.index(4)] == tokenizer.encode("the").tolist()  # the space belongs to the mask, as to a word
    assert tokenizer.mask_id not in tokenizer.encode("the <mask> film")  # the call has no lasting effect


def test_decoding_omits_special_tokens_unless_show_specials_is_set(bpe: Tokenizer) -> None:
    ids = [bpe.sos_id, *bpe.encode("a fine film"), bpe.eos_id, bpe.pad_id]
    assert bpe.decode(ids) == "a fine film"
    assert bpe.decode(np.array(ids), show_specials=True) == "<sos>a fine film<eos><pad>"


def test_no_special_token_is_added(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("").tolist() == []
    assert tokenizer.encode("film").dtype == np.int32


def test_a_batch_gives_the_same_ids_as_single_texts(tokenizer: Tokenizer) -> None:
    texts = [text for text, _ in sentences(20)] + EXTRA + [""]
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert ids.tolist() == tokenizer.encode(text).tolist()
    for text, marked in zip(texts, tokenizer.encode_batch_marked(texts), strict=True):
        assert marked.ids.tolist() == tokenizer.encode(text).tolist()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(st.text(), st.sampled_from([*SPECIAL_TOKENS, " ", "\n", "\r\n", "▁", "Ġ", "##", "\u200b", "e\u0301"]))
    )
)
def test_byte_level_gives_any_text_back_exactly(bpe: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    ids = bpe.encode(text)
    assert bpe.special_ids.isdisjoint(ids.tolist())
    assert bpe.decode(ids) == text


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("abcdefilmnorstu .,!'<>#é\n\t"), max_size=60))
def test_other_kinds_are_idempotent(tokenizer: Tokenizer, text: str) -> None:
    check_round_trip(tokenizer, [text])


def test_different_tokenizers_have_different_fingerprints(bpe: Tokenizer) -> None:
    others = [trained("bpe", vocab_size=380), trained("bpe", lowercase=True), trained("word")]
    fingerprints = {bpe.fingerprint, *(other.fingerprint for other in others)}
    assert len(fingerprints) == 4
    assert all(len(fingerprint) == 16 for fingerprint in fingerprints)


@pytest.mark.parametrize("kind", KINDS)
def test_with_lowercase_the_case_of_a_text_has_no_effect(kind: str) -> None:
    lower = trained(kind, lowercase=True)
    assert lower.encode("The FINE film").tolist() == lower.encode("the fine film").tolist()
    assert lower.decode(lower.encode("The FINE film")) == "the fine film"


def test_words_start_where_the_pre_tokenizer_splits(tokenizer: Tokenizer) -> None:
    marked = tokenizer.encode_batch_marked(["film, tamolin film"])[0]
    ids, starts = marked.ids, marked.word_starts
    assert starts.dtype == bool
    assert len(starts) == len(ids)
    assert starts[0]
    pieces = [tokenizer.piece(id) for id in ids]
    last = max(i for i, start in enumerate(starts) if start)
    assert "".join(pieces[last:]).strip("Ġ▁") == "film"
    if tokenizer.kind in ("bpe", "wordpiece"):  # tamolin is one word of several tokens
        assert 3 <= starts.sum() < len(ids)


def test_sentence_starts_fall_on_tokens(tokenizer: Tokenizer) -> None:
    marked = tokenizer.encode_batch_marked(["the film. the story! music"])[0]
    assert marked.sentence_starts.sum() == 3
    assert marked.sentence_starts[0]
    first = int(np.flatnonzero(marked.sentence_starts)[1])
    assert tokenizer.decode(marked.ids[:first]).strip() == "the film."


def test_a_line_break_belongs_to_the_sentence_before_it(bpe: Tokenizer) -> None:
    marked = bpe.encode_batch_marked(["film.\nthe"])[0]
    starts = np.flatnonzero(marked.sentence_starts)
    assert bpe.decode(marked.ids[starts[1] :]) == "the"


def test_a_saved_and_loaded_tokenizer_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    for copy_ in (Tokenizer.load(tmp_path / "tokenizer.json"), Tokenizer.load(str(tmp_path))):
        assert copy_.fingerprint == tokenizer.fingerprint
        assert (copy_.kind, copy_.vocab_size) == (tokenizer.kind, tokenizer.vocab_size)
        for text in EXTRA:
            assert copy_.encode(text).tolist() == tokenizer.encode(text).tolist()


def test_the_fingerprint_does_not_depend_on_the_formatting_of_the_file(bpe: Tokenizer, tmp_path: Path) -> None:
    bpe.save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    (tmp_path / "b.json").write_text(json.dumps(dict(reversed(content.items())), indent=3), encoding="utf-8")
    assert Tokenizer.load(tmp_path / "b.json").fingerprint == bpe.fingerprint


def test_a_pickled_or_copied_tokenizer_still_keeps_special_tokens_as_text(bpe: Tokenizer) -> None:
    for again in (pickle.loads(pickle.dumps(bpe)), copy.deepcopy(bpe)):
        assert again.encode("<mask>").tolist() == bpe.encode("<mask>").tolist()
        assert again.fingerprint == bpe.fingerprint


def test_a_tokenizer_can_be_loaded_from_a_run_folder(bpe: Tokenizer, tmp_path: Path) -> None:
    bpe.save(tmp_path / "bundle" / "tokenizer.json")
    assert Tokenizer.load(tmp_path).fingerprint == bpe.fingerprint


def test_truncation_and_padding_of_a_foreign_file_are_switched_off(bpe: Tokenizer, tmp_path: Path) -> None:
    bpe.save(tmp_path / "tokenizer.json")
    hf = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    hf.enable_truncation(3)
    hf.enable_padding(length=50)
    hf.save(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.load(tmp_path)
    assert loaded.encode(EXTRA[1]).tolist() == bpe.encode(EXTRA[1]).tolist()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a tokenizer"),
        ("{}", "cannot|can read"),
        ('{"model": {"type": "BPE"}}', "can read"),
    ],
)
def test_a_broken_file_is_an_error_with_a_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=sentence):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_tokenizer_without_the_special_tokens_of_headswap_is_an_error(tmp_path: Path) -> None:
    hf = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    hf.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="has no '<sos>', '<pad>', '<eos>' in its vocabulary"):
        Tokenizer.load(tmp_path)


def test_a_folder_without_a_tokenizer_and_a_missing_path_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no tokenizer"):
        Tokenizer.load(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        Tokenizer.load(tmp_path / "nowhere")


@pytest.mark.parametrize("id", [-1, 400, 10_000])
def test_an_id_beyond_the_vocabulary_is_an_error(bpe: Tokenizer, id: int) -> None:
    with pytest.raises(InputError, match="is not an id"):
        bpe.piece(id)
    with pytest.raises(InputError, match="is not an id"):
        bpe.decode([id])


def test_mask_and_sep_are_appended_only_where_they_are_missing(
    bpe: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    assert bpe.with_mask_and_sep() is bpe
    vocabulary = {"<sos>": 0, "<pad>": 1, "<eos>": 2, "<unk>": 3, "a": 4}
    bare = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")).to_str())
    with caplog.at_level(logging.INFO, logger="headswap"):
        larger = bare.with_mask_and_sep()
    assert (bare.mask_id, bare.sep_id, larger.mask_id, larger.sep_id, larger.vocab_size) == (None, None, 5, 6, 7)
    assert larger.encode("a").tolist() == [4]
    assert "V = 5, now 7" in caplog.text


def test_a_regular_expression_that_fails_while_it_is_used_is_a_sentence() -> None:
    content = json.loads(trained()._serialised)
    pattern = {"Regex": "(x+x+)+y"}
    content["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    tokenizer = Tokenizer(json.dumps(content), origin="The tokenizer t.json")
    assert tokenizer.encode("short").tolist()
    for encode in (tokenizer.encode_batch, tokenizer.encode_batch_marked, tokenizer.encode_batch_placed):
        with pytest.raises(InputError, match=r"The tokenizer t.json cannot encode a text: .*retry-limit.*Use another"):
            encode(["x" * 60])
