"""The settings of a fine-tuning for its task: defaults are filled in, and settings without effect are errors."""

from headswap.core.errors import SettingError
from headswap.defaults.finetuning import resolve_start
from headswap.finetuning.class_means import check_class_means
from headswap.finetuning.config import FinetuneRecipe, FinetuneTraining
from headswap.finetuning.consistency import check_consistency
from headswap.finetuning.distillation import check_teachers
from headswap.finetuning.linear_head import check_linear_head
from headswap.model.text_model import ModelShape
from headswap.tasks.task import Task


def for_task(recipe: FinetuneRecipe, task: Task) -> FinetuneRecipe:
    """The recipe with the task and its defaults filled in."""
    training, data = task.resolve(recipe.training), recipe.data
    task.check_pooling(recipe.head.pooling)
    if data.text_pair_column is not None and training.long != "truncate":
        raise SettingError(f"long is '{training.long}', but pairs of texts can only be truncated. Remove the setting.")
    if task.is_per_token and training.token_dropout:
        raise SettingError(
            f"token_dropout is {training.token_dropout:g}, but the task {task.name} needs every token. Remove it."
        )
    if recipe.head.pair_encoding is not None and data.text_pair_column is None:
        raise SettingError(
            f"pair_encoding is '{recipe.head.pair_encoding}', but the texts are no pairs. Remove it, or name the "
            "column of the second text with --text-pair-column."
        )
    if recipe.head.head_norm == "layer" and task.is_per_token:
        raise SettingError(
            f"head_norm is 'layer', but the head of the task {task.name} reads token by token. Remove it."
        )
    if recipe.head.head_similarity == "cosine" and not task.one_label_per_text:
        raise SettingError(
            f"head_similarity is 'cosine', but the task {task.name} does not choose one label per text. Remove it."
        )
    _check_rdrop(recipe, task)
    check_teachers(recipe.consistency)
    if recipe.adaptation.head_init == "class-means":
        check_class_means(task, recipe.head)
    if recipe.adaptation.head_init == "linear":
        check_linear_head(task, recipe.head)
    reads_pairs, is_scratch = data.text_pair_column is not None, recipe.model.base == "scratch"
    check_consistency(recipe.consistency, task, reads_pairs=reads_pairs, is_scratch=is_scratch)
    recipe = recipe.changed(data=data.changed(task=task.name), training=training)
    return resolve_start(recipe, direction=task.direction)


def _check_rdrop(recipe: FinetuneRecipe, task: Task) -> None:
    """R-Drop needs one label per target, and logits of the labelled texts only."""
    alpha = recipe.training.rdrop_alpha
    if alpha and not task.one_label_per_target:
        raise SettingError(
            f"rdrop_alpha is {alpha:g}, but the task {task.name} predicts no distribution over labels. Remove it."
        )
    if alpha and recipe.consistency.unlabelled and not recipe.consistency.teachers:
        raise SettingError(
            "rdrop_alpha cannot be used with --unlabelled, which compares two predictions too. Remove one of them."
        )


def check_dropout(training: FinetuneTraining, shape: ModelShape) -> None:
    """R-Drop compares two draws of dropout, so a model without dropout is an error."""
    dropouts = (shape.base.dropout, shape.base.attention_dropout, shape.classifier.head_dropout)
    if training.rdrop_alpha and not any(dropouts):
        raise SettingError(
            "rdrop_alpha has no effect without dropout: both passes are equal. Pass --dropout 0.1, for example."
        )
