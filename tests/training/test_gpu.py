"""Tests that need a CUDA device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import headswap as hs
from headswap.batches.batch import Batch, flat_batch
from headswap.core.errors import RunError
from headswap.kernels import policy as kernels
from headswap.kernels.chunked_loss import linear_cross_entropy_sum
from headswap.model import attention
from headswap.model.text_model import build_model
from headswap.objectives.supervised import ClassificationObjective
from headswap.training import cuda_graph_steps
from headswap.training.config import MachineSettings, OptimizerSettings, TrainingSettings
from headswap.training.cuda_graph_steps import EAGER_STEPS
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import make_optimizer
from tiny import Changing, random_sequences, sentences, tiny_batch, tiny_model_shape, tiny_objective

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device; run the tests on a machine with one"
    ),
]


@pytest.mark.parametrize("preset", ["lab", "small", "modern", "bert-base"])
@pytest.mark.parametrize("direction", ["causal", "bidirectional"])
@torch.no_grad()
def test_outputs_on_a_gpu_equal_those_on_a_cpu(preset: str, direction: str) -> None:
    model = build_model(tiny_model_shape(preset, head="classify", direction=direction), seed=1)
    batch = flat_batch(random_sequences([7, 1, 13, 40]))
    on_cpu = model(batch)
    on_gpu = model.cuda()(batch.to(torch.device("cuda")))
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=1e-4, rtol=0)


def test_the_fused_loss_equals_the_plain_one_on_a_gpu() -> None:
    generator = torch.Generator().manual_seed(1)
    hidden, weight = (
        torch.randn(size, dtype=torch.float64, generator=generator).cuda() for size in ((300, 16), (70, 16))
    )
    target = torch.randint(0, 70, (300,), generator=generator).cuda()
    grads = []
    for is_fused in (True, False):
        leaves = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        if is_fused:
            loss = linear_cross_entropy_sum(*leaves, None, target)
        else:
            loss = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T, target, reduction="sum")
        loss.backward()
        grads.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    for fused, plain in zip(*grads, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("vocab_size", [70, 5_001])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("num_counted", [300, 200])
def test_the_fused_kernel_of_head_and_loss_is_as_exact_as_the_plain_path(
    vocab_size: int, has_bias: bool, num_counted: int
) -> None:
    generator = torch.Generator().manual_seed(1)
    sizes = (300, 64), (vocab_size, 64), (vocab_size,)
    leaves = [(torch.randn(size, generator=generator) * 0.3).cuda() for size in sizes]
    target = torch.randint(0, vocab_size, (300,), generator=generator).cuda()
    counts = None if num_counted == 300 else (torch.arange(300) < num_counted).float().cuda()

    def results(*, is_fast: bool, dtype: torch.dtype) -> list[torch.Tensor]:
        kernels.allow_fast_kernels(is_fast)
        assert kernels.has_triton_loss("cuda", dtype) == (is_fast and dtype == torch.bfloat16)
        hidden, weight, bias = (leaf.clone().requires_grad_() for leaf in leaves)
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = linear_cross_entropy_sum(hidden, weight, bias if has_bias else None, target, counts)
        (loss / num_counted).backward()
        return [loss.detach(), hidden.grad, weight.grad, *([bias.grad] if has_bias else [])]

    try:
        exact = results(is_fast=False, dtype=torch.float32)
        plain = results(is_fast=False, dtype=torch.bfloat16)
        fast = results(is_fast=True, dtype=torch.bfloat16)
    finally:
        kernels.allow_fast_kernels(True)
    for one, other, reference in zip(fast, plain, exact, strict=True):
        assert one.shape == reference.shape
        assert (one - reference).norm() <= 1.5 * (other - reference).norm() + 2.5e-3 * reference.norm()
        assert (one - reference).norm() <= 0.02 * reference.norm()


@pytest.mark.parametrize("preset", ["lab", "modern"])
def test_compiled_layers_equal_plain_ones_on_a_gpu(preset: str) -> None:
    shape = tiny_model_shape(preset, head="classify")
    found = []
    for is_compiled in (True, False):
        model = build_model(shape, seed=1).cuda().train()
        if is_compiled:
            model.base.compile_layers()
        outputs = []
        for lengths in ([7, 1, 13, 40], [5, 30]):
            batch = flat_batch(random_sequences(lengths)).to(torch.device("cuda"))
            logits = model(batch)
            logits.square().sum().backward()
            outputs.append(logits.detach())
        found.append([*outputs, *(tensor.grad for tensor in model.parameters())])
    for compiled, plain in zip(*found, strict=True):
        torch.testing.assert_close(compiled, plain, atol=1e-4, rtol=1e-3)


def test_a_non_finite_gradient_changes_no_weight_on_a_gpu() -> None:
    layer = torch.nn.Linear(5, 1, bias=False, device="cuda")
    weight = layer.weight
    torch.nn.init.ones_(weight)
    optimizer = make_optimizer(layer, TrainingSettings())
    weight.grad = torch.full_like(weight, float("nan"))
    optimizer.step(0.1, is_broken=torch.ones((), device="cuda"))
    assert (weight == 1).all()
    weight.grad = torch.ones_like(weight)
    optimizer.step(0.1, is_broken=torch.zeros((), device="cuda"))
    assert (weight < 1).all()


def test_no_memory_on_the_device_names_the_settings_that_keep_the_results(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(20_000)), encoding="utf-8")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, 600e6 / total))
    try:
        with pytest.raises(RunError) as caught:
            hs.pretrain(
                tmp_path / "corpus.txt", out=tmp_path / "run", max_steps=2, batch_size=1024, max_length=256,
                device="cuda", precision="fp32",
            )  # fmt: skip
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    assert "Out of memory with batch_size 1024 in micro-batches of 1024" in str(caught.value)
    assert "Keep --batch-size 1024 and pass --gradient-accumulation-steps 2 (micro-batches of 512)" in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("hidden_size", [32, 24])
@pytest.mark.parametrize("direction", ["causal", "bidirectional"])
def test_unpadded_attention_equals_padded_attention(direction: str, hidden_size: int) -> None:
    shape = tiny_model_shape("small", head="classify", direction=direction, hidden_size=hidden_size)
    batch = flat_batch(random_sequences([7, 1, 13, 40])).to(torch.device("cuda"))
    model = build_model(shape, seed=1).cuda()
    found = []
    for is_ragged in (True, False):
        with pytest.MonkeyPatch.context() as patch, torch.autocast("cuda", torch.bfloat16):
            if not is_ragged:
                patch.setattr(attention, "has_varlen_attention", lambda query: False)
            model.zero_grad()
            logits = model(batch)
            logits.float().square().sum().backward()
            found.append([logits.detach().float(), *(tensor.grad.clone() for tensor in model.parameters())])
    for ragged, padded in zip(*found, strict=True):
        torch.testing.assert_close(ragged, padded, atol=3e-2, rtol=3e-2)


def test_cudnn_attention_is_disabled() -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    Machine(MachineSettings(device="cuda"))
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@dataclass
class OneBatch:
    """The same batch in every step."""

    batch: Batch

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        return [self.batch]


@pytest.mark.parametrize("kind", ["causal", "masked", "masked+nsp", "classify"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_host_does_not_wait_for_the_device_in_a_step(kind: str, optimizer: str) -> None:
    sequences, objective = random_sequences([9, 30, 14, 22]), tiny_objective(kind) if kind != "classify" else None
    if objective is None:
        batch = flat_batch(sequences, target_index=np.arange(4), target_value=np.array([0, 1, 2, 0]))
        shape = tiny_model_shape(head="classify", direction="causal")
    else:
        batch = tiny_batch(kind, sequences)
        shape = tiny_model_shape(direction=objective.direction, type_vocab_size=objective.num_segments)
        shape = shape.changed(pair_head=objective.num_segments > 0)
    model = build_model(shape, seed=1).cuda()
    settings = OptimizerSettings(learning_rate=1e-3, warmup_steps=0, optimizer=optimizer)
    records = train(
        LossModule(model, objective or ClassificationObjective()), make_optimizer(model, settings), OneBatch(batch),
        settings=settings, machine=Machine(MachineSettings()), processes=Processes(), first_step=0, total_steps=40,
    )  # fmt: skip
    for num_before in (EAGER_STEPS - 1, EAGER_STEPS + 4):  # eager steps, and replayed steps
        for _ in range(num_before):
            next(records)
        torch.cuda.set_sync_debug_mode("error")
        try:
            next(records)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert next(records).loss.isfinite()


def losses_of(kind: str, *, fast: str, dropout: float = 0.0, is_compiled: bool = False) -> list[float]:
    """Losses of 30 steps on changing batches; `weighted` is classification with class weights."""
    weights = torch.tensor([0.5, 1.0, 1.5]) if kind == "weighted" else None
    kind = "classify" if kind == "weighted" else kind
    objective = ClassificationObjective(class_weights=weights) if kind == "classify" else tiny_objective(kind)
    shape = tiny_model_shape(
        head="classify" if kind == "classify" else "lm", direction=getattr(objective, "direction", "causal"),
        dropout=dropout, attention_dropout=0.0, max_position_embeddings=64,
    )  # fmt: skip
    model = build_model(shape, seed=1).cuda()
    if is_compiled:
        model.base.compile_layers()
    settings = TrainingSettings(learning_rate=1e-3, warmup_steps=0)
    machine = Machine(MachineSettings(fast=fast, precision="bf16"))
    try:
        records = train(
            LossModule(model, objective), make_optimizer(model, settings), Changing(kind), settings=settings,
            machine=machine, processes=Processes(), first_step=0, total_steps=30,
        )  # fmt: skip
        return [record.loss.item() for record in records]
    finally:
        kernels.allow_fast_kernels(True)


@pytest.mark.parametrize("kind", ["causal", "masked", "causal+masked", "classify", "weighted"])
def test_replayed_steps_train_as_eager_steps_do(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="headswap"):
        replayed = losses_of(kind, fast="auto")
    assert "steps are captured and replayed" in caplog.text
    assert "cannot be captured" not in caplog.text
    np.testing.assert_allclose(replayed, losses_of(kind, fast="off"), rtol=2e-2)


def test_a_replayed_step_draws_new_dropout() -> None:
    first, again, without = (losses_of("causal", fast="auto", dropout=dropout) for dropout in (0.3, 0.3, 0.0))
    np.testing.assert_allclose(first, again, rtol=2e-2)  # the streams are named by the step
    assert np.abs(np.subtract(first, without)).max() > 0.02


def test_a_graph_with_stale_inputs_is_detected_and_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch_on_device, kept = cuda_graph_steps._batch, []

    def forgetful(tensors: Sequence[torch.Tensor], like: Batch) -> Batch:
        kept.append(tensors[0].clone())
        return batch_on_device((kept[0], *tensors[1:]), like)

    monkeypatch.setattr(cuda_graph_steps, "_batch", forgetful)
    with caplog.at_level("INFO", logger="headswap"):
        losses = losses_of("causal", fast="auto")
    assert "cannot be captured as CUDA graphs (a replayed step differs" in caplog.text
    np.testing.assert_allclose(losses, losses_of("causal", fast="off"), rtol=2e-2)


def test_a_failed_capture_leaves_eager_steps_with_the_same_dropout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch_on_device = cuda_graph_steps._batch

    def waiting(tensors: Sequence[torch.Tensor], like: Batch) -> Batch:
        torch.cuda.synchronize()
        return batch_on_device(tensors, like)

    monkeypatch.setattr(cuda_graph_steps, "_batch", waiting)
    with caplog.at_level("INFO", logger="headswap"):
        losses = losses_of("masked", fast="auto", dropout=0.3)
    assert "Training steps cannot be captured as CUDA graphs" in caplog.text
    np.testing.assert_allclose(losses, losses_of("masked", fast="off", dropout=0.3), rtol=2e-2)


def test_compiled_layers_are_captured_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="headswap"):
        replayed = losses_of("causal", fast="auto", is_compiled=True)
    assert "steps are captured and replayed" in caplog.text
    assert "cannot be captured" not in caplog.text
    np.testing.assert_allclose(replayed, losses_of("causal", fast="off"), rtol=2e-2)
