"""No checkpoint is lost: damaged files, a full disk, out of memory, nan, two runs in a folder, other settings."""

import errno
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.core.errors import RunError, SettingError
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.objectives.causal import CausalObjective
from headswap.pretraining.corpus import RowBatches
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import build_store
from headswap.tokens.train_tokenizer import train_tokenizer
from headswap.training import checkpoint as checkpoints
from headswap.training.failures import out_of_memory
from headswap.training.observer import Observer
from headswap.training.run_folder import RunFolder
from headswap.training.runner import StoppedError
from reliability.runs import Crash, differences, finetune, pretrain, write_files

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files")


def crashed(files: Path, out: str = "run", step: int = 18, **changes: Any) -> Path:
    """A pre-training that crashed at a step, with the checkpoints of steps 10 and 15."""
    with pytest.raises(MemoryError):
        pretrain(files, out, observer=Crash(step), **changes)
    return files / out


def steps_kept(run: Path) -> list[int]:
    return [checkpoints.step_of(path) for path in checkpoints.find_checkpoints(run / "checkpoints")]


# Checkpoints


def test_a_checkpoint_has_the_checksum_of_every_file(files: Path) -> None:
    run = crashed(files)
    newest = run / "checkpoints" / "step-00000015"
    named = json.loads((newest / "manifest.json").read_text())["files"]
    assert set(named) == {path.name for path in newest.iterdir()} - {"manifest.json"}
    assert {"model.safetensors", "optimizer.safetensors", "state.json"} <= set(named)
    assert checkpoints.problems_of(newest) == []


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", [flip, cut, os.unlink])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    files: Path, caplog: pytest.LogCaptureFixture, name: str, damage: Any
) -> None:
    whole = pretrain(files, "whole")
    run = crashed(files)
    assert steps_kept(run) == [10, 15]
    damage(run / "checkpoints" / "step-00000015" / name)
    first_steps = []

    class Start(Observer):
        def on_start(self, *, total_steps: int, first_step: int) -> None:
            first_steps.append(first_step)

    pretrain(files, "run", resume=True, observer=Start())
    assert first_steps == [10]
    assert "step-00000015 is incomplete or damaged; using the one before it" in caplog.text
    assert name in caplog.text
    assert differences(whole.path, run) == []


def test_where_no_checkpoint_is_whole_the_run_starts_anew_and_says_so(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = pretrain(files, "whole")
    run = crashed(files)
    for path in (run / "checkpoints").glob("step-*"):
        cut(path / "model.safetensors")
    pretrain(files, "run", resume=True)
    assert "there is no older one, so the run starts from the beginning" in caplog.text
    assert differences(whole.path, run) == []


def test_best_weights_that_are_damaged_are_not_used(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Checkpoints that refer to them are skipped, and the weights are computed again."""
    whole = finetune(files, "whole")
    with pytest.raises(MemoryError):
        finetune(files, "run", observer=Crash(30))
    state = json.loads((files / "run" / "checkpoints" / "last" / "state.json").read_text())
    best = files / "run" / "checkpoints" / f"best-{state['best_step']:08d}"
    flip(best / "model.safetensors")
    finetune(files, "run", resume=True)
    assert f"{best.name}/model.safetensors is damaged" in caplog.text
    assert differences(whole.path, files / "run") == []


def test_the_last_good_checkpoint_is_never_removed(
    files: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the disk damages everything from step 10 on, the checkpoint of step 5 is kept in spite of save_total_limit."""
    write = checkpoints.write_manifest

    def damaged(folder: Path) -> None:
        write(folder)
        if json.loads((folder / "state.json").read_text())["step"] >= 10:
            flip(folder / "model.safetensors")

    monkeypatch.setattr(checkpoints, "write_manifest", damaged)
    run = crashed(files, save_total_limit=1)
    assert steps_kept(run) == [5, 10, 15]
    assert "The new checkpoint is damaged, so no older one is removed" in caplog.text
    monkeypatch.undo()
    pretrain(files, "run", resume=True, save_total_limit=1)
    assert steps_kept(run) == [24]


def test_a_damaged_checkpoint_does_not_count_as_kept(files: Path) -> None:
    run = crashed(files)
    flip(run / "checkpoints" / "step-00000015" / "model.safetensors")
    with pytest.raises(MemoryError):
        pretrain(files, "run", resume=True, save_steps=2, logging_steps=1, observer=Crash(13))
    assert steps_kept(run) == [10, 12], "the damaged checkpoint of step 15 is removed, the valid ones are kept"


def test_last_points_at_the_checkpoint_that_is_resumed_from(files: Path) -> None:
    run = crashed(files)
    flip(run / "checkpoints" / "step-00000015" / "model.safetensors")
    with pytest.raises(MemoryError):
        pretrain(files, "run", resume=True, observer=Crash(1))
    assert (run / "checkpoints" / "last").resolve().name == "step-00000010"


def test_resuming_looks_at_no_step_that_was_done(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resuming is O(1) in the steps done: the first computed batch is that of the next step."""
    crashed(files)
    asked = []
    micro_batches = RowBatches.micro_batches

    def recorded(self: RowBatches, step: int, *, count: int) -> Any:
        asked.append(step)
        return micro_batches(self, step, count=count)

    monkeypatch.setattr(RowBatches, "micro_batches", recorded)
    pretrain(files, "run", resume=True)
    assert asked == list(range(15, 24))


def test_metrics_are_truncated_to_the_checkpoint_whatever_follows(files: Path) -> None:
    whole = pretrain(files, "whole")
    run = crashed(files)
    lines = (run / "metrics.jsonl").read_text()
    for garbage in ('{"step": 17, "train_', '{"step": "x"}\n', "\x00\x00\n", "[]\n"):
        (run / "metrics.jsonl").write_text(lines + garbage)
        shutil.copytree(run, files / "copy")
        pretrain(files, "copy", resume=True)
        assert differences(whole.path, files / "copy") == []
        shutil.rmtree(files / "copy")


# Disk, memory, signals


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_disk_that_takes_no_more_ends_in_a_sentence_and_loses_no_checkpoint(
    files: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    whole = pretrain(files, "whole")
    save, calls = checkpoints.save_file, []

    def full(tensors: Any, path: Path, **rest: Any) -> None:
        calls.append(path)
        save(tensors, path, **rest)
        if len(calls) == 3:
            path.write_bytes(path.read_bytes()[:50])
            raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(checkpoints, "save_file", full)
    expected = rf"{os.strerror(number)}\)\. The last checkpoint is .*step-00000010.*--resume"
    with pytest.raises(RunError, match=expected):
        pretrain(files, "run")
    assert steps_kept(files / "run") == [5, 10]
    assert not list((files / "run").rglob(".tmp-*"))
    monkeypatch.undo()
    assert differences(whole.path, pretrain(files, "run", resume=True).path) == []


def test_a_full_disk_while_metrics_are_written_is_reported_in_the_same_way(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pretrain(files, "whole")
    append = RunFolder.append_metrics

    def full(self: RunFolder, line: dict[str, Any]) -> None:
        if line["step"] >= 12:
            with (self.path / "metrics.jsonl").open("a") as file:
                file.write('{"step": 12, "tra')
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, line)

    monkeypatch.setattr(RunFolder, "append_metrics", full)
    with pytest.raises(RunError, match=r"No space left on device.*step-00000010.*--resume") as caught:
        pretrain(files, "run")
    assert caught.value.exit_code == 1
    monkeypatch.undo()
    assert differences(whole.path, pretrain(files, "run", resume=True).path) == []


def test_no_memory_names_the_settings_that_keep_the_results(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated here; with a real device in test_gpu.py."""
    settings = {"dropout": 0.0, "lr_scheduler_type": "constant"}
    whole = pretrain(files, "whole", **settings)
    loss_sum = CausalObjective.loss_sum

    def small(self: CausalObjective, model: Any, batch: Any) -> Any:
        if model.training and batch.num_tokens > 100 and steps_kept(files / "run") == [5, 10]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss_sum(self, model, batch)

    monkeypatch.setattr(CausalObjective, "loss_sum", small)
    with pytest.raises(RunError) as caught:
        pretrain(files, "run", **settings)
    message = str(caught.value)
    assert "Out of memory with batch_size 8 in micro-batches of 8" in message
    assert "step-00000010" in message
    assert "Keep --batch-size 8 and pass --gradient-accumulation-steps 2 (micro-batches of 4)" in message
    resumed = pretrain(files, "run", resume=True, gradient_accumulation_steps=2, **settings)
    for name, tensor in load_file(resumed.path / "bundle" / "model.safetensors").items():
        torch.testing.assert_close(tensor, load_file(whole.path / "bundle" / "model.safetensors")[name])


def test_out_of_memory_with_one_row_suggests_other_settings(tmp_path: Path) -> None:
    from headswap.training.config import TrainingSettings

    message = out_of_memory(tmp_path, TrainingSettings(batch_size=8, gradient_accumulation_steps=4), processes=2)
    assert "micro-batches of 1" in message
    assert "shorter --max-length" in message


def test_sigterm_saves_and_exits(files: Path) -> None:
    whole = pretrain(files, "whole")

    class Terminated(Observer):
        def on_step(self, line: dict[str, Any]) -> None:
            if line["step"] == 12:
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError, match=r"Stopped at step 12 of 24; all steps are saved.*--resume"):
        pretrain(files, "run", observer=Terminated())
    assert steps_kept(files / "run") == [10, 12]
    assert differences(whole.path, pretrain(files, "run", resume=True).path) == []


def test_a_missing_shard_is_named_and_one_that_vanished_is_noticed(files: Path) -> None:
    (files / "shards").mkdir()
    lines = (files / "corpus.txt").read_text().splitlines(keepends=True)
    for number in range(3):
        (files / "shards" / f"part-{number}.txt").write_text("".join(lines[number * 40 : number * 40 + 40]))
    given = [files / "shards" / f"part-{number}.txt" for number in (0, 1, 3)]
    with pytest.raises(hs.HeadswapError, match=r"part-3\.txt does not exist"):
        hs.pretrain(given, out=files / "run", max_steps=2)
    assert not (files / "run").exists()
    settings: dict[str, Any] = {"max_steps": 12, "save_steps": 2, "logging_steps": 1, "hidden_size": 16,
                                "num_attention_heads": 2, "num_hidden_layers": 1, "device": "cpu"}  # fmt: skip
    with pytest.raises(MemoryError):
        hs.pretrain(files / "shards", out=files / "run", observer=Crash(6), **settings)
    (files / "shards" / "part-1.txt").unlink()
    with pytest.raises(SettingError, match=r"The corpus and the tokenizer .*changed since .* was started"):
        hs.pretrain(files / "shards", out=files / "run", resume=True, **settings)
    assert steps_kept(files / "run") == [2, 4] or steps_kept(files / "run") == [4, 6]


def test_a_corrupted_token_store_is_refused_where_given_and_made_again_where_cached(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = list(read_documents([str(files / "corpus.txt")], ReadSettings()))
    tokenizer = train_tokenizer(documents, TokenizerSettings(vocab_size=300))
    build_store(documents, tokenizer, files / "store")
    flip(files / "store" / "ids.bin")
    with pytest.raises(hs.HeadswapError, match=r"ids\.bin is damaged.*build the store again"):
        hs.pretrain(files / "store", out=files / "run", max_steps=2)
    assert not (files / "run").exists()
    whole = pretrain(files, "whole")
    (cached,) = (Path(os.environ["HEADSWAP_CACHE"]) / "stores").iterdir()
    flip(cached / "ids.bin")
    again = pretrain(files, "again")
    assert "Removed a damaged entry from the cache" in caplog.text
    assert differences(whole.path, again.path) == []


# Numbers that are not finite


def broken_at(monkeypatch: pytest.MonkeyPatch, *calls: int, gradient: bool = False) -> None:
    """Set the loss of these training steps (counted from 1), or only their gradient, to nan."""
    loss_sum, seen = CausalObjective.loss_sum, []

    def broken(self: CausalObjective, model: Any, batch: Any) -> Any:
        loss = loss_sum(self, model, batch)
        if model.training:
            seen.append(1)
            if len(seen) in calls:
                if not gradient:
                    return loss * float("nan")
                loss.register_hook(lambda grad: grad * float("nan"))
        return loss

    monkeypatch.setattr(CausalObjective, "loss_sum", broken)


def test_broken_steps_can_be_skipped_up_to_a_bound_and_each_is_recorded(
    files: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken_at(monkeypatch, 6, 11)
    run = pretrain(files, "run", on_nan="skip:2", logging_steps=1)
    assert [entry["step"] for entry in run.result["skipped_steps"]] == [6, 11]
    assert run.result["skipped_steps"][0]["skipped"] == "Loss became nan"
    assert all(isinstance(number, int) for number in run.result["skipped_steps"][0]["documents"])
    lines = run.metrics()
    assert [line["step"] for line in lines if "skipped" in line] == [6, 11]
    assert [line["step"] for line in lines if "train_loss" in line] == [
        step for step in range(1, 25) if step not in (6, 11)
    ]
    assert "at step 11 (learning rate" in caplog.text
    assert "the step is skipped (2 of at most 2)" in caplog.text
    weights = load_file(run.path / "bundle" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_one_broken_step_more_than_allowed_stops_and_the_run_is_resumed_with_a_higher_bound(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_at(monkeypatch, 4, 12, 17)
    whole = pretrain(files, "whole", on_nan="skip:5")
    monkeypatch.undo()
    broken_at(monkeypatch, 4, 12, 17)
    with pytest.raises(RunError, match=r"at step 17 .*2 steps had been skipped before\. No weight was changed"):
        pretrain(files, "run", on_nan="skip:2")
    assert steps_kept(files / "run") == [10, 15]
    monkeypatch.undo()
    broken_at(monkeypatch, 2)  # the resumed run begins at step 16, so its second call is step 17
    resumed = pretrain(files, "run", on_nan="skip:5", resume=True)
    assert [entry["step"] for entry in resumed.result["skipped_steps"]] == [4, 12, 17]
    assert differences(whole.path, resumed.path) == []


def test_a_gradient_that_breaks_alone_is_noticed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_at(monkeypatch, 7, gradient=True)
    with pytest.raises(RunError, match=r"The gradient became non-finite at step 7 .*--on-nan skip:5"):
        pretrain(files, "run")


@pytest.mark.parametrize("value", ["skip", "skip:0", "skip:-1", "skip:two", "continue", ""])
def test_an_invalid_bound_is_refused(files: Path, value: str) -> None:
    with pytest.raises(SettingError, match=r"on_nan = .* is not allowed.*stop, or skip:N"):
        pretrain(files, "run", on_nan=value)


# Two runs, other settings


def test_a_second_run_into_a_folder_in_use_is_refused(files: Path) -> None:
    refusals = []

    class Second(Observer):
        def on_step(self, line: dict[str, Any]) -> None:
            for how in ({"resume": True}, {"overwrite": True}):
                with pytest.raises(SettingError, match="is in use") as caught:
                    pretrain(files, "run", **how)
                refusals.append(str(caught.value))

    run = pretrain(files, "run", logging_steps=12, observer=Second())
    assert len(refusals) == 4
    assert f"process {os.getpid()}" in refusals[0]
    assert not (run.path / ".lock").exists()


def test_of_two_runs_that_begin_at_once_the_second_is_refused(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find the folder empty; the lock and a second check decide."""
    import headswap.training.runner as module

    whole = pretrain(files, "whole")
    open_run = module.open_run

    def opened(*arguments: Any, **settings: Any) -> RunFolder:
        run = open_run(*arguments, **settings)
        monkeypatch.setattr(module, "open_run", open_run)
        pretrain(files, "run")  # another run is faster
        return run

    monkeypatch.setattr(module, "open_run", opened)
    with pytest.raises(SettingError, match="not empty any more: another run started there"):
        pretrain(files, "run")
    assert differences(whole.path, files / "run") == []


CONSTANT: dict[str, Any] = {"lr_scheduler_type": "constant", "warmup_steps": 2}


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_run_can_be_made_longer_where_the_schedule_does_not_depend_on_its_length(
    files: Path, caplog: pytest.LogCaptureFixture, is_finished: bool
) -> None:
    whole = pretrain(files, "whole", max_steps=32, **CONSTANT)
    if is_finished:
        pretrain(files, "run", **CONSTANT)
    else:
        crashed(files, **CONSTANT)
    longer = pretrain(files, "run", max_steps=32, resume=True, **CONSTANT)
    assert "training.max_steps was 24 and is now 32; this does not change the steps done so far" in caplog.text
    assert longer.result["steps"] == 32
    for name in ("bundle/model.safetensors", "checkpoints/last/optimizer.safetensors"):
        one, other = load_file(whole.path / name), load_file(longer.path / name)
        assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("is_finished", [False, True])
def test_epochs_can_be_added_to_a_finetuning(files: Path, is_finished: bool) -> None:
    whole = finetune(files, "whole", num_train_epochs=5, **CONSTANT)
    if is_finished:
        finetune(files, "run", **CONSTANT)
    else:
        with pytest.raises(MemoryError):
            finetune(files, "run", observer=Crash(20), **CONSTANT)
    longer = finetune(files, "run", num_train_epochs=5, resume=True, **CONSTANT)
    assert differences(whole.path, longer.path) == []


@pytest.mark.parametrize(
    ("settings", "longer", "why"),
    [
        ({}, 32, "the cosine schedule depends on it"),
        ({"lr_scheduler_type": "linear"}, 32, "the linear schedule depends on it"),
        ({"lr_scheduler_type": "constant", "warmup_steps": 0.1}, 32, "warmup_steps is a fraction of it"),
        (CONSTANT, 20, "a limit can only be raised, and only the one that the run started with"),
    ],
)
def test_a_length_that_would_have_changed_the_steps_done_is_refused_with_the_reason(
    files: Path, settings: dict[str, Any], longer: int, why: str
) -> None:
    run = crashed(files, **settings)
    before = (run / "recipe.toml").read_bytes()
    with pytest.raises(SettingError, match=f"training.max_steps was 24 and is now {longer} .{why}"):
        pretrain(files, "run", max_steps=longer, resume=True, **settings)
    assert (run / "recipe.toml").read_bytes() == before
    assert steps_kept(run) == [10, 15]


def test_steps_are_not_added_if_the_old_last_step_may_be_the_best(files: Path) -> None:
    limit = {"num_train_epochs": None, "max_steps": 25}
    finetune(files, "run", **CONSTANT, **limit)
    with pytest.raises(SettingError, match="step 25 was evaluated because the run ended there"):
        finetune(files, "run", resume=True, **CONSTANT, **(limit | {"max_steps": 30}))


def test_harmless_changes_are_reported_and_change_nothing(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = pretrain(files, "whole")
    crashed(files)
    resumed = pretrain(files, "run", resume=True, logging_steps=1, save_steps=7, save_total_limit=5)
    for name in ("logging_steps was 3 and is now 1", "save_steps was 5 and is now 7", "save_total_limit was 2"):
        assert name in caplog.text
    one, other = (load_file(run.path / "bundle" / "model.safetensors") for run in (whole, resumed))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_another_number_of_threads_can_be_given(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    crashed(files, threads=1)
    pretrain(files, "run", resume=True, threads=2)
    assert "machine.threads was 1 and is now 2: results differ only by rounding." in caplog.text


def test_resuming_with_another_thread_count_gives_a_warning(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = crashed(files)
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps(environment | {"threads": 64}))
    pretrain(files, "run", resume=True)
    assert "The environment of this run changed (threads 64, now 1): results may differ by rounding" in caplog.text


def test_checkpoints_without_their_recipe_are_never_taken_over(files: Path) -> None:
    run = crashed(files)
    (run / "recipe.toml").unlink()
    with pytest.raises(SettingError, match=r"has checkpoints and no recipe\.toml"):
        pretrain(files, "run", resume=True, seed=5)


def test_an_overwrite_that_is_killed_leaves_nothing_that_could_be_mixed_up(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe is removed last: until then the folder belongs to the old run, and other settings are refused."""
    import headswap.training.run_folder as module

    run = crashed(files)
    gone = []

    def killed(path: Path) -> None:
        gone.append(path.name)
        if len(gone) == 3:
            raise KeyboardInterrupt
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    monkeypatch.setattr(module, "discard_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        pretrain(files, "run", overwrite=True, seed=5)
    assert (run / "recipe.toml").exists()
    monkeypatch.undo()
    with pytest.raises(SettingError, match=r"training\.seed was 42 and is now 5"):
        pretrain(files, "run", resume=True, seed=5)
    assert RunFolder(pretrain(files, "run", overwrite=True, seed=5).path).is_finished


def test_scores_that_are_not_finite_end_the_run_before_they_are_saved(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a learning rate that is far too high, the last step can overflow the weights while its loss is finite."""
    with pytest.raises(RunError, match=r"(eval_loss is not finite at step 1|became).*lower learning rate"):
        pretrain(files, "run", max_steps=1, learning_rate=1e38, lr_scheduler_type="constant", warmup_steps=0)
    assert steps_kept(files / "run") == []
    assert not (files / "run" / "result.json").exists()


def test_deterministic_kernels_can_be_requested_on_a_cpu(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    whole = pretrain(files, "whole")
    try:
        run = pretrain(files, "run", deterministic=True)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    assert [name for name in differences(whole.path, run.path) if name != "recipe.toml"] == []
