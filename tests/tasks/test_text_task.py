"""Texts and pairs of texts: windows of long texts, separators and segments of pairs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headswap.data.records import Example
from headswap.inference.outputs import outputs_of
from headswap.tasks.choose import named_task
from headswap.tokens.tokenizer import Tokenizer
from task_data import tiny_bundle
from tiny import sentences

pytestmark = pytest.mark.usefixtures("one_thread")


def test_windows_of_a_text_are_averaged_and_nothing_is_cut_off(tokenizer: Tokenizer) -> None:
    text = " ".join(text for text, _ in sentences(6))
    examples = [Example(text, "pos", "x", 1), Example("a film", "neg", "x", 2)]
    task = named_task("classify")
    cut = task.encode(examples, tiny_bundle(tokenizer, "classify", max_length=20))
    assert len(cut.rows) == 2
    assert cut.truncated_share == (cut.num_tokens - 20 - len(cut.rows[1].ids)) / cut.num_tokens > 0.5
    bundle = tiny_bundle(tokenizer, "classify", max_length=20, long="windows", doc_stride=5)
    encoded = task.encode(examples, bundle)
    assert encoded.truncated_share == 0
    assert [row.example for row in encoded.rows] == [0] * (len(encoded.rows) - 1) + [1]
    assert all(row.target_value.tolist() == [1] for row in encoded.rows[:-1]), "a window has the label of its text"
    outputs = outputs_of(bundle.model, encoded.rows)
    windows = torch.softmax(torch.tensor(np.stack(outputs[:-1])), dim=1).mean(dim=0)
    found = task.predictions(outputs, encoded, bundle)
    assert list(found[0].scores.values()) == pytest.approx(windows.tolist(), abs=1e-6)
    assert list(found[1].scores.values()) == pytest.approx(torch.softmax(torch.tensor(outputs[-1]), 0).tolist())


def test_pairs_are_separated_by_sep_and_have_segments_if_the_base_has_them(tokenizer: Tokenizer) -> None:
    examples = [Example("the film", "pos", "x", 1, "was fine")]
    ids = [tokenizer.sos_id, *tokenizer.encode("the film"), tokenizer.sep_id, *tokenizer.encode("was fine")]
    for preset, has_segments in (("small", False), ("bert-base", True)):
        bundle = tiny_bundle(tokenizer, "classify", preset=preset, reads_pairs=True)
        row = named_task("classify").encode(examples, bundle).rows[0]
        assert row.ids.tolist() == ids
        assert (row.segments is not None) == has_segments
        if has_segments:
            assert row.segments.sum() == len(tokenizer.encode("was fine"))
            (with_segments,) = outputs_of(bundle.model, [row])
            (without,) = outputs_of(bundle.model, [replace(row, segments=None)])
            assert np.abs(with_segments - without).max() > 1e-6, "the segments are read"


def test_two_texts_of_a_pair_are_two_sequences_for_a_head_that_compares_them(tokenizer: Tokenizer) -> None:
    task, longer = named_task("classify"), " ".join(["fine"] * 30)
    examples = [Example("the film", "pos", "x", 1, "was fine"), Example("dull", "neg", "x", 2, longer)]
    bundle = tiny_bundle(tokenizer, "classify", max_length=12, reads_pairs=True, head="compare")
    encoded = task.encode(examples, bundle)
    first, second = (
        [[tokenizer.sos_id, *tokenizer.encode(text)][:12] for text in (example.text, example.text_pair)]
        for example in examples
    )
    assert [[part.tolist() for part in row.sequences] for row in encoded.rows] == [first, second]
    texts = [text for example in examples for text in (example.text, example.text_pair or "")]
    assert encoded.num_tokens == sum(1 + len(tokenizer.encode(text)) for text in texts)
    assert encoded.num_truncated == 1 + len(tokenizer.encode(longer)) - 12, "each text is truncated by itself"
    assert [row.target_value.tolist() for row in encoded.rows] == [[1], [0]]
    outputs = outputs_of(bundle.model, encoded.rows)
    assert len(task.predictions(outputs, encoded, bundle)) == 2
    assert task.inputs([("a film", "a story")], bundle)[0].text_pair == "a story"
