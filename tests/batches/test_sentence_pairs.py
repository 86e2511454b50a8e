"""Pairs of segments: cut at sentence boundaries, half of them original and half replaced or swapped."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from headswap.batches.sentence_pairs import PairRows
from headswap.core.errors import InputError
from headswap.core.random_streams import Draws
from headswap.tokens.store import TokenStore


def store_of(documents: list[list[int]]) -> TokenStore:
    """Documents given as sentence lengths; a token's id encodes its document and its sentence."""
    ids, starts = [], []
    for document, lengths in enumerate(documents):
        ids.append(np.concatenate([np.full(size, 100 * (document + 1) + at) for at, size in enumerate(lengths)]))
        starts.append(np.concatenate([np.eye(1, size, dtype=np.uint8)[0] for size in lengths]))
    made = TokenStore.from_documents(ids, fingerprint="x")
    sides = {"sentence_starts": np.concatenate(starts), "word_starts": np.ones(made.num_tokens, np.uint8)}
    return TokenStore(made.ids, made.offsets, made.byte_counts, "x", sides)


def rows_of(documents: list[list[int]], *, kind: str = "next", max_length: int = 32) -> PairRows:
    store = store_of(documents)
    return PairRows(store, np.arange(store.num_documents), max_length=max_length, kind=kind, with_words=False)


DOCUMENTS = [[5, 6, 7], [4, 4, 4, 4, 4, 4, 4, 4, 4], [9, 8], [3], [6, 20, 2]]


def test_half_of_the_pairs_are_consecutive_and_half_are_from_another_document() -> None:
    rows = rows_of(DOCUMENTS)
    original = total = 0
    for step in range(400):
        for pair in rows.pieces_of(range(len(rows)), Draws(1, "mask", step)):
            assert (pair.first.document == pair.second.document) == pair.is_original
            assert len(pair.first.ids) + len(pair.second.ids) + 2 <= 32
            assert len(pair.second.ids) > 0
            if pair.is_original:
                assert pair.second.start == pair.first.start + len(pair.first.ids)
            # Every segment begins at a sentence start: the token before it has another id.
            for part in (pair.first, pair.second):
                body = rows.store.document(part.document)
                assert part.start == 0 or body[part.start] != body[part.start - 1]
            original, total = original + pair.is_original, total + 1
    assert abs(original - total / 2) < 4 * (total / 4) ** 0.5


def test_rows_contain_every_sentence_that_has_an_adjacent_one() -> None:
    rows = rows_of(DOCUMENTS)
    seen = {document: np.zeros(sum(sizes), dtype=int) for document, sizes in enumerate(DOCUMENTS)}
    for row in range(len(rows)):
        document, start, end = (int(part[row]) for part in (rows._document, rows._start, rows._end))
        begin = int(rows.store.offsets[document])
        seen[document][start - begin : end - begin] += 1
    assert all(counts.max() <= 1 for counts in seen.values())
    left_out = sum(int((counts == 0).sum()) for counts in seen.values())
    assert left_out == rows.num_left_out
    assert seen[3].sum() == 0  # the document of one sentence


def test_swapped_segments_are_from_the_same_document() -> None:
    rows = rows_of(DOCUMENTS, kind="order")
    found = set()
    for step in range(50):
        for pair in rows.pieces_of(range(len(rows)), Draws(1, "mask", step)):
            assert pair.first.document == pair.second.document
            assert (pair.first.start < pair.second.start) == pair.is_original
            found.add(pair.is_original)
    assert found == {True, False}


def test_a_pair_depends_on_row_and_step_only() -> None:
    rows = rows_of(DOCUMENTS)
    together = rows.pieces_of([0, 1, 2], Draws(1, "mask", 3))
    alone = rows.pieces_of([1], Draws(1, "mask", 3))[0]
    assert together[1].first.ids.tolist() == alone.first.ids.tolist()
    assert together[1].second.ids.tolist() == alone.second.ids.tolist()


@pytest.mark.parametrize(
    ("documents", "kind", "message"),
    [
        ([[7], [9]], "next", "has two sentences"),
        ([[7], [9]], "order", "has two sentences"),
        ([[7, 3, 4]], "next", "no other document"),
    ],
)
def test_a_corpus_without_sentence_pairs_is_an_error(documents: list[list[int]], kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rows_of(documents, kind=kind)


def test_the_order_objective_works_with_one_document() -> None:
    assert len(rows_of([[7, 3, 4]], kind="order")) == 1


def short_documents(random: np.random.Generator) -> list[list[int]]:
    """Texts of 2 to 8 sentences; the typical sentence length differs between texts, as it does between authors."""
    return [
        (1 + random.poisson(random.uniform(3, 30), random.integers(2, 9))).tolist() for _ in range(1500)
    ]  # fmt: skip


def long_documents(random: np.random.Generator) -> list[list[int]]:
    """Texts of many rows, so that most rows are full."""
    return [(1 + random.geometric(0.07, random.integers(100, 300))).tolist() for _ in range(40)]


@pytest.mark.parametrize("corpus", [short_documents, long_documents])
def test_the_lengths_of_the_segments_do_not_tell_which_pairs_are_original(
    corpus: Callable[[np.random.Generator], list[list[int]]],
) -> None:
    rows = rows_of(corpus(np.random.default_rng(3)), max_length=128)
    pairs = [pair for step in range(6) for pair in rows.pieces_of(range(len(rows)), Draws(1, "mask", step))]
    lengths = np.array([(len(pair.first.ids), len(pair.second.ids)) for pair in pairs])
    features, answers = np.column_stack((lengths, lengths.sum(1))), np.array([pair.is_original for pair in pairs])
    half = len(pairs) // 2
    assert half > 2000
    classifier = HistGradientBoostingClassifier(random_state=0).fit(features[:half], answers[:half])
    assert classifier.score(features[half:], answers[half:]) <= 0.53


def test_a_replaced_segment_ends_where_a_chunk_ends() -> None:
    rows = rows_of(long_documents(np.random.default_rng(3)), max_length=128)
    ends = set(rows._end.tolist())
    for pair in rows.pieces_of(range(len(rows)), Draws(1, "mask", 0)):
        assert int(rows.store.offsets[pair.second.document]) + pair.second.start + len(pair.second.ids) in ends


def test_a_document_with_nearly_all_sentences_still_gets_segments_of_other_documents() -> None:
    rows = rows_of([[5] * 5000, [7, 30], [40, 3]], max_length=64)
    pairs = rows.pieces_of(range(len(rows)), Draws(1, "mask", 0))
    replaced = [pair for pair in pairs if not pair.is_original]
    assert len(replaced) > 100
    assert all(pair.second.document != pair.first.document for pair in replaced)
    assert all(len(pair.first.ids) + len(pair.second.ids) + 2 <= 64 for pair in pairs)
