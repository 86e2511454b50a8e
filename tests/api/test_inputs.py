"""Data in memory: the same rows give the same run as a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.api.inputs import as_corpus, as_inputs, as_labelled
from headswap.core.errors import InputError
from tiny import sentences

ROWS = [{"text": text, "label": label} for text, label in sentences(24)]


def frames() -> dict[str, Any]:
    import datasets
    import pandas
    import polars

    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    numbered = [row | {"label": int(row["label"] == "pos")} for row in ROWS]
    return {
        "pandas": pandas.DataFrame(ROWS),
        "polars": polars.DataFrame(ROWS),
        "datasets with class numbers": datasets.Dataset.from_list(numbered, features=features),
        "dictionaries": ROWS,
        "pairs": [(row["text"], row["label"]) for row in ROWS],
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "datasets with class numbers", "dictionaries", "pairs"])
def test_every_kind_of_table_gives_the_rows_of_a_file(kind: str) -> None:
    file = Path(as_labelled(frames()[kind]))
    assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] == ROWS


def test_the_same_rows_are_written_once() -> None:
    first, second = as_labelled(ROWS), as_labelled(frames()["pandas"])
    assert first == second


def test_a_list_of_strings_is_a_list_of_files_and_texts_are_marked(tmp_path: Path) -> None:
    assert as_corpus(["a.txt", tmp_path / "b.txt"]) == ("a.txt", str(tmp_path / "b.txt"))
    (file,) = as_corpus(hs.Texts(["one text", "another\ntext"]))
    rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    assert rows == [{"text": "one text"}, {"text": "another\ntext"}]


def test_numbers_of_numpy_and_missing_values_become_json() -> None:
    rows = [{"text": "a", "label": np.int64(3), "tags": np.array(["x", "y"])}, {"text": "b", "label": float("nan")}]
    written = [json.loads(line) for line in Path(as_labelled(rows)).read_text(encoding="utf-8").splitlines()]
    assert written == [{"text": "a", "label": 3, "tags": ["x", "y"]}, {"text": "b", "label": None}]


@pytest.mark.parametrize(
    ("given", "message"), [([], "The labelled set is empty"), ([1, 2], "cannot be read"), (["text"], "cannot be read")]
)
def test_what_is_no_table_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_labelled(given)


def test_a_column_is_taken_and_a_whole_table_or_a_single_string_is_refused() -> None:
    import pandas

    frame = pandas.DataFrame(ROWS)
    assert as_inputs(frame["text"]) == [row["text"] for row in ROWS]
    for wrong in ("a text", frame):
        with pytest.raises(InputError, match=r"list of texts|one column"):
            as_inputs(wrong)
