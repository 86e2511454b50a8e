"""The verbs study, report and compare: JSON, tables, messages of wrong use."""

import json
from pathlib import Path

import pytest

import headswap as hs
from headswap.cli.exit_codes import run
from headswap.study.statistics.runs import read_study
from study_fixture import write_data


def flags(tmp_path: Path) -> list[str]:
    found = write_data(tmp_path / "files")
    return [
        "--train", found["data"]["train"], "--test", found["data"]["test"], "--arms", "majority,tfidf",
        "--budgets", "40,220", "--seeds", "3", "--out", str(tmp_path / "out"), "--jobs", "2",
    ]  # fmt: skip


def test_a_study_prints_its_table_and_can_be_reported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.study.report.write.draw_figures", lambda *_, **__: [])
    assert run(["study", *flags(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "arm\t40 labels\t220 labels" in out
    assert "tfidf\t" in out
    assert "Plan: 12 jobs; they need about " in err
    assert "[12/12] " in err
    assert run(["report", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [cell["arm"] for cell in told["cells"]] == ["majority", "majority", "tfidf", "tfidf"]
    assert {name: told["overlap"][0][name] for name in ("from", "to", "exact_rows", "near_rows")} == {
        "from": "train", "to": "test", "exact_rows": 0, "near_rows": 0,
    }  # fmt: skip
    assert run(["study", *flags(tmp_path), "--json", "--quiet"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["left_out"], again["failed"]) == ([], {})
    assert again["cells"] == told["cells"]
    assert len(read_study(tmp_path / "out").runs) == 12


def test_prepare_only_writes_rows_and_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", *flags(tmp_path), "--prepare-only"]) == 0
    assert f"{tmp_path / 'out' / 'rows'} has 60 test rows without labels" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out" / "runs").exists()
    assert run(["study", *flags(tmp_path), "--prepare-only", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answers"]["columns"] == ["row", "prediction"]
    assert [entry["file"] for entry in told["train"]][:2] == ["train-40-seed1.jsonl", "train-40-seed2.jsonl"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--budgets", "many"], "--budgets holds 'many'"),
        (["--arms", "tfdif"], "'tfdif' is not an arm. Did you mean 'tfidf'?"),
        (
            ["--arms", "tfidf=x.csv"],
            "'tfidf=x.csv' is not an arm: the answers of another system need a name and a file",
        ),
        (["--arms", "llm=nowhere.csv"], "nowhere.csv does not exist"),
        (["--arms", "pretrained"], "The arm 'pretrained' needs a corpus to pre-train on. Pass --corpus"),
        (["--seeds", "0"], "--seeds '0' is not allowed"),
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--budgets", "5000"], "A budget of 5,000 labels is too large"),
    ],
)
def test_wrong_use_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], sentence: str
) -> None:
    given = flags(tmp_path)
    given = [part for at, part in enumerate(given) if more[0] not in (part, given[at - 1])] + more
    assert run(["study", *given]) == 2
    assert sentence in capsys.readouterr().err


def test_too_short_a_time_for_any_job_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", *flags(tmp_path), "--max-minutes", "0.001"]) == 1
    err = capsys.readouterr().err
    assert "Out of time. Not finished: majority-40-seed1" in err
    assert "No job fits into --max-minutes" in err


def test_prefixed_flags_reach_both_trainings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def stop_here(**given: object) -> None:
        seen.update(given)
        raise KeyboardInterrupt

    monkeypatch.setattr("headswap.study.run.run_study", stop_here)
    more = ["--pretrain.max-minutes", "3", "--finetune.num-train-epochs", "5", "--finetune.dropout", "0.2"]
    with pytest.raises(KeyboardInterrupt):
        run(["study", "movies", "--out", str(tmp_path), *more, "--max-length", "64", "--max-minutes", "9"])
    sections = seen["sections"]
    assert sections["pretrain"] == {"max_minutes": 3.0}
    assert sections["finetune"] == {"num_train_epochs": 5.0, "dropout": 0.2}
    assert sections["study"] == {"corpus": ("movies",), "max_length": 64}
    assert sections["data"] == {"train": "movies"}
    assert seen["max_minutes"] == 9.0


def test_a_study_in_python_takes_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headswap.study.report.write.draw_figures", lambda *_, **__: [])
    found = write_data(tmp_path / "files")["data"]
    results = hs.run_study(
        out=tmp_path / "out", train=found["train"], test=found["test"], arms=["tfidf"], budgets=[40], seeds=1,
        finetune={"num_train_epochs": 2},
    )  # fmt: skip
    assert [cell["arm"] for cell in results["cells"]] == ["tfidf"]
    with pytest.raises(hs.HeadswapError, match="Did you mean 'budgets'"):
        hs.run_study(out=tmp_path / "out", train=found["train"], budget=[40])
