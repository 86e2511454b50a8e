"""Recorded steps, but for the recording, which only a GPU can do (test_gpu.py): here a step is computed again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch

from headswap.batches.batch import Batch, flat_batch, pad_batch
from headswap.finetuning.config import AdaptationSettings
from headswap.finetuning.layer_rates import freeze, group_rates
from headswap.kernels.cuda_graph import Recorder
from headswap.model.shape import Pooling
from headswap.model.text_model import build_model
from headswap.objectives.supervised import ClassificationObjective
from headswap.training import cuda_graph_steps as recorded
from headswap.training import loop as engine
from headswap.training.config import MachineSettings, TrainingSettings
from headswap.training.cuda_graph_steps import SEEN_BEFORE, CapturedSteps, can_capture, pad_to_few_sizes, sizes_of
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import make_optimizer
from tiny import Changing, random_sequences, tiny_batch, tiny_model_shape, tiny_objective

LENGTHS = [9, 30, 2, 22]
AS_A_WINDOW = [9, 30, 2, 23]
"""64 inputs: hidden ones are filled up to as many targets as there are tokens."""
as_recorded = recorded._batch


def batch_of(kind: str, lengths: list[int] = LENGTHS) -> Batch:
    sequences = random_sequences(lengths if kind == "classify" else [length + 1 for length in lengths])
    if kind != "classify":
        return tiny_batch(kind, sequences)
    return flat_batch(sequences, target_index=np.arange(4), target_value=np.array([0, 1, 2, 0]))


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("causal", "mean"), ("masked", "mean"), *(("classify", one) for one in get_args(Pooling))],
)
@pytest.mark.parametrize("lengths", [LENGTHS, AS_A_WINDOW])
def test_what_fills_a_batch_up_changes_no_loss_and_no_gradient(kind: str, pooling: str, lengths: list[int]) -> None:
    objective = ClassificationObjective() if kind == "classify" else tiny_objective(kind)
    shape = tiny_model_shape(
        head="classify" if kind == "classify" else "lm", direction=getattr(objective, "direction", "causal"),
        pooling=pooling, max_position_embeddings=64,
    )  # fmt: skip
    model = build_model(shape, seed=1).double()
    batch = batch_of(kind, lengths)
    sizes = sizes_of(batch, model)
    full = pad_batch(batch, **sizes._asdict())
    assert (full.num_tokens, len(full.lengths_B), full.num_targets) == sizes
    found = []
    for one in (batch, full):
        model.zero_grad()
        loss = objective.loss_sum(model, one)
        loss.backward()
        found.append([loss.detach(), *(tensor.grad for tensor in model.parameters() if tensor.grad is not None)])
    for plain, filled in zip(*found, strict=True):
        torch.testing.assert_close(filled, plain, atol=1e-9, rtol=1e-9)


def test_few_sizes_serve_many_batches_and_none_has_an_empty_sequence_that_is_pooled() -> None:
    model = build_model(tiny_model_shape(head="classify", max_position_embeddings=64), seed=1)
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        batch = flat_batch(
            random_sequences(rng.integers(1, 60, 4).tolist()), target_index=np.arange(4), target_value=np.zeros(4, int)
        )
        sizes = sizes_of(batch, model)
        lengths = pad_batch(batch, **sizes._asdict()).lengths_B.tolist()
        assert min(lengths) > 0
        assert max(lengths) <= 64, "the base can read what fills a batch up"
        seen.add(sizes)
    assert len(seen) <= 3


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_whole_texts_are_read_in_few_sizes_too(kind: str) -> None:
    objective: Any = tiny_objective(kind)
    model = build_model(tiny_model_shape(direction=objective.direction, max_position_embeddings=64), seed=1)
    rng, seen = np.random.default_rng(0), set()
    for step in range(300):
        batch = tiny_batch(kind, random_sequences(rng.integers(2, 65, 32).tolist(), seed=step), step=step)
        full = pad_to_few_sizes(batch, model)
        assert max(full.lengths_B.tolist()) <= 64
        seen.add(tuple(tensor.shape for tensor in recorded._tensors(full)))
    assert len(seen) <= 16


def test_batches_of_one_size_have_the_same_tensors_however_many_tokens_are_hidden() -> None:
    model = build_model(tiny_model_shape(direction="bidirectional", max_position_embeddings=1024), seed=1)
    tensors: dict[recorded.Sizes, set[tuple[torch.Size, ...]]] = {}
    for hidden in range(1, 700):
        places = np.arange(hidden)
        batch = flat_batch(random_sequences([1000]), target_index=places, target_value=places)
        sizes = sizes_of(batch, model)
        full = pad_batch(batch, **sizes._asdict())
        tensors.setdefault(sizes, set()).add(tuple(tensor.shape for tensor in recorded._tensors(full)))
    assert {len(shapes) for shapes in tensors.values()} == {1}
    assert len(tensors) <= 11


def test_a_cpu_records_nothing() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    assert not can_capture(model, Machine(MachineSettings(device="cpu")), num_micro=1)


def with_lengths(tensors: Sequence[torch.Tensor], like: Batch) -> Batch:
    """Attention on a CPU wants to know them."""
    batch = as_recorded(tensors, like)
    return replace(batch, lengths=tuple(length for length in batch.lengths_B.tolist() if length))


def play_again(self: Recorder, compute: Callable[[], None]) -> Callable[[], None]:
    compute()
    return compute


def weights_after(
    kind: str, *, is_recorded: bool, monkeypatch: pytest.MonkeyPatch, trainable: str = "all", compiled: bool = False,
    steps: int = 14,
) -> tuple[list[float], torch.Tensor]:  # fmt: skip
    """The losses of some steps on changing batches, and the weights after them."""
    monkeypatch.setattr(engine, "can_capture", lambda *_, **__: is_recorded)
    monkeypatch.setattr(recorded, "_batch", with_lengths)
    objective = ClassificationObjective() if kind == "classify" else tiny_objective(kind)
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
        ("causal", "all", False), ("masked", "all", False), ("classify", "all", False), ("classify", "top-1", False),
        ("causal", "all", True),
    ],
)  # fmt: skip
def test_steps_that_are_played_back_learn_what_plain_steps_learn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, trainable: str, compiled: bool
) -> None:
    monkeypatch.setattr(Recorder, "record", play_again)
    with caplog.at_level("INFO", logger="headswap"):
        losses, weights = weights_after(
            kind, is_recorded=True, monkeypatch=monkeypatch, trainable=trainable, compiled=compiled
        )
    assert "steps are recorded and played back" in caplog.text
    plain_losses, plain = weights_after(kind, is_recorded=False, monkeypatch=monkeypatch, trainable=trainable)
    assert losses == pytest.approx(plain_losses, rel=2e-3)
    torch.testing.assert_close(weights, plain, atol=5e-3, rtol=0)


def test_a_recording_that_kept_something_of_its_batch_is_found_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stale(self: Recorder, compute: Callable[[], None]) -> Callable[[], None]:
        compute()
        return lambda: None

    monkeypatch.setattr(Recorder, "record", stale)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("causal", is_recorded=True, monkeypatch=monkeypatch)
    assert "cannot be recorded here (they lie" in caplog.text
    assert losses == pytest.approx(weights_after("causal", is_recorded=False, monkeypatch=monkeypatch)[0], rel=2e-3)


def test_what_cannot_be_recorded_is_computed_plainly_and_says_what_went_wrong_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = []

    def fail(self: Recorder, compute: Callable[[], None]) -> Callable[[], None]:
        attempts.append(1)
        try:
            raise torch.OutOfMemoryError("no memory left")
        finally:
            raise RuntimeError("operation failed due to a previous error")

    monkeypatch.setattr(Recorder, "record", fail)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("masked", is_recorded=True, monkeypatch=monkeypatch)
    assert "cannot be recorded here (no memory left)" in caplog.text
    assert len(attempts) == 1
    assert len(losses) == 14 > SEEN_BEFORE


def test_a_batch_that_is_not_finite_proves_nothing_and_another_one_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Recorder, "record", play_again)
    is_true, judged = CapturedSteps._is_true, []

    def with_a_broken_weight_first(self: CapturedSteps, *arguments: Any) -> bool:
        weight = next(iter(self.parameters.values()))
        kept = weight.detach().clone()
        if not judged:
            weight.data.fill_(float("nan"))
        judged.append(is_true(self, *arguments))
        weight.data.copy_(kept)
        return judged[-1]

    monkeypatch.setattr(CapturedSteps, "_is_true", with_a_broken_weight_first)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("causal", is_recorded=True, monkeypatch=monkeypatch)
    assert judged[:2] == [False, True]
    assert "cannot be recorded" not in caplog.text
    assert np.isfinite(losses).all()


def test_the_fast_path_is_told_once_however_many_sizes_there_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Recorder, "record", play_again)
    monkeypatch.setattr(recorded, "TOKEN_GRAIN", 16)
    with caplog.at_level("INFO", logger="headswap"):
        weights_after("classify", is_recorded=True, monkeypatch=monkeypatch, steps=60)
    assert caplog.text.count("steps are recorded and played back") == 1


def test_no_room_for_a_recording_is_told_and_steps_are_computed_plainly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(CapturedSteps, "_has_room", lambda self: False)
    with caplog.at_level("INFO", logger="headswap"):
        losses, _ = weights_after("causal", is_recorded=True, monkeypatch=monkeypatch)
    assert "there is too little" in caplog.text
    assert losses == pytest.approx(weights_after("causal", is_recorded=False, monkeypatch=monkeypatch)[0], rel=2e-3)
