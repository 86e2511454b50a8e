"""A model in Python: loading and generating."""

from pathlib import Path

import numpy as np
import pytest

import headswap as hs
from headswap.core.errors import HeadswapError, InputError, SettingError
from tiny import sentences, write_labelled


def test_generating_logs_how_much_of_the_prompt_is_read(tiny_base: hs.Run, caplog: pytest.LogCaptureFixture) -> None:
    tiny_base.model.generate("the film was lovely " * 50, max_new_tokens=1)
    assert "the model uses the last 24 of them" in caplog.text


def test_sampling_settings_without_a_temperature_are_an_error(tiny_base: hs.Run) -> None:
    with pytest.raises(SettingError, match="need a temperature above 0"):
        tiny_base.model.generate("the", top_k=5)
    with pytest.raises(HeadswapError, match="max_new_token is not a setting"):
        tiny_base.model.generate("the", max_new_token=5)


def test_loading_twice_generates_the_same(tiny_base: hs.Run) -> None:
    first, second = (hs.load(tiny_base.path).generate("the", max_new_tokens=3) for _ in range(2))
    assert first == second


def test_a_loaded_model_answers(classifier: hs.Run) -> None:
    model = hs.load(classifier.path, device="cpu")
    texts = ["the film was superb .", "the film was dull ."]
    labels, probabilities = model.predict(texts), model.predict_proba(texts)
    assert model.labels == ("neg", "pos")
    assert probabilities.shape == (2, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert [model.labels[number] for number in probabilities.argmax(axis=1)] == labels
    assert model.predict_proba([]).shape == (0, 2)
    assert model.embed(texts).shape == (2, 32)
    metrics = model.evaluate(write_labelled(classifier.path.parent / "again.jsonl", 20, seed=2))
    assert metrics["accuracy"] == classifier.result["test"]["accuracy"]
    assert model.name == "run"
    assert repr(model) == "Model('run': a classifier)"


def test_a_causal_base_generates_and_a_masked_one_fills(bases: dict[str, hs.Run]) -> None:
    causal, masked = hs.load(bases["causal"], device="cpu"), hs.load(bases["masked"], device="cpu")
    alone = causal.generate("the film", max_new_tokens=4)
    assert causal.generate(["the film", "the story"], max_new_tokens=4)[0] == alone
    filled = masked.fill("the <mask> was fine .", top_k=3)
    assert len(filled.masks[0]) == 3
    assert masked.fill(["the <mask> was fine ."], top_k=3) == [filled]
    with pytest.raises(InputError, match="only a causal language model can generate"):
        masked.generate("the film")
    with pytest.raises(InputError, match="only a masked language model can fill"):
        causal.fill("the <mask>")
    assert causal.evaluate(Path(as_text_file(bases["causal"].path.parent)))["loss"] > 0


def test_settings_of_an_evaluation_without_effect_are_refused(classifier: hs.Run, bases: dict[str, hs.Run]) -> None:
    text = as_text_file(bases["causal"].path.parent)
    causal = hs.load(bases["causal"], device="cpu")
    with pytest.raises(SettingError, match="abstain_below and label_column and label_file cannot be used"):
        causal.evaluate(text, label_file="labels.txt", abstain_below=0.9, label_column="nonsense")
    assert causal.evaluate(text, documents="file")["num_documents"] == 1
    assert causal.evaluate(text, documents="line")["num_documents"] == 10
    with pytest.raises(SettingError, match="documents cannot be used"):
        hs.load(classifier.path, device="cpu").evaluate(classifier.path.parent / "again.jsonl", documents="line")


def as_text_file(folder: Path) -> str:
    (folder / "more.txt").write_text("".join(f"{text}\n" for text, _ in sentences(10, seed=5)), encoding="utf-8")
    return str(folder / "more.txt")


def test_probabilities_of_a_model_without_labels_are_refused(bases: dict[str, hs.Run]) -> None:
    with pytest.raises(HeadswapError):
        hs.load(bases["causal"], device="cpu").predict_proba(["a text"])
