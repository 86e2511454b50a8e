"""Files of answers: what is read, and that everything wrong is one error."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers import write_csv
from headswap.core.errors import InputError
from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.study.setup.answer_file import SINGLE, Answers, TargetRows, read_answers

TEXTS = ["a fine film", "a dull film", "a fine film", "a cold scene"]
ROWS = TargetRows(np.array([1, 0, 1, 0]), ("neg", "pos"), text_ids(TEXTS))
IDS = ROWS.ids
BUDGETS = {"40": "40", "all": "all", "240": "all"}


def read(tmp_path: Path, answers: list[dict[str, Any]], **more: Any) -> Answers:
    return read_answers(str(write_csv(tmp_path / "answers.csv", answers)), ROWS, **more)


def every(prediction: str = "pos", **more: Any) -> list[dict[str, Any]]:
    return [{"row": id, "prediction": prediction, **more} for id in IDS]


def test_the_id_of_a_row_has_its_number_and_a_hash_of_its_text() -> None:
    assert [id.rsplit("-", 1)[0] for id in IDS] == ["test-1", "test-2", "test-3", "test-4"]
    hashes = [id.rsplit("-", 1)[1] for id in IDS]
    assert (hashes[0], len(set(hashes))) == (hashes[2], 3)


def test_answers_in_any_order_belong_to_their_rows(tmp_path: Path) -> None:
    answers = [{"row": id, "prediction": label} for id, label in zip(IDS, ("pos", "neg", "neg", "pos"), strict=True)]
    found = read(tmp_path, answers[::-1]).cells[None, SINGLE]
    assert found.probabilities.argmax(axis=1).tolist() == [1, 0, 0, 1]
    assert found.is_right.tolist() == [True, True, False, False]
    assert not found.has_scores


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_kind_of_file_with_columns_can_be_read(tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"answers{extension}"
    answers = every(budget=40, seed=1, **{"score:neg": 0.25, "score:pos": 0.75})
    if extension == ".parquet":
        pyarrow = import_module("pyarrow")
        parquet = import_module("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(answers), file)
    elif extension == ".jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in answers), encoding="utf-8")
    else:
        write_csv(file, answers)
        file.write_text(file.read_text().replace(",", "\t" if extension == ".tsv" else ","), encoding="utf-8")
    found = read_answers(str(file), ROWS, budgets=BUDGETS, seeds=[1])
    assert found.cells["40", 1].probabilities.tolist() == [[0.25, 0.75]] * 4


def test_a_budget_may_be_written_as_its_name_or_as_its_number_of_labels(tmp_path: Path) -> None:
    answers = [*every(budget="240", seed=1), *every(budget="40", seed=1)]
    assert set(read(tmp_path, answers, budgets=BUDGETS, seeds=[1]).cells) == {("all", 1), ("40", 1)}


def test_scores_are_divided_by_their_sum_and_the_prediction_decides_a_tie(tmp_path: Path) -> None:
    answers = every(**{"score:neg": 0.5, "score:pos": 0.5})
    answers[0] |= {"score:neg": 0.2, "score:pos": 0.795}
    found = read(tmp_path, answers).cells[None, SINGLE]
    assert found.has_scores
    assert found.probabilities[0].tolist() == pytest.approx([0.2 / 0.995, 0.795 / 0.995])
    assert found.probabilities[1].tolist() == pytest.approx([0.5, 0.5])
    assert found.probabilities.argmax(axis=1).tolist() == [1, 1, 1, 1]


def test_answers_without_scores_are_saved_as_such(tmp_path: Path) -> None:
    read(tmp_path, every()).cells[None, SINGLE].save(tmp_path)
    assert not Predictions.load(tmp_path).has_scores


def test_everything_that_is_wrong_is_one_error(tmp_path: Path) -> None:
    scores = {"score:neg": 0.3, "score:pos": 0.7}
    good = {"budget": "40", "seed": 1, "prediction": "pos", **scores}
    answers = [
        {"row": IDS[0], **good},
        {"row": IDS[0], **good},  # line 3: doubled
        {"row": "test-1-00000000", **good},  # line 4: another text
        {"row": IDS[1], **good, "prediction": "plus"},  # line 5: unknown label
        {"row": IDS[2], **good, "prediction": " "},  # line 6: empty
        {"row": IDS[1], **good, "budget": "41"},  # line 7: unknown budget
        {"row": IDS[1], **good, "seed": 9},  # line 8: unknown seed
        {"row": IDS[3], **good, "score:neg": 0.9},  # line 9: the sum is 1.6
    ]
    with pytest.raises(InputError) as caught:
        read(tmp_path, answers, budgets=BUDGETS, seeds=[1, 2])
    message = str(caught.value)
    for part in (
        "line 3: the row 'test-1-", "line 4: the row 'test-1-00000000' is not a row of this test set",
        "line 5: the prediction 'plus' is not a label. Labels are 'neg', 'pos'", "line 6: the prediction is empty",
        "line 7: the budget '41' is unknown; it must be one of '40', 'all'", "line 8: the seed '9' is unknown",
        "line 9: the scores are not probabilities", "4 rows of the 4 test rows have no answer at budget 40, seed 2",
    ):  # fmt: skip
        assert part in message


def test_missing_rows_are_counted_per_budget_and_seed(tmp_path: Path) -> None:
    answers = [*every(budget="40", seed=1), *every(budget="40", seed=2)[1:], *every(budget="all", seed=1)]
    with pytest.raises(InputError) as caught:
        read(tmp_path, answers, budgets=BUDGETS, seeds=[1, 2])
    sentences = str(caught.value).splitlines()
    assert f"1 row of the 4 test rows has no answer at budget 40, seed 2 (first: {IDS[0]})" in sentences[0]
    assert "4 rows of the 4 test rows have no answer at budget all, seed 2" in sentences[1]
    assert len(sentences) == 3


@pytest.mark.parametrize("scores", [{"score:neg": "nan", "score:pos": 1}, {"score:neg": "", "score:pos": 1}])
def test_a_score_must_be_a_number(tmp_path: Path, scores: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="lines 2, 3, 4, 5: the scores are not probabilities"):
        read(tmp_path, every(**scores))


def test_the_prediction_must_have_the_highest_score(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the prediction is not the label with the highest score"):
        read(tmp_path, every(**{"score:neg": 0.7, "score:pos": 0.3}))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"id": "x", "prediction": "pos"}, "has no column 'row'"),
        ({"row": "x", "predictions": "pos"}, "has no column 'prediction' .* Did you mean 'predictions'"),
        ({"row": "x", "prediction": "pos", "score:pos": 1}, "no column 'score:neg'"),
        ({"row": "x", "prediction": "pos", "score:pso": 1}, "has scores of 'pso'"),
    ],
)
def test_columns_are_checked_first(tmp_path: Path, columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, [columns])


def test_a_plain_number_needs_the_text_of_its_row(tmp_path: Path) -> None:
    answers = [{"row": number, "prediction": "pos", "text": text} for number, text in enumerate(TEXTS, start=1)]
    assert read(tmp_path, answers).cells[None, SINGLE].is_right.tolist() == [True, False, True, False]
    answers[1]["text"] = "another text"
    with pytest.raises(InputError, match="line 3: the text is not that of row '2'"):
        read(tmp_path, answers)
    without = [{name: row[name] for name in ("row", "prediction")} for row in answers]
    with pytest.raises(InputError, match="is a number without a hash of its text"):
        read(tmp_path, without)


def test_a_row_that_lacks_a_column_of_other_rows_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    rows = [*every()[:3], every(seed=1)[3]]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with pytest.raises(InputError, match="has no column 'seed'"):
        read_answers(str(file), ROWS)


def test_a_plain_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("pos\n")
    with pytest.raises(InputError, match="has no columns"):
        read_answers(str(tmp_path / "answers.txt"), ROWS)


def test_a_budget_with_leading_zeros_is_the_same_budget(tmp_path: Path) -> None:
    assert set(read(tmp_path, every(budget="0040", seed=1), budgets=BUDGETS, seeds=[1]).cells) == {("40", 1)}
    with pytest.raises(InputError, match="was answered before at the same budget and seed"):
        read(tmp_path, [*every(budget="40", seed=1), *every(budget="040", seed=1)])
