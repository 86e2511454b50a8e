"""Muon: the same steps as PyTorch; a cancelled step writes nothing."""

import math

import pytest
import torch
from torch import Tensor

from headswap.training.muon import Muon, orthogonalized
from headswap.training.parameter_groups import Group, GroupRate

SHAPES = [((48, 32), 1), ((32, 48), 1), ((96, 32), 3)]
"""(shape of a tensor, number of its matrices): tall, wide, and three square matrices in one tensor."""


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("shape", "num"), SHAPES)
def test_steps_equal_those_of_pytorchs_muon(shape: tuple[int, int], num: int) -> None:
    ours = [torch.nn.Parameter(random(*shape, seed=seed)) for seed in range(2)]
    before = [tensor.detach().clone() for tensor in ours]
    rate, factor, decay, scale = 1e-2, 14.0, 0.7, 0.5
    optimizer = Muon([Group(ours, GroupRate(scale), decay, num)], lr_factor=factor, dtype=torch.bfloat16)
    theirs = [torch.nn.Parameter(part.clone()) for tensor in before for part in tensor.chunk(num)]
    peer = torch.optim.Muon(theirs, lr=rate * scale * factor, weight_decay=decay / factor, momentum=0.95)
    for step in range(6):
        for number, tensor in enumerate(ours):
            tensor.grad = random(*shape, seed=100 * step + number)
        parts = [part for tensor in ours for part in tensor.grad.chunk(num)]
        for other, part in zip(theirs, parts, strict=True):
            other.grad = part.clone()
        optimizer.step(rate, is_broken=torch.tensor(float(step == 2)))
        if step != 2:
            peer.step()
    moved = torch.cat([(tensor - old).detach().flatten() for tensor, old in zip(ours, before, strict=True)])
    wanted = torch.cat([tensor.detach().flatten() for tensor in theirs]) - torch.cat([old.flatten() for old in before])
    assert (moved - wanted).norm() < 1e-3 * wanted.norm()
    buffers = torch.cat([peer.state[tensor]["momentum_buffer"].flatten() for tensor in theirs])
    assert torch.equal(torch.cat([optimizer.state[tensor]["momentum_buffer"].flatten() for tensor in ours]), buffers)


def test_a_cancelled_step_changes_neither_weights_nor_state() -> None:
    tensor = torch.nn.Parameter(random(96, 32, seed=1))
    with torch.no_grad():
        tensor[0, 0] = -0.0
    optimizer = Muon([Group([tensor], GroupRate(), 0.1, 3)], lr_factor=1.0)
    before = tensor.detach().clone()
    for gradient in (torch.full_like(tensor, math.nan), torch.full_like(tensor, math.inf)):
        tensor.grad = gradient
        optimizer.step(1e-2, is_broken=torch.tensor(1.0))
    assert torch.equal(tensor.detach().view(torch.int32), before.view(torch.int32))
    assert not optimizer.state[tensor]["momentum_buffer"].any()
    tensor.grad = random(96, 32, seed=2)
    optimizer.step(1e-2, is_broken=torch.tensor(0.0))
    assert tensor.isfinite().all()
    assert not torch.equal(tensor, before)


@pytest.mark.parametrize("shape", [(3, 48, 32), (3, 32, 48)])
def test_singular_vectors_stay_and_singular_values_become_about_one(shape: tuple[int, int, int]) -> None:
    given = random(*shape, seed=3)
    found = orthogonalized(given, torch.float32)
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    values = left.mT @ found @ right.mT
    diagonal = values.diagonal(dim1=1, dim2=2)
    assert 0.6 < diagonal.min() < diagonal.max() < 1.3
    assert (values - torch.diag_embed(diagonal)).abs().max() < 1e-4


def test_a_zero_gradient_gives_no_nan() -> None:
    assert torch.equal(orthogonalized(torch.zeros(2, 4, 3), torch.float32), torch.zeros(2, 4, 3))
