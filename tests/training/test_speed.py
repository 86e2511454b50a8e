"""Fast paths are faster than plain ones, by ratios in one alternating run with wide margins; never absolute times."""

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from headswap.batches.batch import flat_batch
from headswap.kernels import policy as kernels
from headswap.model.shape import PRESETS, BaseShape
from headswap.model.text_model import ModelShape, build_model
from headswap.objectives.objective import token_loss_sum
from headswap.objectives.supervised import ClassificationObjective
from headswap.training.device import has_native_bf16

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread", "allowed_again")]
ROUNDS = 5


@pytest.fixture
def allowed_again() -> Iterator[None]:
    """Leaves the process as it was."""
    yield
    kernels.allow_fast_kernels(True)


def ratio(fast: Callable[[], object], plain: Callable[[], object]) -> float:
    """How often faster, by the processor's own time, so that other work on the machine matters little."""
    found = []
    for number in range(1 + ROUNDS):
        seconds = []
        for is_fast, work in ((True, fast), (False, plain)):
            kernels.allow_fast_kernels(is_fast)
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
        if number:  # the first round warms up
            found.append(seconds[1] / seconds[0])
    return statistics.median(found)


def step_of(vocab_size: int, head: str, lengths: list[int], *, bf16: bool) -> Callable[[], None]:
    """Forward and backward of the lab's shape."""
    shape = BaseShape.model_validate({**PRESETS["lab"], "vocab_size": vocab_size})
    model = build_model(ModelShape(base=shape, head=head, num_labels=2 if head == "classify" else None), seed=0).train()
    rng = np.random.default_rng(0)
    ids = [rng.integers(6, vocab_size, length) for length in lengths]
    if head == "lm":
        batch = flat_batch(ids, target_index=np.arange(sum(lengths)), target_value=np.concatenate(ids))
    else:
        batch = flat_batch(ids, target_index=np.arange(len(ids)), target_value=np.arange(len(ids)) % 2)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            if head == "lm":
                loss = token_loss_sum(model, model.hidden(batch), batch)
            else:
                loss = ClassificationObjective().loss_sum(model, batch)
        loss.backward()
        model.zero_grad(set_to_none=True)

    return step


def test_tiles_make_a_causal_step_faster_than_chunks() -> None:
    step = step_of(30_000, "lm", [128] * 4, bf16=False)
    assert ratio(step, step) > 1.05


@pytest.mark.skipif(not has_native_bf16(), reason="this CPU has no bf16 products: a machine with AVX512-BF16 runs it")
def test_a_causal_step_as_auto_takes_it_is_far_ahead_of_the_plain_one() -> None:
    fast, plain = (step_of(30_000, "lm", [128] * 4, bf16=bf16) for bf16 in (True, False))
    assert ratio(fast, plain) > 1.6


def test_attention_without_padding_makes_a_ragged_step_faster() -> None:
    step = step_of(1_000, "classify", [400, 60, 70, 80, 90, 100, 110, 120], bf16=False)
    assert ratio(step, step) > 1.2
