"""State the results of a study in sentences: a gain, a loss, no significant difference, or too few seeds.

A difference is significant if its p is below .05 after Holm's correction within its family of tests. The interval next
to it is the 95 % interval of that one difference, over seeds and test texts.
"""

from collections.abc import Iterable, Sequence

from headswap.core.errors import counted
from headswap.core.installed_bases import PREFIX
from headswap.core.local_paths import CHECKPOINT
from headswap.registry import LINEAR_MODELS
from headswap.study.setup.arm_bases import base_of, is_adapted, is_from_box, own_name
from headswap.study.setup.arms import (
    ADAPTED,
    BASELINES,
    BOX,
    LINEAR,
    MEANING,
    OF_BASE,
    OF_CONSISTENCY,
    OF_LINEAR,
    SCRATCH,
    baselines_of,
)
from headswap.study.statistics.budget_words import LABELS, BudgetWords
from headswap.study.statistics.results import NO_BUDGET, StudyResults
from headswap.study.statistics.score_results import (
    BEST_BASELINE,
    BreakEven,
    CatchUp,
    Comparison,
    LabelWorth,
    OverallDifference,
)
from headswap.study.statistics.significance import FEWEST_SEEDS_FOR_A_CLAIM
from headswap.tasks.choose import named_task

MOST_ARMS_IN_SENTENCES = 2
ONE_GROUP = "all test examples belong to one group, such as one context"
"""Why nothing can be tested although there are enough seeds: groups are the unit of the test."""
INTERVAL = "95 % interval "


def headline(results: StudyResults) -> list[str]:
    """The planned tests of the primary arm, its tests against given bases, and the tests of installed bases.

    Given bases are public checkpoints and bases in folders. All but the planned tests are exploratory.
    """
    given = {*results.public, *results.given_bases}
    overall = results.overall
    sentences = [overall_sentence(overall, results.words)] if overall and overall.p is not None else []
    arms = [results.primary, *(arm for arm in results.arms if is_from_box(arm))]
    for arm in dict.fromkeys(arm for arm in arms if arm is not None):
        rows = [row for row in results.comparisons if row.arm == arm]
        references = {
            row.other: BEST_BASELINE if row.other in BASELINES else row.other
            for row in rows
            if row.labels != NO_BUDGET and (row.other in (SCRATCH, *BASELINES) or row.other in given)
        }
        for reference in dict.fromkeys(references.values()):
            of_reference = [row for row in rows if references.get(row.other) == reference]
            if (sentence := _reference_sentence(arm, of_reference, results.words)) not in sentences:
                sentences.append(sentence)
    return sentences or [_alone(row, results) for row in results.comparisons] or [_no_comparison(results)]


def _alone(row: Comparison, results: StudyResults) -> str:
    """A comparison as a sentence of the headline; an exploratory test is called so."""
    is_exploratory = row.family == "exploratory" and row.verdict != "no claim"
    return f"{'Exploratory: ' if is_exploratory else ''}{comparison_sentence(row, results.words)}"


def overall_sentence(row: OverallDifference, words: BudgetWords = LABELS) -> str:
    """The primary arm against scratch over all budgets."""
    budgets = f"on average over {enumerated(f'{labels:,}' for labels in row.budgets)} {words.many}"
    if row.verdict == "none":
        difference = f"({row.mean * 100:+.1f} points, {_signed_span(row)})"
        return f"No significant difference between {_lower(_subject_of(row))} and scratch {budgets} {difference}."
    verb = "gains" if row.verdict == "better" else "loses"
    return f"{_subject_of(row)} {verb} {_points(abs(row.mean))} {_span(row)} {budgets}, compared with scratch."


def _no_comparison(results: StudyResults) -> str:
    arms = list(dict.fromkeys(cell.arm for cell in results.cells))
    if arms and set(arms) <= set(BASELINES):
        return f"There is nothing to compare: the only arms with finished runs are {enumerated(arms)}."
    return "There is nothing to compare: no two arms have finished runs with the same seed and the same labels."


def _subject(arm: str) -> str:
    """The first words of a sentence about an arm."""
    names = {"pretrained": "Pre-training", BOX: "The installed base", ADAPTED: "The adapted base"}
    return names.get(arm, f"The arm '{arm}'")


def _subject_of(row: Comparison | OverallDifference) -> str:
    return f"{_subject(row.arm)}{_mark(row.arm, row)}"


def _mark(arm: str, row: Comparison | OverallDifference) -> str:
    """What follows the name of an arm whose own variation no test covers."""
    return " (one answer per text)" if arm in row.one_answer else ""


def _reference_sentence(arm: str, rows: Sequence[Comparison], words: BudgetWords) -> str:
    """An arm against scratch, the best baseline or a given base, at all budgets."""
    if all(row.verdict == "no claim" for row in rows):
        count = max(row.count for row in rows)
        if count >= FEWEST_SEEDS_FOR_A_CLAIM:
            return f"Nothing can be tested: {ONE_GROUP}. Use a test set with several groups."
        verb = "is" if count == 1 else "are"
        return f"{counted(count, 'seed')} {verb} too few to compare arms; use at least {FEWEST_SEEDS_FOR_A_CLAIM}."
    names = list(dict.fromkeys(row.other for row in rows))
    reference = f"the best baseline ({enumerated(names)})" if names[0] in BASELINES else names[0]
    if names[0].startswith(CHECKPOINT):
        reference = f"the public checkpoint {names[0]}"
    subject, parts = _subject_of(rows[0]), []
    for verdict, verb in (("better", "gains"), ("worse", "loses")):
        found = [
            f"{_points(abs(row.mean))} {_span(row)} at {_budget(row, words)}" for row in rows if row.verdict == verdict
        ]
        if found:
            parts.append(f"{verb} {enumerated(found)}")
    clauses = [f"{subject} {' and '.join(parts)}, compared with {reference}"] if parts else []
    if unclear := [f"{_budget(row, words)} ({difference_and_interval(row)})" for row in rows if row.verdict == "none"]:
        start = (
            "no significant difference"
            if parts
            else f"No significant difference between {_lower(subject)} and {reference}"
        )
        clauses.append(f"{start} at {enumerated(unclear)}")
    if few := [_budget(row, words) for row in rows if row.verdict == "no claim"]:
        clauses.append(f"{_why_untested(rows)} at {enumerated(few)}")
    sentence = f"{'; '.join(clauses)}."
    return f"Exploratory: {_lower(sentence)}" if rows[0].family == "exploratory" else sentence


def _why_untested(rows: Sequence[Comparison]) -> str:
    """Why some of these comparisons have no test."""
    counts = [row.count for row in rows if row.verdict == "no claim"]
    return ONE_GROUP if min(counts) >= FEWEST_SEEDS_FOR_A_CLAIM else "too few seeds"


def comparison_sentence(row: Comparison, words: BudgetWords = LABELS) -> str:
    """One comparison as a sentence."""
    arm, other = (f"{name}{_mark(name, row)}" for name in (row.arm, row.other))
    where = "" if row.labels == NO_BUDGET else f" at {_budget(row, words)}"
    pair = f"{arm} against {other}{where}"
    if row.verdict == "no claim":
        why = f"too few seeds ({row.count}; at least {FEWEST_SEEDS_FOR_A_CLAIM} are needed)"
        why = ONE_GROUP if row.count >= FEWEST_SEEDS_FOR_A_CLAIM else why
        return f"{pair}: {why}. Observed difference: {row.mean * 100:+.1f} points."
    if row.verdict == "none" and row.mean == 0:
        return f"{pair}: the same score."
    if row.verdict == "none":
        return f"{pair}: no significant difference ({difference_and_interval(row)}); {seeds_sentence(row)}."
    return f"{arm} is {_points(abs(row.mean))} {_span(row)} {row.verdict} than {other}{where}."


def seeds_sentence(row: Comparison) -> str:
    """How many seeds, or bases where the test is over bases, would show a difference of the observed size."""
    rows = "bases" if row.num_bases else "seeds"
    if row.over == "texts":
        return "the test is over texts only, so more test texts would be needed"
    if (number := needed_range(row)) is None:
        return f"{rows} alone would not show a difference of this size on this test set"
    return f"{number} {rows} would show a difference of this size with a power of 80 %"


def needed_range(row: Comparison) -> str | None:
    """The range of seeds or bases that would show a difference; None if no number of them would."""
    fewest, most = row.seeds_needed or (None, None)
    if fewest is None:
        return None
    return f"{fewest:,} or more" if most is None else f"{fewest:,} to {most:,}" if most > fewest else f"{fewest:,}"


def arms_in_sentences(results: StudyResults) -> set[str]:
    """The arms whose label worth is stated in sentences: all if they are few, else the primary arm."""
    arms = {row.arm for row in results.label_worth}
    return arms if len(arms) <= MOST_ARMS_IN_SENTENCES else arms & {results.primary}


def worth_cell(row: LabelWorth, break_even: BreakEven | None, words: BudgetWords = LABELS) -> tuple[str, list[str]]:
    """A label worth as a table cell: the number, and below it the interval and the break-even cost of a label."""
    if row.is_below:
        return f"under {row.smallest:.2g}", []
    is_open = row.is_beyond or row.times is None
    details = [] if _is_out_of_reach(row) else [_worth_interval(row).removeprefix(INTERVAL)]
    if break_even:
        details.append(f"pays off above {seconds(break_even.seconds_a_label)} per {words.heading.removesuffix('s')}")
    open_end = f"{'over' if _is_out_of_reach(row) else 'at least'} {_lower_bound(row):.2g}"
    return open_end if is_open else f"{row.times:.2g}", details


def _is_out_of_reach(row: LabelWorth) -> bool:
    """Whether the arm's score is above the interval of the other arm at every budget."""
    return bool(row.is_beyond and row.low is not None and row.low >= row.largest)


def _lower_bound(row: LabelWorth) -> float:
    """The label worth that is certain where its interval is open."""
    return max(1.0, row.low) if row.low is not None else 1.0


def worth_sentence(row: LabelWorth, words: BudgetWords = LABELS) -> str:
    """The label worth of an arm at a budget."""
    start = f"{_subject(row.arm)} at {_budget(row, words)}"
    other = "scratch" if row.other == SCRATCH else f"the {row.other}"
    most = f"{row.largest * row.labels:,.0f}"
    if row.is_below:  # the curve of the other arm falls
        fewest = f"{row.smallest * row.labels:,.0f}"
        return (
            f"{start}: there is no label worth. {_upper(other)} reaches this score with {fewest} {words.many}, the "
            "smallest budget tried, and falls below it with more."
        )
    if _is_out_of_reach(row):
        return (
            f"{start}: the label worth is more than {row.largest:.2g}. {_upper(other)} does not reach this score with "
            f"{most} {words.many}, the largest budget tried."
        )
    if row.is_beyond or row.times is None:
        return (
            f"{start}: the label worth is at least {_lower_bound(row):.2g} ({_worth_interval(row)}). The "
            f"mean of {other} does not reach this score with {most} {words.many}, the largest budget tried."
        )
    return (
        f"{start}: the label worth is {row.times:.2g} ({_worth_interval(row)}). {_upper(other)} needs "
        f"{row.times:.2g} times as many {words.many} for the same score."
    )


def _worth_interval(row: LabelWorth) -> str:
    """The interval of a label worth; with too few seeds there is none, which is not an open interval."""
    if row.count < FEWEST_SEEDS_FOR_A_CLAIM:
        return f"no interval with {counted(row.count, 'seed')}"
    low = f"{row.low:.2g}" if row.low is not None else f"less than {row.smallest:.2g}"
    high = f"{row.high:.2g}" if row.high is not None else f"more than {row.largest:.2g}"
    return f"{INTERVAL}{low} to {high}"


def break_even_sentence(row: BreakEven, words: BudgetWords = LABELS) -> str:
    """The cost of a label above which pre-training pays off."""
    name = "pre-training" if row.arm == "pretrained" else f"pre-training the base of '{row.arm}'"
    if is_adapted(row.arm):
        name = f"adapting the base of '{row.arm}'"
    number = "more than " if row.is_beyond else "about "
    least = f" (at least {row.saved_low:,.0f})" if row.saved_low and not row.is_beyond else ""
    other = "scratch" if row.other == SCRATCH else f"the {row.other}"
    return (
        f"At {_budget(row, words)}, {name} took {seconds(row.base_seconds)} and saved {number}{row.saved:,.0f} "
        f"{words.many}{least}, compared with {other}. It pays off if {words.label} takes longer than "
        f"{seconds(row.seconds_a_label)}."
    )


def catch_up_sentence(row: CatchUp, words: BudgetWords = LABELS) -> str:
    """The number of labels at which scratch catches up with an arm."""
    subject = _subject(row.arm)
    if row.low is None:
        return (
            f"{subject}: the 95 % interval of the gain over scratch is above 0 up to {row.largest:,} {words.many}, the "
            "largest budget tried."
        )
    where = f"about {row.labels:,.0f} {words.many}" if row.labels else f"more than {row.largest:,} {words.many}"
    high = f"{row.high:,.0f}" if row.high else f"more than {row.largest:,}"
    return f"Scratch catches up with {_lower(subject)} at {where} (95 % interval {row.low:,.0f} to {high})."


def describe_arm(arm: str, task: str | None = None, installed: str | None = None) -> str:
    """An arm of a study of this task in a few words; `installed` is its installed base, if its runs name one."""
    if arm in (known := baselines_of(task)):
        return known.load(arm).meaning
    if arm.startswith(OF_CONSISTENCY):
        return f"{describe_arm(base_of(arm), task, installed)}, with consistency training on texts without labels"
    if arm == LINEAR or arm.startswith(OF_LINEAR):
        base = "the adapted base" if is_adapted(arm) else f"the base {installed or base_of(arm)}"
        base = "the pre-trained base" if arm == LINEAR else base
        model = LINEAR_MODELS.load(named_task(task).prediction_kind or "")
        return f"{model.name} on the vectors of {base}, fitted to all labels of the budget"
    if arm.startswith(OF_BASE):
        name = installed or arm.removeprefix(OF_BASE)
        return f"the base {name}, first trained on the corpus and the training texts, then all weights fine-tuned"
    if arm.startswith(PREFIX):
        return f"the installed base {installed or arm}, all weights fine-tuned"
    if arm.startswith(CHECKPOINT):
        return f"the public checkpoint {arm}, all weights fine-tuned"
    base = f"the installed base {installed}" if installed else "the installed base"
    return MEANING.get(own_name(arm), "a given bundle or recipe").format(base=base)


def difference_and_interval(row: Comparison) -> str:
    """A difference with its interval; also why it is not significant if the interval alone does not contain 0."""
    difference = f"{row.mean * 100:+.1f} points, {_signed_span(row)}"
    is_apparent = row.is_above_zero or row.is_below_zero
    correction = f"; p = {row.p_holm:.2g} after correction for {row.num_comparisons} comparisons"
    return f"{difference}{correction}" if is_apparent else difference


def _points(share: float) -> str:
    return f"{share * 100:.1f} points"


def _signed_span(row: Comparison | OverallDifference) -> str:
    if row.low is None or row.high is None:
        return "no interval"
    return f"{row.low * 100:+.1f} to {row.high * 100:+.1f}"


def _span(row: Comparison | OverallDifference) -> str:
    """The interval of a gain, or of a loss without its sign."""
    if row.low is None or row.high is None:
        return "(no interval)"
    sign = 1 if row.mean >= 0 else -1
    low, high = sorted((sign * row.low * 100, sign * row.high * 100))
    return f"({low:.1f} to {high:.1f})"


def _budget(row: Comparison | LabelWorth | BreakEven, words: BudgetWords) -> str:
    return f"{row.labels:,} {words.many}"


def _lower(subject: str) -> str:
    return f"{subject[0].lower()}{subject[1:]}"


def _upper(subject: str) -> str:
    return f"{subject[0].upper()}{subject[1:]}"


def seconds(count: float) -> str:
    """`0.04 s`, `12.3 s`, `4.5 min`."""
    if count < 0.095:
        return f"{count:.2g} s"
    return f"{count:.1f} s" if count < 90 else f"{count / 60:.1f} min"


def enumerated(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    every = list(parts)
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}"
