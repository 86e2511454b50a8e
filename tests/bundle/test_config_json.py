"""config.json: Hugging Face's names, and errors that name the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from bundles import edit_config, make_bundle
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError
from headswap.model.shape import HeadShape
from headswap.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bert"}, "'bert', not a headswap bundle"),
        ({"headswap_format": 99}, "format 99"),
        ({"id2label": {"0": "bad", "1": "good"}}, "id2label does not name the 3 labels"),
        ({"num_labels": None}, "id2label"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"head": "wings"}, "head"),
        ({"task": {"task": "dance"}}, "task = 'dance' is not allowed"),
        ({"task": {"limit": 1}}, "limit is not a setting"),
        ({"task": {"task": "multilabel", "thresholds": [0.5]}}, "1 thresholds for 3 labels"),
        ({"task": "tag"}, "task is not an object"),
        ({"task": {"max_length": 10**8}}, "task.max_length is 100,000,000, but the base reads at most 40"),
    ],
)
def test_a_wrong_config_is_refused_and_named(saved: Path, changes: dict, words: str) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(InputError, match=words) as caught:
        Bundle.load(saved)
    assert "config.json" in str(caught.value)


def test_a_config_that_is_not_json_is_refused(saved: Path) -> None:
    (saved / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not valid JSON"):
        Bundle.load(saved)


def test_the_config_has_the_keys_of_hugging_face(saved: Path, tokenizer: Tokenizer) -> None:
    config = json.loads((saved / "config.json").read_text())
    assert config["architectures"] == ["HeadswapForSequenceClassification"]
    assert config["id2label"] == {"0": "bad", "1": "good", "2": "middling"}
    assert config["label2id"] == {"bad": 0, "good": 1, "middling": 2}
    assert config["vocab_size"] == tokenizer.vocab_size
    assert (config["bos_token_id"], config["pad_token_id"], config["eos_token_id"]) == (0, 1, 2)
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                 "max_position_embeddings", "tie_word_embeddings", "is_decoder", "problem_type"):  # fmt: skip
        assert name in config


def test_a_bundle_without_a_task_is_a_classifier(saved: Path) -> None:
    edit_config(saved, task=None)
    assert Bundle.load(saved).task == TaskState()


def test_the_problem_type_is_kept_when_a_bundle_is_saved_again(saved: Path, tmp_path: Path) -> None:
    Bundle.load(saved).save(tmp_path / "copy")
    config = json.loads((tmp_path / "copy" / "config.json").read_text())
    assert config["problem_type"] == "single_label_classification"


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_a_head_that_compares_two_texts_states_its_norm_and_without_one_it_is_layer(
    tokenizer: Tokenizer, tmp_path: Path, norm: Any
) -> None:
    make_bundle(tokenizer, "compare", classifier=HeadShape(head_norm=norm)).save(tmp_path)
    assert read_config(tmp_path)["classifier"]["head_norm"] == norm
    assert Bundle.load(tmp_path).model.shape.classifier.head_norm == norm
    edit_config(tmp_path, classifier={"pooling": "mean"})
    assert Bundle.load(tmp_path).model.shape.classifier.head_norm == "layer"
    make_bundle(tokenizer, "classify").save(tmp_path / "single")
    assert "head_norm" not in read_config(tmp_path / "single")["classifier"], "earlier versions can read it"
    assert Bundle.load(tmp_path / "single").model.shape.classifier.head_norm == "none"


def read_config(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))
