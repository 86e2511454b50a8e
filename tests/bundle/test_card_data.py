"""The metadata of a card is what `ModelCardData` of huggingface_hub writes, and the library reads it back."""

from dataclasses import replace
from pathlib import Path

import huggingface_hub as hub
import pytest

from bundles import make_bundle
from headswap.bundle.card_data import card_data, evaluation_of, front_matter, with_figures
from headswap.tokens.tokenizer import Tokenizer

FIGURES = {
    "accuracy": 0.91,
    "macro_f1": 0.9000000001,
    "loss": 0.2,
    "pearson": float("nan"),
    "mse": None,
    "confusion": [],
}


def results(data: str) -> list[hub.EvalResult]:
    """The figures above as the library describes them."""
    given = {"task_type": "text-classification", "dataset_type": data, "dataset_name": data, "dataset_split": "test"}
    return [
        hub.EvalResult(**given, metric_type="accuracy", metric_value=0.91, metric_name="Accuracy"),
        hub.EvalResult(
            **given, metric_type="f1", metric_value=0.9, metric_name="Macro F1", metric_args={"average": "macro"}
        ),
    ]


@pytest.mark.parametrize("base", ["hf:owner/mini", "hf:owner/mini@v2", "hf:mini", "runs/base", "box:reviews-en"])
def test_the_text_is_that_of_the_library(tokenizer: Tokenizer, base: str) -> None:
    bundle = replace(make_bundle(tokenizer), card={"base": base})
    tested = with_figures(bundle, FIGURES, data="test.jsonl", examples=100)
    common = {
        "base_model": "owner/mini" if "owner" in base else None,
        "library_name": "headswap", "pipeline_tag": "text-classification", "tags": ["headswap"],
    }  # fmt: skip
    expected = hub.ModelCardData(**common, model_name="headswap classifier", eval_results=results("test.jsonl"))
    assert front_matter(card_data(tested)) == ["---", *expected.to_yaml().splitlines(), "---"]
    assert front_matter(card_data(bundle)) == ["---", *hub.ModelCardData(**common).to_yaml().splitlines(), "---"]


@pytest.mark.parametrize(
    "data", ["test.csv", "imdb/test", "hf:owner/set#test", "a: 'b' \"c\" #d\n\x85\u2028 é 😀", "12", "no"]
)
def test_the_library_reads_the_card_of_a_bundle(tokenizer: Tokenizer, tmp_path: Path, data: str) -> None:
    tested = with_figures(make_bundle(tokenizer), FIGURES, data=data, examples=100)
    tested.save(tmp_path / "bundle")
    found = hub.ModelCard.load(tmp_path / "bundle" / "README.md").data
    assert found.eval_results == results(data)
    assert (found.library_name, found.pipeline_tag) == ("headswap", "text-classification")


@pytest.mark.parametrize(
    "entry",
    [3, {}, {"data": 1, "examples": 2, "metrics": {}}, {"data": "x", "examples": 2, "metrics": {"accuracy": "a"}}],
)
def test_a_damaged_entry_is_no_figure(tokenizer: Tokenizer, entry: object) -> None:
    bundle = replace(make_bundle(tokenizer), card={"evaluation": entry})
    assert evaluation_of(bundle.card) is None
    assert "model-index" not in card_data(bundle)


def test_a_fine_tuned_run_has_its_test_figures_on_the_card(tiny_runs: Path) -> None:
    import headswap as hs

    run = hs.Run(tiny_runs / "classifier")
    card = hub.ModelCard.load(run.path / "bundle" / "README.md")
    values = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert values["Accuracy"] == pytest.approx(run.result["test"]["accuracy"], abs=1e-6)
    assert values["Macro F1"] == pytest.approx(run.result["test"]["macro_f1"], abs=1e-6)
    assert "Measured once on 100 examples of test.jsonl" in card.content
    assert run.model.card["evaluation"]["examples"] == 100
