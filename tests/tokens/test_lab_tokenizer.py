"""The lab's tokenizer: ids, raw text and text split into pieces, the sentencepiece model, faults of the dictionary."""

import copy
import logging
import pickle
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError, MissingExtraError
from headswap.tokens.lab_tokenizer import LabTokenizer
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import check_round_trip
from tiny import sentences

PIECES = ["▁les", "les", "▁livre", "livre", "s", "▁bon", ".", "▁!"]
TEXTS = [text for text, _ in sentences(200)]


def write_dictionary(folder: Path, pieces: list[str] = PIECES) -> Path:
    file = folder / "dict.txt"
    file.write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    return file


@pytest.fixture
def small(tmp_path: Path) -> Tokenizer:
    """A dictionary without a model."""
    return Tokenizer.load(write_dictionary(tmp_path))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dict.txt and its sentencepiece model, as in the lab."""
    spm = import_module("sentencepiece")
    folder = tmp_path_factory.mktemp("lab")
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_prefix=str(folder / "sentencepiece.test"),
        vocab_size=80,
        minloglevel=3,
        hard_vocab_limit=False,
    )
    processor = spm.SentencePieceProcessor(model_file=str(folder / "sentencepiece.test.model"))
    write_dictionary(folder, [processor.id_to_piece(i) for i in range(3, len(processor))])
    return folder


def split_into_pieces(folder: Path, text: str) -> str:
    """The text split into pieces, as in the lab's files."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.test.model"))
    return " ".join(processor.encode(text, out_type=str))


def test_pieces_follow_the_four_special_tokens_in_file_order(small: Tokenizer) -> None:
    assert [small.piece(id) for id in range(4)] == ["<sos>", "<pad>", "<eos>", "<oov>"]
    assert [small.piece(id) for id in range(4, small.vocab_size)] == PIECES
    assert (small.sos_id, small.pad_id, small.eos_id, small.unk_id) == (0, 1, 2, 3)
    assert (small.mask_id, small.sep_id, small.kind) == (None, None, "lab")
    assert small.vocab_size == 4 + len(PIECES)


def test_the_pieces_of_a_text_are_looked_up(small: Tokenizer) -> None:
    assert small.encode("▁les ▁livre s .").tolist() == [4, 6, 8, 10]
    assert small.encode("  ▁les\tlivre\nlivre  ").tolist() == [4, 7, 7]
    assert small.encode("▁les ▁chats").tolist() == [4, 3]
    assert small.encode("").tolist() == small.encode(" \n").tolist() == []
    assert small.encode("▁les").dtype == np.int32


def test_decoding_joins_pieces_into_text(small: Tokenizer) -> None:
    assert small.decode([0, 4, 6, 8, 10, 2]) == "les livres."
    assert small.decode([4, 3, 6], show_specials=True) == "les<oov> livre"


def test_names_of_special_tokens_in_a_text_are_unknown_pieces(small: Tokenizer) -> None:
    larger = small.with_mask_and_sep()
    for name in ("<sos>", "<pad>", "<eos>", "<mask>", "<sep>", "<oov>"):
        assert larger.encode(f"▁les {name} ▁livre").tolist() == [4, 3, 6]


def test_raw_text_without_the_model_is_an_error(small: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"not split into pieces .* sentencepiece") as caught:
        small.encode("les livres")
    assert "wrong ids silently" in str(caught.value)
    assert "dict.txt" in str(caught.value)


def test_mask_and_sep_can_be_appended(small: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="headswap"):
        larger = small.with_mask_and_sep()
    assert (larger.vocab_size, larger.mask_id, larger.sep_id) == (14, 12, 13)
    assert larger.special_ids == {0, 1, 2, 3, 12, 13}
    assert larger.fingerprint != small.fingerprint
    assert "V = 12, now 14" in caplog.text
    assert larger.encode_with_specials("▁les <mask> ▁livre").tolist() == [4, 12, 6]
    assert larger.encode_with_specials("<mask> ▁livre").tolist() == [12, 6]


def test_words_start_at_pieces_that_begin_with_the_mark(small: Tokenizer) -> None:
    marked = small.encode_batch_marked(["▁les livre ▁livre s . ▁bon ▁!"])[0]
    assert marked.word_starts.tolist() == [True, False, True, False, False, True, True]
    assert marked.sentence_starts.tolist() == [True, False, False, False, False, True, False]
    first = small.encode_batch_marked(["▁les s"])[0]
    assert (first.ids.tolist(), first.word_starts.tolist()) == ([4, 8], [True, False])


def test_bytes_are_those_of_the_raw_text(small: Tokenizer) -> None:
    assert small.count_bytes("▁les ▁livre s") == len("les livres")
    assert small.count_bytes("été") == 5


def test_raw_text_gives_the_ids_of_its_pieces(trained: Path) -> None:
    tokenizer = Tokenizer.load(trained / "dict.txt")
    assert isinstance(tokenizer, LabTokenizer)
    raw, pieces = (
        tokenizer.encode_batch(TEXTS),
        tokenizer.encode_batch([split_into_pieces(trained, text) for text in TEXTS]),
    )
    assert all(a.tolist() == b.tolist() for a, b in zip(raw, pieces, strict=True))
    assert [tokenizer.decode(ids) for ids in raw] == TEXTS
    check_round_trip(tokenizer, TEXTS)


def test_a_batch_may_mix_raw_texts_and_texts_split_into_pieces(trained: Path) -> None:
    tokenizer = Tokenizer.load(trained / "dict.txt")
    mixed = tokenizer.encode_batch([TEXTS[0], split_into_pieces(trained, TEXTS[1]), "", TEXTS[2]])
    assert [tokenizer.decode(ids) for ids in mixed] == [TEXTS[0], TEXTS[1], "", TEXTS[2]]


def test_special_tokens_in_raw_text_are_recognised_for_fill_only(trained: Path) -> None:
    tokenizer = Tokenizer.load(trained / "dict.txt").with_mask_and_sep()
    expected = [*tokenizer.encode("the film was"), tokenizer.mask_id, *tokenizer.encode("and")]
    assert tokenizer.encode_with_specials("the film was <mask> and").tolist() == expected
    assert tokenizer.mask_id not in tokenizer.encode("the film was <mask> and")


def test_a_saved_tokenizer_still_encodes_raw_text(trained: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(trained / "dict.txt")
    tokenizer.save(tmp_path / "bundle" / "tokenizer.json")
    tokenizer.save(tmp_path / "bundle" / "tokenizer.json")  # a tokenizer may be saved over itself
    again = Tokenizer.load(tmp_path)
    assert again.kind == "lab"
    assert again.fingerprint == tokenizer.fingerprint
    assert again.vocab_size == tokenizer.vocab_size
    assert again.encode(TEXTS[0]).tolist() == tokenizer.encode(TEXTS[0]).tolist()
    larger = again.with_mask_and_sep()
    larger.save(tmp_path / "larger" / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "larger").fingerprint == larger.fingerprint
    assert Tokenizer.load(tmp_path / "larger").mask_id == larger.mask_id == tokenizer.vocab_size


def test_the_fingerprint_covers_the_model(trained: Path, tmp_path: Path) -> None:
    dictionary = tmp_path / "dict.txt"
    dictionary.write_bytes((trained / "dict.txt").read_bytes())
    without = Tokenizer.load(dictionary)
    explicit = Tokenizer.load(dictionary, sentencepiece=trained / "sentencepiece.test.model")
    assert without.fingerprint != explicit.fingerprint == Tokenizer.load(trained / "dict.txt").fingerprint


def test_copies_keep_the_model(trained: Path) -> None:
    tokenizer = Tokenizer.load(trained / "dict.txt")
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert again.fingerprint == tokenizer.fingerprint
        assert again.encode(TEXTS[0]).tolist() == tokenizer.encode(TEXTS[0]).tolist()


def test_a_model_that_belongs_to_another_dictionary_is_an_error(trained: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_dictionary(tmp_path), sentencepiece=trained / "sentencepiece.test.model")
    with pytest.raises(InputError, match="does not belong to the dictionary"):
        tokenizer.encode("the film")


def test_missing_damaged_and_ambiguous_models_are_errors(tmp_path: Path) -> None:
    dictionary = write_dictionary(tmp_path)
    with pytest.raises(InputError, match=r"nowhere.model does not exist"):
        Tokenizer.load(dictionary, sentencepiece=tmp_path / "nowhere.model")
    (tmp_path / "sentencepiece.a.model").write_bytes(b"not a model")
    with pytest.raises(InputError, match="damaged"):
        Tokenizer.load(dictionary).encode("raw")
    (tmp_path / "sentencepiece.b.model").write_bytes(b"another")
    with pytest.raises(InputError, match=r"several sentencepiece models .*a\.model.*b\.model"):
        Tokenizer.load(dictionary)


def test_a_tokenizer_is_not_saved_into_a_folder_with_another_model(small: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sentencepiece.model").write_bytes(b"another")
    with pytest.raises(InputError, match=r"already contains 'sentencepiece\.model'"):
        small.save(tmp_path / "out" / "tokenizer.json")


def test_a_model_for_another_kind_of_tokenizer_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
    with pytest.raises(InputError, match="cannot use the model"):
        Tokenizer.load(tmp_path, sentencepiece=tmp_path / "x.model")


def test_raw_text_without_the_package_is_an_error_that_names_the_extra(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = Tokenizer.load(trained / "dict.txt")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    assert len(tokenizer.encode("▁the"))  # pieces need no package
    with pytest.raises(MissingExtraError, match=r"headswap\[hf\]"):
        tokenizer.encode("the film")


def test_every_fault_of_a_dictionary_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "dict.txt"
    file.write_text("▁a 1\nbroken\n▁a 2\n<pad> 1\n\n▁b x\n▁c d 1\n▁e 1", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Tokenizer.load(file)
    problems = str(caught.value).splitlines()
    assert [problem.partition(":")[0].rpartition(" ")[2] for problem in problems] == ["2", "3", "4", "5", "6", "7"]
    assert all(str(file) in problem for problem in problems)
    assert "is already on line 1" in problems[1]
    assert "special token" in problems[2]


def test_an_empty_or_undecodable_dictionary_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "dict.txt"
    file.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        Tokenizer.load(file)
    file.write_bytes(b"\xff\xfe 1\n")
    with pytest.raises(InputError, match="not UTF-8"):
        Tokenizer.load(file)


def test_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "dict.txt"
    file.write_bytes("\ufeff▁a 1\r\nb 1\r\n".encode())
    assert Tokenizer.load(file).encode("▁a b").tolist() == [4, 5]


def test_pieces_have_character_offsets(small: Tokenizer, trained: Path) -> None:
    text = "▁les livre s ▁bon ."
    found = small.encode_batch_placed([text])[0]
    assert found.ids.tolist() == small.encode(text).tolist()
    assert [text[a:b] for a, b in zip(found.starts, found.ends, strict=True)] == text.split()
    raw = Tokenizer.load(trained / "dict.txt")
    for text in TEXTS[:20]:
        found = raw.encode_batch_placed([text])[0]
        assert found.ids.tolist() == raw.encode(text).tolist()
        places = zip(found.starts, found.ends, strict=True)
        assert "".join(text[a:b] for a, b in places) == text.replace(" ", "")
