"""The arm `linear`: logistic regression on vectors of a base, which are computed once for all budgets and seeds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boxed import Box, tiny_base
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.data.records import Example
from headswap.inference.embed import embed_texts
from headswap.study.jobs.embeddings import ARRAYS, Embeddings
from headswap.study.report.write import write_report
from headswap.study.setup.arm_bases import is_adapted, is_from_box
from headswap.study.setup.arms import read_arms, saved_name
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.runs import read_study
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import done_here, planned, sections_of


@pytest.fixture
def base(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("reviews-en-2", str(folder))
    return folder


def arm_of(name: str) -> Any:
    (found,) = read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": name, "corpus": ("c.txt",)}}))
    return found


@pytest.mark.usefixtures("base")
def test_a_linear_arm_uses_the_base_of_another_arm(tmp_path: Path) -> None:
    assert (arm_of("linear").of.start, arm_of("linear:box").of.bundle) == ("base", "box:reviews-en-2")
    assert (arm_of("linear:adapted").of.start, arm_of("linear:adapted").name) == ("adapted", "linear:adapted")
    assert is_adapted("linear:adapted")
    assert is_from_box("linear:box:reviews-en-2")
    assert not is_from_box("linear")
    for wrong in ("linear:scratch", "linear:tfidf", "linear:frozen"):
        with pytest.raises(SettingError, match="after linear: comes a base"):
            arm_of(wrong)
    with pytest.raises(SettingError, match="The arm 'linear' needs a corpus"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": "linear"}}))


def test_a_folder_is_saved_without_the_home_folder(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert saved_name(f"linear:{base}") == "linear:~/made"
    assert saved_name(f"linear:adapted:{base}") == "linear:adapted:~/made"


@pytest.mark.usefixtures("base")
def test_vectors_are_computed_once_per_base(tmp_path: Path) -> None:
    arms = ("pretrained", "linear", "linear:box", "linear:adapted", "adapted")
    plan = planned(tmp_path / "out", sections_of(tmp_path, arms=arms, base_seeds=2))[2]
    kinds = [job.kind for job in plan.jobs.values()]
    assert kinds.count("embed") == 2 + 1 + 2
    assert kinds.count("linear") == 3 * 2 * 3
    assert (kinds.count("pretrain"), kinds.count("adapt")) == (2, 2), "bases are shared with the fine-tuned arms"
    order = list(plan.jobs)
    assert all(order.index(need) < order.index(job.id) for job in plan.jobs.values() for need in job.needs)


@pytest.mark.usefixtures("no_figures")
def test_the_arm_is_fitted_to_all_labels_and_reported(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = sections_of(tmp_path, arms=("majority", "scratch", "linear:box"), budgets=("40", "220"), seeds=1)
    plan = done_here(out, given)
    jobs = {entry.labels: plan.jobs[entry.job] for entry in plan.entries if entry.arm == "linear:box"}
    results = {labels: json.loads((Path(job.folder) / "result.json").read_text()) for labels, job in jobs.items()}
    assert {labels: result["num_labels"] for labels, result in results.items()} == {40: 40, 220: 220}
    assert all(job.is_done for job in plan.jobs.values())
    write_report(read_study(out), out)
    assert "logistic regression on the vectors of the base box" in (out / "report.html").read_text(encoding="utf-8")
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "It is a convex fit to all labels of the budget" in report
    (embed,) = [job for job in plan.jobs.values() if job.kind == "embed"]
    file = Path(embed.folder) / ARRAYS
    with np.load(file, allow_pickle=False) as arrays:
        assert arrays["train_vectors"].dtype == np.float32
        assert len(arrays["train_vectors"]) == 240
    file.write_bytes(file.read_bytes()[:-30])
    assert not embed.is_done
    assert "cannot be read" in str(embed.damage)


def test_vectors_are_scaled_by_the_training_texts_only() -> None:
    from headswap.finetuning.prediction_file import text_ids

    generator = np.random.default_rng(0)
    train, test = generator.normal(3.0, 5.0, (400, 16)).astype(np.float32), np.full((1, 16), 1e6, dtype=np.float32)
    names = {"train": [f"a{number}" for number in range(400)], "test": ["far"]}
    made = Embeddings({"train": train, "test": test}, {role: text_ids(texts) for role, texts in names.items()})
    found = made.of([Example(text, "x", "file", 1) for text in names["train"]])
    assert found.mean(axis=0) == pytest.approx(0.0, abs=1e-9)
    assert (found**2).sum(axis=1).mean() == pytest.approx(1.0), "the length of a text is about 1"
    assert made.of([Example("far", "x", "file", 1)]).min() > 1e4


def test_vectors_read_at_most_max_length_tokens(base: Path) -> None:
    from headswap.bundle.bundle import Bundle

    bundle, text = Bundle.load(base), "the film was bright and the story was warm and the scene was cold"
    short, whole = (embed_texts(bundle, [text], max_length=length) for length in (4, None))
    assert not np.allclose(short, whole)
