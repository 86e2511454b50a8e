"""Baselines of a comparison are those of a study."""

import json
import shutil
from pathlib import Path

import pytest

from headswap.finetuning.splits import LabelledSplits
from headswap.study.report.write import make_report
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from study_fixture import (
    runs_of,
)


def test_a_comparison_has_the_results_of_the_study(finished_study: Path) -> None:
    names = [f"{arm}-220-seed{seed}-" for arm in ("scratch", "pretrained") for seed in (1, 2, 3)]
    ours = analyse(add_baselines(read_runs(runs_of(finished_study, *names)))).as_json()
    theirs = analyse(read_study(finished_study)).as_json()
    assert ours["arms"] == ["majority", "tfidf", "scratch", "pretrained"]
    for row in theirs["cells"]:
        if row["labels"] == 220:
            assert next(c["values"] for c in ours["cells"] if c["arm"] == row["arm"]) == row["values"]
    tfidf = next(c["values"] for c in ours["cells"] if c["arm"] == "tfidf")
    assert len(tfidf) == 3
    assert len(set(tfidf.values())) == 1, "the same labels in another order"
    found = next(row for row in ours["comparisons"] if (row["arm"], row["other"]) == ("pretrained", "tfidf"))
    other = next(
        r for r in theirs["comparisons"] if (r["arm"], r["other"], r["labels"]) == ("pretrained", "tfidf", 220)
    )
    assert (found["mean"], found["low"], found["p"]) == (other["mean"], other["low"], other["p"])


def test_changed_labels_leave_the_baselines_out_with_a_note(finished_study: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(runs_of(finished_study, "scratch-220-seed1-")[0], copy)
    checksums = json.loads((copy / "data.json").read_text())
    (copy / "data.json").write_text(json.dumps(checksums | {"training set": "other"}))
    runs = add_baselines(read_runs([copy]))
    assert runs.arms == ["scratch"]
    assert "have changed or cannot be read, so there is no baseline at 220 labels" in runs.prepared["notes"][0]


def test_a_comparison_states_the_overlap_of_its_runs(finished_study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["3 test texts are also in the train set, so the scores on them are too high."]
    monkeypatch.setattr(LabelledSplits, "overlap_sentences", lambda _: told)
    found = add_baselines(read_runs(runs_of(finished_study, "scratch-220-seed1-", "scratch-220-seed2-")))
    expected = "Training set of 220 labels: 3 test texts are also in the train set, so the scores on them are too high."
    assert found.prepared["notes"] == [expected]
    assert expected in make_report(found).caveats
