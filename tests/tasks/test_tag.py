"""The tagging task: first tokens of words, windows of long sentences."""

import numpy as np
import pytest

from headswap.data.records import Document, TaggedExample
from headswap.inference.outputs import outputs_of
from headswap.tasks.choose import named_task
from headswap.tasks.tag import WordRow, first_tokens_of
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from task_data import tagged, tiny_bundle

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_every_word_is_found_at_its_first_token_by_every_kind_of_tokenizer(kind: str, lowercase: bool) -> None:
    words = ["Anna's", "café", "in", "New-York", "cost", "1,200€", "(really)", "U.S.", ".", "ﬁne"]
    documents = [Document(" ".join(words[at:] + words[:at]), "x", at) for at in range(len(words))]
    size = 300 if kind == "bpe" else 80
    tokenizer = train_tokenizer(
        documents, TokenizerSettings.model_validate({"kind": kind, "vocab_size": size, "lowercase": lowercase})
    )
    placed = tokenizer.encode_batch_placed([" ".join(words)])[0]
    assert placed.ids.tolist() == tokenizer.encode(" ".join(words)).tolist()
    found, first = first_tokens_of(words, placed)
    assert found.tolist() == list(range(len(words)))
    begins = [len(" ".join([*words[:number], ""])) for number in range(len(words))]
    assert placed.starts[first].tolist() == begins
    others = np.setdiff1d(np.arange(first[0] + 1, len(placed.ids)), first)
    is_inside = ~np.isin(placed.starts[others], begins) | (placed.starts[others] == placed.ends[others])
    repeats = np.isin(placed.starts[others], begins)  # a character of several pieces, as ﬁ or € is
    assert (is_inside | repeats).all()


def test_a_word_without_any_token_is_counted_and_scored(tokenizer: Tokenizer) -> None:
    bare = train_tokenizer([Document("a film", "x", 1)], TokenizerSettings(kind="wordpiece", vocab_size=64))
    words = ("film", "\u2028", "a")  # a line separator is white space to the pre-tokenizer
    bundle = tiny_bundle(bare, "tag")
    encoded = named_task("tag").encode([TaggedExample(words, ("O", "B-PER", "O"), "x", 1)], bundle)
    (row,) = encoded.rows
    assert isinstance(row, WordRow)
    assert row.words.tolist() == [0, 2]
    assert tuple(map(str, encoded.notes)) == ("1 word without any token, scored as O",)
    metrics = named_task("tag").evaluate(outputs_of(bundle.model, encoded.rows), encoded, bundle)
    assert (metrics["num_words"], metrics["num_unread_words"], metrics["num_entities"]) == (3, 1, 1)
    assert metrics["recall"] == 0


def test_a_validation_set_without_entities_is_scored_by_the_entities_of_the_bundle(tokenizer: Tokenizer) -> None:
    bundle = tiny_bundle(tokenizer, "tag")
    encoded = named_task("tag").encode([TaggedExample(("a", "film"), ("O", "O"), "x", 1)], bundle)
    outputs = [np.eye(len(bundle.labels))[[bundle.labels.index("B-PER"), bundle.labels.index("O")]]]
    metrics = named_task("tag").evaluate(outputs, encoded, bundle)
    assert (metrics["scheme"], metrics["f1"], metrics["accuracy"]) == ("entities", 0, 0.5)


def test_in_windows_of_long_sentences_every_word_is_scored_once(tokenizer: Tokenizer) -> None:
    rows = tagged(12)
    tokens = tuple(token for row in rows for token in row["tokens"])
    tags = tuple(tag for row in rows for tag in row["tags"])
    bundle = tiny_bundle(tokenizer, "tag", max_length=16)
    encoded = named_task("tag").encode([TaggedExample(tokens, tags, "x", 1)], bundle)
    assert len(encoded.rows) > 5
    assert max(len(row.ids) for row in encoded.rows) <= 16
    words = np.concatenate([row.words for row in encoded.rows])
    assert sorted(words.tolist()) == list(range(len(tokens)))
    numbers = {tag: number for number, tag in enumerate(bundle.labels)}
    for row in encoded.rows:
        assert row.target_value.tolist() == [numbers[tags[word]] for word in row.words]
        for place, word in zip(row.wanted, row.words, strict=True):
            piece = tokenizer.decode(row.ids[place : place + 1]).strip()
            assert tokens[word].startswith(piece)
    prediction = named_task("tag").predictions(outputs_of(bundle.model, encoded.rows), encoded, bundle)[0]
    assert len(prediction.tags) == len(tokens)
    assert min(prediction.scores) > 0, "each of them was scored"
    assert tuple(map(str, encoded.notes)) == ("1 sentence longer than 16 tokens, read in windows",)
