"""Short texts that differ in one word: what is found equals what comparing every pair finds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headswap.data.fingerprints import fingerprints
from headswap.data.short_texts import FEWEST_WORDS, MOST_WORDS, NO_ROW, ShortTexts

TEXTS = st.lists(st.lists(st.sampled_from("ab"), min_size=6, max_size=11).map(" ".join), min_size=1, max_size=12)


def index_of(texts: list[str]) -> ShortTexts:
    index, first_row = ShortTexts(), 0
    for block in fingerprints(texts):
        index.add(block, first_row)
        first_row += len(block)
    index.seal()
    return index


def variants(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    without_one = [(*words[:place], *words[place + 1 :]) for place in range(len(words))]
    return {tuple(words), *without_one} if FEWEST_WORDS <= len(words) <= MOST_WORDS else set()


@settings(max_examples=100, deadline=None)
@given(ours=TEXTS, theirs=TEXTS)
def test_the_first_text_that_differs_in_one_word_is_found(ours: list[str], theirs: list[str]) -> None:
    (block,) = fingerprints(ours)
    rows, shares = index_of(theirs).find(block)
    for text, row, share in zip(ours, rows.tolist(), shares.tolist(), strict=True):
        expected = [number for number, other in enumerate(theirs) if variants(text) & variants(other)]
        assert row == (expected or [NO_ROW])[0]
        assert share == (1 - 1 / len(text.split()) if expected else 0.0)


def test_only_texts_of_8_to_28_words_are_compared() -> None:
    for length in (7, 8, 28, 29):
        words = [f"w{number}" for number in range(length)]
        (block,) = fingerprints([" ".join([*words[:3], "other", *words[4:]])])
        rows, _ = index_of([" ".join(words)]).find(block)
        assert (rows.tolist() == [0]) == (8 <= length <= 28)
