"""Damaged jobs are found, run again and reported; the results are those of an undamaged study."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.api.run import Run
from headswap.cli.exit_codes import run
from headswap.core.document_text import markdown
from headswap.core.errors import InputError
from headswap.finetuning.prediction_file import Predictions
from headswap.study.executors.job_queue import Watcher
from headswap.study.report.write import make_report
from headswap.study.run import run_study
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import read_study
from study_fixture import (
    write_data,
)

BASELINE, TUNED, SCRATCH, BASE = "tfidf-40-seed1-", "pretrained-40-seed2-", "scratch-40-seed2-", "base-"
COMPARED = ("cells", "comparisons", "label_worth", "curves", "details", "disagreements", "missing")
Damage = Callable[[Path], None]
pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def files(finished_study: Path) -> Path:
    """The files that the finished study was made from."""
    return finished_study.parent / "files"


@pytest.fixture(params=["with checksums", "of an earlier version"])
def copy(request: pytest.FixtureRequest, finished_study: Path, tmp_path: Path) -> Path:
    """A copy of the finished study, with manifests and as an earlier version wrote it."""
    shutil.copytree(finished_study, tmp_path / "copy")
    if request.param == "with checksums":
        from headswap.study.jobs.job_outputs import write_checksums

        for folder in (tmp_path / "copy" / "runs").iterdir():
            write_checksums(folder)
    return tmp_path / "copy"


class Here:
    """A back end that runs every job in this process when it is started."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """No worker is needed."""

    def start(self, request: Any) -> "Here":
        from headswap.study.jobs.job import run_job

        run_job(json.loads(request.file.read_text(encoding="utf-8")))
        return self

    def exit_code(self) -> int:
        return 0

    def wait(self, seconds: float) -> None:
        """Every job has ended."""

    def close(self) -> None:
        """There is nothing to end."""


def study_again(out: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run the study a second time; return the names of the jobs that it ran."""
    monkeypatch.setattr("headswap.study.executors.choose.LocalWorkers", Here)
    started: list[str] = []

    class Names(Watcher):
        def on_start(self, job: Any) -> None:
            started.append(job.name)

    outcome = run_study(out=out, sections=write_data(files), watcher=Names()).outcome
    assert not outcome.failed
    return [name for name in started if name != "probe"]


def job(study: Path, start: str) -> Path:
    return next(path for path in (study / "runs").iterdir() if path.name.startswith(start))


def truncate(name: str) -> Damage:
    def act(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return act


def overwrite(name: str, content: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(content) and None


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def flip(name: str) -> Damage:
    """Change bytes in the middle of a file."""

    def act(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        middle = len(content) // 2
        content[middle : middle + 20] = bytes(255 - byte for byte in content[middle : middle + 20])
        (folder / name).write_bytes(content)

    return act


def leave_out_texts(folder: Path) -> None:
    kept = Predictions.load(folder)
    Predictions(kept.probabilities[:-5], kept.targets[:-5], kept.labels, kept.text_ids[:-5]).save(folder)


def leave_out_an_array(folder: Path) -> None:
    kept = Predictions.load(folder)
    np.savez_compressed(folder / "predictions.npz", probabilities=kept.probabilities, targets=kept.targets)


def break_a_line_in_the_middle(folder: Path) -> None:
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][: len(lines[1]) // 2] + b"\n"
    (folder / "metrics.jsonl").write_bytes(b"".join(lines))


def lose_the_folder_to_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"")


DAMAGES: dict[str, tuple[str, Damage, str]] = {
    "predictions truncated": (BASELINE, truncate("predictions.npz"), "predictions.npz"),
    "predictions empty": (BASELINE, overwrite("predictions.npz", b""), "predictions.npz"),
    "predictions garbage": (BASELINE, overwrite("predictions.npz", b"\x00\xff garbage" * 40), "predictions.npz"),
    "predictions with other bytes": (BASELINE, flip("predictions.npz"), "predictions.npz"),
    "predictions missing": (BASELINE, remove("predictions.npz"), "predictions.npz is missing"),
    "predictions of fewer texts": (BASELINE, leave_out_texts, ""),
    "predictions without an array": (BASELINE, leave_out_an_array, "predictions.npz"),
    "result without fields": (BASELINE, overwrite("result.json", b"{}"), "result.json"),
    "result that is a list": (BASELINE, overwrite("result.json", b"[]"), "result.json"),
    "result truncated": (BASELINE, truncate("result.json"), "result.json"),
    "result empty": (BASELINE, overwrite("result.json", b""), "result.json"),
    "result garbage": (BASELINE, overwrite("result.json", b"\xff\xfe\x00garbage"), "result.json"),
    "data garbage": (BASELINE, overwrite("data.json", b"\xff{"), "data.json"),
    "data missing": (BASELINE, remove("data.json"), "data.json is missing"),
    "folder is a file": (BASELINE, lose_the_folder_to_a_file, "its folder is a file"),
    "metrics broken in the middle": (SCRATCH, break_a_line_in_the_middle, "metrics.jsonl is damaged: line 2"),
    "metrics garbage": (SCRATCH, overwrite("metrics.jsonl", b"\xff\x00\n\xfe\n"), "metrics.jsonl"),
    "metrics empty": (SCRATCH, overwrite("metrics.jsonl", b""), "metrics.jsonl has no complete line"),
    "metrics missing": (SCRATCH, remove("metrics.jsonl"), "metrics.jsonl is missing"),
    "environment without fields": (SCRATCH, overwrite("environment.json", b"{}"), "environment.json"),
    "recipe garbage": (SCRATCH, overwrite("recipe.toml", b"\xff = ["), "recipe.toml"),
    "ledger missing": (TUNED, remove("ledger.json"), "ledger.json is missing"),
    "base: weights with other bytes": (BASE, flip("bundle/model.safetensors"), "bundle/model.safetensors is damaged"),
    "base: weights truncated": (BASE, truncate("bundle/model.safetensors"), "bundle/model.safetensors has"),
    "base: weights missing": (BASE, remove("bundle/model.safetensors"), "bundle/model.safetensors is missing"),
    "base: config empty": (BASE, overwrite("bundle/config.json", b""), "bundle/config.json"),
    "base: result without fields": (BASE, overwrite("result.json", b"{}"), "result.json"),
    "tokenizer garbage": ("tokenizer-", overwrite("tokenizer.json", b"{}"), "tokenizer.json"),
}
ALL_DAMAGES = pytest.mark.parametrize(("start", "act", "said"), DAMAGES.values(), ids=list(DAMAGES))


@ALL_DAMAGES
def test_a_damaged_job_is_run_again_and_the_results_are_those_of_an_undamaged_study(
    finished_study: Path,
    copy: Path,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    start: str,
    act: Damage,
    said: str,
    one_thread: None,
) -> None:
    folder = job(copy, start)
    name = folder.name[: -len("-12345678")]
    act(folder)
    assert study_again(copy, files, monkeypatch) == [name]
    sentence = f"The job {name} was found damaged ("
    (line,) = [record.message for record in caplog.records if record.message.startswith(sentence)]
    assert said in line
    assert line.endswith(") and is run again.")
    ours, theirs = (make_report(read_study(study)).as_json() for study in (copy, finished_study))
    for part in COMPARED:
        assert ours[part] == theirs[part], part
    assert [base["curve"] for base in ours["bases"]] == [base["curve"] for base in theirs["bases"]]
    (caveat,) = [caveat for caveat in ours["caveats"] if caveat.startswith(sentence)]
    assert said in caveat
    assert caveat.endswith(") and was run again.")
    assert study_again(copy, files, monkeypatch) == [], "it is intact now"


@ALL_DAMAGES
def test_a_report_names_a_damaged_job_the_reason_and_the_command(
    copy: Path, capsys: pytest.CaptureFixture[str], start: str, act: Damage, said: str
) -> None:
    folder = job(copy, start)
    act(folder)
    assert run(["report", str(copy), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    name = folder.name[: -len("-12345678")]
    (note,) = [caveat for caveat in results["caveats"] if f"The job {name} is missing because it is damaged" in caveat]
    assert said in note
    assert note.endswith(f"run it again with: headswap study --config {copy}/study.toml --out {copy}")
    assert markdown(note) in (copy / "report.md").read_text(encoding="utf-8")
    is_cell = start in (BASELINE, TUNED, SCRATCH)
    assert [cell["seed"] for cell in results["missing"]] == ([int(name[-1])] if is_cell else [])
    assert all(said in cell["reason"] for cell in results["missing"])


def test_intact_jobs_are_not_run_again(copy: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = job(copy, BASE) / "bundle" / "README.md"
    card.write_text(card.read_text(encoding="utf-8") + "\nMy own notes.\n", encoding="utf-8")
    assert study_again(copy, files, monkeypatch) == []
    assert not [caveat for caveat in make_report(read_study(copy)).caveats if "damaged" in caveat]


@pytest.mark.parametrize("end", [b'{"step": 6, "epo', b"\xff\xfe", b'{"step": 6}\n'])
def test_a_broken_last_line_of_metrics_is_ignored(
    finished_study: Path, copy: Path, files: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    for start in (SCRATCH, BASE):
        with (job(copy, start) / "metrics.jsonl").open("ab") as file:
            file.write(end)
        assert Run(job(copy, start)).metrics() == Run(job(finished_study, start)).metrics()
    assert study_again(copy, files, monkeypatch) == []
    assert analyse(read_study(copy)).curves == analyse(read_study(finished_study)).curves


def test_a_broken_line_in_the_middle_of_metrics_is_an_error(copy: Path) -> None:
    folder = job(copy, SCRATCH)
    break_a_line_in_the_middle(folder)
    with pytest.raises(InputError, match=r"metrics.jsonl is damaged: line 2 of \d+ is not a line of metrics"):
        Run(folder).metrics()


def test_a_base_with_other_weights_than_before_is_not_mixed_with_fine_tunings_of_the_old_one(
    copy: Path, files: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    """A base that is pre-trained for some minutes is trained on another number of tokens when it is run again."""
    from safetensors.torch import load_file, save_file

    from headswap.core.manifest import write_manifest
    from headswap.study.jobs import job as work

    truncate("bundle/model.safetensors")(job(copy, BASE))
    pretrain = work.JOBS["pretrain"]

    def longer(folder: Path, content: Any) -> None:
        pretrain(folder, content)
        weights = load_file(folder / "bundle" / "model.safetensors")
        save_file({name: tensor * 1.01 for name, tensor in weights.items()}, folder / "bundle" / "model.safetensors")
        write_manifest(folder / "bundle")

    monkeypatch.setitem(work.JOBS, "pretrain", longer)
    ran = study_again(copy, files, monkeypatch)
    assert ran[0] == "base-seed1"
    assert sorted(ran[1:]) == sorted(f"pretrained-{labels}-seed{seed}" for labels in (40, 220) for seed in (1, 2, 3))
    caveats = make_report(read_study(copy)).caveats
    assert sum("it started from other weights than base-seed1" in caveat for caveat in caveats) == 6


@pytest.mark.parametrize(
    "act",
    [
        overwrite("recipe.toml", b"\xff = ["),
        overwrite("recipe.toml", b""),
        overwrite("data.json", b"{"),
        overwrite("data.json", b"[]"),
        overwrite("metrics.jsonl", b"\xff\xfe\n"),
        overwrite("environment.json", b'{"versions": 3}'),
    ],
    ids=["recipe garbage", "recipe empty", "data truncated", "data a list", "metrics garbage", "environment"],
)
def test_a_job_that_was_stopped_and_is_damaged_is_finished_all_the_same(
    finished_study: Path,
    tmp_path: Path,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Damage,
    one_thread: None,
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(finished_study, out)
    folder = job(out, SCRATCH)
    (folder / "result.json").unlink()
    act(folder)
    assert study_again(out, files, monkeypatch) == ["scratch-40-seed2"]
    assert analyse(read_study(out)).cells == analyse(read_study(finished_study)).cells


def test_a_damaged_bundle_is_refused_as_an_arm(
    finished_study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(job(finished_study, BASE) / "bundle", tmp_path / "mine")
    flip("model.safetensors")(tmp_path / "mine")
    data = write_data(tmp_path / "files")["data"]
    given = ["--train", data["train"], "--test", data["test"], "--out", str(tmp_path / "out")]
    assert run(["study", *given, "--arms", str(tmp_path / "mine")]) == 2
    assert "model.safetensors is damaged: its SHA-256" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("prepared.json", b"{"), ("prepared.json", b"[]"), ("test.jsonl", b""), ("train.jsonl", b'{"text": "a", "la')],
)
def test_damaged_rows_are_prepared_again(
    finished_study: Path,
    copy: Path,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes,
) -> None:
    own = copy / "data" / name
    own.write_bytes(own.read_bytes().replace(bytes(finished_study), bytes(copy)))  # paths in prepared.json
    before = own.read_bytes()
    own.write_bytes(content)
    assert read_study(copy).runs, "the report does not need them"
    assert study_again(copy, files, monkeypatch) == []
    assert own.read_bytes() == before
    assert "so they are prepared again" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"jobs": {}, "entries": [{}]}', b"\xff"])
def test_a_damaged_plan_is_refused_and_written_again_by_the_study(
    copy: Path, files: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (copy / "plan.json").write_bytes(content)
    with pytest.raises(InputError, match=r"plan.json is damaged. headswap study --config .* writes it again"):
        read_study(copy)
    assert study_again(copy, files, monkeypatch) == []
    assert len(read_study(copy).runs) == 24


def test_a_report_without_any_intact_job_is_an_error(copy: Path) -> None:
    for folder in (copy / "runs").iterdir():
        (folder / "result.json").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"No finished job of this study is intact[\s\S]*The job majority-40-seed1 is missing"
    ):
        read_study(copy)


FOR_COMPARE = [name for name, (start, _, _) in DAMAGES.items() if start in (BASELINE, SCRATCH)]


@pytest.mark.parametrize("damage", [name for name in FOR_COMPARE if name not in ("predictions of fewer texts",)])
def test_compare_refuses_a_damaged_run_with_a_sentence(
    finished_study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    whole, damaged = job(finished_study, SCRATCH), tmp_path / "damaged"
    shutil.copytree(job(finished_study, "scratch-40-seed1-"), damaged)
    _, act, _ = DAMAGES[damage]
    act(damaged)
    assert run(["compare", str(whole), str(damaged)]) == 2
    assert str(damaged) in capsys.readouterr().err


def test_predictions_with_any_bytes_changed_are_read_or_refused(finished_study: Path, tmp_path: Path) -> None:
    content = (job(finished_study, BASELINE) / "predictions.npz").read_bytes()
    draws = np.random.default_rng(0)
    outcomes = set()
    for _ in range(400):
        changed = bytearray(content)
        for place in draws.integers(len(content), size=draws.integers(1, 8)):
            changed[place] = draws.integers(256)
        (tmp_path / "predictions.npz").write_bytes(changed[: draws.integers(len(content) // 2, len(content) + 1)])
        try:
            found = Predictions.load(tmp_path)
        except InputError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
            assert found.probabilities.shape == (len(found.targets), len(found.labels))
    assert "refused" in outcomes


def test_the_command_of_the_report_runs_the_job_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With default budgets, of which only some fit the training set: the saved recipe has those."""
    data = write_data(tmp_path / "files")["data"]
    out = tmp_path / "a study"
    given = ["--train", data["train"], "--test", data["test"], "--arms", "majority", "--seeds", "1", "--out", str(out)]
    assert run(["study", *given, "--json", "--quiet"]) == 0
    before = json.loads(capsys.readouterr().out)
    folder = job(out, "majority-100-")
    truncate("predictions.npz")(folder)
    assert run(["report", str(out), "--json"]) == 0
    caveats = json.loads(capsys.readouterr().out)["caveats"]
    (sentence,) = [caveat for caveat in caveats if "is missing because it is damaged" in caveat]
    command = shlex.split(sentence.partition("run it again with: ")[2])
    assert command[0] == "headswap"
    assert run([*command[1:], "--json"]) == 0
    printed = capsys.readouterr()
    again = json.loads(printed.out)
    assert again["cells"] == before["cells"]
    assert "The job majority-100-seed1 was found damaged (predictions.npz" in " ".join(printed.err.split())
    assert [note for note in again["notes"] if "was found damaged" in note and note.endswith("and was run again.")]
    assert "and was run again." in (out / "report.html").read_text(encoding="utf-8")
