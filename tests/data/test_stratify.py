"""Stratified subsets and splits keep the shares of the classes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.errors import InputError, SettingError
from headswap.data.records import Example
from headswap.data.stratify import stratified_split, stratified_subset

LABELS = st.lists(st.sampled_from("aaaaaaaabbbbccd"), min_size=1, max_size=120)


def examples_of(labels: list[str] | str) -> list[Example]:
    return [Example(f"text {line}", label, "train.csv", line) for line, label in enumerate(labels, start=2)]


@given(labels=LABELS, seed=st.integers(0, 5), data=st.data())
def test_a_smaller_subset_is_a_prefix_of_a_larger_one(labels: list[str], seed: int, data: st.DataObject) -> None:
    examples = examples_of(labels)
    larger = data.draw(st.integers(1, len(labels)))
    smaller = data.draw(st.integers(1, larger))
    chosen = stratified_subset(examples, larger, seed)
    assert len(set(chosen)) == larger
    assert chosen[:smaller] == stratified_subset(examples, smaller, seed)


@given(labels=LABELS, seed=st.integers(0, 5), data=st.data())
def test_a_subset_keeps_the_shares_and_every_class(labels: list[str], seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(labels)))
    counts, chosen = (
        Counter(labels),
        Counter(labels[index] for index in stratified_subset(examples_of(labels), size, seed)),
    )
    if size >= len(counts):
        assert set(chosen) == set(counts)
    for label, count in counts.items():
        assert abs(chosen[label] - size * count / len(labels)) < len(counts)


def test_a_subset_of_two_equal_classes_is_balanced_and_depends_on_the_seed() -> None:
    examples = examples_of("a" * 500 + "b" * 500)
    chosen = stratified_subset(examples, 100, 0)
    assert Counter(examples[index].label for index in chosen) == {"a": 50, "b": 50}
    assert chosen == stratified_subset(examples, 100, 0)
    assert set(chosen) != set(stratified_subset(examples, 100, 1))


@pytest.mark.parametrize("size", [10, 37, 100, 500, 999])
def test_a_subset_of_unequal_classes_has_their_shares_within_one_example(size: int) -> None:
    labels = "a" * 700 + "b" * 200 + "c" * 100
    chosen = Counter(labels[index] for index in stratified_subset(examples_of(labels), size, 3))
    for label, share in (("a", 0.7), ("b", 0.2), ("c", 0.1)):
        assert abs(chosen[label] - share * size) <= 1


def test_a_subset_larger_than_the_set_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"1,200 examples are requested, but train\.csv has 2"):
        stratified_subset(examples_of("ab"), 1200, 0)


@given(labels=LABELS, fraction=st.floats(0.01, 0.99), seed=st.integers(0, 5))
def test_a_split_has_every_class_on_both_sides_and_loses_nothing(labels: list[str], fraction: float, seed: int) -> None:
    counts = Counter(labels)
    if max(counts.values()) < 2:
        with pytest.raises(InputError, match="no label has two examples"):
            stratified_split(examples_of(labels), fraction, seed)
        return
    rest, held = stratified_split(examples_of(labels), fraction, seed)
    assert sorted(rest + held) == list(range(len(labels)))
    assert (rest, held) == stratified_split(examples_of(labels), fraction, seed)
    in_rest, in_held = Counter(labels[index] for index in rest), Counter(labels[index] for index in held)
    for label, count in counts.items():
        assert in_rest[label] >= 1
        assert in_held[label] >= (1 if count >= 2 else 0)
        assert abs(in_held[label] - fraction * count) <= 1


def test_a_split_holds_out_the_given_share() -> None:
    examples = examples_of("a" * 700 + "b" * 300)
    _, held = stratified_split(examples, 0.2, 0)
    assert Counter(examples[index].label for index in held) == {"a": 140, "b": 60}
    for fraction in (0, 1, 1.5):
        with pytest.raises(SettingError, match="between 0 and 1"):
            stratified_split(examples, fraction, 0)
