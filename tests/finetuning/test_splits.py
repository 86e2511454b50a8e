"""Reading and checking the labelled sets."""

from dataclasses import replace
from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import InputError, SettingError
from headswap.finetuning.splits import LabelledSplits, hold_out, num_for_choosing
from headswap.tasks.choose import named_task
from task_data import examples_of
from tiny import ONE_THREAD, SCRATCH, write_labelled


@pytest.mark.parametrize(
    ("num_labels", "wanted"), [(100, 0), (199, 0), (200, 40), (1_600, 320), (10_000, 2_000), (25_000, 2_000)]
)
def test_a_fifth_is_held_out_within_bounds(num_labels: int, wanted: int) -> None:
    assert num_for_choosing(num_labels) == wanted


def test_problems_of_several_files_are_reported_in_one_error(tiny_runs: Path, tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("text,stars\na,1\n")
    with pytest.raises(InputError) as caught:
        hs.finetune(
            "scratch", out=tmp_path / "run", train=tmp_path / "tran.jsonl", validation=tiny_runs / "validation.json",
            test=tmp_path / "test.csv",
        )  # fmt: skip
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{tmp_path / 'tran.jsonl'} does not exist. Check the path."
    assert lines[1].endswith(f"Did you mean '{tiny_runs / 'validation.jsonl'}'?")
    assert "test.csv has no column 'label'" in lines[2]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("role", ["validation", "test"])
def test_a_label_that_is_not_in_the_training_set_is_an_error(tiny_runs: Path, tmp_path: Path, role: str) -> None:
    odd = tmp_path / "odd.jsonl"
    odd.write_text('{"text": "the film was fine .", "label": "pos"}\n{"text": "so so", "label": "neutral"}\n')
    with pytest.raises(InputError, match="neutral"):
        hs.finetune(out=tmp_path / "run", train=tiny_runs / "few.jsonl", **{role: odd}, **SCRATCH)
    assert not (tmp_path / "run").exists()


def test_a_label_file_without_its_set_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="test_label_file is given, but no test set"):
        hs.finetune("scratch", train=tiny_runs / "few.jsonl", test_label_file="nowhere.txt", out=tmp_path / "run")


def test_test_texts_that_are_also_in_the_training_set_are_counted(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = tiny_runs / "few.jsonl"
    hs.finetune(tiny_runs / "base", train=train, test=train, out=tmp_path / "run", max_steps=1, **ONE_THREAD)
    assert "60 test texts are also in the train set" in caplog.text


def test_test_texts_that_are_also_in_the_validation_set_are_counted(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    test = write_labelled(tmp_path / "test.jsonl", 20, seed=2)
    data = {"train": tiny_runs / "few.jsonl", "validation": test, "test": test}
    hs.finetune(tiny_runs / "base", out=tmp_path / "run", max_steps=1, **data, **ONE_THREAD)
    assert "20 test texts are also in the validation set" in caplog.text


def test_test_questions_about_contexts_of_the_training_set_are_counted() -> None:
    train = examples_of("span", 20)
    test = [replace(example, question="who else ?") for example in train[:3]]
    others = [replace(example, context=f"{example.context} and more .") for example in train[3:6]]
    splits = LabelledSplits(train, [], [*test, *others], (), named_task("span"))
    assert splits.overlap_sentences() == [
        "3 test questions have a context that is also in the train set, so the scores on them are too high."
    ]


def test_held_out_questions_have_other_contexts_than_training() -> None:
    examples = [example for example in examples_of("span", 20) for _ in range(3)]
    rest, held = hold_out(examples, 0.2, 1, named_task("span"))
    assert len(rest) + len(held) == 60
    assert len(held) >= 9
    assert not {examples[i].context for i in rest} & {examples[i].context for i in held}


def test_questions_about_few_contexts_are_held_out_one_by_one() -> None:
    examples = [example for example in examples_of("span", 4) for _ in range(10)]
    rest, held = hold_out(examples, 0.2, 1, named_task("span"))
    assert (len(rest), len(held)) == (32, 8)
    assert {examples[i].context for i in held} <= {examples[i].context for i in rest}
