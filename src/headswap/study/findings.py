"""State the results of a study in sentences: a gain, a loss, no significant difference, or too few seeds.

A difference is significant if its Holm-corrected p is below .05. The interval next to it is the uncorrected
95 % interval of the paired difference.
"""

from collections.abc import Iterable, Sequence

from headswap.core.errors import counted
from headswap.core.installed_bases import PREFIX
from headswap.study.arms import BASELINES, BOX, MEANING, SCRATCH, is_from_box
from headswap.study.results import (
    BreakEven,
    CatchUp,
    Comparison,
    LabelWorth,
    StudyResults,
    Verdict,
)
from headswap.study.statistics import FEWEST_SEEDS_FOR_A_CLAIM

MOST_ARMS_IN_SENTENCES = 2


def primary_arm(results: StudyResults) -> str | None:
    """The arm that the study is about: `pretrained`, or the first that is neither a baseline nor from scratch."""
    others = [arm for arm in results.arms if arm not in (*BASELINES, SCRATCH)]
    return "pretrained" if "pretrained" in others else (others[0] if others else None)


def headline(results: StudyResults) -> list[str]:
    """The main findings: the primary arm and installed bases against scratch, the best Transformer against TF-IDF."""
    sentences: list[str] = []
    arms = [primary_arm(results), *(arm for arm in results.arms if is_from_box(arm))]
    for arm in dict.fromkeys(arm for arm in arms if arm is not None):
        rows = [row for row in results.comparisons if row.arm == arm and row.other == SCRATCH]
        if rows and (sentence := _scratch_sentence(arm, rows)) not in sentences:
            sentences.append(sentence)
    sentences += _tfidf_sentences(results)
    return sentences or [comparison_sentence(row) for row in results.comparisons] or [_no_comparison(results)]


def _no_comparison(results: StudyResults) -> str:
    arms = list(dict.fromkeys(cell.arm for cell in results.cells))
    if arms and set(arms) <= set(BASELINES):
        return f"There is nothing to compare: the only arms with finished runs are {enumerated(arms)}."
    return "There is nothing to compare: no two arms have finished runs with the same seed and the same labels."


def _subject(arm: str) -> str:
    """The first words of a sentence about an arm."""
    return {"pretrained": "Pre-training", BOX: "The installed base"}.get(arm, f"The arm '{arm}'")


def _scratch_sentence(arm: str, rows: Sequence[Comparison]) -> str:
    """An arm against scratch at all budgets."""
    if all(row.verdict == "no claim" for row in rows):
        count = max(row.count for row in rows)
        verb = "is" if count == 1 else "are"
        return f"{counted(count, 'seed')} {verb} too few to compare arms; use at least {FEWEST_SEEDS_FOR_A_CLAIM}."
    subject, parts = _subject(arm), []
    for verdict, verb in (("better", "gains"), ("worse", "loses")):
        found = [f"{_points(abs(row.mean))} {_span(row)} at {_labels(row)}" for row in rows if row.verdict == verdict]
        if found:
            parts.append(f"{verb} {enumerated(found)}")
    clauses = [f"{subject} {' and '.join(parts)}"] if parts else []
    if unclear := [f"{_labels(row)} ({_insignificant(row)})" for row in rows if row.verdict == "none"]:
        start = (
            "no significant difference from scratch"
            if parts
            else f"No significant difference between {_lower(subject)} and scratch"
        )
        clauses.append(f"{start} at {enumerated(unclear)}")
    if few := [_labels(row) for row in rows if row.verdict == "no claim"]:
        clauses.append(f"too few seeds at {enumerated(few)}")
    return f"{'; '.join(clauses)}."


def _tfidf_sentences(results: StudyResults) -> list[str]:
    """The Transformer with the best mean at each budget against TF-IDF."""
    best_rows: dict[Verdict, list[Comparison]] = {"better": [], "worse": [], "none": [], "no claim": []}
    for budget in results.budgets:
        rows = [row for row in results.comparisons if row.other == "tfidf" and row.labels == budget.labels]
        if rows:
            best = max(rows, key=lambda row: row.mean)
            best_rows[best.verdict].append(best)
    sentences = []
    if rows := best_rows["worse"]:
        found = [f"{_points(-row.mean)} at {_labels(row)}" for row in rows]
        sentences.append(f"TF-IDF + logistic regression beats the best Transformer by {enumerated(found)}.")
    if rows := best_rows["better"]:
        found = [f"{_points(row.mean)} at {_labels(row)} ({row.arm})" for row in rows]
        sentences.append(f"The best Transformer beats TF-IDF + logistic regression by {enumerated(found)}.")
    if rows := best_rows["none"]:
        budgets = enumerated(f"{row.labels:,}" for row in rows)
        sentences.append(f"No significant difference between TF-IDF and the best Transformer at {budgets} labels.")
    return sentences


def comparison_sentence(row: Comparison) -> str:
    """One comparison as a sentence."""
    other = {"scratch": "scratch", "tfidf": "TF-IDF"}.get(row.other, row.other)
    pair = f"{row.arm} against {other} at {_labels(row)}"
    if row.verdict == "no claim":
        return (
            f"{pair}: too few seeds ({row.count}; at least {FEWEST_SEEDS_FOR_A_CLAIM} are needed). Observed "
            f"difference: {row.mean * 100:+.1f} points (bootstrap over test texts {row.test_low * 100:+.1f} to "
            f"{row.test_high * 100:+.1f})."
        )
    if row.verdict == "none" and row.low == row.high == 0:
        return f"{pair}: the same score with every seed."
    if row.verdict == "none":
        power = (
            f"{row.seeds_needed:,} seeds would detect a difference of this size with a power of 80 %"
            if row.seeds_needed is not None
            else "more than 1,000 seeds would be needed to detect a difference of this size"
        )
        return f"{pair}: no significant difference ({_insignificant(row)}); {power}."
    return f"{row.arm} is {_points(abs(row.mean))} {_span(row)} {row.verdict} than {other} at {_labels(row)}."


def arms_in_sentences(results: StudyResults) -> set[str]:
    """The arms whose label worth is stated in sentences: all if they are few, else those of the headline."""
    arms = {row.arm for row in results.label_worth}
    if len(arms) <= MOST_ARMS_IN_SENTENCES:
        return arms
    return {arm for arm in arms if arm == primary_arm(results) or is_from_box(arm)}


def worth_cell(row: LabelWorth, break_even: BreakEven | None) -> tuple[str, list[str]]:
    """A label worth as a table cell: the number, and below it the interval and the break-even cost of a label."""
    number, span = _short_worth(row)
    details = [span] if span else []
    if break_even:
        details.append(f"pays off above {seconds(break_even.seconds_a_label)} per label")
    return number, details


def _short_worth(row: LabelWorth) -> tuple[str, str]:
    if row.count < FEWEST_SEEDS_FOR_A_CLAIM:
        return "too few seeds", ""
    if not is_worth_shown(row):
        return "not shown", _worth_span(row)
    if _is_out_of_reach(row):
        return f"over {row.largest:.2g}", ""
    if row.is_beyond:
        return f"over {row.largest:.2g}", _worth_span(row)
    return ("under " if row.is_below else "") + f"{row.times or row.smallest:.2g}", _worth_span(row)


def is_worth_shown(row: LabelWorth) -> bool:
    """Whether the interval of a label worth does not contain 1."""
    is_more = row.low is not None and (row.low > 1 or _is_out_of_reach(row))
    return is_more or (row.high is not None and row.high < 1)


def _is_out_of_reach(row: LabelWorth) -> bool:
    """Whether the arm's score is above the interval of scratch at every budget."""
    return bool(row.is_beyond and row.low is not None and row.low >= row.largest)


def worth_sentence(row: LabelWorth) -> str:
    """The label worth of an arm at a budget."""
    start = f"{_subject(row.arm)} at {_labels(row)}"
    if row.count < FEWEST_SEEDS_FOR_A_CLAIM:
        verb = "is" if row.count == 1 else "are"
        return f"{start}: {counted(row.count, 'seed')} {verb} too few to estimate the label worth."
    if row.low is None and row.high is None:
        least, most = (f"{multiple * row.labels:,.0f}" for multiple in (row.smallest, row.largest))
        return f"{start}: the label worth cannot be estimated with budgets of {least} to {most} labels."
    if not is_worth_shown(row):
        return f"{start}: the label worth is not shown to differ from 1 (95 % interval {_worth_span(row)})."
    if _is_out_of_reach(row):
        most = f"{row.largest * row.labels:,.0f}"
        return (
            f"{start}: the label worth is more than {row.largest:.2g}. Scratch does not reach this score with {most} "
            "labels, the largest budget tried."
        )
    if row.is_beyond:
        return (
            f"{start}: the label worth is more than {row.largest:.2g} (95 % interval {_worth_span(row)}). The mean "
            "of scratch does not reach this score with the largest budget tried."
        )
    if row.is_below:
        return f"{start}: scratch reaches this score with its smallest budget."
    return (
        f"{start}: the label worth is {row.times:.2g} (95 % interval {_worth_span(row)}). Scratch needs "
        f"{row.times:.2g} times as many labels for the same score."
    )


def _worth_span(row: LabelWorth) -> str:
    low = f"{row.low:.2g}" if row.low is not None else f"less than {row.smallest:.2g}"
    high = f"{row.high:.2g}" if row.high is not None else f"more than {row.largest:.2g}"
    return f"{low} to {high}"


def break_even_sentence(row: BreakEven) -> str:
    """The cost of a label above which pre-training pays off."""
    name = "pre-training" if row.arm == "pretrained" else f"pre-training the base of '{row.arm}'"
    number = "more than " if row.is_beyond else "about "
    least = f" (at least {row.saved_low:,.0f})" if row.saved_low and not row.is_beyond else ""
    return (
        f"At {_labels(row)}, {name} took {seconds(row.base_seconds)} and saved {number}{row.saved:,.0f} labels{least}. "
        f"It pays off if one label takes longer than {seconds(row.seconds_a_label)}."
    )


def catch_up_sentence(row: CatchUp) -> str:
    """The number of labels at which scratch catches up with an arm."""
    subject = _subject(row.arm)
    if row.low is None:
        return f"{subject} stays ahead of scratch up to {row.largest:,} labels, the largest budget tried."
    where = f"about {row.labels:,.0f} labels" if row.labels else f"more than {row.largest:,} labels"
    high = f"{row.high:,.0f}" if row.high else f"more than {row.largest:,}"
    return f"Scratch catches up with {_lower(subject)} at {where} (95 % interval {row.low:,.0f} to {high})."


def describe_arm(arm: str) -> str:
    """An arm in a few words."""
    if arm.startswith(PREFIX):
        return f"the installed base {arm}, all weights fine-tuned"
    return MEANING.get(arm, "a given bundle or recipe")


def _insignificant(row: Comparison) -> str:
    """A difference with its interval; also why it is not significant if the interval alone does not contain 0."""
    difference = f"{row.mean * 100:+.1f} points, {_signed_span(row)}"
    is_apparent = row.is_above_zero or row.is_below_zero
    correction = f"; significant only without correction for {row.num_comparisons} comparisons"
    return f"{difference}{correction}" if is_apparent else difference


def _points(share: float) -> str:
    return f"{share * 100:.1f} points"


def _signed_span(row: Comparison) -> str:
    if row.low is None or row.high is None:
        return "no interval"
    return f"{row.low * 100:+.1f} to {row.high * 100:+.1f}"


def _span(row: Comparison) -> str:
    """The interval of a gain, or of a loss without its sign."""
    if row.low is None or row.high is None:
        return "(no interval)"
    sign = 1 if row.mean >= 0 else -1
    low, high = sorted((sign * row.low * 100, sign * row.high * 100))
    return f"({low:.1f} to {high:.1f})"


def _labels(row: Comparison | LabelWorth | BreakEven) -> str:
    return f"{row.labels:,} labels"


def _lower(subject: str) -> str:
    return f"{subject[0].lower()}{subject[1:]}"


def seconds(count: float) -> str:
    """`0.04 s`, `12.3 s`, `4.5 min`."""
    if count < 0.095:
        return f"{count:.2g} s"
    return f"{count:.1f} s" if count < 90 else f"{count / 60:.1f} min"


def enumerated(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    every = list(parts)
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}"
