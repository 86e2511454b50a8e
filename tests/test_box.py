"""`box:NAME` can be used wherever a bundle can: in verbs, in Python, as an arm of a study."""

import json
from pathlib import Path

import pytest

import headswap as hs
from boxed import Box, tiny_base
from headswap.bundle.bundle import Bundle
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError
from headswap.study.jobs.estimate import OVERHEAD, START_SECONDS, Estimator
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import planned, write_data
from tiny import write_labelled

pytestmark = pytest.mark.usefixtures("one_thread")
MACHINE = {"device": "cpu", "threads": 1}


@pytest.fixture
def letters(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """The installed base `box:letters`."""
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("letters", str(folder))
    return folder


def test_an_installed_base_is_finetuned_and_all_its_tensors_are_kept(letters: Path, tmp_path: Path) -> None:
    train, test = write_labelled(tmp_path / "train.jsonl", 40), write_labelled(tmp_path / "test.jsonl", 10, seed=2)
    out = tmp_path / "run"
    tuned = hs.finetune("box:letters", train=train, test=test, out=out, num_train_epochs=1, **MACHINE)
    assert tuned.result["base"] == "box:letters"
    assert tuned.model.bundle.tokenizer.fingerprint == Bundle.load(letters).tokenizer.fingerprint
    assert "base" in json.loads((out / "data.json").read_text()), "the checksum of the base"
    again = hs.finetune(config=out / "recipe.toml", out=tmp_path / "again")
    assert again.result["test"] == tuned.result["test"], "the saved recipe has the name box:letters"


def test_an_installed_base_is_adapted_to_new_text(letters: Path, corpus_file: Path, tmp_path: Path) -> None:
    adapted = hs.adapt("box:letters", corpus_file, out=tmp_path / "run", max_steps=2, **MACHINE)
    assert adapted.result["verb"] == "adapt"


def test_every_verb_that_reads_a_bundle_reads_an_installed_base(
    letters: Path, corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["generate", "box:letters", "the film", "--max-new-tokens", "3"],
        ["embed", "box:letters", "the film"],
        ["params", "box:letters"],
        ["evaluate", "box:letters", str(corpus_file), "--device", "cpu"],
        ["doctor", "box:letters"],
        ["doctor", "--corpus", str(corpus_file), "--tokenizer", "box:letters", "--json"],
        ["store", str(corpus_file), "--tokenizer", "box:letters", "--out", str(tmp_path / "store")],
    ):
        assert run(words) == 0, (words, capsys.readouterr().err)
    assert hs.load("box:letters").generate("the film", max_new_tokens=2)


def test_a_masked_installed_base_fills(
    box: Box, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box.offer("gaps", str(tiny_base(tmp_path / "made", tokenizer, objective="masked")))
    assert run(["fill", "box:gaps", "a <mask> film"]) == 0
    assert "mask 1:" in capsys.readouterr().out


def test_a_missing_or_damaged_base_ends_a_verb_with_a_sentence(
    letters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "box:leters", "x"]) == 2
    assert "Did you mean 'letters'?" in capsys.readouterr().err
    (letters / "README.md").write_text("mine")
    assert run(["generate", "box:letters", "x"]) == 2
    assert "box:letters differs from what was packaged" in capsys.readouterr().err
    assert run(["doctor", "box:letters"]) == 1
    assert "PROBLEM  files" in capsys.readouterr().out, "the doctor checks it nevertheless"


def arms_of(*names: str) -> list:
    return read_arms(StudyRecipe(study={"arms": names}))


def test_the_arm_box_is_the_projects_own_base(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The base 'reviews-en-2' is not installed"):
        arms_of("box")
    box.offer("reviews-en-2", str(tiny_base(tmp_path / "made", tokenizer)))
    (arm,) = arms_of("box")
    assert (arm.name, arm.start, arm.bundle) == ("box", "bundle", "box:reviews-en-2")


def test_any_installed_base_is_an_arm_with_its_own_tokenizer(letters: Path, tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    sections["study"] |= {"arms": ("scratch", "box:letters"), "budgets": ("40",), "seeds": 1}
    sections["tokenizer"] = {"tokenizer": "box:letters"}
    plan = planned(tmp_path / "out", sections)[2]
    installed, scratch = (
        next(plan.jobs[entry.job] for entry in plan.entries if entry.arm == arm) for arm in ("box:letters", "scratch")
    )
    assert installed.sections["model"]["base"] == "box:letters"
    assert "tokenizer" not in installed.sections, "a base has its own"
    assert scratch.sections["tokenizer"] == {"tokenizer": "box:letters"}
    assert ":" not in Path(installed.folder).name


def test_the_job_id_of_an_installed_base_depends_on_its_weights(
    box: Box, tokenizer: Tokenizer, tmp_path: Path, letters: Path
) -> None:
    box.offer("same", str(letters))
    box.offer("other", str(tiny_base(tmp_path / "other", tokenizer, seed=1)))
    sections = write_data(tmp_path / "files")
    ids = {}
    for name in ("letters", "same", "other"):
        sections["study"] |= {"arms": (f"box:{name}",), "budgets": ("40",), "seeds": 1}
        (ids[name],) = planned(tmp_path / name, sections)[2].jobs
    assert ids["letters"] == ids["same"] != ids["other"]


def test_the_time_of_a_larger_base_is_estimated_by_its_size(letters: Path, tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    sections["study"] |= {"arms": ("scratch", "box:letters"), "budgets": ("40",), "seeds": 1}
    _, prepared, plan = planned(tmp_path / "out", sections)
    jobs = {job.arm: job for job in plan.jobs.values() if job.kind == "finetune"}
    met = 2 * 32 * (4 * 32 + 2 * 48)  # weights per token in 2 layers of 32 with an inner width of 48
    probe = {
        "step_seconds": 1.0, "tokens_a_step": 200, "score_seconds": 0.0, "bytes_a_token": 4.0,
        "num_parameters": 1_000 + met // 2, "num_embedding_parameters": 1_000, "max_length": 24,
        "peak_memory_bytes": None, "device": "1 CPU threads, fp32",
    }  # fmt: skip
    seconds = {arm: Estimator(probe, prepared).seconds(job) - START_SECONDS["cpu"] for arm, job in jobs.items()}
    beside = OVERHEAD["cpu"]
    expected = (met + beside) / (met // 2 + beside)
    assert expected > 1
    assert seconds["box:letters"] == pytest.approx(expected * seconds["scratch"])


def test_a_recipe_may_start_from_an_installed_base(letters: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('verb = "finetune"\n[model]\nbase = "box:letters"\n')
    (arm,) = arms_of(str(tmp_path / "own.toml"))
    assert (arm.name, arm.start, arm.bundle) == ("own", "bundle", "box:letters")
