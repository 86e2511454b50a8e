"""Tagged sets: rows, .conll files, tags, and errors."""

from pathlib import Path

import pytest

from headswap.core.errors import InputError
from headswap.data.config import ColumnSettings
from headswap.data.records import TaggedExample
from headswap.data.tagged import check_tags, read_tagged, split_words, tag_names

CONLL = """-DOCSTART- -X- O

# a comment
Anna NNP B-PER
Stone NNP I-PER

Rome NNP B-LOC
"""


def problem(file: Path, **columns: object) -> str:
    with pytest.raises(InputError) as raised:
        read_tagged(str(file), ColumnSettings.model_validate(columns))
    return str(raised.value)


def test_rows_and_conll_give_the_same_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(CONLL)
    (tmp_path / "b.jsonl").write_text(
        '{"tokens": ["Anna", "Stone"], "tags": ["B-PER", "I-PER"]}\n{"tokens": ["Rome"], "tags": ["B-LOC"]}\n'
    )
    conll, rows = (read_tagged(str(tmp_path / name), ColumnSettings()) for name in ("a.conll", "b.jsonl"))
    assert [(one.tokens, one.tags) for one in conll] == [(one.tokens, one.tags) for one in rows]
    assert [one.line for one in conll] == [4, 7]
    assert [one.line for one in rows] == [1, 2]
    middle = read_tagged(str(tmp_path / "a.conll"), ColumnSettings(conll_tag_column=2))
    assert middle[0].tags == ("NNP", "NNP")


def test_tabs_separate_columns_that_contain_spaces(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("New York\tB-LOC\n,\tO\n")
    assert read_tagged(str(tmp_path / "a.conll"), ColumnSettings())[0].tokens == ("New York", ",")


def test_invalid_conll_lines_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Anna B-PER\nStone\n\nRome LOC B-LOC\n")
    assert problem(tmp_path / "a.conll").splitlines() == [
        f"{tmp_path / 'a.conll'}, line 2: 1 columns, but the lines before have 2.",
        f"{tmp_path / 'a.conll'}, line 4: 3 columns, but the lines before have 2. Correct these lines, or remove them.",
    ]
    (tmp_path / "b.conll").write_text("Anna\nStone\n")
    assert "line 1: 1 columns; a word and its tag need at least 2" in problem(tmp_path / "b.conll")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{"tokens": ["a", "b"], "tags": ["O"]}', "line 1: 2 words and 1 tag; every word needs one tag."),
        ('{"tokens": "a b", "tags": ["O"]}', "line 1: the tokens are a string, not a list."),
        ('{"tokens": ["a", " "], "tags": ["O", "O"]}', "line 1: word 2 is blank."),
        ('{"tokens": [], "tags": []}', "line 1: the sentence has no words."),
        ('{"tokens": ["a"], "tags": [null]}', "line 1: tag 1 is None, not a name."),
        ('{"tokens": ["a"], "ner_tags": ["O"]}', "has no column 'tags' (columns: 'tokens', 'ner_tags'). Did you mean"),
    ],
)
def test_invalid_rows_are_reported(tmp_path: Path, row: str, words: str) -> None:
    (tmp_path / "a.jsonl").write_text(row + "\n")
    assert words in problem(tmp_path / "a.jsonl")


def example(tags: str) -> TaggedExample:
    return TaggedExample(tuple(tags.split()), tuple(tags.split()), "train.conll", 3)


def test_an_entity_type_of_train_has_both_of_its_tags() -> None:
    assert tag_names([example("B-PER O"), example("I-LOC")]) == ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
    assert tag_names([example("NOUN VERB")]) == ["NOUN", "VERB"]


def test_tags_with_and_without_prefixes_are_not_mixed() -> None:
    with pytest.raises(InputError, match=r"train\.conll, line 3: the tag 'LOC' has no prefix, but others have one"):
        tag_names([example("B-PER LOC")])


def test_a_tag_not_in_train_is_reported() -> None:
    with pytest.raises(InputError, match=r"line 3: the tag 'B-GPE' of the test set does not occur in train"):
        check_tags([example("B-GPE O")], ["B-PER", "I-PER", "O"], role="test")


def test_raw_text_is_split_into_words() -> None:
    assert split_words("Anna's U.S. trip, new-style (1,200€)!") == (
        "Anna's", "U.S", ".", "trip", ",", "new-style", "(", "1", ",", "200", "€", ")", "!",
    )  # fmt: skip


def test_a_hash_with_a_tag_is_a_word_and_other_lines_are_comments(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.conll"
    file.write_text("# O\nMeToo B-TAG\n\n# sentence 2\n# id\nRome B-LOC\n")
    with caplog.at_level("INFO", logger="headswap"):
        found = read_tagged(str(file), ColumnSettings())
    assert [one.tokens for one in found] == [("#", "MeToo"), ("Rome",)]
    assert "2 lines that begin with '# ' were skipped as comments." in caplog.text
