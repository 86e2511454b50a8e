"""The arithmetic of the bench: ratios within rounds, targets, the page. Its measurements are not tested here."""

import json
from pathlib import Path

import pytest
import torch
from bench import page
from bench.contest import Side, hold, ratios
from bench.ours import pretraining
from bench.row import Measured, Setting, Target, contest
from bench.row_finetune import grouped
from bench.shapes import LENGTHS, lab_shape, random_ids


def test_ratios_are_taken_within_rounds() -> None:
    ours, theirs = Side("headswap", lambda: lambda: 1.0), Side("peer", lambda: lambda: 1.0)
    ours.rates, theirs.rates = [10.0, 30.0, 8.0], [5.0, 10.0, 8.0]
    (ratio,) = ratios([ours, theirs])
    assert (ratio.median, ratio.least, ratio.most) == (2.0, 1.0, 3.0)


def test_sides_alternate_and_a_peer_that_fails_is_reported() -> None:
    order: list[str] = []
    may_choose: dict[str, bool] = {}

    def side(name: str) -> Side:
        def make():
            torch.backends.cuda.enable_cudnn_sdp(False)  # as headswap does for the whole process
            return work

        def work() -> float:
            order.append(name)
            may_choose[name] = torch.backends.cuda.cudnn_sdp_enabled()
            return 1.0

        return Side(name, make)

    def broken():
        raise RuntimeError("no such kernel")

    sides = [side("headswap"), side("one"), Side("broken", broken)]
    hold(sides, rounds=2, device="cpu")
    assert order == ["headswap", "one", "headswap", "one", "one", "headswap"]
    assert [len(each.rates) for each in sides] == [2, 2, 0]
    assert may_choose == {"headswap": False, "one": True}
    assert sides[2].failure == "RuntimeError: no such kernel"


def test_a_target_compares_the_median_and_a_missing_value_does_not_meet_it() -> None:
    measured = Measured("a row", "tok/s", measures={"memory": 0.3})
    measured.targets = [Target("memory", 0.25, is_most=True), Target("memory", 0.2), Target("peer", 1.0)]
    assert [target["is_met"] for target in measured.as_json()["targets"]] == [False, True, False]


def test_the_page_contains_every_figure_and_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [Side("headswap", lambda: lambda: 2.0), Side("peer", lambda: lambda: 1.0)]
    row = contest("a contest", sides, Setting("cpu", 3), targets=[Target("peer", 1e-9)], floor="the floor")
    machine = {
        "date": "2026-01-02", "device": "a machine", "threads": 2, "versions": {"torch": "2"},
        "ceiling": {"flops_fp32": 1e9, "flops_bf16": 2e9, "bytes_copied": 3e9},
    }  # fmt: skip
    rows = {"1": {"title": "first row", "date": "2026-01-02", "threads": 2, "contests": [row.as_json()]}}
    (tmp_path / "cpu.json").write_text(json.dumps({"machine": machine, "rows": rows}))
    (tmp_path / "notes.md").write_text("## By hand\n")
    monkeypatch.setattr(page, "ROOT", tmp_path)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "NOTES", tmp_path / "notes.md")
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.main()
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    for expected in (
        "a machine",
        "2026-01-02",
        "1. First row",
        "a contest",
        "Floor: the floor.",
        "## By hand",
        "| met |",
    ):
        assert expected in text


def test_length_grouping_sorts_within_groups_and_loses_nothing() -> None:
    lengths = [5, 9, 1, 7]
    assert grouped([2, 0, 3, 1], lengths, 2) == [1, 3, 0, 2]


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_every_step_of_headswap_has_full_batches_like_those_of_the_peers(objective: str) -> None:
    base = lab_shape(300, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    work = pretraining(base, objective=objective, batch=4, length=16, device="cpu")
    assert [work() for _ in range(20)] == [64.0] * 20


def test_every_side_has_the_same_work() -> None:
    assert len(LENGTHS) == 1_000
    first, second = (random_ids([5, 700], 900, seed=3) for _ in range(2))
    assert [len(ids) for ids in first] == [5, 700]
    assert all((one == other).all() for one, other in zip(first, second, strict=True))
    assert 6 <= min(ids.min() for ids in first) <= max(ids.max() for ids in first) < 900
