"""A non-finite loss ends a run with an error that states what to do."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import headswap as hs
from headswap.core.errors import RunError
from headswap.objectives.causal import CausalObjective
from tiny import PRETRAIN


def test_a_loss_that_is_not_finite_stops_the_run_and_changes_nothing(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss_sum = CausalObjective.loss_sum
    calls = []

    def broken(self: CausalObjective, model: Any, batch: Any) -> Any:
        if model.training:
            calls.append(batch.documents)
        loss = loss_sum(self, model, batch)
        return loss * float("nan") if model.training and len(calls) >= 6 else loss

    monkeypatch.setattr(CausalObjective, "loss_sum", broken)
    with pytest.raises(RunError) as caught:
        hs.pretrain(
            tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=12, save_steps=2, seed=3, learning_rate=2e-3,
            lr_scheduler_type="constant", warmup_steps=0, eval_steps=100, **PRETRAIN,
        )  # fmt: skip
    message = str(caught.value)
    assert "Loss became nan at step 6 (seed 3, learning rate 0.002, documents " in message
    assert f"documents {calls[5][0]}, " in message
    assert "step-00000004" in message
    assert caught.value.exit_code == 1
    checkpoints = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*"))
    assert checkpoints == ["step-00000002", "step-00000004"]
    last = load_file(tmp_path / "run" / "checkpoints" / "last" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in last.values())
    assert not (tmp_path / "run" / "result.json").exists()
