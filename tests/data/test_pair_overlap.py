"""Pairs overlap if both texts are equal or nearly equal."""

from headswap.data.overlap import Overlap
from headswap.data.pair_overlap import find_pair_overlap
from headswap.data.records import Example

FIRST = "a man in a red shirt is playing the guitar on the street"
NEAR_FIRST = "a man in a blue shirt is playing the guitar on the street"
SECOND = "two children are throwing stones into the cold water of a lake"
NEAR_SECOND = "two children are throwing stones into the warm water of a lake"
OTHER = "the committee did not agree on the date of its next meeting"


def pair(first: str, second: str) -> Example:
    return Example(first, "x", "file", 1, second)


def overlap(train: list[Example], test: list[Example]) -> Overlap:
    (found,) = find_pair_overlap({"train": train, "test": test}, [("train", "test")])
    return found


def test_both_texts_may_differ_in_one_word() -> None:
    """As one text the pairs differ in two words, so that they would not be found."""
    found = overlap([pair(NEAR_FIRST, NEAR_SECOND)], [pair(FIRST, SECOND)])
    assert (found.exact, found.near) == ([], [0])
    assert 0.9 < found.examples[0].similarity < 1
    assert found.examples[0].to_text.split() == f"{FIRST} {SECOND}".split()


def test_one_text_that_is_equal_or_near_is_not_enough() -> None:
    test = [pair(FIRST, SECOND)]
    assert (
        overlap([pair(FIRST, OTHER), pair(OTHER, SECOND), pair(NEAR_FIRST, OTHER), pair(FIRST, FIRST)], test).rows == []
    )


def test_one_word_of_a_short_text_is_another_pair() -> None:
    """Joined, the two pairs of 6 words each differ in one word of 12, which a single text may."""
    test = [pair("a man is playing a flute", "a man is playing a guitar")]
    assert overlap([pair("a man is playing a flute", "a man is playing a violin")], test).rows == []


def test_the_order_of_the_texts_does_not_count() -> None:
    found = overlap([pair(SECOND, FIRST.upper()), pair(NEAR_SECOND, FIRST)], [pair(FIRST, SECOND)])
    assert (found.exact, found.near) == ([0], [1])


def test_every_pair_of_a_group_of_near_texts_is_compared() -> None:
    """The near text of test that an index finds first may be in a pair with another second text."""
    test = [pair(NEAR_FIRST, OTHER), pair(FIRST, SECOND), pair(FIRST, NEAR_FIRST)]
    train = [pair("a man in a green shirt is playing the guitar on the street", SECOND)]
    found = overlap(train, test)
    assert found.near == [0]
    assert found.examples[0].to_row == 1


def test_a_text_that_is_near_to_two_groups_is_compared_with_both() -> None:
    text = "the quick brown fox jumps over the lazy dog near the old river bank"
    test = [pair(text.replace("brown", "grey"), OTHER), pair(text.replace("near", "on"), SECOND)]
    found = overlap([pair(text, SECOND)], test)
    assert found.near == [0]
    assert found.examples[0].to_row == 1


def test_texts_that_only_a_third_one_connects_are_not_near() -> None:
    """FIRST and `far` differ in two words; `between` differs from each in one."""
    between = NEAR_FIRST
    far = between.replace("street", "stage")
    test = [pair(far, SECOND), pair(between, OTHER)]
    assert overlap([pair(FIRST, SECOND)], test).rows == []
    assert overlap([pair(between, SECOND)], test).near == [0]


def test_within_a_set_only_earlier_rows_count() -> None:
    rows = [pair(FIRST, SECOND), pair(OTHER, SECOND), pair(SECOND, FIRST), pair(NEAR_FIRST, SECOND)]
    (found,) = find_pair_overlap({"train": rows}, [("train", "train")])
    assert (found.num_rows, found.exact, found.near) == (4, [2], [3])
    assert [one.to_row for one in found.examples] == [0, 0]
