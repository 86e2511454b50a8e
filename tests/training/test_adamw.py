"""AdamW: the same steps as PyTorch."""

import torch

from headswap.model.text_model import build_model
from headswap.training.config import TrainingSettings
from headswap.training.optimizer import is_without_decay, make_optimizer
from headswap.training.parameter_groups import GroupRate
from tiny import tiny_model_shape


def test_steps_equal_those_of_pytorchs_adamw_bit_for_bit() -> None:
    ours, theirs = (build_model(tiny_model_shape(head="classify"), seed=1) for _ in range(2))
    rates = {name: GroupRate(lr_scale=0.5 if name.startswith("base.") else 2.0) for name, _ in ours.named_parameters()}
    chosen = TrainingSettings(learning_rate=1e-2, weight_decay=0.1)
    optimizer = make_optimizer(ours, chosen, rates)
    peer = torch.optim.AdamW(
        [
            {
                "params": [tensor], "lr": 1e-2 * rates[name].lr_scale,
                "weight_decay": 0.0 if is_without_decay(name) else 0.1,
            }
            for name, tensor in theirs.named_parameters()
        ],
        betas=(chosen.adam_beta1, chosen.adam_beta2), eps=chosen.adam_epsilon, fused=True,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        is_broken = torch.tensor(float(step == 2))
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        optimizer.step(1e-2, is_broken=is_broken)
        peer.found_inf, peer.grad_scale = is_broken, None
        peer.step()
        assert all(torch.equal(*pair) for pair in zip(ours.parameters(), theirs.parameters(), strict=True))
    state, wanted = (next(iter(one.state.values())) for one in (optimizer, peer))
    assert {name: tensor.tolist() for name, tensor in state.items()} == {
        name: tensor.tolist() for name, tensor in wanted.items()
    }
    assert state["step"] == 5, "a cancelled step does not count"
