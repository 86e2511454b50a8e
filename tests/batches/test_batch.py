"""The flat batch: counts, padding that changes nothing, and a batch without targets."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headswap.batches.batch import Batch, flat_batch, pad_batch


def batch() -> Batch:
    return flat_batch(
        [np.array([5, 6, 7]), np.array([8])],
        target_index=[0, 3], target_value=[1, 2], documents=[4, 9], segments=np.array([0, 0, 1, 0]),
    )  # fmt: skip


def test_sequences_are_end_to_end_with_their_lengths_on_both_sides() -> None:
    found = batch()
    assert found.ids_N.tolist() == [5, 6, 7, 8]
    assert found.lengths == (3, 1) == tuple(found.lengths_B.tolist())
    assert (found.num_tokens, found.num_targets, found.longest, found.documents) == (4, 2, 3, (4, 9))
    assert replace(found, lengths=()).longest is None


def test_an_empty_sequence_is_refused() -> None:
    with pytest.raises(AssertionError):
        flat_batch([np.array([1]), np.zeros(0)])


def test_all_tokens_have_a_target_only_without_padding_targets() -> None:
    full = flat_batch([np.array([1, 2])], target_index=[0, 1], target_value=[3, 4])
    assert full.has_all_targets
    assert not batch().has_all_targets
    padded = pad_batch(batch(), num_tokens=6, num_sequences=3, num_targets=6)
    assert padded.num_targets == padded.num_tokens
    assert not padded.has_all_targets


def test_padding_keeps_the_sequences_and_its_targets_do_not_count() -> None:
    padded = pad_batch(batch(), num_tokens=9, num_sequences=4, num_targets=5)
    assert padded.ids_N.tolist() == [5, 6, 7, 8, 0, 0, 0, 0, 0]
    assert padded.lengths == (3, 1, 3, 2), "padding tokens are divided among the padding sequences"
    assert padded.counts_T is not None
    assert padded.counts_T.tolist() == [1, 1, 0, 0, 0]
    assert padded.target_value_T.tolist()[:2] == [1, 2]
    assert padded.segments_N is not None
    assert len(padded.segments_N) == 9


def test_padding_sequences_without_tokens_are_not_on_the_host() -> None:
    padded = pad_batch(batch(), num_tokens=4, num_sequences=3, num_targets=2)
    assert padded.lengths == (3, 1)
    assert padded.lengths_B.tolist() == [3, 1, 0]
    assert padded.counts_T is None


def test_a_batch_cannot_be_padded_to_a_smaller_size() -> None:
    with pytest.raises(AssertionError):
        pad_batch(batch(), num_tokens=3, num_sequences=3, num_targets=2)


def test_the_divisors_are_the_targets_and_the_pairs() -> None:
    assert batch().target_counts == (2,)
    assert replace(batch(), pair_target_B=torch.tensor([1, 0])).target_counts == (2, 2)
    with_views = replace(batch(), views_2P=torch.tensor([[0], [1]]), view_weights_P=torch.ones(1))
    assert with_views.target_counts == (2, 1)
    assert with_views.without_targets().target_counts == (0, 0)
    assert with_views.without_targets().ids_N is with_views.ids_N
