"""What to try next: each item has its evidence, measured gains come first."""

from dataclasses import replace
from pathlib import Path

from headswap.study.report.what_next import what_next
from headswap.study.report.write import make_report
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.results import StudyResults
from headswap.study.statistics.runs import PretrainedBase
from study_fixture import synthetic_study

RISING = {("pretrained", 100): [0.70, 0.71, 0.72], ("pretrained", 400): [0.80, 0.81, 0.82]}
FLAT = {("pretrained", 100): [0.80, 0.81, 0.82], ("pretrained", 400): [0.80, 0.81, 0.82]}
SCRATCH = {("scratch", labels): [0.6, 0.61, 0.62] for labels in (100, 400)}


def results_of(
    *cells: dict, history: tuple[float, ...] = (), epochs: float = 2.0, at: tuple[float, ...] = ()
) -> StudyResults:
    every = {key: value for part in cells for key, value in part.items()}
    study = synthetic_study(every)
    every_epoch = [epochs * number / max(1, len(history) - 1) for number in range(len(history))]
    points = [
        {"epoch": epoch, "eval_loss": loss, "eval_perplexity": 9.0}
        for epoch, loss in zip(at or every_epoch, history, strict=True)
    ]
    result = {"seconds": 60.0, "tokens": 2_000_000, "epochs": epochs}
    study.bases = {"pretrained": [PretrainedBase("base-seed1", Path("base"), result, points)]}
    return replace(analyse(study), parameters={"pretrained": 1_000_000})


def test_a_rise_between_the_last_two_budgets_speaks_for_more_labels() -> None:
    results = results_of(RISING, SCRATCH)
    assert results.last_step is not None
    assert (results.last_step.from_labels, results.last_step.labels) == (100, 400)
    first = what_next(results)[0]
    assert first.startswith("More labels: pretrained changed by +10.0 points (+")
    assert first.endswith("from 100 to 400 labels, so its curve still rises at the largest budget.")


def test_without_a_shown_rise_no_gain_of_labels_is_claimed() -> None:
    assert any(text.startswith("More labels: no gain is shown.") for text in what_next(results_of(FLAT, SCRATCH)))


def test_a_better_arm_comes_first_if_its_gap_is_larger() -> None:
    better = {("lora", 400): [0.99, 0.98, 0.99], ("lora", 100): [0.7, 0.7, 0.7]}
    sentences = what_next(results_of(RISING, SCRATCH, better))
    assert sentences[0].startswith("Another arm: lora has 0.987 and pretrained 0.810 at 400 labels. The two were not")
    assert sentences[1].startswith("More labels")


def test_a_baseline_that_is_ahead_is_named_with_its_test() -> None:
    ahead = {("tfidf", labels): [0.95, 0.95, 0.95] for labels in (100, 400)}
    first = what_next(results_of(RISING, SCRATCH, ahead))[0]
    assert first.startswith(
        "Another arm: tfidf has 0.950 and pretrained 0.810 at 400 labels. pretrained is 14.0 points"
    )


def test_undecided_tests_ask_for_seeds_and_too_few_seeds_come_first() -> None:
    close = {("scratch", 100): [0.66, 0.74, 0.70], ("scratch", 400): [0.6, 0.61, 0.62]}
    assert any("is undecided (" in text for text in what_next(results_of(RISING, close)))
    few = {key: values[:2] for key, values in (RISING | SCRATCH).items()}
    assert what_next(results_of(few))[0] == "More seeds: 2 are too few to compare arms; use at least 3."


def test_the_held_out_loss_decides_whether_pre_training_was_too_short() -> None:
    falling = what_next(results_of(RISING, SCRATCH, history=(6.0, 5.5, 5.2), epochs=0.5))
    assert (
        "Longer pre-training: the held-out loss of base-seed1 went from 5.500 to 5.200 in the last 50 % of its "
        "training (0.5 passes over the corpus; 2.0 tokens per parameter), so it was still falling. Its effect on the "
        "score was not measured."
    ) in falling
    level = results_of(RISING, SCRATCH, history=(5.2, 5.199))
    enough = replace(level, parameters={"pretrained": 500_000})
    assert any("so it hardly changes any more on this corpus." in text for text in what_next(enough))
    (short,) = [text for text in what_next(level) if text.startswith("Longer pre-training")]
    assert "2.0 tokens per parameter). The learning rate is low there, so this does not show" in short
    assert short.endswith("a base counts as sufficiently trained from 3 tokens per parameter on.")
    assert not any("pre-training" in text for text in what_next(results_of(RISING, SCRATCH)))


def test_the_last_part_of_pre_training_is_a_share_of_it_and_not_one_step() -> None:
    """The runner also evaluates at the end, where the learning rate is near 0."""
    history, at = (6.0, 5.5, 5.2, 5.1999), (0.0, 1.0, 1.999, 2.0)
    (sentence,) = [text for text in what_next(results_of(RISING, SCRATCH, history=history, at=at)) if "passes" in text]
    assert "went from 5.500 to 5.200 in the last 50 % of its training" in sentence
    assert "it was still falling" in sentence


def test_a_rising_held_out_loss_is_not_called_flat() -> None:
    results = results_of(RISING, SCRATCH, history=(5.0, 4.2, 4.65), epochs=30.0)
    (sentence,) = [text for text in what_next(results) if "held-out" in text]
    assert sentence == (
        "More text or fewer passes: the held-out loss of base-seed1 went from 4.200 to 4.650 in the last 50 % of its "
        "training (30 passes over the corpus; 2.0 tokens per parameter). It rises, so more passes over the same text "
        "are not expected to lower it. Its effect on the score was not measured."
    )


def test_the_held_out_loss_of_an_adapted_base_gives_no_advice() -> None:
    results = results_of({("adapted", 100): [0.7, 0.7, 0.7]}, history=(5.0, 4.2, 4.65))
    adapted = replace(results, bases=[replace(results.bases[0], arms=["adapted"])], primary="adapted")
    assert not any("held-out" in text for text in what_next(adapted))
    own = replace(results_of(RISING, history=(5.0, 4.2, 4.65)), primary="pretrained")
    assert any("held-out" in text for text in what_next(own))


def test_a_better_arm_was_tested_whichever_of_the_two_is_named_first() -> None:
    cells = {("box", 100): [0.70, 0.71, 0.72], ("scratch", 100): [0.8, 0.81, 0.82]}
    assert what_next(analyse(synthetic_study(cells)))[0].endswith(
        "box is 10.0 points (8.8 to 11.2) worse than scratch at 100 labels."
    )
    ahead = {("scratch", 100): [0.70, 0.71, 0.72], ("box", 100): [0.8, 0.81, 0.82]}
    found = what_next(replace(analyse(synthetic_study(ahead, primary="box")), primary=None))
    assert found[0].startswith("Another arm: box has 0.810 and scratch 0.710 at 100 labels. box is 10.0 points (")
    assert "better than scratch at 100 labels." in found[0]


def adaptation(cells: dict, primary: str) -> str:
    """The sentence about adaptation."""
    found = what_next(analyse(synthetic_study(cells, primary=primary)))
    (sentence,) = [text for text in found if "adapt" in text.lower()]
    return sentence


def test_adaptation_is_measured_or_called_untried() -> None:
    box, scratch = {("box", 100): [0.70, 0.71, 0.72]}, {("scratch", 100): [0.6, 0.61, 0.62]}
    assert adaptation(box | scratch, "box") == (
        "Adaptation: whether box gains from further training on the corpus was not tried. In a study, the arm adapted "
        "does it before fine-tuning; --arms adds it."
    )
    named = {("box:mine", 100): [0.70, 0.71, 0.72]}
    assert "whether box:mine gains" in adaptation(named | scratch, "box:mine")
    assert "the arm adapted:box:mine does it" in adaptation(named | scratch, "box:mine")
    worse, better = ({("adapted", 100): [level, level + 0.01, level + 0.02]} for level in (0.6, 0.8))
    assert adaptation(box | worse | scratch, "box").startswith("Adaptation: box is 10.0 points (")
    assert adaptation(box | worse | scratch, "box").endswith(
        ") better than adapted at 100 labels. This test is exploratory."
    )
    assert adaptation(box | better | scratch, "box").startswith("Another arm: adapted has 0.810 and box 0.710")
    assert adaptation(box | better | scratch, "adapted").startswith("Adaptation: adapted is 10.0 points (")
    assert adaptation(better | scratch, "adapted") == (
        "Adaptation: its gain was not measured, because no arm is the base of adapted without it. --arms adds box."
    )


def test_what_another_base_gained_by_adaptation_is_not_said_about_this_one() -> None:
    cells = {(arm, 100): [0.7, 0.71, 0.72] for arm in ("box:mine", "box:other", "adapted:box:other")}
    scratch = {("scratch", 100): [0.6, 0.61, 0.62]}
    assert "whether box:mine gains from further training on the corpus was not tried" in adaptation(
        cells | scratch, "box:mine"
    )
    own = {("box:mine", 100): [0.8, 0.81, 0.82], ("adapted:box:mine", 100): [0.7, 0.71, 0.72]}
    assert adaptation(cells | own | scratch, "box:mine").startswith("Adaptation: box:mine is 10.0 points (")


def test_the_base_of_an_adapted_arm_may_have_another_name_or_be_of_another_edition() -> None:
    low, high = [0.70, 0.71, 0.72], [0.8, 0.81, 0.82]
    named = {("adapted:box:reviews-en-2", 100): high, ("box", 100): low, ("scratch", 100): [0.6, 0.61, 0.62]}
    assert adaptation(named, "adapted:box:reviews-en-2").startswith("Adaptation: adapted:box:reviews-en-2 is 10.0")
    named = {("adapted", 100): high, ("box:reviews-en-2", 100): low, ("scratch", 100): [0.6, 0.61, 0.62]}
    assert adaptation(named, "adapted").startswith("Adaptation: adapted is 10.0 points (")
    first = {"adapted": "box:reviews-en"}
    found = what_next(replace(analyse(synthetic_study(named, primary="adapted")), installed=first))
    assert any(text.endswith("no arm is the base of adapted without it. --arms adds box:reviews-en.") for text in found)
    box = {("box", 100): high, ("scratch", 100): low}
    found = what_next(replace(analyse(synthetic_study(box, primary="box")), installed={"box": "box:reviews-en"}))
    assert any("In a study, the arm adapted:box:reviews-en does it before fine-tuning" in text for text in found)


def test_more_seeds_are_for_planned_tests_and_no_test_is_stated_twice() -> None:
    level = {100: [0.80, 0.83, 0.78], 400: [0.79, 0.82, 0.84]}
    others = {100: [0.79, 0.80, 0.83], 400: [0.83, 0.80, 0.79]}
    cells = {("scratch", 100): others[100], ("scratch", 400): others[400]}
    cells |= {("pretrained", labels): level[labels] for labels in (100, 400)}
    cells |= {("adapted", labels): others[labels] for labels in (100, 400)}
    results = analyse(synthetic_study(cells))
    tests = {(row.other, row.labels): row.verdict for row in results.comparisons if row.arm == "pretrained"}
    assert tests == {(other, labels): "none" for labels in (100, 400) for other in ("scratch", "adapted")}
    found = what_next(results)
    assert sum(text.startswith("More ") and " is undecided (" in text for text in found) == 2
    assert not any("against adapted" in text and text.startswith("More ") for text in found)
    alone = {arm: values for arm, values in cells.items() if arm[0] != "scratch"}
    unplanned = what_next(analyse(synthetic_study(alone)))
    assert sum("pretrained against adapted at 100 labels is undecided (" in text for text in unplanned) == 1
    assert not any("pretrained against adapted at 400 labels is undecided" in text for text in unplanned)
    assert sum("pretrained against adapted at 400 labels" in text for text in unplanned) == 1


def test_a_test_that_is_undecided_by_its_correction_alone_says_so() -> None:
    cells = {("scratch", 100): [0.78, 0.80, 0.79], ("pretrained", 100): [0.80, 0.83, 0.82]}
    results = analyse(synthetic_study(cells))
    (row,) = results.comparisons
    undecided = replace(row, verdict="none", low=0.01, high=0.04, p_holm=0.12, num_comparisons=3, seeds_needed=(4, 6))
    (sentence,) = (text for text in what_next(replace(results, comparisons=[undecided])) if "is undecided" in text)
    assert "+1.0 to +4.0; p = 0.12 after correction for 3 comparisons); 4 to 6 seeds" in sentence


def test_without_a_primary_arm_more_labels_are_judged_from_the_arm_that_is_discussed() -> None:
    rising = {("scratch", 100): [0.70, 0.71, 0.72], ("scratch", 400): [0.80, 0.81, 0.82]}
    found = what_next(analyse(synthetic_study(rising)))
    assert found[0].startswith("More labels: scratch changed by +10.0 points (")
    constant = {("majority", labels): [0.5, 0.5, 0.5] for labels in (100, 400)}
    assert analyse(synthetic_study(constant)).last_step is None


def test_bases_that_were_not_tried_are_named_only_if_none_was() -> None:
    assert what_next(results_of(RISING, SCRATCH))[-1].startswith("Another base: neither an installed base (box)")
    box = {("box", labels): [0.5, 0.5, 0.5] for labels in (100, 400)}
    assert not any(text.startswith("Another base") for text in what_next(results_of(RISING, SCRATCH, box)))


def test_the_report_has_the_list() -> None:
    report = make_report(synthetic_study(RISING | SCRATCH))
    assert report.as_json()["what_next"] == what_next(report.results) != []


def test_a_study_without_a_pre_trained_arm_has_advice_too() -> None:
    ahead = {("tfidf", labels): [0.95, 0.95, 0.95] for labels in (100, 400)}
    sentences = what_next(results_of(SCRATCH, ahead))
    assert sentences[0].startswith("Another arm: tfidf has 0.950 and scratch 0.610 at 400 labels.")
    assert sentences[-1].startswith("Pre-training: no arm starts from a trained base.")
    assert what_next(results_of(ahead))[-1].startswith("Pre-training: no arm starts from a trained base.")
