"""Settings of a fine-tuning that its task cannot use."""

import pytest

from headswap.core.errors import SettingError
from headswap.finetuning.config import FinetuneRecipe, FinetuneTraining
from headswap.finetuning.task_settings import check_dropout, for_task
from headswap.tasks.choose import named_task
from tiny import tiny_model_shape


def recipe(**sections: object) -> FinetuneRecipe:
    return FinetuneRecipe.model_validate({"model": {"base": "base"}, **sections})


@pytest.mark.parametrize(
    ("task", "sections", "words"),
    [
        ("regress", {"head": {"head_similarity": "cosine"}}, "the task regress does not choose one label per text"),
        ("tag", {"head": {"head_similarity": "cosine"}}, "the task tag does not choose one label per text"),
        ("multilabel", {"training": {"rdrop_alpha": 1}}, "the task multilabel predicts no distribution over labels"),
        (
            "classify",
            {"training": {"rdrop_alpha": 1}, "consistency": {"unlabelled": ["a.txt"]}},
            "rdrop_alpha cannot be used with --unlabelled",
        ),
        ("classify", {"head": {"pair_encoding": "separate"}}, "the texts are no pairs"),
        ("tag", {"head": {"head_norm": "layer"}}, "the head of the task tag reads token by token"),
        ("tag", {"training": {"token_dropout": 0.1}}, "the task tag needs every token"),
    ],
)
def test_settings_that_a_task_cannot_use_are_refused(task: str, sections: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        for_task(recipe(**sections), named_task(task))


def test_the_task_and_its_defaults_are_filled_in() -> None:
    found = for_task(recipe(head={"head_similarity": "cosine"}), named_task("classify"))
    assert (found.data.task, found.training.metric_for_best_model) == ("classify", "accuracy")
    assert found.adaptation.layer_lr_decay == 0.8


def test_rdrop_without_any_dropout_is_refused() -> None:
    shape, training = tiny_model_shape(head="classify"), FinetuneTraining(rdrop_alpha=1.0)
    with pytest.raises(SettingError, match="no effect without dropout"):
        check_dropout(training, shape)
    check_dropout(FinetuneTraining(), shape)
    check_dropout(training, tiny_model_shape(head="classify", dropout=0.1))
    check_dropout(training, shape.changed(classifier=shape.classifier.changed(head_dropout=0.1)))
