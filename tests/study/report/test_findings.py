"""Sentences about gains, losses, differences that are not significant, too few seeds, and label worth."""

from dataclasses import replace

import numpy as np
import pytest

from headswap.study.report.findings import (
    ONE_GROUP,
    break_even_sentence,
    catch_up_sentence,
    comparison_sentence,
    describe_arm,
    headline,
    seeds_sentence,
    worth_cell,
    worth_sentence,
)
from headswap.study.report.what_next import what_next
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import StudyRuns
from study_fixture import (
    synthetic_study,
)


def test_a_gain_is_stated_with_its_interval() -> None:
    cells = {
        ("tfidf", 400): [0.80, 0.79, 0.81],
        ("scratch", 400): [0.78, 0.77, 0.79],
        ("pretrained", 400): [0.83, 0.82, 0.84],
    }
    found = analyse(synthetic_study(cells))
    first, second = headline(found)
    assert first == "Pre-training gains 5.0 points (4.1 to 5.9) at 400 labels, compared with scratch."
    assert second == (
        "Pre-training gains 3.0 points (2.3 to 3.7) at 400 labels, compared with the best baseline (tfidf)."
    )


def test_a_loss_is_stated_like_a_gain() -> None:
    cells = {
        ("tfidf", 400): [0.9, 0.9, 0.9], ("scratch", 400): [0.83, 0.82, 0.84],
        ("pretrained", 400): [0.78, 0.765, 0.795],
    }  # fmt: skip
    first, second = headline(analyse(synthetic_study(cells)))
    assert first == "Pre-training loses 5.0 points (3.8 to 6.2) at 400 labels, compared with scratch."
    assert second == (
        "Pre-training loses 12.0 points (8.3 to 15.7) at 400 labels, compared with the best baseline (tfidf)."
    )


def test_noise_is_not_significant_and_the_seeds_needed_are_stated() -> None:
    cells = {("scratch", 400): [0.80, 0.82, 0.78], ("pretrained", 400): [0.82, 0.79, 0.81]}
    found = analyse(synthetic_study(cells))
    (first,) = headline(found)
    assert first.startswith("No significant difference between pre-training and scratch at 400 labels (+0.7 points, ")
    (row,) = found.comparisons
    assert row.verdict == "none"
    assert row.seeds_needed is not None
    fewest, most = row.seeds_needed
    assert most is None, "the interval contains 0, so the difference may be 0"
    assert f"{fewest} or more seeds would show a difference of this size" in comparison_sentence(row)


def test_what_is_needed_is_a_number_of_bases_where_the_test_is_over_bases() -> None:
    gains = [0.04, 0.04, -0.02, -0.02, 0.01, 0.01]
    runs = synthetic_study({("scratch", 400): [0.7] * 6, ("pretrained", 400): [0.7 + gain for gain in gains]})
    runs.runs = [
        replace(run, base=f"base {(run.seed - 1) // 2}") if run.arm == "pretrained" else run for run in runs.runs
    ]
    results = analyse(runs)
    (row,) = results.comparisons
    fewest, most = row.seeds_needed
    assert seeds_sentence(row).startswith(
        f"{fewest:,} or more bases" if most is None else f"{fewest:,} to {most:,} bases"
    )
    assert any(
        sentence.startswith("More bases (--base-seeds, with at least as many --seeds): pretrained")
        for sentence in what_next(results)
    )


def test_a_difference_that_fails_the_correction_is_not_significant() -> None:
    quiet = {(arm, labels): [0.80, 0.81, 0.79] for arm in ("scratch", "tfidf") for labels in (100, 200, 400, 800)}
    noisy = {("pretrained", labels): [0.82, 0.78, 0.80] for labels in (100, 200, 400)}
    cells = quiet | noisy | {("pretrained", 800): [0.83, 0.842, 0.838]}
    found = analyse(synthetic_study(cells))
    row = next(c for c in found.comparisons if (c.arm, c.other, c.labels) == ("pretrained", "scratch", 800))
    assert row.p < 0.05 <= row.p_holm
    assert row.verdict == "none"
    assert row.num_comparisons == 4, "the family is that of pretrained against scratch"
    assert "+1.2 to +6.1; p = 0.093 after correction for 4 comparisons" in comparison_sentence(row)


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "1 seed is too few to compare arms; use at least 3."),
        (2, "2 seeds are too few to compare arms; use at least 3."),
    ],
)
def test_too_few_seeds_are_not_compared(count: int, sentence: str) -> None:
    cells = {("scratch", 400): [0.7, 0.71][:count], ("pretrained", 400): [0.9, 0.92][:count]}
    found = analyse(synthetic_study(cells))
    assert headline(found) == [sentence]
    assert found.comparisons[0].verdict == "no claim"
    assert found.cells[0].over == "texts"


def test_label_worth_and_break_even_are_stated() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.71, 0.69],
        ("scratch", 1600): [0.80, 0.81, 0.79],
        ("pretrained", 100): [0.701, 0.709, 0.69], ("pretrained", 400): [0.90, 0.91, 0.89],
        ("pretrained", 1600): [0.802, 0.809, 0.79],
    }  # fmt: skip
    found = analyse(synthetic_study(cells))
    sentences = [worth_sentence(row) for row in found.label_worth]
    assert sentences[0].startswith("Pre-training at 100 labels: the label worth is 4 (95 % interval ")
    assert sentences[0].endswith("Scratch needs 4 times as many labels for the same score.")
    assert sentences[1] == (
        "Pre-training at 400 labels: the label worth is more than 4. Scratch does not reach this score with 1,600 "
        "labels, the largest budget tried."
    )
    assert len(sentences) == 2, "none at 1,600 labels, where no gain is significant"
    first = break_even_sentence(found.break_even[0])
    assert first.startswith("At 100 labels, pre-training took 60.0 s and saved about 300 labels (at least ")
    assert first.endswith("compared with scratch. It pays off if one label takes longer than 0.2 s.")
    assert len(found.break_even) == 2, "none without a label worth above 1"


def test_baselines_alone_are_nothing_to_compare() -> None:
    found = analyse(synthetic_study({("majority", 400): [0.5, 0.5], ("tfidf", 400): [0.6, 0.7]}))
    assert headline(found) == ["There is nothing to compare: the only arms with finished runs are majority and tfidf."]


def test_without_a_significant_gain_there_is_no_label_worth() -> None:
    cells = {
        ("scratch", 40): [0.60, 0.50, 0.70], ("scratch", 80): [0.55, 0.75, 0.50],
        ("pretrained", 40): [0.50, 0.70, 0.60], ("pretrained", 80): [0.70, 0.50, 0.60],
    }  # fmt: skip
    found = analyse(synthetic_study(cells))
    assert found.label_worth == []
    assert found.break_even == []


def test_label_worth_is_also_stated_in_labels_of_the_best_baseline() -> None:
    cells = {
        ("tfidf", 100): [0.60, 0.61, 0.59], ("tfidf", 400): [0.70, 0.71, 0.69],
        ("pretrained", 100): [0.65, 0.66, 0.64], ("pretrained", 400): [0.70, 0.71, 0.69],
    }  # fmt: skip
    (row,) = analyse(synthetic_study(cells)).label_worth
    assert (row.other, row.labels) == ("best baseline", 100)
    assert row.times == pytest.approx(2.0), "halfway between 100 and 400 on a logarithmic scale"
    assert "The best baseline needs 2 times as many labels for the same score." in worth_sentence(row)


def test_a_gain_at_the_largest_budget_is_worth_more_than_the_budget() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.65, 0.66, 0.64],
        ("pretrained", 100): [0.70, 0.71, 0.69], ("pretrained", 400): [0.75, 0.76, 0.74],
    }  # fmt: skip
    assert worth_sentence(analyse(synthetic_study(cells)).label_worth[1]) == (
        "Pre-training at 400 labels: the label worth is more than 1. Scratch does not reach this score with 400 "
        "labels, the largest budget tried."
    )


def test_a_label_worth_beyond_the_budgets_keeps_its_interval() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.72, 0.68],
        ("pretrained", 100): [0.69, 0.71, 0.73], ("pretrained", 400): [0.69, 0.71, 0.73],
    }  # fmt: skip
    (sentence,) = (worth_sentence(row) for row in analyse(synthetic_study(cells)).label_worth)
    assert sentence.startswith("Pre-training at 100 labels: the label worth is at least 1.7 (95 % interval 1.7 to ")
    assert sentence.endswith("The mean of scratch does not reach this score with 400 labels, the largest budget tried.")


def test_with_too_few_seeds_a_label_worth_has_no_interval_instead_of_an_open_one() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70],
        ("pretrained", 100): [0.65, 0.67, 0.66], ("pretrained", 400): [0.75],
    }  # fmt: skip
    (row,) = analyse(synthetic_study(cells)).label_worth
    assert "(no interval with 1 seed)" in worth_sentence(row)
    assert worth_cell(row, None)[1] == ["no interval with 1 seed"]
    assert worth_cell(replace(row, count=3), None)[1] == ["less than 1 to more than 4"]


def test_a_study_without_planned_tests_calls_its_headline_exploratory() -> None:
    cells = {("box:a", 100): [0.70, 0.72, 0.68], ("box:b", 100): [0.60, 0.62, 0.58]}
    (sentence,) = headline(analyse(synthetic_study(cells)))
    assert sentence.startswith("Exploratory: box:a is 10.0 points (")
    few = {arm: values[:2] for arm, values in cells.items()}
    (sentence,) = headline(analyse(synthetic_study(few)))
    assert "too few seeds" in sentence
    assert "Exploratory" not in sentence, "nothing was tested"


def test_sentences_of_pairs_count_pairs() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.72, 0.68],
        ("pretrained", 100): [0.66, 0.68, 0.67], ("pretrained", 400): [0.78, 0.77, 0.79],
    }  # fmt: skip
    results = analyse(synthetic_study(cells, unit="pair"))
    sentences = [*headline(results), *what_next(results)]
    sentences += [worth_sentence(row, results.words) for row in results.label_worth]
    sentences += [break_even_sentence(row, results.words) for row in results.break_even]
    sentences += [catch_up_sentence(row, results.words) for row in results.catch_up]
    assert results.break_even
    assert results.catch_up
    assert not [sentence for sentence in sentences if " labels" in sentence or "one label " in sentence]
    assert sentences[0].endswith("on average over 100 and 400 labelled pairs, compared with scratch.")
    assert any("It pays off if labelling one pair takes longer than" in sentence for sentence in sentences)


def test_equal_scores_are_stated() -> None:
    cells = {("scratch", 100): [0.7, 0.8, 0.9], ("lora", 100): [0.7, 0.8, 0.9]}
    (row,) = analyse(synthetic_study(cells)).comparisons
    assert comparison_sentence(row) == "lora against scratch at 100 labels: the same score."
    sentence = comparison_sentence(replace(row, mean=0.001, seeds_needed=(None, None)))
    assert "seeds alone would not show a difference of this size on this test set" in sentence


def test_pretrained_and_installed_bases_are_compared_with_scratch() -> None:
    cells = {
        ("scratch", 100): [0.70, 0.72, 0.68], ("pretrained", 100): [0.72, 0.69, 0.71],
        ("box", 100): [0.801, 0.819, 0.78],
    }  # fmt: skip
    first, second = headline(analyse(synthetic_study(cells)))
    assert first.startswith("No significant difference between pre-training and scratch at 100 labels (+0.7 points, ")
    assert second == (
        "Exploratory: the installed base gains 10.0 points (8.7 to 11.3) at 100 labels, compared with scratch."
    )


def test_the_primary_arm_is_compared_with_a_public_checkpoint() -> None:
    cells = {
        ("tfidf", 100): [0.70, 0.72, 0.68], ("pretrained", 100): [0.75, 0.77, 0.74],
        ("hf:bert", 100): [0.801, 0.819, 0.78], ("lora", 100): [0.73, 0.74, 0.73],
    }  # fmt: skip
    found = analyse(synthetic_study(cells))
    assert {row.arm for row in found.comparisons if row.other == "hf:bert"} == {"pretrained"}
    assert {row.family for row in found.comparisons if row.other == "hf:bert"} == {"exploratory"}
    _, sentence = headline(found)
    assert sentence.startswith("Exploratory: pre-training loses 4.7 points (")
    assert sentence.endswith(") at 100 labels, compared with the public checkpoint hf:bert.")


def with_bases_in_folders(cells: dict[tuple[str, int], list[float]], **more: str) -> StudyRuns:
    runs = synthetic_study(cells, **more)
    for run in runs.runs:
        if run.arm != "tfidf":
            run.result["base"] = run.arm.removesuffix("-slow")
    return runs


def test_the_primary_arm_is_compared_with_a_base_in_a_folder() -> None:
    cells = {
        ("tfidf", 100): [0.70, 0.72, 0.68], ("scratch", 100): [0.60, 0.61, 0.58], ("new", 100): [0.75, 0.77, 0.74],
        ("old", 100): [0.801, 0.819, 0.78], ("old-slow", 100): [0.73, 0.74, 0.73],
    }  # fmt: skip
    runs = with_bases_in_folders(cells)
    found = analyse(runs)
    assert found.given_bases == ["new", "old"], "old-slow is a recipe of a fine-tuning from old"
    assert {(row.arm, row.family) for row in found.comparisons if row.other == "old"} == {("new", "exploratory")}
    sentence = headline(found)[-1]
    assert sentence.startswith("Exploratory: the arm 'new' loses 4.7 points (")
    assert sentence.endswith(") at 100 labels, compared with old.")


def test_with_a_reference_every_arm_has_its_own_sentence() -> None:
    cells = {("old", 100): [0.70, 0.72, 0.68], ("new", 100): [0.75, 0.77, 0.74], ("newest", 100): [0.81, 0.82, 0.78]}
    found = analyse(with_bases_in_folders(cells, primary="new", reference="old"))
    assert found.given_bases == []
    assert [sentence.partition(" points")[0] for sentence in headline(found)] == [
        "Exploratory: new is 5.3", "Exploratory: newest is 10.3"
    ]  # fmt: skip


def test_without_scratch_and_baselines_a_public_checkpoint_is_compared_once() -> None:
    cells = {("pretrained", 100): [0.75, 0.77, 0.74], ("hf:bert", 100): [0.801, 0.819, 0.78]}
    (row,) = analyse(synthetic_study(cells)).comparisons
    assert (row.arm, row.other, row.num_comparisons) == ("pretrained", "hf:bert", 1)


def test_the_overall_difference_comes_first() -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.71, 0.69],
        ("pretrained", 100): [0.65, 0.67, 0.63], ("pretrained", 400): [0.74, 0.76, 0.73],
    }  # fmt: skip
    found = analyse(synthetic_study(cells))
    assert found.overall is not None
    assert found.overall.budgets == [100, 400]
    first, *_ = headline(found)
    assert first.startswith("Pre-training gains 4.7 points (")
    assert first.endswith(") on average over 100 and 400 labels, compared with scratch.")


def test_every_arm_is_described() -> None:
    assert describe_arm("tfidf") == "TF-IDF of word 1-2-grams, logistic regression"
    assert describe_arm("box:letters") == "the installed base box:letters, all weights fine-tuned"
    assert describe_arm("hf:bert") == "the public checkpoint hf:bert, all weights fine-tuned"
    assert describe_arm("mine") == "a given bundle or recipe"
    assert describe_arm("box", installed="box:letters") == describe_arm("box:letters")
    assert describe_arm("box") == "the installed base, all weights fine-tuned", "no edition that is not known"
    assert describe_arm("consistency:adapted", installed="box:letters").startswith("the installed base box:letters, fi")
    assert "on the vectors of the base box:letters, fitted" in describe_arm("linear:box", installed="box:letters")
    assert describe_arm("linear") == (
        "logistic regression on the vectors of the pre-trained base, fitted to all labels of the budget"
    )
    assert describe_arm("linear:adapted", "regress").startswith("ridge regression on the vectors of the adapted base")


def test_a_score_that_scratch_has_with_fewer_labels_has_no_label_worth() -> None:
    """The curve of scratch falls: at 400 labels it is below its score with 100."""
    cells = {
        ("scratch", 100): [0.80, 0.79, 0.81], ("scratch", 400): [0.59, 0.60, 0.58],
        ("pretrained", 100): [0.83, 0.82, 0.84], ("pretrained", 400): [0.74, 0.75, 0.76],
    }  # fmt: skip
    row = next(row for row in analyse(synthetic_study(cells)).label_worth if row.labels == 400)
    assert worth_sentence(row) == (
        "Pre-training at 400 labels: there is no label worth. Scratch reaches this score with 100 labels, the smallest "
        "budget tried, and falls below it with more."
    )
    assert worth_cell(row, None) == ("under 0.25", [])


def test_one_group_of_texts_is_not_called_too_few_seeds() -> None:
    study = synthetic_study({("scratch", 100): [0.6, 0.61, 0.62], ("pretrained", 100): [0.8, 0.81, 0.79]})
    one = np.zeros(len(study.runs[0].predictions.text_ids), dtype=np.int64)
    study.runs = [replace(run, predictions=replace(run.predictions, group_ids=one)) for run in study.runs]
    results = analyse(study)
    (sentence,) = headline(results)
    assert sentence == f"Nothing can be tested: {ONE_GROUP}. Use a test set with several groups."
    assert ONE_GROUP in comparison_sentence(results.comparisons[0])
