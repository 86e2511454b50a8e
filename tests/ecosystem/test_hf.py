"""After `import headswap.interop.hf`, bundles of any shape load with AutoModel classes and compute the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")

import headswap.interop.hf
from bundles import make_bundle
from headswap.batches.batch import flat_batch
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.generator import Generator
from headswap.inference.predict import predict_texts
from headswap.interop.hf_out import auto_class
from headswap.tokens.tokenizer import Tokenizer

assert headswap.interop.hf
TEXTS = ["the film was warm .", "the ending was cold and the music was grey .", "a"]


@pytest.mark.parametrize("head", ["lm", "classify", "tag", "span"])
@pytest.mark.parametrize(("preset", "direction"), [("lab", "causal"), ("small", "bidirectional")])
@torch.no_grad()
def test_a_bundle_computes_the_same_in_a_padded_batch(
    preset: str, direction: str, head: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    bundle = make_bundle(tokenizer, head, preset, direction=direction, pooling="weighted-mean")
    bundle.save(tmp_path / "bundle")
    auto = getattr(transformers, auto_class(bundle.model.shape))
    model, info = auto.from_pretrained(tmp_path / "bundle", output_loading_info=True)
    assert not info["missing_keys"], info
    assert not info["unexpected_keys"], info
    given = transformers.AutoTokenizer.from_pretrained(tmp_path / "bundle")(TEXTS, padding=True, return_tensors="pt")
    found = model.eval()(**given)
    for number, ids in enumerate(map(tokenizer.frame.around, tokenizer.encode_batch(TEXTS))):
        assert given["input_ids"][number, : len(ids)].tolist() == ids.tolist()
        ours = bundle.model(flat_batch([ids]))
        if head == "span":
            theirs = torch.stack((found.start_logits[number], found.end_logits[number]), 1)[: len(ids)]
        else:
            theirs = found.logits[number : number + 1] if head == "classify" else found.logits[number, : len(ids)]
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_pipelines_use_bundles(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = make_bundle(tokenizer, "classify", "lab", pooling="weighted-mean")
    bundle.save(tmp_path / "classify")
    answers = transformers.pipeline("text-classification", str(tmp_path / "classify"), device="cpu")(TEXTS)
    ours = predict_texts(bundle, TEXTS)
    assert [answer["label"] for answer in answers] == [one.label for one in ours]
    np.testing.assert_allclose(
        [answer["score"] for answer in answers], [one.scores[one.label] for one in ours], atol=1e-5
    )


def test_pairs_have_segments_and_long_texts_are_cut_as_by_headswap(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = make_bundle(tokenizer.with_mask_and_sep(), "classify", "bert-base", direction="bidirectional")
    with torch.no_grad():
        bundle.model.base.segment_embedding.weight.mul_(100)  # segments decide
    bundle = replace(bundle, task=bundle.task.changed(reads_pairs=True))
    bundle.save(tmp_path / "bundle")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "bundle").eval()
    split = transformers.AutoTokenizer.from_pretrained(tmp_path / "bundle")
    pairs = [("the film", "the ending was cold ."), ("a", "warm"), ("the music " * 30, "was grey")]
    ours = predict_texts(bundle, pairs)
    for number, pair in enumerate(pairs):
        given = split(*pair, truncation="longest_first", return_tensors="pt")
        assert given["input_ids"].shape[1] <= 30
        with torch.no_grad():
            theirs = model(**given).logits.softmax(1)[0].tolist()
        if number < 2:  # the two libraries cut pairs in different places
            assert given["token_type_ids"].max() == 1
            np.testing.assert_allclose(theirs, [ours[number].scores[label] for label in bundle.labels], atol=1e-5)
    plain = make_bundle(tokenizer, "classify", "lab", pooling="weighted-mean")
    plain.save(tmp_path / "plain")
    long = " ".join(TEXTS * 5)
    classify = transformers.pipeline("text-classification", str(tmp_path / "plain"), device="cpu")
    (answer,), (expected,) = classify([long], truncation=True), predict_texts(plain, [long])
    assert answer["label"] == expected.label
    assert answer["score"] == pytest.approx(expected.scores[expected.label], abs=1e-5)


def test_generation_equals_that_of_headswap(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = make_bundle(tokenizer, "lm", "lab")
    bundle.save(tmp_path / "lm")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "lm")
    given = transformers.AutoTokenizer.from_pretrained(tmp_path / "lm")(["the film"], return_tensors="pt")
    never = [
        tokenizer.sos_id,
        tokenizer.pad_id,
        *(id for id in (tokenizer.mask_id, tokenizer.sep_id) if id is not None),
    ]
    made = model.generate(**given, max_new_tokens=6, do_sample=False, suppress_tokens=never, use_cache=False)
    expected = list(Generator(bundle).tokens("the film", SamplingSettings(max_new_tokens=6)))
    assert made[0, given["input_ids"].shape[1] :].tolist() == expected
