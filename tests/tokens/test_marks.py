"""Marks of tokens: where sentences begin."""

from headswap.tokens.marks import sentence_positions


def test_sentences_start_after_full_stops_and_line_breaks() -> None:
    text = 'One. Two "three!" Four 3.5 five…\nsix\nseven'
    assert [text[p:].split()[0] for p in sentence_positions(text)] == ["One.", "Two", "Four", "six", "seven"]
