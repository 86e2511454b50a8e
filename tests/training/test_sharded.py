"""FSDP: two and four processes have the losses and weights of one, and large shapes cost no memory on meta tensors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cli_calls import modules_after
from headswap.core.current_folder import HOME
from headswap.model.parameter_count import count_parameters
from headswap.model.shape import ModelSettings
from headswap.model.text_model import ModelShape, build_empty
from headswap.pretraining.run_cost import EstimatedRun, state_bytes
from tiny import TINY_LAYERS, sentences

TESTS = Path(__file__).parents[1]
LARGE = ModelSettings(
    preset="llama", hidden_size=2048, num_hidden_layers=20, num_attention_heads=16, intermediate_size=5632
)
"""A shape of a billion parameters."""
WORLDS = [
    ("plain", 1), ("plain", 2), ("plain", 4), ("pairs", 2), ("accumulated", 2), ("adapters", 2), ("broken", 2),
    ("gradual", 2),
]  # fmt: skip


def run_script(name: str, folder: Path, *arguments: str) -> Path:
    """Run one of the scripts of this folder, which trains in several processes."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), HOME, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "HEADSWAP_CACHE": str(folder / "cache"),
    }
    line = [sys.executable, str(Path(__file__).with_name(name)), str(folder), *arguments]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_script("sharded_runs.py", tmp_path_factory.mktemp("sharded"), "cpu")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks")
@pytest.mark.parametrize(("case", "world"), WORLDS)
def test_sharded_training_equals_that_of_one_process_in_float64(trained: Path, case: str, world: int) -> None:
    one, several = (load_file(trained / f"{case}-{number}.safetensors") for number in (0, world))
    assert one.keys() == several.keys()
    sizes = one.pop("bytes"), several.pop("bytes")
    if case == "plain":
        assert_divided(*sizes, world)
    skipped = one["numbers"][:, 2].bool()
    assert skipped.tolist() == [case == "broken" and step == 2 for step in range(6)]
    for name, value in one.items():
        assert several[name].dtype == value.dtype
        torch.testing.assert_close(several[name], value, atol=1e-6, rtol=0, equal_nan=True, msg=f"{case}: {name}")
    if world == 1:
        assert all(torch.equal(several[name], value) for name, value in one.items()), "one shard is the whole"


def assert_divided(whole: torch.Tensor, part: torch.Tensor, world: int) -> None:
    """`headswap estimate` divides weights and moments by the number of processes; rows are not divisible."""
    estimated = [
        state_bytes(int(whole[0]) // 4, 0, 1, EstimatedRun(tokens=1, gpus=world, parallel="fsdp"))[name]
        for name in ("weights", "optimizer")
    ]
    assert part.tolist() == pytest.approx(estimated, rel=0.1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks")
def test_sharded_training_in_bf16(trained: Path) -> None:
    one, same, two = (load_file(trained / f"bf16-{number}.safetensors") for number in (0, 1, 2))
    assert all(torch.equal(same[name], value) for name, value in one.items()), "the products are those of autocast"
    assert not torch.equal(one["numbers"], two["numbers"]), "the sums of two processes are rounded otherwise"
    torch.testing.assert_close(two["numbers"][:, 0], one["numbers"][:, 0], atol=1e-2, rtol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run the tests on a machine with one")
def test_one_process_with_fsdp_trains_as_without_it_on_a_gpu(tmp_path: Path) -> None:
    run_script("sharded_runs.py", tmp_path, "cuda")
    for case in ("plain", "pairs", "accumulated", "adapters", "broken", "gradual"):
        one, sharded = (load_file(tmp_path / f"{case}-{number}.safetensors") for number in (0, 1))
        for name, value in one.items():
            torch.testing.assert_close(sharded[name], value, atol=1e-6, rtol=0, equal_nan=True, msg=f"{case}: {name}")
    one, sharded = (load_file(tmp_path / f"bf16-{number}.safetensors")["numbers"] for number in (0, 1))
    torch.testing.assert_close(sharded[:, 0], one[:, 0], atol=1e-2, rtol=0)


def test_a_shape_of_a_billion_parameters_is_counted_and_built_without_memory() -> None:
    model = build_empty(ModelShape(base=LARGE.shape(vocab_size=50_000)))
    assert {tensor.device.type for tensor in model.parameters()} == {"meta"}
    count = count_parameters(model)  # an error if formula and tensors differ
    assert 1e9 < count.total < 1.3e9


def test_an_ordinary_run_imports_nothing_of_fsdp(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(40)), encoding="utf-8")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in TINY_LAYERS.items()]
    modules = modules_after(
        "pretrain", str(tmp_path / "corpus.txt"), f"--out={tmp_path / 'run'}", "--max-steps=2", "--max-length=16",
        "--device=cpu", "--threads=1", "--quiet", *flags,
    )  # fmt: skip
    assert "headswap.training.placement" in modules
    unwanted = {"headswap.training.sharded", "torch.distributed.fsdp", "torch.distributed.checkpoint"}
    assert not unwanted & set(modules)
