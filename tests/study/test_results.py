"""What is said follows from predictions and nothing else: planted gains, harm, noise and too few seeds."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.study import findings as words
from headswap.study.chart_files import COLOURS
from headswap.study.chart_svg import legend
from headswap.study.charts import NUM_COLOURS, make_charts
from headswap.study.findings import break_even_sentence, comparison_sentence, headline, worth_sentence
from headswap.study.report import write_report
from headswap.study.results import analyse
from headswap.study.runs import Base, Material, Scored

NUM_TEST = 1_000
TARGETS = np.arange(NUM_TEST) % 2
IDS = text_ids([f"text {number}" for number in range(NUM_TEST)])


def run(arm: str, labels: int, seed: int, accuracy: float, *, rows: str | None = None) -> Scored:
    """A run that is right in so many cases, at places that depend on the seed."""
    order = np.random.default_rng(seed).permutation(NUM_TEST)
    said = TARGETS.copy()
    wrong = order[round(accuracy * NUM_TEST) :]
    said[wrong] = 1 - said[wrong]
    probabilities = np.where(np.arange(2) == said[:, None], 0.9, 0.1)
    predictions = Predictions(probabilities, TARGETS, ("neg", "pos"), IDS)
    history = [{"epoch": 0, "eval_accuracy": 0.5, "eval_loss": 0.7}, {"epoch": 1, "eval_accuracy": accuracy}]
    result = {"seconds": 3.0, "tokens": 1_000, "peak_memory_bytes": 10**8}
    folder = Path(f"{arm}-{labels}-{seed}")
    return Scored(arm, str(labels), labels, seed, folder, predictions, result, history, rows or f"{labels} {seed}")


def study(cells: dict[tuple[str, int], list[float]], **more: object) -> Material:
    runs = [
        run(arm, labels, seed, value) for (arm, labels), values in cells.items() for seed, value in enumerate(values, 1)
    ]
    arms = list(dict.fromkeys(arm for arm, _ in cells))
    base = Base("base-seed1", Path("base"), {"seconds": 60.0, "tokens": 1, "tokens_per_second": 1.0}, [])
    bases = {arm: [base] for arm in arms if arm not in ("majority", "tfidf", "scratch")}
    return Material(None, runs, arms, bases=bases, **more)  # type: ignore[arg-type]


def test_a_gain_is_told_with_its_interval() -> None:
    cells = {
        ("tfidf", 400): [0.80, 0.79, 0.81],
        ("scratch", 400): [0.78, 0.77, 0.79],
        ("pretrained", 400): [0.83, 0.82, 0.84],
    }
    found = analyse(study(cells))
    first, second = headline(found)
    assert first == "Pre-training gains 5.0 points (4.8 to 5.2) at 400 labels."
    assert second == "The best Transformer beats TF-IDF + logistic regression by 3.0 points at 400 labels (pretrained)."


def test_harm_is_told_as_plainly_as_a_gain() -> None:
    cells = {
        ("tfidf", 400): [0.9, 0.9, 0.9], ("scratch", 400): [0.83, 0.82, 0.84],
        ("pretrained", 400): [0.78, 0.765, 0.795],
    }  # fmt: skip
    first, second = headline(analyse(study(cells)))
    assert first == "Pre-training HURTS by 5.0 points (3.8 to 6.2) at 400 labels."
    assert second == "TF-IDF + logistic regression is ahead of the best Transformer by 7.0 points at 400 labels."


def test_noise_is_called_no_difference_and_the_seeds_that_would_settle_it_are_told() -> None:
    cells = {("scratch", 400): [0.80, 0.82, 0.78], ("pretrained", 400): [0.82, 0.79, 0.81]}
    found = analyse(study(cells))
    (first,) = headline(found)
    assert first.startswith("No difference between pre-training and scratch is shown at 400 labels (+0.7 points, ")
    (row,) = found["comparisons"]
    assert row["verdict"] == "none"
    assert row["seeds_needed"] > 50
    assert f"{row['seeds_needed']} seeds would show it with a chance of 80 %" in comparison_sentence(row)


def test_what_one_test_would_show_may_not_survive_the_correction() -> None:
    quiet = {(arm, labels): [0.80, 0.81, 0.79] for arm in ("scratch", "tfidf") for labels in (100, 200, 400, 800)}
    noisy = {("pretrained", labels): [0.82, 0.78, 0.80] for labels in (100, 200, 400)}
    cells = quiet | noisy | {("pretrained", 800): [0.83, 0.842, 0.838]}
    found = analyse(study(cells))
    row = next(c for c in found["comparisons"] if (c["arm"], c["other"], c["labels"]) == ("pretrained", "scratch", 800))
    assert row["p"] < 0.05 <= row["p_holm"]
    assert row["verdict"] == "none"
    assert f"not enough among {row['num_comparisons']} comparisons" in comparison_sentence(row)


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_seeds_claim_nothing(count: int) -> None:
    cells = {("scratch", 400): [0.7, 0.71][:count], ("pretrained", 400): [0.9, 0.92][:count]}
    found = analyse(study(cells))
    assert headline(found) == [f"With {count} seed{'s' * (count > 1)} no claim is possible; use 3 or more."]
    assert found["comparisons"][0]["verdict"] == "no claim"
    assert found["cells"][0]["low"] is None


def test_scores_come_from_the_predictions() -> None:
    found = analyse(study({("scratch", 400): [0.80, 0.70, 0.75]}))
    (cell,) = found["cells"]
    assert cell["values"] == {1: 0.80, 2: 0.70, 3: 0.75}
    assert cell["mean_macro_f1"] == pytest.approx(0.75, abs=0.01)
    assert cell["test_low"] < 0.75 < cell["test_high"]
    assert found["details"][0]["ece"] == pytest.approx(0.15, abs=1e-9), "sure at .9, right in .75"


def test_runs_on_other_labels_are_no_pair() -> None:
    material = study({("scratch", 400): [0.80, 0.70, 0.75]})
    material.runs += [run("pretrained", 400, seed, 0.9, rows="others") for seed in (1, 2, 3)]
    material.arms.append("pretrained")
    assert analyse(material)["comparisons"] == []


def test_seeds_that_agree_to_the_text_prove_nothing_about_one_text() -> None:
    cells = {("tfidf", 400): [0.801, 0.801, 0.801], ("pretrained", 400): [0.800, 0.800, 0.800]}
    (row,) = analyse(study(cells))["comparisons"]
    assert row["verdict"] == "none"
    assert row["p"] > 0.05
    assert row["low"] < 0 < row["high"]
    assert row["seeds_needed"] is not None


def test_seeds_without_a_partner_are_left_out_of_the_pair() -> None:
    material = study({("scratch", 400): [0.80, 0.70, 0.75, 0.76], ("pretrained", 400): [0.81, 0.71, 0.77]})
    (row,) = analyse(material)["comparisons"]
    assert row["count"] == 3


def test_label_worth_and_break_even_are_told() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.71, 0.69],
        ("scratch", 1600): [0.80, 0.81, 0.79],
        ("pretrained", 100): [0.701, 0.709, 0.69], ("pretrained", 400): [0.90, 0.91, 0.89],
        ("pretrained", 1600): [0.802, 0.809, 0.79],
    }  # fmt: skip
    found = analyse(study(cells))
    told = [worth_sentence(row) for row in found["label_worth"]]
    assert told[0].startswith("Pre-training at 100 labels is worth 4 times the labels (95 % interval ")
    assert told[1] == (
        "Pre-training at 400 labels is worth more than 4 times the labels: scratch does not get there with 1,600, the "
        "largest budget tried."
    )
    assert "no worth in labels is shown" in told[2]
    first = break_even_sentence(found["break_even"][0])
    assert first.startswith("At 100 labels pre-training took 60.0 s and saved about 300 labels (at least ")
    assert first.endswith(": it pays where a label costs more than 0.2 s.")
    assert len(found["break_even"]) == 2, "none where no worth is shown"


def test_runs_that_say_the_same_of_every_text_are_told() -> None:
    cells = {("scratch", 400): [0.6, 0.7, 0.6], ("pretrained", 400): [0.7, 0.8, 0.7], ("majority", 400): [0.5]}
    material = study(cells)
    for run in material.runs:
        if (run.arm, run.seed) in (("pretrained", 2), ("majority", 1)):
            run.predictions.probabilities[:] = [0.9, 0.1]
    found = analyse(material)
    assert found["collapsed"] == [{"arm": "pretrained", "count": 1, "of": 3}]
    assert any(
        told.startswith("pretrained: 1 of 3 runs gave every test text the same label") for told in words.caveats(found)
    )


def test_with_baselines_alone_it_is_said_which_arms_have_runs() -> None:
    found = analyse(study({("majority", 400): [0.5, 0.5], ("tfidf", 400): [0.6, 0.7]}))
    assert headline(found) == ["Nothing can be compared: of the arms only majority and tfidf have finished runs."]


def test_a_worth_without_any_end_is_told_by_what_was_tried() -> None:
    cells = {
        ("scratch", 40): [0.60, 0.50, 0.70], ("scratch", 80): [0.55, 0.75, 0.50],
        ("pretrained", 40): [0.50, 0.70, 0.60], ("pretrained", 80): [0.70, 0.50, 0.60],
    }  # fmt: skip
    (row, *_) = analyse(study(cells))["label_worth"]
    assert row["low"] is row["high"] is None
    assert worth_sentence(row) == (
        "Pre-training at 40 labels: its worth in labels cannot be told from scratch with 40 to 80 labels."
    )


def test_a_gain_at_the_largest_budget_is_worth_more_labels_than_were_tried() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.65, 0.66, 0.64],
        ("pretrained", 100): [0.70, 0.71, 0.69], ("pretrained", 400): [0.75, 0.76, 0.74],
    }  # fmt: skip
    assert worth_sentence(analyse(study(cells))["label_worth"][1]) == (
        "Pre-training at 400 labels is worth more labels than were tried: scratch does not get there with as many."
    )


def test_the_worth_of_many_arms_is_a_table_and_that_of_the_primary_one_is_told(tmp_path: Path) -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.71, 0.69],
        **{(arm, 100): [0.701, 0.709, 0.69] for arm in ("pretrained", "lora", "frozen")},
        **{(arm, 400): [0.90, 0.91, 0.89] for arm in ("pretrained", "lora", "frozen")},
    }  # fmt: skip
    material = study(cells, texts=[f"text {number}" for number in range(NUM_TEST)])
    write_report(material, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- Pre-training at 100 labels is worth" in text
    assert "The arm 'lora' at" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("| lora | 4 (")]
    assert "; pays from 0.2 s a label) | over 1" in line
    assert '<table id="worth">' in (tmp_path / "report.html").read_text(encoding="utf-8")
    without = study({cell: values for cell, values in cells.items() if cell[0] != "pretrained"} | {
        ("gradual", labels): cells["lora", labels] for labels in (100, 400)
    }, texts=material.texts)  # fmt: skip
    write_report(replace(without, arms=["scratch", "pretrained", "lora", "frozen", "gradual"]), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## What it is worth" in text
    assert "| frozen | 4 (" in text
    few = study({cell: values for cell, values in cells.items() if cell[0] != "frozen"}, texts=material.texts)
    write_report(few, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- The arm 'lora' at 100 labels is worth 4 times the labels" in text
    assert "times the labels of scratch" not in text


def test_a_dozen_arms_have_colours_and_markers_of_their_own() -> None:
    arms = ["majority", "tfidf", "scratch", "pretrained", *(f"arm {number}" for number in range(8))]
    chart = make_charts(analyse(study({(arm, 400): [0.7, 0.71, 0.69] for arm in arms})))[0]
    assert len({series.colour for series in chart.series}) == len(arms) == NUM_COLOURS == len(COLOURS)
    looks = {key.replace(f"c{series.colour}", "") for series, (_, key) in zip(chart.series, legend(chart), strict=True)}
    assert len(looks) == 5, "shapes, on paper"


def test_what_only_the_mean_does_not_reach_keeps_its_interval() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.72, 0.68],
        ("pretrained", 100): [0.69, 0.71, 0.73], ("pretrained", 400): [0.69, 0.71, 0.73],
    }  # fmt: skip
    told = [worth_sentence(row) for row in analyse(study(cells))["label_worth"]]
    assert told[0].startswith(
        "Pre-training at 100 labels is worth more than the largest budget tried: scratch does not"
    )
    assert "95 % interval" in told[0]
    assert "no worth in labels is shown" in told[1]


def test_disagreements_show_the_texts_on_which_trust_differs_most() -> None:
    cells = {("scratch", 400): [0.5], ("pretrained", 400): [1.0]}
    material = study(cells, texts=[f"text {number}" for number in range(NUM_TEST)])
    found = analyse(material)["disagreements"]
    assert len(found) == 10
    assert all(row["trust"]["pretrained"] > row["trust"]["scratch"] for row in found)
    assert found[0]["text"] == f"text {found[0]['row']}"
    hidden = analyse(material, with_texts=False)
    assert "text " not in json.dumps(hidden["disagreements"])


def test_arms_are_looked_at_side_by_side_where_most_of_them_have_run() -> None:
    cells = {
        ("tfidf", 100): [0.6], ("tfidf", 400): [0.7], ("tfidf", 1600): [0.8],
        ("scratch", 100): [0.5], ("scratch", 400): [0.5], ("pretrained", 100): [0.6], ("pretrained", 400): [0.9],
    }  # fmt: skip
    found = analyse(study(cells))
    assert [(row["arm"], row["labels"]) for row in found["details"]] == [
        ("tfidf", 400), ("scratch", 400), ("pretrained", 400),
    ]  # fmt: skip
    assert set(found["disagreements"][0]["trust"]) == {"tfidf", "scratch", "pretrained"}
    assert any(chart.title == "Calibration with 400 labels" for chart in make_charts(found))


def test_everything_is_plain_json() -> None:
    cells = {("tfidf", 400): [0.8] * 3, ("scratch", 400): [0.78, 0.77, 0.79], ("pretrained", 400): [0.83, 0.82, 0.84]}
    written = json.dumps(analyse(study(cells)), allow_nan=False)
    again = json.loads(written)
    assert json.dumps(again) == written
    assert {row["arm"] for row in again["cells"]} == {"tfidf", "scratch", "pretrained"}


def test_permutations_are_there_from_eight_seeds_on() -> None:
    values = [0.7 + 0.001 * number for number in range(8)]
    cells = {("scratch", 400): values, ("pretrained", 400): [value + 0.05 for value in values]}
    (row,) = analyse(study(cells))["comparisons"]
    assert row["p_permutation"] == 2 / 2**8
    few = {name: values[:5] for name, values in cells.items()}
    assert analyse(study(few))["comparisons"][0]["p_permutation"] is None


def test_equal_scores_are_called_so() -> None:
    row = {"arm": "lora", "other": "scratch", "labels": 100, "verdict": "none", "mean": 0.0, "low": 0.0, "high": 0.0}
    row |= {"seeds_needed": None, "num_comparisons": 1, "count": 3}
    assert words.comparison_sentence(row) == "lora against scratch at 100 labels: the same score with every seed."
    told = words.comparison_sentence(row | {"low": -0.01, "high": 0.01})
    assert "a difference this small would need more than 1,000 seeds" in told
