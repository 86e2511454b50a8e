"""A saved bundle is loaded by a fresh process and compared with the model in memory."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import headswap as hs
from headswap.batches.labelled_rows import Row
from headswap.bundle.bundle import Bundle
from headswap.core.errors import RunError
from headswap.finetuning import reload_check
from tiny import ONE_THREAD


@pytest.mark.fresh_process
def test_a_fine_tuned_bundle_is_loaded_by_a_fresh_process(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.finetune(
        tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", max_steps=2, **ONE_THREAD
    )
    recorded = json.loads((run.path / "bundle" / "config.json").read_text())["reload_check"]
    assert recorded == run.result["reload_check"]
    assert recorded["examples"] > 0
    assert recorded["largest_difference"] < 1e-4


@pytest.mark.fresh_process
def test_a_bundle_with_other_or_unreadable_weights_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_runs / "classifier" / "bundle", tmp_path / "bundle"))
    state = load_file(folder / "model.safetensors")
    bundle = Bundle.load(folder)
    save_file({**state, "head.output.weight": -state["head.output.weight"]}, folder / "model.safetensors")
    rows = [Row(0, np.arange(6, 16))]
    with (
        pytest.raises(RunError, match="does not predict the same as the model in memory"),
        reload_check.FreshProcess() as process,
    ):
        reload_check.check_reload(process, bundle, folder, rows)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError, match="cannot be loaded by a fresh process"), reload_check.FreshProcess() as process:
        reload_check.check_reload(process, replace(bundle), folder, rows)
