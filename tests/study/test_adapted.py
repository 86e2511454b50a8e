"""The arm `adapted`: an existing base is trained on the corpus and the training texts, then fine-tuned."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from boxed import Box, tiny_base
from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.defaults import pretraining as fitted
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.job import run_job
from headswap.study.jobs.planned_jobs import Plan
from headswap.study.report.findings import describe_arm
from headswap.study.report.write import make_report, write_report
from headswap.study.setup.arms import read_arms, saved_name
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.runs import read_runs, read_study
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import done_here, planned, runs_of, sections_of, task_sections
from task_data import write_rows

ONE = {"budgets": ("40",), "seeds": 1}


@pytest.fixture
def base(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("reviews-en-2", str(folder))
    return folder


def sections(tmp_path: Path, **study: Any) -> dict[str, Any]:
    found = sections_of(tmp_path, **{"arms": ("scratch", "adapted"), **study})
    found["adapt"] = {"max_steps": 2}
    return found


def adaptations(plan: Plan) -> list[Any]:
    return [job for job in plan.jobs.values() if job.kind == "adapt"]


def texts_of(job: Any) -> list[str]:
    *_, last = job.sections["corpus"]["corpus"]
    return [json.loads(line)["text"] for line in Path(last).read_text(encoding="utf-8").splitlines()]


@pytest.mark.usefixtures("base")
def test_one_base_per_base_seed_is_adapted_and_shared_by_all_runs(tmp_path: Path) -> None:
    plan = planned(tmp_path / "out", sections(tmp_path, base_seeds=2))[2]
    jobs = adaptations(plan)
    assert [job.name for job in jobs] == ["adapted-reviews-en-2-seed1", "adapted-reviews-en-2-seed2"]
    assert all(job.sections["model"] == {"base": "box:reviews-en-2"} for job in jobs)
    tuned = {entry.seed: plan.jobs[entry.job] for entry in plan.entries if entry.arm == "adapted"}
    assert {seed: job.needs for seed, job in tuned.items()} == {
        1: (jobs[0].id,), 2: (jobs[1].id,), 3: (jobs[0].id,),
    }  # fmt: skip
    assert all(job.sections["model"]["base"] in {one.folder for one in jobs} for job in tuned.values())


@pytest.mark.usefixtures("base")
def test_the_training_texts_are_read_without_labels_and_no_text_of_test_is(tmp_path: Path) -> None:
    given = sections(tmp_path, **ONE)
    train, test = (
        [json.loads(line)["text"] for line in Path(given["data"][role]).read_text().splitlines()]
        for role in ("train", "test")
    )
    corpus = Path(given["study"]["corpus"][0])
    added = [{"text": text} for text in (train[0], train[1], test[0])]
    corpus.write_text(corpus.read_text() + "".join(f"{json.dumps(row)}\n" for row in added), encoding="utf-8")
    (job,) = adaptations(planned(tmp_path / "out", given)[2])
    assert texts_of(job) == train[2:], "two of them are in the corpus already"
    read = "".join(Path(source).read_text(encoding="utf-8") for source in job.sections["corpus"]["corpus"])
    assert not [text for text in test if json.dumps(text)[1:-1] in read]
    assert "label" not in Path(job.sections["corpus"]["corpus"][-1]).read_text()


def pair_sections(tmp_path: Path, **study: Any) -> dict[str, Any]:
    """Every fourth training pair has the first text of a test pair, with another case or another word."""
    given = sections(tmp_path, **ONE, corpus=(), arms=("adapted",), **study)
    long = " ".join(f"word{number}" for number in range(20))
    tested = [f"test {number} {long}" for number in range(30)]
    other = [f"other {number} {long} other" for number in range(120)]
    leaked = [(tested[number].upper() if number % 2 else f"{tested[number]} more") for number in range(30)]
    for role, firsts in (("train", [*leaked, *(f"{number} of train only" for number in range(90))]), ("test", tested)):
        lines = [
            {"text": first, "text_pair": f"{role} second {number} {other[number] if role == 'test' else number}"}
            for number, first in enumerate(firsts)
        ]
        rows = [row | {"label": "pos" if number % 2 else "neg"} for number, row in enumerate(lines)]
        write_rows(Path(given["data"][role]), rows)
    given["data"]["text_pair_column"] = "text_pair"
    return given


@pytest.mark.usefixtures("base", "no_figures")
def test_single_texts_of_test_pairs_are_not_read(tmp_path: Path) -> None:
    plan = done_here(tmp_path / "out", pair_sections(tmp_path))
    (job,) = adaptations(plan)
    texts = texts_of(job)
    assert len(texts) == 120 + 90, "the second texts, and the first ones that are not in test"
    assert not [text for text in texts if text.lower().startswith("test ")]
    kept = (tmp_path / "out" / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(kept) == 120, "the labelled pairs are kept"
    write_report(read_study(tmp_path / "out"), tmp_path / "report")
    report = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "15 rows of unlabelled are also in test; near-duplicates: 15" in report
    assert "also on those beyond the budget, and on no text of a given validation set or of test." in report
    html = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "Removed before training: 30 from unlabelled." in html


@pytest.mark.usefixtures("base", "no_figures")
def test_the_report_says_which_texts_of_test_were_read(tmp_path: Path) -> None:
    plan = done_here(tmp_path / "out", pair_sections(tmp_path, on_overlap="report"))
    assert len(texts_of(adaptations(plan)[0])) == 120 + 120
    write_report(read_study(tmp_path / "out"), tmp_path / "report")
    report = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "are also in validation or test and were not removed (30 of unlabelled in test)." in report
    assert "no text of a given validation set" not in report


@pytest.mark.usefixtures("no_figures")
def test_a_report_names_the_installed_base_that_the_runs_used(
    base: Path, box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version had another base behind `box` and `adapted`."""
    box.offer("first", str(base))
    with monkeypatch.context() as patch:
        patch.setattr("headswap.study.setup.arms.OWN_BASE", "first")
        arms = ("box", "linear:box", "adapted", "consistency:adapted")
        done_here(tmp_path / "out", sections(tmp_path, arms=arms, **ONE))
    report = write_report(read_study(tmp_path / "out"), tmp_path / "report")
    assert set(report.results.installed.items()) == {(arm, "box:first") for arm in arms}
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert page.count("the installed base box:first, first trained on the corpus") == 2
    assert page.count("the installed base box:first, all weights fine-tuned") == 1
    assert "on the vectors of the base box:first" in page
    assert "reviews-en" not in page
    compared = make_report(read_runs(runs_of(tmp_path / "out", "box-40-seed1", "adapted-40-seed1")))
    assert compared.results.installed == {"box": "box:first", "adapted": "box:first"}


@pytest.mark.usefixtures("base")
def test_an_adaptation_without_any_text_left_is_refused(tmp_path: Path) -> None:
    given = pair_sections(tmp_path)
    test = [json.loads(line) for line in Path(given["data"]["test"]).read_text(encoding="utf-8").splitlines()]
    texts = [row["text"] for row in test]
    rows = [{"text": one, "text_pair": other, "label": "pos"} for one, other in pairwise(texts)]
    write_rows(Path(given["data"]["train"]), [rows[0] | {"label": "neg"}, *rows[1:]])
    given["study"]["budgets"] = ("all",)
    with pytest.raises(InputError, match="Nothing is left for an adaptation to read"):
        planned(tmp_path / "out", given)


@pytest.mark.usefixtures("base")
def test_without_a_corpus_it_reads_the_training_texts(tmp_path: Path) -> None:
    (job,) = adaptations(planned(tmp_path / "out", sections(tmp_path, corpus=(), arms=("adapted",), **ONE))[2])
    assert len(job.sections["corpus"]["corpus"]) == 1
    assert len(texts_of(job)) == 240


@pytest.mark.usefixtures("base")
def test_a_corpus_with_another_column_is_read_together_with_the_training_texts(tmp_path: Path) -> None:
    given = sections(tmp_path, corpus_text_column="body", arms=("adapted",), **ONE)
    corpus = Path(given["study"]["corpus"][0])
    corpus.write_text(corpus.read_text().replace('"text"', '"body"'), encoding="utf-8")
    plan = done_here(tmp_path / "out", given)
    (job,) = adaptations(plan)
    assert json.loads((Path(job.folder) / "result.json").read_text())["verb"] == "adapt"


def test_jobs_are_identified_by_the_base_the_text_and_the_defaults(
    base: Path, tmp_path: Path, tokenizer: Tokenizer, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ids(out: str, **study: Any) -> set[str]:
        return {job.id for job in adaptations(planned(tmp_path / out, sections(tmp_path, **ONE, **study))[2])}

    first = ids("out")
    assert ids("elsewhere") == first
    assert ids("folder", arms=(f"adapted:{base}",)) == first, "the same weights under another name"
    box.offer("other", str(tiny_base(tmp_path / "other", tokenizer, seed=1)))
    assert ids("other", arms=("adapted:box:other",)) != first
    assert ids("less", corpus=()) != first
    monkeypatch.setattr(fitted, "ADAPT_TOKENS", 7)
    assert ids("later") != first


def test_a_base_is_named_by_its_folder_or_by_its_package(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arm(name: str) -> tuple[str, str, str | None]:
        (found,) = read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": name}}))
        return found.name, found.start, found.bundle

    assert arm("adapted") == ("adapted", "adapted", "box:reviews-en-2")
    assert arm("adapted:box:reviews-en-2") == ("adapted:box:reviews-en-2", "adapted", "box:reviews-en-2")
    assert arm(f"adapted:{base}") == ("adapted:made", "adapted", str(base))
    assert describe_arm("adapted:made").startswith("the base made, first trained on the corpus")
    with pytest.raises(InputError, match=r"The arm adapted:nowhere: nowhere does not exist"):
        arm("adapted:nowhere")
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(InputError, match="is not a bundle folder"):
        arm(f"adapted:{tmp_path / 'file.txt'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert saved_name(f"adapted:{base}") == "adapted:~/made"


@pytest.mark.usefixtures("base")
def test_a_seed_is_refused(tmp_path: Path) -> None:
    given = sections(tmp_path, **ONE)
    given["adapt"] = {"seed": 3}
    with pytest.raises(SettingError, match="Use --base-seeds for their number"):
        planned(tmp_path / "out", given)


@pytest.mark.usefixtures("base", "no_figures")
def test_a_damaged_adaptation_is_run_again_and_the_report_states_what_was_read(tmp_path: Path) -> None:
    out, given = tmp_path / "out", sections(tmp_path, **ONE)
    plan = done_here(out, given)
    (adapted,) = adaptations(plan)
    tuned = next(plan.jobs[entry.job] for entry in plan.entries if entry.arm == "adapted")
    assert adapted.is_done
    assert tuned.is_done
    write_report(read_study(out), out)
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "on all training texts without their labels" in report
    assert "headswap adapt --config" in report
    weights = Path(adapted.folder) / "bundle" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    again = planned(out, given)[2]
    assert not again.jobs[adapted.id].is_done
    content = json.loads(json.dumps(vars(again.jobs[adapted.id]), default=list))
    run_job(content)
    assert planned(out, given)[2].jobs[adapted.id].is_done
    assert planned(out, given)[2].jobs[tuned.id].is_done, "the same seed gives the same weights"


@pytest.mark.parametrize("task", ["multilabel", "regress", "span", "tag"])
@pytest.mark.usefixtures("base", "no_figures")
def test_studies_of_other_tasks_finish_with_both_kinds_of_bases(tmp_path: Path, task: str) -> None:
    given = task_sections(tmp_path / "files", task, arms=("pretrained", "adapted"), **ONE)
    given["study"]["corpus"] = (str(tmp_path / "files" / "corpus.jsonl"),)
    given["adapt"] = {"max_steps": 2} | ({"objective": "masked"} if task == "tag" else {})
    plan = done_here(tmp_path / "out", given)
    assert all(job.is_done for job in plan.jobs.values())
    (adapted,) = adaptations(plan)
    base = Bundle.load(Path(adapted.folder) / "bundle")
    expected = ("bidirectional", "masked") if task == "tag" else ("causal", "causal")
    assert (base.model.shape.direction, base.objective) == expected
    own = "bidirectional" if task in ("tag", "span") else "causal"
    for entry in plan.entries:
        tuned = Bundle.load(Path(plan.jobs[entry.job].folder) / "bundle")
        assert (tuned.task.task, tuned.model.shape.direction) == (task, own), entry.arm
    results = write_report(read_study(tmp_path / "out"), tmp_path / "out").results
    assert {cell.arm for cell in results.cells} == {"pretrained", "adapted"}
    assert not results.missing
    assert {base.name: base.objective for base in results.bases}["adapted-reviews-en-2-seed1"] == base.objective


def test_the_objective_of_an_adaptation_is_a_flag_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "--help-all"]) == 0
    assert "--adapt.objective CHOICE" in capsys.readouterr().out


@pytest.mark.usefixtures("base")
def test_a_base_that_was_adapted_with_masks_reads_the_words_behind_a_word(tmp_path: Path) -> None:
    given = sections(tmp_path, arms=("adapted",), **ONE)
    given["adapt"]["objective"] = "masked"
    (job,) = adaptations(done_here(tmp_path / "out", given))
    bundle = Bundle.load(Path(job.folder) / "bundle")
    first, second = (
        flat_batch([bundle.tokenizer.frame.around(bundle.tokenizer.encode(text))])
        for text in ("film fine", "film dull")
    )
    with torch.no_grad():
        changed = [bundle.model.hidden(batch)[1] for batch in (first, second)]
    assert not torch.allclose(*changed), "the vector of the first word depends on the second one"


@pytest.mark.usefixtures("base")
def test_changed_training_texts_stop_a_planned_adaptation(tmp_path: Path) -> None:
    (job,) = adaptations(planned(tmp_path / "out", sections(tmp_path, **ONE))[2])
    file = Path(job.sections["corpus"]["corpus"][-1])
    file.write_text(file.read_text() + '{"text": "one more"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="does not hold the rows that this study was prepared with"):
        run_job(json.loads(json.dumps(vars(job), default=list)))


@pytest.mark.usefixtures("base")
def test_the_time_is_estimated_from_the_text_and_the_epochs(tmp_path: Path) -> None:
    given = sections(tmp_path, **ONE)
    given["adapt"] = {}
    _, prepared, plan = planned(tmp_path / "out", given)
    (job,) = adaptations(plan)
    probe = {
        "step_seconds": 1.0, "tokens_a_step": 100, "score_seconds": 0.0, "bytes_a_token": 4.0,
        "num_parameters": 10**9, "num_embedding_parameters": 0, "max_length": 24,
        "peak_memory_bytes": None, "device": "1 CPU threads, fp32",
    }  # fmt: skip
    tokens = (prepared.corpus_bytes + Path(prepared.texts).stat().st_size) / 4
    adapted = {job.folder: "box:reviews-en-2"}
    expected = 1 + 30 * tokens / 100  # the fixed cost of a step is less than a thousandth of a model of this size
    assert Estimator(probe, prepared, adapted=adapted).seconds(job) == pytest.approx(expected, rel=1e-3)
