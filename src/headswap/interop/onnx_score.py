"""Outputs of an exported graph: compared with those of the model, and scored on a test set."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headswap.batches.labelled_rows import EncodedSet, Row, batch_of
from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.data.config import ColumnSettings
from headswap.interop.export_card import long_texts
from headswap.model.heads import TaskHead
from headswap.model.text_model import TextModel
from headswap.tasks.choose import task_of
from headswap.tasks.task import LOWER_IS_BETTER, with_state

BATCH = 32
LENGTHS = (1, 7, 3, 12)
"""Lengths of the sequences on which graph and model are compared."""


def largest_difference(model: TextModel, file: Path, names: list[str]) -> float:
    """The largest difference between outputs of graph and model on sequences of several lengths."""
    limit, vocabulary = model.shape.base.max_position_embeddings, model.shape.base.vocab_size
    stream = np.random.default_rng(0)
    lengths = [min(length, limit) for length in (*LENGTHS, limit if limit <= 512 else 512)]
    rows = [
        Row(number, stream.integers(0, vocabulary, length), _segments(length, names))
        for number, length in enumerate(lengths)
    ]
    if model.sequences_per_target == 2:
        rows = [replace(row, split=len(row.ids) // 2, segments=None) for row in rows if len(row.ids) > 1]
    pairs = zip(_of_model(model, rows), _of_graph(file, names, rows, model), strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


def _segments(length: int, names: list[str]) -> np.ndarray | None:
    return (np.arange(length) >= length // 2).astype(np.int64) if "token_type_ids" in names else None


def examples_of_test(bundle: Bundle, source: str) -> list[Any]:
    """The examples of a labelled file with the columns `text` and `label`."""
    if bundle.task.reads_pairs:
        raise SettingError("test cannot be scored here for a model that reads pairs of texts. Leave it out.")
    task = task_of(bundle)
    examples = task.read(source, ColumnSettings())
    task.check(examples, bundle.labels, role="test")
    return examples


def rows_of_folder(bundle: Bundle, examples: Sequence[Any]) -> EncodedSet:
    """The rows as a program reads them with the exported tokenizer: of a long text its beginning (docs/onnx.md)."""
    is_cut = long_texts(bundle) is not None
    return task_of(bundle).encode(examples, with_state(bundle, long="truncate") if is_cut else bundle)


def metric_of(bundle: Bundle) -> str:
    """The metric whose drop is limited; higher is better."""
    first = task_of(bundle).selection_metrics[0]
    return "r2" if first in LOWER_IS_BETTER else first


def metrics_with(
    bundle: Bundle, encoded: EncodedSet, *, model: TextModel | None = None, file: Path | None = None, names: Any = ()
) -> dict[str, Any]:
    """All metrics of the outputs of the model, or of the graph."""
    outputs = (
        _of_graph(file, names, encoded.rows, bundle.model) if file else _of_model(model or bundle.model, encoded.rows)
    )
    kept = [part if row.wanted is None else part[row.wanted] for part, row in zip(outputs, encoded.rows, strict=True)]
    plain = with_state(bundle, temperature=1.0, target_mean=0.0, target_std=1.0)  # they are in the last layer
    return task_of(bundle).evaluate(kept, encoded, plain, is_final=False)


@torch.no_grad()
def _of_model(model: TextModel, rows: Sequence[Row]) -> list[np.ndarray]:
    per_token = _is_per_token(model)
    found: list[np.ndarray] = []
    for start in range(0, len(rows), BATCH):
        batch = batch_of(rows[start : start + BATCH], is_per_token=per_token)
        scores = model(batch).float().numpy()
        found += list(np.split(scores, np.cumsum(batch.lengths)[:-1]) if per_token else scores)
    return found


def _of_graph(file: Path | None, names: Sequence[str], rows: Sequence[Row], model: TextModel) -> list[np.ndarray]:
    from onnxruntime import InferenceSession

    session, per_token = InferenceSession(str(file), providers=["CPUExecutionProvider"]), _is_per_token(model)
    found: list[np.ndarray] = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        sequences = [sequence for row in part for sequence in row.sequences]
        longest = max(map(len, sequences))
        given = {name: np.zeros((len(sequences), longest), dtype=np.int64) for name in names}
        for number, ids in enumerate(sequences):
            given["input_ids"][number, : len(ids)] = ids
            given["attention_mask"][number, : len(ids)] = 1
        for number, row in enumerate(part):
            if row.segments is not None and "token_type_ids" in given:
                given["token_type_ids"][number, : len(row.ids)] = row.segments
        scores = session.run(["logits"], given)[0]
        found += [one[: len(row.ids)] if per_token else one for one, row in zip(scores, part, strict=True)]
    return found


def _is_per_token(model: TextModel) -> bool:
    return model.head.is_per_token if isinstance(model.head, TaskHead) else True
