"""What a fine-tuning logs about its labelled sets, its base and its best epoch."""

import logging

from headswap.batches.labelled_rows import EncodedSet
from headswap.core.errors import counted
from headswap.data.checks import issues_of, log_issues
from headswap.finetuning.config import FinetuneRecipe, PairEncoding
from headswap.finetuning.splits import LabelledSplits
from headswap.finetuning.starting_point import StartingPoint

log = logging.getLogger("headswap")
PAIR_ENCODINGS: dict[PairEncoding, str] = {
    "joined": "one sequence",
    "separate": "two sequences, whose vectors the head compares",
}


def log_inputs(recipe: FinetuneRecipe, splits: LabelledSplits, start: StartingPoint) -> None:
    """Log the labelled sets and issues about them, the direction of attention, and the ledger."""
    task = splits.task
    if not splits.validation:
        log.info(
            "Only %s: no validation set is held out, and the last weights are kept.",
            counted(len(splits.train), "training example"),
        )
    elif recipe.data.validation is None:
        num = len(splits.validation)
        log.info("No validation set is given: %d training examples are held out for validation.", num)
    splits.warn_of_overlap()
    if start.is_turned:
        log.info(
            "The base is causal; it is fine-tuned with bidirectional attention, so every prediction uses the whole "
            "text (--direction causal keeps its attention)."
        )
    elif task.is_per_token and start.model.shape.direction == "causal":
        log.info("The base is causal: the prediction for a word does not use the text after it.")
    if (encoding := start.pair_encoding) is not None:
        log.info("A pair of texts is read as %s (--pair-encoding %s).", PAIR_ENCODINGS[encoding], encoding)
    log_issues(issues_of({"train": splits.train, "validation": splits.validation, "test": splits.test}), log)
    log.info("Ledger: %s.", start.ledger.sentence())
    log.info(
        "Data: %s%d training, %d validation and %d test examples.",
        f"{len(splits.labels)} labels; " if task.lists_labels else "",
        len(splits.train), len(splits.validation), len(splits.test),
    )  # fmt: skip


def log_encoding(role: str, encoded: EncodedSet, max_length: int, noun: str) -> None:
    """Log the share of tokens that is cut off in a set of texts (`noun`), and the task's notes about it."""
    if len(encoded):
        share = 100 * encoded.truncated_share
        log.info(
            "%.1f %% of the %s tokens are cut off (at most %d tokens per %s are read).", share, role, max_length, noun
        )
    for note in encoded.notes:
        log.info("%s set: %s.", role.capitalize(), note)


def log_best_epoch(metric: str | None, epoch: float, num_epochs: float) -> None:
    """Log which epoch was selected, and by which metric of the validation set."""
    name = str(metric).replace("_", " ").replace("f1", "F1")
    log.info("Best epoch by validation %s: %.3g of %.3g. Its weights are kept.", name, epoch, num_epochs)
