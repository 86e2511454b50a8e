"""What a new head reads of the training texts before the first step, from which its first weights can be computed."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from headswap.batches.labelled_rows import Row, batch_of
from headswap.inference.outputs import TOKENS_PER_BATCH, token_batches
from headswap.model.heads import ClassificationHead
from headswap.model.text_model import TextModel
from headswap.tasks.task import Task


def reads_text_vector(task: Task, head_hidden: str) -> bool:
    """Whether there are classes of texts and a class layer that reads the pooled vector."""
    return task.one_label_per_text and head_hidden == "none"


@torch.no_grad()
def head_inputs(model: TextModel, rows: Sequence[Row], *, autocast: AbstractContextManager) -> Tensor:
    """What the class layer reads of each row (rows x pooled width), in float64 on the CPU."""
    head = model.head
    assert isinstance(head, ClassificationHead)
    model.eval()
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
    for chosen in token_batches(order, [row.ids for row in rows], TOKENS_PER_BATCH[model.device.type]):
        batch = batch_of([rows[index] for index in chosen], is_per_token=False).to(model.device)
        with autocast:
            read_BP = head.vectors(model.hidden(batch), batch)
        for index, vector_P in zip(chosen, read_BP.float().cpu(), strict=True):
            found[index] = vector_P
    return torch.stack(found).double()
