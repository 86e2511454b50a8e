"""Captured steps on a CPU: a replay is a second computation here; real CUDA graphs are tested in test_gpu.py."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch

from headswap.batches.batch import Batch, flat_batch, pad_batch
from headswap.finetuning.config import AdaptationSettings
from headswap.finetuning.layer_rates import freeze, group_rates
from headswap.kernels.cuda_graph import GraphCapture
from headswap.model.shape import Pooling
from headswap.model.text_model import build_model
from headswap.objectives.adversarial import AdversarialObjective
from headswap.objectives.rdrop import RDropObjective
from headswap.objectives.supervised import ClassificationObjective
from headswap.training import cuda_graph_steps, gradients
from headswap.training.config import MachineSettings, TrainingSettings
from headswap.training.cuda_graph_steps import EAGER_STEPS, CapturedSteps, can_capture, pad_to_few_sizes, sizes_of
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import make_optimizer
from tiny import Changing, random_sequences, tiny_batch, tiny_model_shape, tiny_objective

LENGTHS = [9, 30, 2, 22]
AS_A_WINDOW = [9, 30, 2, 23]
"""64 inputs: the targets of masked tokens are padded to the number of tokens."""
batch_on_device = cuda_graph_steps._batch


def batch_of(kind: str, lengths: list[int] = LENGTHS) -> Batch:
    sequences = random_sequences(lengths if kind == "classify" else [length + 1 for length in lengths])
    if kind != "classify":
        return tiny_batch(kind, sequences)
    return flat_batch(sequences, target_index=np.arange(4), target_value=np.array([0, 1, 2, 0]))


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("causal", "mean"),
        ("masked", "mean"),
        ("causal+masked", "mean"),
        *(("classify", one) for one in get_args(Pooling)),
    ],
)
@pytest.mark.parametrize("lengths", [LENGTHS, AS_A_WINDOW])
def test_padding_a_batch_changes_no_loss_and_no_gradient(kind: str, pooling: str, lengths: list[int]) -> None:
    objective = ClassificationObjective() if kind == "classify" else tiny_objective(kind)
    shape = tiny_model_shape(
        head="classify" if kind == "classify" else "lm", direction=getattr(objective, "direction", "causal"),
        pooling=pooling, max_position_embeddings=64,
    )  # fmt: skip
    model = build_model(shape, seed=1).double()
    batch = batch_of(kind, lengths)
    sizes = sizes_of(batch, model)
    padded = pad_batch(batch, **sizes._asdict())
    assert (padded.num_tokens, len(padded.lengths_B), padded.num_targets) == sizes
    results = []
    for one in (batch, padded):
        model.zero_grad()
        loss = objective.loss_sum(model, one)
        loss.backward()
        results.append([loss.detach(), *(tensor.grad for tensor in model.parameters() if tensor.grad is not None)])
    for plain, with_padding in zip(*results, strict=True):
        torch.testing.assert_close(with_padding, plain, atol=1e-9, rtol=1e-9)


def test_many_batches_have_few_padded_sizes_and_no_empty_sequence_is_pooled() -> None:
    model = build_model(tiny_model_shape(head="classify", max_position_embeddings=64), seed=1)
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        batch = flat_batch(
            random_sequences(rng.integers(1, 60, 4).tolist()), target_index=np.arange(4), target_value=np.zeros(4, int)
        )
        sizes = sizes_of(batch, model)
        lengths = pad_batch(batch, **sizes._asdict()).lengths_B.tolist()
        assert min(lengths) > 0
        assert max(lengths) <= 64, "padding sequences are within the base's limit"
        seen.add(sizes)
    assert len(seen) <= 3


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_batches_of_whole_texts_have_few_padded_sizes_too(kind: str) -> None:
    objective: Any = tiny_objective(kind)
    model = build_model(tiny_model_shape(direction=objective.direction, max_position_embeddings=64), seed=1)
    rng, seen = np.random.default_rng(0), set()
    for step in range(300):
        batch = tiny_batch(kind, random_sequences(rng.integers(2, 65, 32).tolist(), seed=step), step=step)
        padded = pad_to_few_sizes(batch, model)
        assert max(padded.lengths_B.tolist()) <= 64
        seen.add(tuple(tensor.shape for tensor in cuda_graph_steps._tensors(padded)))
    assert len(seen) <= 16


def test_batches_of_one_size_have_tensors_of_one_shape_for_any_number_of_masked_tokens() -> None:
    model = build_model(tiny_model_shape(direction="bidirectional", max_position_embeddings=1024), seed=1)
    tensors: dict[cuda_graph_steps.Sizes, set[tuple[torch.Size, ...]]] = {}
    for num_masked in range(1, 700):
        places = np.arange(num_masked)
        batch = flat_batch(random_sequences([1000]), target_index=places, target_value=places)
        sizes = sizes_of(batch, model)
        padded = pad_batch(batch, **sizes._asdict())
        tensors.setdefault(sizes, set()).add(tuple(tensor.shape for tensor in cuda_graph_steps._tensors(padded)))
    assert {len(shapes) for shapes in tensors.values()} == {1}
    assert len(tensors) <= 11


def test_nothing_is_captured_on_a_cpu() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    assert not can_capture(model, Machine(MachineSettings(device="cpu")), num_micro=1)


def with_lengths(tensors: Sequence[torch.Tensor], like: Batch) -> Batch:
    """Attention on a CPU needs the lengths on the host."""
    batch = batch_on_device(tensors, like)
    return replace(batch, lengths=tuple(length for length in batch.lengths_B.tolist() if length))


def compute_again(self: GraphCapture, compute: Callable[[], None]) -> Callable[[], None]:
    compute()
    return compute


def weights_after(
    kind: str, *, is_captured: bool, monkeypatch: pytest.MonkeyPatch, trainable: str = "all", compiled: bool = False,
    terms: bool = False, steps: int = 14,
) -> tuple[list[float], torch.Tensor]:  # fmt: skip
    """The losses of some steps on changing batches, and the weights after them."""
    monkeypatch.setattr(gradients, "can_capture", lambda *_, **__: is_captured)
    monkeypatch.setattr(cuda_graph_steps, "_batch", with_lengths)
    objective: Any = ClassificationObjective() if kind == "classify" else tiny_objective(kind)
    if terms:
        objective = AdversarialObjective(RDropObjective(objective, alpha=1.0), epsilon=0.1)
    shape = tiny_model_shape(
        head="classify" if kind == "classify" else "lm", direction=getattr(objective, "direction", "causal"),
        max_position_embeddings=64,
    )  # fmt: skip
    model = build_model(shape, seed=1)
    adaptation = AdaptationSettings(trainable=trainable, unfreeze="gradual", layer_lr_decay=0.8, head_lr_factor=2.0)
    freeze(model, adaptation)
    if compiled:
        model.base.compile_layers(backend="eager")
    settings = TrainingSettings(learning_rate=1e-2, warmup_steps=0)
    rates = group_rates(model, adaptation, steps_per_epoch=3) if kind == "classify" else None
    records = train(
        LossModule(model, objective), make_optimizer(model, settings, rates), Changing(kind), settings=settings,
        machine=Machine(MachineSettings(device="cpu", precision="fp32", threads=1)), processes=Processes(),
        first_step=0, total_steps=steps,
    )  # fmt: skip
    losses = [record.loss.item() for record in records]
    return losses, torch.cat([tensor.detach().flatten() for tensor in model.parameters()])


@pytest.mark.parametrize(
    ("kind", "trainable", "compiled"),
    [
        ("causal", "all", False), ("masked", "all", False), ("causal+masked", "all", False),
        ("classify", "all", False), ("classify", "top-1", False),
        ("causal", "all", True),
    ],
)  # fmt: skip
def test_replayed_steps_train_as_eager_steps_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, trainable: str, compiled: bool
) -> None:
    monkeypatch.setattr(GraphCapture, "capture", compute_again)
    with caplog.at_level("INFO", logger="headswap"):
        losses, weights = weights_after(
            kind, is_captured=True, monkeypatch=monkeypatch, trainable=trainable, compiled=compiled
        )
    assert "steps are captured and replayed" in caplog.text
    eager_losses, eager = weights_after(kind, is_captured=False, monkeypatch=monkeypatch, trainable=trainable)
    assert losses == pytest.approx(eager_losses, rel=2e-3)
    torch.testing.assert_close(weights, eager, atol=5e-3, rtol=0)


def test_replayed_steps_with_rdrop_and_adversarial_training_are_those_of_eager_mode(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(GraphCapture, "capture", compute_again)
    with caplog.at_level("INFO", logger="headswap"):
        losses, weights = weights_after("classify", is_captured=True, monkeypatch=monkeypatch, terms=True)
    assert "steps are captured and replayed" in caplog.text
    eager_losses, eager = weights_after("classify", is_captured=False, monkeypatch=monkeypatch, terms=True)
    assert losses == pytest.approx(eager_losses, rel=2e-3)
    torch.testing.assert_close(weights, eager, atol=5e-3, rtol=0)


def test_a_graph_with_stale_inputs_is_detected_and_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stale(self: GraphCapture, compute: Callable[[], None]) -> Callable[[], None]:
        compute()
        return lambda: None

    monkeypatch.setattr(GraphCapture, "capture", stale)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("causal", is_captured=True, monkeypatch=monkeypatch)
    assert "cannot be captured as CUDA graphs (a replayed step differs" in caplog.text
    assert losses == pytest.approx(weights_after("causal", is_captured=False, monkeypatch=monkeypatch)[0], rel=2e-3)


def test_a_failed_capture_is_logged_with_its_root_cause_and_steps_run_eagerly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = []

    def fail(self: GraphCapture, compute: Callable[[], None]) -> Callable[[], None]:
        attempts.append(1)
        try:
            raise torch.OutOfMemoryError("no memory left")
        finally:
            raise RuntimeError("operation failed due to a previous error")

    monkeypatch.setattr(GraphCapture, "capture", fail)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("masked", is_captured=True, monkeypatch=monkeypatch)
    assert "cannot be captured as CUDA graphs (no memory left)" in caplog.text
    assert len(attempts) == 1
    assert len(losses) == 14 > EAGER_STEPS


def test_a_batch_with_non_finite_losses_is_not_used_for_the_check_and_the_next_one_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(GraphCapture, "capture", compute_again)
    equals_eager, results = CapturedSteps._equals_eager, []

    def with_a_broken_weight_first(self: CapturedSteps, *arguments: Any) -> bool:
        weight = next(iter(self.parameters.values()))
        kept = weight.detach().clone()
        if not results:
            weight.data.fill_(float("nan"))
        results.append(equals_eager(self, *arguments))
        weight.data.copy_(kept)
        return results[-1]

    monkeypatch.setattr(CapturedSteps, "_equals_eager", with_a_broken_weight_first)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("causal", is_captured=True, monkeypatch=monkeypatch)
    assert results[:2] == [False, True]
    assert "cannot be captured" not in caplog.text
    assert np.isfinite(losses).all()


def test_the_use_of_cuda_graphs_is_logged_once_for_any_number_of_sizes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(GraphCapture, "capture", compute_again)
    monkeypatch.setattr(cuda_graph_steps, "TOKEN_GRAIN", 16)
    with caplog.at_level("INFO", logger="headswap"):
        weights_after("classify", is_captured=True, monkeypatch=monkeypatch, steps=60)
    assert caplog.text.count("steps are captured and replayed") == 1


def test_too_little_memory_for_a_graph_is_logged_and_steps_run_eagerly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(CapturedSteps, "_has_memory", lambda self: False)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("causal", is_captured=True, monkeypatch=monkeypatch)
    assert "not enough free memory" in caplog.text
    assert losses == pytest.approx(weights_after("causal", is_captured=False, monkeypatch=monkeypatch)[0], rel=2e-3)
