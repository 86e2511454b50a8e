"""Fast kernels are faster than plain ones: ratios of alternating measurements with wide margins, no absolute times."""

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
    """Allow fast kernels again after the test."""
    yield
    kernels.allow_fast_kernels(True)


def ratio(fast: Callable[[], object], plain: Callable[[], object]) -> float:
    """Median speed-up in CPU time, which depends little on other load."""
    found = []
    for number in range(1 + ROUNDS):
        seconds = []
        for is_fast, work in ((True, fast), (False, plain)):
            kernels.allow_fast_kernels(is_fast)
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
        if number:  # the first round is a warm-up
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


def test_the_tiled_loss_makes_a_causal_step_faster() -> None:
    step = step_of(30_000, "lm", [128] * 4, bf16=False)
    assert ratio(step, step) > 1.05


@pytest.mark.skipif(not has_native_bf16(), reason="needs a CPU with AVX512-BF16")
def test_a_causal_step_with_precision_auto_is_much_faster_than_a_plain_one() -> None:
    fast, plain = (step_of(30_000, "lm", [128] * 4, bf16=bf16) for bf16 in (True, False))
    assert ratio(fast, plain) > 1.6


def test_unpadded_attention_makes_a_step_with_different_lengths_faster() -> None:
    step = step_of(1_000, "classify", [400, 60, 70, 80, 90, 100, 110, 120], bf16=False)
    assert ratio(step, step) > 1.2
