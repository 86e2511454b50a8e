"""Masked tokens and pairs of segments."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import InputError
from tiny import ONE_THREAD, STORY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_thread")


def test_masks_do_not_depend_on_accumulation(stories: Path, tmp_path: Path) -> None:
    losses = []
    for parts in (1, 4):
        settings = {**STORY_SETTINGS, "max_steps": 6, "logging_steps": 1, "objective": "masked+nsp", "vocab_size": 280}
        run = hs.pretrain(
            stories / "corpus.txt", out=tmp_path / str(parts), gradient_accumulation_steps=parts, **settings
        )
        losses.append([line["train_loss"] for line in run.metrics() if "train_loss" in line])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_pairs_need_documents_of_several_sentences(stories: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has two sentences"):
        hs.pretrain(stories / "lines.txt", out=tmp_path / "run", objective="masked+nsp", max_steps=1, **STORY_SETTINGS)


@pytest.mark.parametrize(("objective", "has_loss"), [("masked+nsp", False), ("masked+sop", True)])
def test_one_held_out_document_gives_no_loss_of_next_sentences(
    objective: str, has_loss: bool, stories: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = (stories / "corpus.txt").read_text().splitlines()[:60]
    (tmp_path / "corpus.txt").write_text("\n".join(documents))
    settings = {**STORY_SETTINGS, "objective": objective, "max_steps": 1, "vocab_size": 280, "documents": "line"}
    run = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "run", **settings)
    assert (run.result["loss"] is not None) == has_loss
    assert ("all documents are trained on: of the documents to hold out (1)" in caplog.text) != has_loss
    assert f"{59 if has_loss else 60} training documents" in caplog.text


def test_several_held_out_documents_have_a_loss_of_next_sentences(stories: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join((stories / "corpus.txt").read_text().splitlines()[:60]))
    settings = {**STORY_SETTINGS, "objective": "masked+nsp", "max_steps": 1, "vocab_size": 280, "documents": "line"}
    run = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "run", held_out_fraction=0.1, **settings)
    assert run.result["held_out_documents"] == 6
    assert run.result["nsp_loss"] > 0


def test_held_out_documents_of_one_sentence_give_no_loss_of_sentence_order(
    stories: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    short, long = (stories / "lines.txt").read_text().splitlines(), (stories / "corpus.txt").read_text()
    (tmp_path / "corpus.txt").write_text("\n".join([*short[:99], long.splitlines()[0]]))
    settings = {**STORY_SETTINGS, "objective": "masked+sop", "max_steps": 1, "vocab_size": 280, "documents": "line"}
    run = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "run", **settings)
    assert run.result["loss"] is None
    assert "too few have pairs of sentences" in caplog.text


def test_the_loss_on_a_reference_of_two_documents_is_that_of_both(stories: Path, tmp_path: Path) -> None:
    documents = (stories / "corpus.txt").read_text().splitlines()
    (tmp_path / "two.txt").write_text("\n".join(documents[:2]))
    settings = {"max_steps": 1, "documents": "line", **ONE_THREAD}
    base = hs.pretrain(
        stories / "corpus.txt", out=tmp_path / "base", objective="masked+nsp", vocab_size=280,
        **STORY_SETTINGS | settings,
    )  # fmt: skip
    run = hs.adapt(base, stories / "corpus.txt", out=tmp_path / "run", reference=tmp_path / "two.txt", **settings)
    assert run.result["reference"]["loss_before"] > 0
