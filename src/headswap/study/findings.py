"""What a study's numbers say, in sentences: a gain, a loss, no difference shown, or no claim possible. Nothing more.

Claims follow Holm-corrected tests; the interval beside a claim is the plain 95 % interval of the paired difference.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from headswap.core.errors import counted
from headswap.core.installed_bases import PREFIX
from headswap.study.arms import BASELINES, BOX, MEANING, SCRATCH, is_from_box
from headswap.study.statistics import FEWEST_SEEDS_FOR_A_CLAIM

Values = dict[str, Any]
MOST_ARMS_TOLD = 2


def primary_arm(results: Values) -> str | None:
    """The arm that the question is about: `pretrained`, or the first that is neither a baseline nor from scratch."""
    others = [arm for arm in results["arms"] if arm not in (*BASELINES, SCRATCH)]
    return "pretrained" if "pretrained" in others else (others[0] if others else None)


def headline(results: Values) -> list[str]:
    """The answer first: the primary arm and installed bases against scratch, then the best Transformer and TF-IDF."""
    sentences: list[str] = []
    asked = [primary_arm(results), *(arm for arm in results["arms"] if is_from_box(arm))]
    for arm in dict.fromkeys(arm for arm in asked if arm is not None):
        against = [row for row in results["comparisons"] if row["arm"] == arm and row["other"] == SCRATCH]
        if against and (told := _gain_sentence(arm, against)) not in sentences:
            sentences.append(told)
    sentences += _baseline_sentences(results)
    if sentences:
        return sentences
    if single := [comparison_sentence(row) for row in results["comparisons"]]:
        return single
    ran = list(dict.fromkeys(cell["arm"] for cell in results["cells"]))
    if ran and set(ran) <= set(BASELINES):
        verb = "has" if len(ran) == 1 else "have"
        return [f"Nothing can be compared: of the arms only {_enumerated(ran)} {verb} finished runs."]
    return ["Nothing can be compared: no two arms have runs with the same seed and the same labels."]


def _subject(arm: str) -> str:
    """What a sentence about an arm begins with."""
    return {"pretrained": "Pre-training", BOX: "The base in the box"}.get(arm, f"The arm '{arm}'")


def _gain_sentence(arm: str, rows: Sequence[Values]) -> str:
    subject = _subject(arm)
    if all(row["verdict"] == "no claim" for row in rows):
        count = max(row["count"] for row in rows)
        least = FEWEST_SEEDS_FOR_A_CLAIM
        return f"With {count} seed{'' if count == 1 else 's'} no claim is possible; use {least} or more."
    parts = []
    for verdict, verb in (("better", "gains"), ("worse", "HURTS by")):
        found = [row for row in rows if row["verdict"] == verdict]
        if found:
            told = [f"{_points(abs(row['mean']))} {_span(row)} at {_labels(row)}" for row in found]
            parts.append(f"{verb} {_enumerated(told)}")
    clauses = [f"{subject} {' and '.join(parts)}"] if parts else []
    if unclear := [f"{_labels(row)} ({_not_shown(row)})" for row in rows if row["verdict"] == "none"]:
        between = (
            "no difference to scratch"
            if parts
            else f"No difference between {subject[0].lower()}{subject[1:]} and scratch"
        )
        clauses.append(f"{between} is shown at {_enumerated(unclear)}")
    if few := [_labels(row) for row in rows if row["verdict"] == "no claim"]:
        clauses.append(f"no claim is possible at {_enumerated(few)}, for want of seeds")
    return f"{'; '.join(clauses)}."


def _baseline_sentences(results: Values) -> list[str]:
    """The Transformer with the best mean at each budget against TF-IDF."""
    ahead: dict[str, list[Values]] = {"better": [], "worse": [], "none": [], "no claim": []}
    for budget in results["budgets"]:
        rows = [row for row in results["comparisons"] if row["other"] == "tfidf" and row["labels"] == budget["labels"]]
        if rows:
            best = max(rows, key=lambda row: row["mean"])
            ahead[best["verdict"]].append(best)
    sentences = []
    if rows := ahead["worse"]:
        told = [f"{_points(-row['mean'])} at {_labels(row)}" for row in rows]
        sentences.append(f"TF-IDF + logistic regression is ahead of the best Transformer by {_enumerated(told)}.")
    if rows := ahead["better"]:
        told = [f"{_points(row['mean'])} at {_labels(row)} ({row['arm']})" for row in rows]
        sentences.append(f"The best Transformer beats TF-IDF + logistic regression by {_enumerated(told)}.")
    if rows := ahead["none"]:
        told = [f"{row['labels']:,}" for row in rows]
        where = f"{_enumerated(told)} labels"
        sentences.append(f"No difference between TF-IDF and the best Transformer is shown at {where}.")
    return sentences


def comparison_sentence(row: Values) -> str:
    """One comparison in words."""
    versus = {"scratch": "scratch", "tfidf": "TF-IDF"}.get(row["other"], row["other"])
    where = f"at {_labels(row)}"
    if row["verdict"] == "no claim":
        return (
            f"{row['arm']} against {versus} {where}: no claim possible with {counted(row['count'], 'seed')}, "
            f"{FEWEST_SEEDS_FOR_A_CLAIM} or more are needed. In these runs it is {row['mean'] * 100:+.1f} points "
            f"({row['test_low'] * 100:+.1f} to {row['test_high'] * 100:+.1f} by the test sample alone)."
        )
    if row["verdict"] == "none" and row["low"] == row["high"] == 0:
        return f"{row['arm']} against {versus} {where}: the same score with every seed."
    if row["verdict"] == "none":
        more = row["seeds_needed"]
        power = (
            f"if it is real, {more:,} seeds would show it with a chance of 80 %"
            if more is not None
            else "a difference this small would need more than 1,000 seeds"
        )
        return f"{row['arm']} against {versus} {where}: no difference shown ({_not_shown(row)}); {power}."
    verb = "better" if row["verdict"] == "better" else "worse"
    return f"{row['arm']} is {_points(abs(row['mean']))} {_span(row)} {verb} than {versus} {where}."


def arms_told(results: Values) -> set[str]:
    """The arms whose worth is told in sentences: all if they are few, else those that the headline is about."""
    arms = {row["arm"] for row in results["label_worth"]}
    if len(arms) <= MOST_ARMS_TOLD:
        return arms
    return {arm for arm in arms if arm == primary_arm(results) or is_from_box(arm)}


def worth_cell(row: Values, pays: Values | None) -> tuple[str, list[str]]:
    """A label worth as a number, and what is beside it: its interval, and what a label may cost before it pays."""
    number, span = _worth_in_short(row)
    beside = [span] if span else []
    return number, beside + ([f"pays from {seconds(pays['seconds_a_label'])} a label"] if pays else [])


def _worth_in_short(row: Values) -> tuple[str, str]:
    if row["count"] < FEWEST_SEEDS_FOR_A_CLAIM:
        return "no claim", ""
    if not is_worth_shown(row):
        return "not shown", _worth_span(row)
    if _is_out_of_reach(row):
        return f"over {row['largest']:.2g}", ""
    if row["is_beyond"]:
        return f"over {row['largest']:.2g}", _worth_span(row)
    return ("under " if row["is_below"] else "") + f"{row['times'] or row['smallest']:.2g}", _worth_span(row)


def is_worth_shown(row: Values) -> bool:
    """Whether the interval of a label worth leaves out 1."""
    is_more = row["low"] is not None and (row["low"] > 1 or _is_out_of_reach(row))
    return is_more or (row["high"] is not None and row["high"] < 1)


def _is_out_of_reach(row: Values) -> bool:
    """Whether the arm is shown to be ahead of scratch at every budget tried, up to the largest."""
    return bool(row["is_beyond"] and row["low"] is not None and row["low"] >= row["largest"])


def worth_sentence(row: Values) -> str:
    """What an arm is worth in labels of the scratch arm."""
    name = _subject(row["arm"])
    where = f"at {_labels(row)}"
    if row["count"] < FEWEST_SEEDS_FOR_A_CLAIM:
        return f"{name} {where}: with {counted(row['count'], 'seed')} no claim about its worth in labels is possible."
    if row["low"] is None and row["high"] is None:
        least, most = (f"{row[end] * row['labels']:,.0f}" for end in ("smallest", "largest"))
        return f"{name} {where}: its worth in labels cannot be told from scratch with {least} to {most} labels."
    if not is_worth_shown(row):
        return f"{name} {where}: no worth in labels is shown (95 % interval {_worth_span(row)} times)."
    if _is_out_of_reach(row):
        if row["largest"] <= 1:
            return f"{name} {where} is worth more labels than were tried: scratch does not get there with as many."
        most = f"{row['largest'] * row['labels']:,.0f}"
        return (
            f"{name} {where} is worth more than {row['largest']:.2g} times the labels: scratch does not get there with "
            f"{most}, the largest budget tried."
        )
    if row["is_beyond"]:
        return (
            f"{name} {where} is worth more than the largest budget tried: scratch does not get there "
            f"(95 % interval {_worth_span(row)} times the labels)."
        )
    if row["is_below"]:
        return f"{name} {where} is reached by scratch with its smallest budget already."
    return f"{name} {where} is worth {row['times']:.2g} times the labels (95 % interval {_worth_span(row)})."


def _worth_span(row: Values) -> str:
    low = f"{row['low']:.2g}" if row["low"] is not None else f"less than {row['smallest']:.2g}"
    high = f"{row['high']:.2g}" if row["high"] is not None else f"more than {row['largest']:.2g}"
    return f"{low} to {high}"


def break_even_sentence(row: Values) -> str:
    """What a label may cost before pre-training pays."""
    name = "pre-training" if row["arm"] == "pretrained" else f"the base of '{row['arm']}'"
    more = "more than " if row["is_beyond"] else "about "
    least = f" (at least {row['saved_low']:,.0f})" if row["saved_low"] and not row["is_beyond"] else ""
    return (
        f"At {_labels(row)} {name} took {seconds(row['base_seconds'])} and saved {more}{row['saved']:,.0f} labels"
        f"{least}: it pays where a label costs more than {seconds(row['seconds_a_label'])}."
    )


def catch_up_sentence(row: Values) -> str:
    """With how many labels pre-training no longer pays."""
    name = _subject(row["arm"])
    if row["low"] is None:
        return f"{name} is ahead of scratch up to the largest budget tried ({row['largest']:,} labels)."
    where = f"about {row['labels']:,.0f} labels" if row["labels"] else f"more than {row['largest']:,} labels"
    high = f"{row['high']:,.0f}" if row["high"] else f"more than {row['largest']:,}"
    return f"{name}: scratch has caught up with {where} (95 % interval {row['low']:,.0f} to {high})."


def leak_sentence(row: Values) -> str:
    """One row of the guard."""
    inside = row["from"] == row["to"]
    s = "s" if row["exact_rows"] == 1 else ""
    what = f"repeat{s} an earlier text of" if inside else f"also stand{s} in"
    exact = counted(row["exact_rows"], "row")
    return f"{exact} of {row['from']} {what} {row['to']}, {row['near_rows']:,} more nearly so."


def caveats(results: Values) -> list[str]:
    """What the numbers do not cover."""
    found = []
    if results["num_bases"] == 1:
        found.append(
            "All runs of an arm that start from a base pre-trained here share one: their intervals are conditional on "
            "it and leave out what another pre-training would change. --base-seeds 3 or more takes that in."
        )
    elif 1 < results["num_bases"] < len(results["seeds"]):
        found.append(f"The seeds share {results['num_bases']} bases, so they are not quite independent of each other.")
    for arm in results["arms"]:
        told = [_elsewhere(arm)] if is_from_box(arm) else []
        told += _other_size(arm, results["parameters"])
        found += [" ".join(told)] if told else []
    for row in results["collapsed"]:
        found.append(
            f"{row['arm']}: {row['count']} of {counted(row['of'], 'run')} gave every test text the same label, so what "
            "they score is the share of that label."
        )
    if missing := results["missing"]:
        what = "planned run is" if len(missing) == 1 else "planned runs are"
        found.append(
            f"{len(missing)} {what} missing (where one failed, logs/ says why); seeds without a "
            "partner are left out of a pair."
        )
    found += results["notes"]
    return found


def _elsewhere(arm: str) -> str:
    """What a base that was made elsewhere leaves open."""
    return (
        f"The arm '{arm}' starts from one base that was made elsewhere: its intervals are conditional on it, and "
        "whether that base has read texts of this test set could not be checked here (its card says what it has read)."
    )


def _other_size(arm: str, parameters: dict[str, int]) -> list[str]:
    """That an arm is another model than scratch, where it is."""
    ours, scratch = parameters.get(arm), parameters.get(SCRATCH)
    if not ours or not scratch or 0.95 < ours / scratch < 1.05:
        return []
    return [
        f"The arm '{arm}' has {ours / 1e6:.1f} M parameters and scratch {scratch / 1e6:.1f} M: their difference is not "
        "pre-training's alone."
    ]


def describe_arm(arm: str) -> str:
    """What an arm is, in a few words."""
    if arm.startswith(PREFIX):
        return f"the installed base {arm}, all of it fine-tuned"
    return MEANING.get(arm, "a bundle or recipe of its own")


def _not_shown(row: Values) -> str:
    """The difference with its interval; and why it does not count where the interval alone would say that it does."""
    told = f"{row['mean'] * 100:+.1f} points, {_span(row, bare=True)}"
    seems = row["low"] is not None and (row["low"] > 0 or row["high"] < 0)
    return f"{told}; not enough among {row['num_comparisons']} comparisons" if seems else told


def _points(share: float) -> str:
    return f"{share * 100:.1f} points"


def _span(row: Values, *, bare: bool = False) -> str:
    if row["low"] is None:
        return "no interval"
    low, high = row["low"] * 100, row["high"] * 100
    return f"{low:+.1f} to {high:+.1f}" if bare else f"({_abs_span(row)})"


def _abs_span(row: Values) -> str:
    sign = 1 if row["mean"] >= 0 else -1
    low, high = sorted((sign * row["low"] * 100, sign * row["high"] * 100))
    return f"{low:.1f} to {high:.1f}"


def _labels(row: Values) -> str:
    return f"{row['labels']:,} labels"


def seconds(count: float) -> str:
    """`0.04 s`, `12.3 s`, `4.5 min`."""
    if count < 0.095:
        return f"{count:.2g} s"
    return f"{count:.1f} s" if count < 90 else f"{count / 60:.1f} min"


def _enumerated(parts: Iterable[str]) -> str:
    every = list(parts)
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}"
