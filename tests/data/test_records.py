"""Records: the two texts of a pair as one string."""

from headswap.data.records import Example, TaggedExample, pair_as_text, whole_text


def test_a_pair_is_joined_with_the_separator() -> None:
    """Checksums of labelled sets depend on the default separator, so it must not change."""
    pair = Example("a film", "yes", "set.csv", 2, text_pair="a story")
    assert whole_text(pair) == "a film\x1da story"
    assert whole_text(pair, separator="\n") == "a film\na story"
    assert pair_as_text(pair, separator="\n").text == "a film\na story"
    assert pair_as_text(pair).label == "yes"


def test_one_text_is_unchanged() -> None:
    example = Example("a film", "yes", "set.csv", 2)
    assert whole_text(example) == "a film"
    assert pair_as_text(example) == example
    assert whole_text(TaggedExample(("a", "film"), ("O", "O"), "set.conll", 1)) == "a film"
