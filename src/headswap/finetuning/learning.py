"""What a fine-tuning learns from in each step: its objective and its batches.

Without unlabelled texts, and in distillation, these are the objective of the task and batches of the training rows. In
consistency training batches also
have two views of unlabelled texts, the objective has a second loss, and the predicted labels are checked for collapse.
R-Drop and adversarial training are wrapped around the objective.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headswap.batches.labelled_rows import EncodedSet, ExampleBatches, Row
from headswap.batches.token_dropout import TokenDropout
from headswap.batches.unlabelled_rows import RowsChange
from headswap.bundle.bundle import Bundle
from headswap.data.records import Example
from headswap.finetuning.config import FinetuneRecipe, FinetuneTraining
from headswap.finetuning.consistency import CollapseCheck, view_batches
from headswap.objectives.adversarial import AdversarialObjective
from headswap.objectives.consistency import ConsistencyObjective
from headswap.objectives.objective import Objective
from headswap.objectives.rdrop import RDropObjective
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.task import Task
from headswap.training.gradients import BatchSource


@dataclass(frozen=True)
class Learning:
    """The objective and the batches of a run."""

    objective: Objective
    source: BatchSource
    losses: tuple[str, ...] = ("loss",)
    collapse_check: CollapseCheck | None = None


def make_learning(
    recipe: FinetuneRecipe,
    task: Task,
    bundle: Bundle,
    train: EncodedSet,
    rows: Sequence[Row],
    unlabelled: Sequence[Example],
    *,
    total_steps: int,
    replacements: RowsChange | None = None,
) -> Learning:
    """The objective and the batches that the resolved recipe asks for; `rows` are those of train, or distilled ones."""
    training, settings, special_ids = recipe.training, recipe.consistency, bundle.tokenizer.special_ids
    share = training.token_dropout
    change = TokenDropout(share, training.seed, special_ids) if share else None
    source = ExampleBatches(rows, training.batch_size, training.seed, task.is_per_token, change)
    objective = task.objective(training, train, bundle.labels)
    if not unlabelled or settings.teachers:
        return Learning(_with_terms(objective, training), source)
    texts = task.encode_inputs(unlabelled, bundle).rows
    views = view_batches(source, texts, settings, special_ids, total_steps=total_steps, replacements=replacements)
    collapse_check = CollapseCheck.of(views, train.rows)
    collapse_check.log_start()
    assert isinstance(objective, ClassificationObjective)
    threshold, temperature = settings.consistency_threshold, settings.consistency_temperature
    both = ConsistencyObjective(objective, threshold=threshold, temperature=temperature)
    return Learning(_with_terms(both, training), views, ConsistencyObjective.losses, collapse_check)


def _with_terms(objective: Objective, training: FinetuneTraining) -> Objective:
    """The objective with R-Drop and adversarial training, where they are set."""
    if training.rdrop_alpha:
        assert isinstance(objective, ClassificationObjective)
        objective = RDropObjective(objective, alpha=training.rdrop_alpha)
    if training.adversarial_epsilon:
        objective = AdversarialObjective(objective, epsilon=training.adversarial_epsilon)
    return objective
