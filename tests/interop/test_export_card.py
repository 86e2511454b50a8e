"""Cards of exported folders: the Hub's library reads their metadata, and figures are those of what was exported."""

from dataclasses import replace
from pathlib import Path

import huggingface_hub as hub
import pytest

from bundles import make_bundle
from headswap.bundle.bundle import Bundle
from headswap.bundle.card_data import with_figures
from headswap.interop.config import ExportSettings
from headswap.interop.peft import Peft
from headswap.model.shape import HeadShape, LoraShape
from headswap.model.text_model import build_model
from headswap.registry import EXPORTS
from headswap.tokens.tokenizer import Tokenizer

LAST = HeadShape(pooling="last", head_bias=False)


@pytest.fixture
def classifier(tokenizer: Tokenizer) -> Bundle:
    """A classifier with a figure, from a checkpoint of the Hub."""
    bundle = make_bundle(tokenizer, "classify", "llama", classifier=LAST)
    bundle = replace(bundle, card={"base": "hf:owner/mini"})
    return with_figures(bundle, {"accuracy": 0.75}, data="test.csv", examples=40)


def test_a_checkpoint_and_an_embedder_have_cards(classifier: Bundle, tmp_path: Path) -> None:
    for target in ("hf", "sentence-transformers"):
        EXPORTS.load(target)().export(classifier, tmp_path / target, ExportSettings())
    checkpoint, embedder = (
        hub.ModelCard.load(tmp_path / name / "README.md") for name in ("hf", "sentence-transformers")
    )
    assert (checkpoint.data.library_name, checkpoint.data.base_model) == ("transformers", "owner/mini")
    assert [(one.metric_type, one.metric_value) for one in checkpoint.data.eval_results] == [("accuracy", 0.75)]
    assert "measured before the export" in checkpoint.content
    assert 'transformers.pipeline("text-classification", ".")' in checkpoint.content
    assert embedder.data.tags == ["headswap", "sentence-transformers", "feature-extraction"]
    assert embedder.data.eval_results is None, "the figures are those of the head, which is left out"
    assert "Accuracy" not in embedder.content


def test_adapters_have_a_card(classifier: Bundle, tmp_path: Path) -> None:
    shape = classifier.model.shape.changed(lora=LoraShape(rank=2, alpha=4, targets=("qkv",)))
    Peft().export(replace(classifier, model=build_model(shape, seed=1)), tmp_path / "peft", ExportSettings())
    card = hub.ModelCard.load(tmp_path / "peft" / "README.md")
    assert (card.data.library_name, card.data.tags) == ("peft", ["headswap", "lora"])
    assert 'transformers.AutoModelForSequenceClassification.from_pretrained("base")' in card.content


def test_the_card_of_several_labels_names_their_thresholds(classifier: Bundle, tmp_path: Path) -> None:
    state = classifier.task.changed(task="multilabel", thresholds=(0.2,) * 3)
    for name, bundle in (("without", classifier), ("with", replace(classifier, task=state))):
        EXPORTS.load("hf")().export(bundle, tmp_path / name, ExportSettings())
    without, with_them = ((tmp_path / name / "README.md").read_text(encoding="utf-8") for name in ("without", "with"))
    assert "if its probability is at least its threshold" in with_them
    assert "threshold" not in without
    EXPORTS.load("sentence-transformers")().export(replace(classifier, task=state), tmp_path / "st", ExportSettings())
    assert "threshold" not in (tmp_path / "st" / "README.md").read_text(encoding="utf-8"), "it has no labels"


@pytest.mark.parametrize(("long", "reads"), [("head+tail", "their beginning and their end"), ("windows", "windows")])
@pytest.mark.parametrize("target", ["hf", "peft", "sentence-transformers"])
def test_an_export_says_that_long_texts_are_read_otherwise(
    target: str, long: str, reads: str, classifier: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if target == "peft":
        shape = classifier.model.shape.changed(lora=LoraShape(rank=2, alpha=4, targets=("qkv",)))
        classifier = replace(classifier, model=build_model(shape, seed=1))
    cards = []
    for state in (classifier.task, classifier.task.changed(long=long)):
        EXPORTS.load(target)().export(replace(classifier, task=state), tmp_path / state.long, ExportSettings())
        cards.append((tmp_path / state.long / "README.md").read_text(encoding="utf-8"))
    if target == "sentence-transformers":  # the vectors of `headswap embed`, which reads the beginning, too
        assert not caplog.messages
        assert "Texts of more than" not in cards[1]
        return
    (said,) = caplog.messages
    assert said.startswith("Texts of more than 30 tokens get other answers than in headswap")
    assert reads in said
    assert f"--long {long}" in said
    assert "Texts of more than" not in cards[0]
    assert said in cards[1]


def test_the_card_of_a_language_model_names_its_limits(tokenizer: Tokenizer, tmp_path: Path) -> None:
    EXPORTS.load("hf")().export(make_bundle(tokenizer, "lm", "gpt2-small"), tmp_path / "hf", ExportSettings())
    card = hub.ModelCard.load(tmp_path / "hf" / "README.md")
    assert card.data.pipeline_tag == "text-generation"
    assert "A language model can emit text that it was trained on" in card.content
