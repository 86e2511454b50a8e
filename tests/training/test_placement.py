"""Where weights are: whole without FSDP. With FSDP see test_sharded_checkpoint.py."""

from pathlib import Path

import pytest
import torch

from bundles import make_bundle
from headswap.core.errors import SettingError
from headswap.finetuning.config import FinetuneTraining
from headswap.objectives.supervised import ClassificationObjective
from headswap.tokens.tokenizer import Tokenizer
from headswap.training.config import MachineSettings, OptimizerSettings, TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.placement import Replicated, place
from tiny import ONE_THREAD


def test_without_fsdp_the_model_of_the_bundle_is_trained(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle, machine = make_bundle(tokenizer), Machine(MachineSettings(**ONE_THREAD))
    placement = place(bundle, ClassificationObjective(), machine, Processes(), TrainingSettings())
    assert isinstance(placement, Replicated)
    assert placement.module.model is bundle.model
    optimizer, progress = placement.resume(None, TrainingSettings(), None)
    before = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    placement.save(tmp_path, optimizer, progress, keep=1)
    with placement.whole(), torch.no_grad():
        for tensor in bundle.model.parameters():
            tensor.zero_()
    placement.resume(tmp_path / "step-00000000", TrainingSettings(), None)
    placement.finish()
    assert all(torch.equal(tensor, before[name]) for name, tensor in bundle.model.state_dict().items())


def test_adversarial_training_is_refused_with_fsdp(tokenizer: Tokenizer) -> None:
    bundle, machine = make_bundle(tokenizer), Machine(MachineSettings(**ONE_THREAD))
    processes, settings = Processes(0, 2, is_sharded=True), FinetuneTraining(adversarial_epsilon=0.1)
    with pytest.raises(SettingError, match="needs two backward passes per step"):
        place(bundle, ClassificationObjective(), machine, processes, settings)


def test_muon_is_refused_with_fsdp(tokenizer: Tokenizer) -> None:
    bundle, machine = make_bundle(tokenizer), Machine(MachineSettings(**ONE_THREAD))
    processes, settings = Processes(0, 2, is_sharded=True), OptimizerSettings(optimizer="muon")
    with pytest.raises(SettingError, match="Use --optimizer adamw, or --parallel ddp"):
        place(bundle, ClassificationObjective(), machine, processes, settings)
