"""What to try next, from the results of a study: each item with the evidence for it, the measured gains first.

Nothing is stated that was not measured: a gain that the study has seen is given with its interval or called untested,
and what was not tried is called so.
"""

from collections.abc import Sequence

from headswap.core.installed_bases import OWN_BASE, PREFIX
from headswap.defaults.finetuning import LEAST_TOKENS_PER_PARAMETER, is_well_trained
from headswap.study.report.findings import comparison_sentence, difference_and_interval, seeds_sentence
from headswap.study.setup.answer_file import SINGLE
from headswap.study.setup.arm_bases import base_of, is_adapted, is_from_box, own_name
from headswap.study.setup.arms import ADAPTED, BASELINES, BOX, OF_BASE, SCRATCH
from headswap.study.statistics.design import discussed_arm
from headswap.study.statistics.results import BaseResult, StudyResults
from headswap.study.statistics.score_results import Cell, Comparison
from headswap.study.statistics.significance import FEWEST_SEEDS_FOR_A_CLAIM

STILL_CHANGING = 0.01
"""Nats by which the held-out loss must change in the last part of pre-training to be called falling or rising."""
LAST_PART = 0.2
"""The last part of pre-training is at least this share of it: the last two evaluations can be one step apart."""


def what_next(results: StudyResults) -> list[str]:
    """Sentences in the order in which they should be tried; empty if nothing was run.

    They are about the primary arm; without one, about scratch or else the last arm that was run.
    """
    run = [arm for arm in results.arms if any(cell.arm == arm for cell in results.cells)]
    arm = discussed_arm(results.primary, run)
    if arm is None:
        return []
    cells = {cell.labels: cell for cell in results.cells if cell.arm == arm}
    last = cells[max(cells)]
    measured = [*_better_arm(last, results), *_labels(results)]
    found = [sentence for _, sentence in sorted(measured, key=lambda item: -item[0])]
    adaptation = _adaptation(last, results)
    seeds = _seeds(arm, results, [*found, *adaptation])
    first = seeds if len(results.seeds) < FEWEST_SEEDS_FOR_A_CLAIM and SINGLE not in last.values else []
    later = [] if first else seeds
    return [*first, *found, *later, *_text(arm, results), *adaptation, *_untried(arm, results)]


def _best(last: Cell, results: StudyResults) -> Cell:
    """The cell with the highest mean where the discussed arm was last scored."""
    others = [cell for cell in results.cells if cell.labels == last.labels and cell.arm != last.arm]
    best = max(others, key=lambda cell: cell.mean, default=last)
    return best if best.mean > last.mean else last


def _better_arm(last: Cell, results: StudyResults) -> list[tuple[float, str]]:
    """The arm with the highest mean where the discussed arm was last scored, if it is another one."""
    best = _best(last, results)
    if best.arm == last.arm:
        return []
    where = f" at {last.labels:,} {results.words.many}" if last.labels else ""
    means = f"{best.arm} has {best.mean:z.3f} and {last.arm} {last.mean:z.3f}{where}"
    tested = _tested(_test_of(last, best.arm, results), results)
    return [((best.mean - last.mean) * 100, f"Another arm: {means}. {tested}")]


def _test_of(last: Cell, other: str, results: StudyResults) -> Comparison | None:
    """The test of an arm against another one at its last budget: each arm may be the first of the two."""
    pairs = ((last.arm, other), (other, last.arm))
    rows = [row for row in results.comparisons if (row.arm, row.other) in pairs and row.labels == last.labels]
    return next(iter(rows), None)


def _tested(row: Comparison | None, results: StudyResults) -> str:
    if row is None:
        return "The two were not tested against each other."
    return comparison_sentence(row, results.words) + (
        " This test is exploratory." if row.family == "exploratory" else ""
    )


def _labels(results: StudyResults) -> list[tuple[float, str]]:
    """More labels, from the rise of the discussed arm between its two largest budgets."""
    step = results.last_step
    if step is None or step.low is None or step.high is None:
        return []
    rise = f"{step.mean * 100:+.1f} points ({step.low * 100:+.1f} to {step.high * 100:+.1f})"
    many = results.words.many
    where = f"{step.arm} changed by {rise} from {step.from_labels:,} to {step.labels:,} {many}"
    if step.is_above_zero:
        return [(step.mean * 100, f"More {many}: {where}, so its curve still rises at the largest budget.")]
    return [(-1.0, f"More {many}: no gain is shown. {where}.")]


def _seeds(arm: str, results: StudyResults, said: Sequence[str]) -> list[str]:
    """More seeds, where the planned tests of the arm are undecided; without planned ones, where its tests are.

    A test is left out if one of the sentences `said` states it.
    """
    if results.seeds and len(results.seeds) < FEWEST_SEEDS_FOR_A_CLAIM:
        return [
            f"More seeds: {len(results.seeds)} are too few to compare arms; use at least {FEWEST_SEEDS_FOR_A_CLAIM}."
        ]
    own = [row for row in results.comparisons if row.arm == arm]
    planned = [row for row in own if row.family != "exploratory"]
    found = []
    for row in planned or own:
        if any(comparison_sentence(row, results.words) in sentence for sentence in said):
            continue
        if row.verdict == "none" and row.low is not None and row.high is not None and row.mean:
            needed = row.seeds_needed or (None, None)
            rows = "More bases (--base-seeds, with at least as many --seeds)" if row.num_bases else "More seeds"
            what = f"More test {results.unit}s" if needed[0] is None else rows
            where = f" at {row.labels:,} {results.words.many}" if row.labels else ""
            pair, difference = f"{row.arm} against {row.other}{where}", difference_and_interval(row)
            found.append(f"{what}: {pair} is undecided ({difference}); {seeds_sentence(row)}.")
    return found


def _text(arm: str, results: StudyResults) -> list[str]:
    """Longer pre-training or more text, from the held-out loss of the bases of an arm.

    Nothing about an adapted base: its held-out loss is no guide to its scores (docs/log.md).
    """
    if is_adapted(arm):
        return []
    for base in results.bases:
        if arm in base.arms and (change := _last_change(base)) is not None:
            before, after, share, epochs = change
            number = _tokens_per_parameter(base, arm, results)
            per_parameter = "" if number is None else f"; {number:.1f} tokens per parameter"
            loss = f"the held-out loss of {base.name} went from {before:.3f} to {after:.3f} in the last"
            seen = f"{100 * share:.0f} % of its training ({epochs:.2g} passes over the corpus{per_parameter})"
            if before - after >= STILL_CHANGING:
                what = "Longer pre-training" if epochs < 1 else "Longer pre-training or more text"
                return [f"{what}: {loss} {seen}, so it was still falling. Its effect on the score was not measured."]
            if after - before >= STILL_CHANGING:
                return [
                    f"More text or fewer passes: {loss} {seen}. It rises, so more passes over the same text are not "
                    "expected to lower it. Its effect on the score was not measured."
                ]
            if is_well_trained(number):
                return [f"Longer pre-training: {loss} {seen}, so it hardly changes any more on this corpus."]
            return [
                f"Longer pre-training: {loss} {seen}. The learning rate is low there, so this does not show that "
                "longer training gains nothing; a base counts as sufficiently trained from "
                f"{LEAST_TOKENS_PER_PARAMETER:g} tokens per parameter on."
            ]
    return []


def _tokens_per_parameter(base: BaseResult, arm: str, results: StudyResults) -> float | None:
    """None if the number of parameters, or what an adapted base had read before, is not known."""
    parameters = None if is_adapted(arm) else results.parameters.get(arm)
    return base.tokens / parameters if parameters else None


def _last_change(base: BaseResult) -> tuple[float, float, float, float] | None:
    """The held-out losses before and after the last part of pre-training, the share of this part, and all passes.

    None if it was evaluated less than twice.
    """
    points = [(point.epoch, point.loss) for point in base.curve if point.loss is not None]
    if len(points) < 2 or base.epochs is None or points[-1][0] <= 0:
        return None
    end, after = points[-1]
    earlier = [(epoch, loss) for epoch, loss in points if epoch <= (1 - LAST_PART) * end]
    if not earlier:
        return None
    epoch, before = earlier[-1]
    return before, after, 1 - epoch / end, base.epochs


def _adaptation(last: Cell, results: StudyResults) -> list[str]:
    """What training an existing base further on the corpus gained, or that it was not tried; one sentence at most."""
    arm = last.arm
    tuned = [name for name in results.arms if name == base_of(name)]
    adapted = [name for name in tuned if is_adapted(name)]
    bases = [name for name in tuned if is_from_box(name) and name not in adapted]
    if arm in bases:  # what another base gained says nothing about this one
        bases, adapted = [arm], [name for name in adapted if _start(name, results) == _start(arm, results)]
    if not adapted and not bases:
        return []
    if not adapted:
        start = _start(bases[0], results)
        return [
            f"Adaptation: whether {bases[0]} gains from further training on the corpus was not tried. In a study, the "
            f"arm {ADAPTED if start == BOX else OF_BASE + start} does it before fine-tuning; --arms adds it."
        ]
    if arm in adapted:
        start = _start(arm, results)
        others = [name for name in tuned if name not in adapted and _start(name, results) == start]
        if not others:
            return [
                f"Adaptation: its gain was not measured, because no arm is the base of {arm} without it. --arms adds "
                f"{start}."
            ]
    else:
        others = adapted
    if _best(last, results).arm in others:
        return []  # said about the better arm
    tests = [row for other in others if (row := _test_of(last, other, results)) is not None]
    where = f" at {last.labels:,} {results.words.many}" if last.labels else ""
    if not tests:
        return [f"Adaptation: {arm} and {others[0]} were not tested against each other{where}."]
    return [f"Adaptation: {_tested(tests[0], results)}"]


def _start(arm: str, results: StudyResults) -> str:
    """The base that an arm fine-tunes or adapts, as an arm of this version; `box` if it is not known which one."""
    base = results.installed.get(arm, own_name(arm).removeprefix(OF_BASE))
    return BOX if base in (BOX, ADAPTED, f"{PREFIX}{OWN_BASE}") else base


def _untried(arm: str, results: StudyResults) -> list[str]:
    """A pre-trained base if there is none; another base, if no installed base and no adaptation is among the arms."""
    if all(name in (*BASELINES, SCRATCH) for name in results.arms):
        return [
            "Pre-training: no arm starts from a trained base. In a study, the arm pretrained trains one on --corpus, "
            "and the arms box and adapted use an installed base."
        ]
    if any(is_from_box(name) or is_adapted(name) for name in results.arms) or arm in (*BASELINES, SCRATCH):
        return []
    return [
        "Another base: neither an installed base (box) nor a base that is adapted to the corpus (adapted) was tried; "
        "--arms adds them."
    ]
