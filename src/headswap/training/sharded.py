"""FSDP: each process has one shard of every weight, of its gradient and of its optimizer state.

`ShardedModule` is a copy of the model that PyTorch's `fully_shard` has divided: one unit per layer, whose weights are
gathered for its forward and backward pass only, and one unit for everything else. The optimizer works on the local
shards, which are ordinary tensors, so AdamW and its rule for non-finite steps are those of one process. Only
a clipped norm and Muon need more than a shard. Imported only with `--parallel fsdp`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from headswap.core.random_streams import derive_seed
from headswap.model.text_model import TextModel, build_empty
from headswap.objectives.objective import Objective
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule, Share, backward


class ShardedModule(LossModule):
    """A sharded copy of a model with its objective."""

    def __init__(self, plain: TextModel, objective: Objective, machine: Machine, processes: Processes) -> None:
        model = build_empty(plain.shape).to(plain.base.embedding.weight.dtype)
        assert not list(model.buffers()), "buffers are not copied"
        for parameter, original in zip(model.parameters(), plain.parameters(), strict=True):
            parameter.requires_grad_(original.requires_grad)
        super().__init__(model, objective)
        self.mesh: DeviceMesh = init_device_mesh(machine.device.type, (processes.world,))
        _divide(self, self.mesh, machine)
        self.to_empty(device=machine.device)
        with torch.no_grad():
            self.shards = {name: _local(parameter) for name, parameter in self.model.named_parameters()}
        """The part of each parameter that this process has; it shares memory with the module."""
        self.fill(dict(plain.named_parameters()))

    def trainable_shards(self) -> dict[str, Tensor]:
        """The shards of the parameters that are trained."""
        trained = self.model.named_parameters()
        return {name: self.shards[name] for name, parameter in trained if parameter.requires_grad}

    @torch.no_grad()
    def fill(self, weights: dict[str, Tensor]) -> None:
        """Copy this process's part of the given weights."""
        for name, shard in self.shards.items():
            shard.copy_(self.own_part(name, weights[name].detach()))

    def own_part(self, name: str, whole: Tensor) -> Tensor:
        """This process's part of a tensor that is divided like a parameter."""
        mesh, placements = self.mesh, self.parameter(name).placements
        return distribute_tensor(whole.to(mesh.device_type), mesh, placements, src_data_rank=None).to_local()

    def parameter(self, name: str) -> DTensor:
        """A parameter of the model; it knows how it is divided."""
        found = self.model.get_parameter(name)
        assert isinstance(found, DTensor)
        return found

    def as_divided(self, name: str, local: Tensor) -> DTensor:
        """A local tensor as this process's part of one that is divided like a parameter."""
        like = self.parameter(name)
        return DTensor.from_local(
            local, self.mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )

    @torch.no_grad()
    def whole(self) -> dict[str, Tensor]:
        """All weights, gathered on every process."""
        return {name: parameter.full_tensor() for name, parameter in self._divided()}

    def _divided(self) -> list[tuple[str, DTensor]]:
        return [(name, self.parameter(name)) for name in self.shards]


@dataclass
class ShardedGradients:
    """FSDP sums the gradients over processes in the backward pass of the last micro-batch; each keeps its shard."""

    module: ShardedModule
    machine: Machine
    processes: Processes
    seed: int

    def __call__(self, step: int, share: Share) -> Tensor:
        """As under DDP; FSDP averages over processes too, so each loss is scaled by their number.

        Every pass gathers weights, so all processes need the same number of passes: a process with fewer micro-batches
        repeats one without its targets.
        """
        total_K = torch.zeros(len(share.divisors), device=self.machine.device)
        nothing = [(0, share.batches[0][1].without_targets())] * (share.num_passes - len(share.batches))
        for position, (micro, batch) in enumerate([*share.batches, *nothing]):
            is_last = position == share.num_passes - 1
            self.module.set_requires_gradient_sync(is_last)  # type: ignore[operator]
            self.machine.seed(derive_seed(self.seed, "dropout", step, micro))
            scale = self.processes.world
            total_K = total_K + backward(self.module, batch, share.divisors, self.machine, scale=scale)
        for name, shard in self.module.shards.items():
            parameter = self.module.parameter(name)
            shard.grad = None if parameter.grad is None else _local(parameter.grad)
            parameter.grad = None
        return total_K

    @torch.no_grad()
    def clip(self, max_norm: float) -> Tensor:
        """The norm is that of the whole gradient, over the shards of all processes."""
        shards = [shard for shard in self.module.shards.values() if shard.grad is not None]
        norm = nn.utils.get_total_norm([shard.grad for shard in shards if shard.grad is not None])
        if self.processes.world > 1:  # in float64, since a square of a float32 may overflow
            norm = self.processes.sum(norm.to(self.machine.device).double().square()).sqrt().to(norm.dtype)
        nn.utils.clip_grads_with_norm_(shards, max_norm, norm)
        return norm


def _divide(module: ShardedModule, mesh: DeviceMesh, machine: Machine) -> None:
    """Apply `fully_shard`. With bf16 the matrices of a layer are gathered in bf16, in which they are multiplied.

    Norms keep fp32, as under autocast; together they are one unit. Gradients are summed in fp32.
    """
    layers = module.model.base.layers
    if machine.precision == "bf16":
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
        fully_shard(_norms(layers), mesh=mesh, reshard_after_forward=False)
        for layer in layers:
            fully_shard(layer, mesh=mesh, mp_policy=half)
    else:
        for layer in layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)


def _norms(layers: Sequence[nn.Module] | nn.ModuleList) -> list[nn.Module]:
    return [norm for layer in layers for norm in (layer.attention_norm, layer.feed_forward_norm)]  # type: ignore[misc]


@torch.no_grad()
def _local(tensor: Tensor) -> Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.to_local()
