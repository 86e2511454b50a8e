"""What to try next, from the results of a study: each item with the evidence for it, the measured gains first.

Nothing is stated that was not measured: a gain that the study has seen is given with its interval or called untested,
and what was not tried is called so.
"""

from headswap.defaults.finetuning import LEAST_TOKENS_PER_PARAMETER, is_well_trained
from headswap.study.report.findings import comparison_sentence, seeds_sentence
from headswap.study.setup.answer_file import SINGLE
from headswap.study.setup.arms import BASELINES, SCRATCH, is_adapted, is_from_box
from headswap.study.statistics.results import BaseResult, StudyResults
from headswap.study.statistics.score_results import Cell
from headswap.study.statistics.significance import FEWEST_SEEDS_FOR_A_CLAIM

STILL_FALLING = 0.01
"""Nats by which the held-out loss must fall in the last part of pre-training to be called falling."""


def what_next(results: StudyResults) -> list[str]:
    """Sentences in the order in which they should be tried; empty if nothing was run.

    They are about the primary arm; without one, about scratch or else the last arm that was run.
    """
    run = [arm for arm in results.arms if any(cell.arm == arm for cell in results.cells)]
    if not run:
        return []
    arm = results.primary if results.primary in run else SCRATCH if SCRATCH in run else run[-1]
    cells = {cell.labels: cell for cell in results.cells if cell.arm == arm}
    last = cells[max(cells)]
    measured = [*_better_arm(last, results), *_labels(results)]
    found = [sentence for _, sentence in sorted(measured, key=lambda item: -item[0])]
    seeds = _seeds(arm, results)
    first = seeds if len(results.seeds) < FEWEST_SEEDS_FOR_A_CLAIM and SINGLE not in last.values else []
    later = [] if first else seeds
    return [*first, *found, *later, *_text(arm, results), *_untried(arm, results)]


def _better_arm(last: Cell, results: StudyResults) -> list[tuple[float, str]]:
    """The arm with the highest mean where the primary arm was last scored, if it is another one."""
    others = [cell for cell in results.cells if cell.labels == last.labels and cell.arm != last.arm]
    best = max(others, key=lambda cell: cell.mean, default=last)
    if best.mean <= last.mean:
        return []
    tests = [
        row for row in results.comparisons if (row.arm, row.other, row.labels) == (last.arm, best.arm, last.labels)
    ]
    tested = comparison_sentence(tests[0]) if tests else "The two were not tested against each other."
    where = f" at {last.labels:,} labels" if last.labels else ""
    means = f"{best.arm} has {best.mean:.3f} and {last.arm} {last.mean:.3f}{where}"
    return [((best.mean - last.mean) * 100, f"Another arm: {means}. {tested}")]


def _labels(results: StudyResults) -> list[tuple[float, str]]:
    """More labels, from the rise of the primary arm between its two largest budgets."""
    step = results.last_step
    if step is None or step.low is None or step.high is None:
        return []
    rise = f"{step.mean * 100:+.1f} points ({step.low * 100:+.1f} to {step.high * 100:+.1f})"
    where = f"{step.arm} changed by {rise} from {step.from_labels:,} to {step.labels:,} labels"
    if step.is_above_zero:
        return [(step.mean * 100, f"More labels: {where}, so its curve still rises at the largest budget.")]
    return [(-1.0, f"More labels: no gain is shown. {where}.")]


def _seeds(arm: str, results: StudyResults) -> list[str]:
    """More seeds, where the planned tests are undecided."""
    if results.seeds and len(results.seeds) < FEWEST_SEEDS_FOR_A_CLAIM:
        return [
            f"More seeds: {len(results.seeds)} are too few to compare arms; use at least {FEWEST_SEEDS_FOR_A_CLAIM}."
        ]
    found = []
    for row in results.comparisons:
        if row.arm == arm and row.verdict == "none" and row.low is not None and row.high is not None and row.mean:
            needed = row.seeds_needed or (None, None)
            rows = "More bases (--base-seeds, with at least as many --seeds)" if row.num_bases else "More seeds"
            what = f"More test {results.unit}s" if needed[0] is None else rows
            span = f"{row.mean * 100:+.1f} points, {row.low * 100:+.1f} to {row.high * 100:+.1f}"
            where = f" at {row.labels:,} labels" if row.labels else ""
            found.append(f"{what}: {row.arm} against {row.other}{where} is undecided ({span}); {seeds_sentence(row)}.")
    return found


def _text(arm: str, results: StudyResults) -> list[str]:
    """Longer pre-training or more text, from the held-out loss of the primary arm's bases."""
    for base in results.bases:
        if arm in base.arms and (fall := _last_fall(base)) is not None:
            before, after, epochs = fall
            number = _tokens_per_parameter(base, arm, results)
            per_parameter = "" if number is None else f"; {number:.1f} tokens per parameter"
            loss = f"the held-out loss of {base.name} went from {before:.3f} to {after:.3f} in its last part"
            seen = f"({epochs:.2g} passes over the corpus{per_parameter})"
            if before - after >= STILL_FALLING:
                what = "Longer pre-training" if epochs < 1 else "Longer pre-training or more text"
                return [f"{what}: {loss} {seen}, so it was still falling. Its effect on the score was not measured."]
            if is_well_trained(_tokens_per_parameter(base, arm, results)):
                return [f"Longer pre-training: {loss} {seen}, so it hardly falls any more on this corpus."]
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


def _last_fall(base: BaseResult) -> tuple[float, float, float] | None:
    """The last two held-out losses of a base and its number of passes; None if it was evaluated less than twice."""
    losses = [point.loss for point in base.curve if point.loss is not None]
    if len(losses) < 2 or base.epochs is None:
        return None
    return losses[-2], losses[-1], base.epochs


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
