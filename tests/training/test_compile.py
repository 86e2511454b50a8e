"""Compiled layers: the same results, one compilation for all layers, and only in long runs."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from headswap.batches.batch import flat_batch
from headswap.model.text_model import TextModel, build_model
from headswap.training.compile import compile_layers, pays_off
from tiny import random_sequences, tiny_model_shape


def outputs_and_gradients(model: TextModel, lengths: list[int]) -> list[torch.Tensor]:
    model.zero_grad()
    logits = model(flat_batch(random_sequences(lengths)))
    logits.square().sum().backward()
    return [logits.detach(), *(tensor.grad for tensor in model.parameters() if tensor.grad is not None)]


@pytest.mark.parametrize("preset", ["lab", "modern"])
def test_compiled_layers_give_the_same_results_with_one_compilation_for_all_layers(preset: str) -> None:
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = build_model(tiny_model_shape(preset, head="classify", num_hidden_layers=3), seed=1)
    plain = [outputs_and_gradients(model.train(), lengths) for lengths in ([7, 1, 13], [5, 30])]
    model.base.compile_layers(backend=counter)
    assert counter.frame_count == 0
    compiled = [outputs_and_gradients(model, lengths) for lengths in ([7, 1, 13], [5, 30])]
    assert counter.frame_count == 2 * 2, "two parts of a layer, each for one size and then for any size"
    torch.testing.assert_close(compiled, plain, atol=1e-6, rtol=1e-5)
    model.eval()(flat_batch(random_sequences([3, 9, 2])))
    assert counter.frame_count == 2 * 2, "evaluation is not compiled"


def machine(**changes: Any) -> Any:
    defaults = {"is_fast": True, "is_deterministic": False, "device": torch.device("cuda")}
    return SimpleNamespace(**(defaults | changes))


def test_only_a_long_run_on_a_gpu_is_compiled() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    parameters = sum(tensor.numel() for tensor in model.parameters())
    long = 1.6e16 / 6 / parameters
    assert pays_off(model, machine(), tokens=long)
    assert not pays_off(model, machine(), tokens=long / 2)
    assert pays_off(model, machine(), minutes=3)
    assert not pays_off(model, machine(), minutes=2)
    for refused in ({"is_fast": False}, {"is_deterministic": True}, {"device": torch.device("cpu")}):
        assert not pays_off(model, machine(**refused), tokens=long)


def test_without_a_compiler_layers_are_not_compiled_and_it_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: Any, **_options: Any) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease specify via CC")

    model = build_model(tiny_model_shape(), seed=1)
    monkeypatch.setattr(torch, "compile", broken)
    with caplog.at_level(logging.INFO, logger="headswap"):
        compile_layers(model, torch.device("cpu"))
    assert "The compiler does not work on this machine (Failed to find C compiler.)" in caplog.text
    assert all(layer.compiled is None for layer in model.base.layers)
