"""Loss, perplexity and bits per byte of a base on held-out text."""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

from headswap.core.random_streams import Draws
from headswap.inference.outputs import TOKENS_PER_BATCH, Spread, in_this_process
from headswap.model.text_model import TextModel
from headswap.objectives.objective import Part, PretrainingObjective, RowSource, ScoreSums
from headswap.tokens.tokenizer import Tokenizer

HELD_OUT_MASKS = "held-out masks"


@torch.no_grad()
def held_out_metrics(
    model: TextModel,
    objective: PretrainingObjective,
    rows: RowSource,
    *,
    num_bytes: int,
    autocast: AbstractContextManager | None = None,
    spread: Spread = in_this_process,
) -> dict[str, float]:
    """Mean losses per target over all rows, and perplexity; the masks are the same at every call.

    Bits per byte are computed only if every token is predicted, which is not the case with a masked objective;
    `num_bytes` is what `scored_bytes` counts. If an objective has several parts, each is scored, and the loss is the
    weighted mean of their losses. Parts without a target are left out; there are no metrics if all are.
    """
    parts = scored_parts(objective, rows)
    if not parts:
        return {}
    was_training = model.training
    model.eval()
    metrics: dict[str, float] = {"loss": 0.0}
    for prefix, (part, weight) in parts.items():
        found = _mean_scores(model, part, rows, num_bytes, autocast or nullcontext(), spread)
        mean = metrics["loss"] + weight * found["loss"]
        metrics |= {name if name == "bits_per_byte" else prefix + name: value for name, value in found.items()}
        metrics["loss"] = mean
    model.train(was_training)
    metrics["perplexity"] = math.exp(min(metrics["loss"], 700))
    return metrics


def scored_parts(objective: PretrainingObjective, rows: RowSource) -> dict[str, Part]:
    """The parts of an objective that have a target in the rows, with weights that add up to 1.

    A masked part has none if no token of the rows is masked, as in a few short texts. Rows are read until one has a
    target, usually the first one.
    """
    parts = objective.held_out_parts()
    found = {prefix: part for prefix, part in parts.items() if _has_target(part.objective, rows)}
    total = sum(part.weight for part in found.values())
    return {prefix: Part(part, weight / total) for prefix, (part, weight) in found.items()}


def _has_target(objective: PretrainingObjective, rows: RowSource) -> bool:
    if objective.is_likelihood:  # every token is a target
        return True
    draws = Draws(0, HELD_OUT_MASKS)
    return any(objective.make_batch(rows.pieces_of([row], draws), draws).num_targets for row in range(len(rows)))


def _mean_scores(
    model: TextModel,
    objective: PretrainingObjective,
    rows: RowSource,
    num_bytes: int,
    autocast: AbstractContextManager,
    spread: Spread,
) -> dict[str, float]:
    """The scores of one part of an objective."""
    per_batch = max(1, TOKENS_PER_BATCH[model.device.type] // rows.max_length)
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    draws = Draws(0, HELD_OUT_MASKS)

    def scored(start: int) -> Mapping[str, ScoreSums]:
        pieces = rows.pieces_of(range(start, min(start + per_batch, len(rows))), draws)
        batch = objective.make_batch(pieces, draws).to(model.device)
        with autocast:
            return objective.score_sums(model, batch)

    for sums in spread(scored, range(0, len(rows), per_batch)):
        for name, part in sums.items():
            totals[name] += part.total  # type: ignore[assignment]
            counts[name] += part.count
    metrics = {name: total / counts[name] for name, total in totals.items()}
    for name in [name for name in metrics if name.endswith("_accuracy")]:
        metrics[name.replace("_accuracy", "_pairs")] = counts[name]
    if objective.is_likelihood:
        metrics["bits_per_byte"] = totals["loss"] / (math.log(2) * num_bytes)
    return metrics


def scored_bytes(rows: RowSource, tokenizer: Tokenizer) -> int:
    """UTF-8 bytes of the text in the rows: of the documents, less the tokens that were cut off.

    The bytes of a truncated document are divided in the proportion of the bytes of its kept and of all its tokens. This
    is exact for a byte-level tokenizer that does not change the text, and allows for one that does (lower case).
    """
    store = rows.store
    if not rows.num_truncated:
        return int(store.byte_counts[rows.documents].sum())
    total = 0
    for document in rows.documents:
        ids, num_bytes = store.document(int(document)), int(store.byte_counts[document])
        kept = ids[: rows.max_length - 1]  # the input <sos> uses one position
        if len(kept) < len(ids):
            num_bytes = round(num_bytes * tokenizer.bytes_of_ids(kept) / max(1, tokenizer.bytes_of_ids(ids)))
        total += num_bytes
    return total
