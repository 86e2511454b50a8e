"""State what the intervals of a study do not cover, what is missing, and the result of the overlap check."""

from collections.abc import Mapping, Sequence

from headswap.core.errors import counted
from headswap.study.report.findings import enumerated
from headswap.study.setup.arm_bases import is_adapted, is_from_box
from headswap.study.setup.arms import SCRATCH
from headswap.study.setup.config import ALL
from headswap.study.statistics.budget_words import BudgetWords
from headswap.study.statistics.cell_quality import collapse_sentences
from headswap.study.statistics.results import (
    BaseResult,
    CollapsedRuns,
    ConsistencyRun,
    ExternalArm,
    SetOverlap,
    StudyResults,
)

SAME_TOKENS = 1.05
"""Numbers of tokens whose ratio is at most this count as equal."""


def caveats(results: StudyResults) -> list[str]:
    """What the intervals do not cover, and what is missing."""
    found = []
    if results.num_bases == 1:
        found.append(
            "All runs of a pre-trained arm share one base. These intervals leave out the variation between "
            "pre-training runs; headswap study --base-seeds 3 (or more) includes it."
        )
    elif results.num_bases == 2:
        found.append(
            "The runs of a pre-trained arm share two bases, too few for a claim about other bases; "
            "headswap study --base-seeds 3 (or more) allows one."
        )
    if any(budget.name == ALL for budget in results.budgets):
        found.append(
            "With the budget all, every seed has the same labels. Its intervals and tests hold for this training set "
            "and leave out the variation between training sets."
        )
    found += _different_tokens(results.bases)
    found += results.design_changes
    for arm, other in results.external.items():
        found += _external_sentences(arm, other, results)
    found += _existing_base([arm for arm in results.arms if is_from_box(arm)])
    for base in dict.fromkeys(results.public.values()):
        found.append(_public_checkpoint([arm for arm in results.arms if results.public.get(arm) == base], base))
    found += _other_sizes(results.arms, results.parameters)
    found += [_collapsed_sentence(row, results) for row in results.collapsed]
    found += collapse_sentences(results.cells, results.words)
    found += _turned_off(results.consistency, results.words)
    if results.missing:
        verb = "is" if len(results.missing) == 1 else "are"
        found.append(
            f"{counted(len(results.missing), 'planned run')} {verb} missing (logs/ has the messages of failed jobs); "
            "headswap study, called again, runs them. A comparison uses only the seeds that both arms have."
        )
    return [*found, *results.notes]


def _different_tokens(bases: Sequence[BaseResult]) -> list[str]:
    """A sentence if the bases of different arms were pre-trained on different numbers of tokens."""
    tokens: dict[tuple[str, ...], list[int]] = {}
    for base in bases:
        if not any(is_adapted(arm) for arm in base.arms):  # an adaptation continues another pre-training
            tokens.setdefault(tuple(base.arms), []).append(base.tokens)
    means = {arms: sum(found) / len(found) for arms, found in tokens.items()}
    if len(means) < 2 or max(means.values()) <= SAME_TOKENS * min(means.values()):
        return []
    shown = "; ".join(
        f"{', '.join(arms)} {_size(round(mean))}" for arms, mean in sorted(means.items(), key=_least_first)
    )
    return [
        f"The bases of different arms were pre-trained on different numbers of tokens ({shown}), so differences "
        "between these arms are not due to the objective or the settings alone."
    ]


def _least_first(item: tuple[tuple[str, ...], float]) -> float:
    return item[1]


def _existing_base(arms: Sequence[str]) -> list[str]:
    """A sentence about all arms that start from an installed base."""
    if not arms:
        return []
    return [
        f"{_start(arms)} a base that was not pre-trained here. The intervals leave out the variation between "
        "pre-training runs, and the corpus of the base could not be checked for overlap with this test set (its card "
        "describes the corpus)."
    ]


def _start(arms: Sequence[str]) -> str:
    """The beginning of a sentence: the arms start from something."""
    names = enumerated([f"'{arm}'" for arm in arms])
    return f"The arm {names} starts from" if len(arms) == 1 else f"The arms {names} start from"


def _external_sentences(arm: str, other: ExternalArm, results: StudyResults) -> list[str]:
    """What is not known about another system, and what its tests do not cover."""
    found = [
        f"The arm '{arm}' is another system: its answers are from {other.file} (SHA-256 {other.sha256[:12]}). Its "
        "training data are not known, so they could not be checked for overlap with this test set."
    ]
    if other.has_one_answer:
        found.append(
            f"The arm '{arm}' has one answer per text. Its intervals are over test texts only, and its tests over test "
            "texts and the seeds of the other arm: they do not cover what the system would answer if it were run or "
            "trained again."
        )
    if without := [budget for budget in results.budgets if not _has_cell(results, arm, budget.labels)]:
        found.append(
            f"The arm '{arm}' has no answers at {', '.join(f'{one.labels:,}' for one in without)} {results.words.many}."
        )
    return [" ".join(found)]


def _has_cell(results: StudyResults, arm: str, labels: int) -> bool:
    return any((cell.arm, cell.labels) == (arm, labels) for cell in results.cells)


def _public_checkpoint(arms: Sequence[str], base: str) -> str:
    return (
        f"{_start(arms)} the public checkpoint {base}, which may have been trained on texts of this test set: its "
        "training data could not be checked for overlap, so the scores may be too high. The intervals leave out the "
        "variation between pre-training runs."
    )


def _other_sizes(arms: Sequence[str], parameters: Mapping[str, int]) -> list[str]:
    """A sentence about the arms whose model is larger or smaller than that of scratch."""
    scratch = parameters.get(SCRATCH)
    sizes = {arm: size for arm in arms if (size := parameters.get(arm))}
    others = [arm for arm, size in sizes.items() if scratch and not 0.95 < size / scratch < 1.05]
    if not scratch or not others:
        return []
    shown = enumerated([f"'{arm}' {_size(sizes[arm])}" for arm in others])
    return [
        f"The models differ in size: scratch has {_size(scratch)} parameters, {shown}. So differences to scratch "
        "may be due in part to the size."
    ]


def _size(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e5 else f"{parameters:,}"


def _collapsed_sentence(row: CollapsedRuns, results: StudyResults) -> str:
    each = f"for every test {results.unit}"
    same = {"multilabel": f"labels {each}", "regress": f"value {each}", "tag": "tag for every word"}
    score = "the share of that label" if results.metric == "accuracy" else "that of a constant prediction"
    return (
        f"{row.arm}: {row.count} of {counted(row.of, 'run')} predicted the same "
        f"{same.get(results.task, f'label {each}')}, so the score is {score}."
    )


def _turned_off(runs: Sequence[ConsistencyRun], words: BudgetWords) -> list[str]:
    """A sentence per arm with runs whose predicted labels collapsed during consistency training."""
    found = []
    for arm in dict.fromkeys(run.arm for run in runs if run.turned_off):
        own = [run for run in runs if run.arm == arm]
        off = [run for run in own if run.turned_off]
        where = "; ".join(
            f"{labels:,} {words.many}: {sum(run.labels == labels for run in off)}"
            for labels in sorted({run.labels for run in off})
        )
        found.append(
            f"{arm}: consistency training was turned off in {len(off)} of {counted(len(own), 'run')} ({where}), "
            "because almost all unlabelled texts were given the same label. The rest of these runs used "
            "labelled texts only."
        )
    return found


def overlap_sentence(row: SetOverlap) -> str:
    """One row of the overlap check."""
    is_one = row.exact_rows == 1
    if row.from_set == row.to_set:
        verb = f"repeat{'s' if is_one else ''} an earlier row of the same set"
    else:
        verb = f"{'is' if is_one else 'are'} also in {row.to_set}"
    parts = f"; contained: {row.contained_rows:,}" if row.contained_rows else ""
    parts += f"; with a shared passage (not removed): {row.passage_rows:,}" if row.passage_rows else ""
    return f"{counted(row.exact_rows, 'row')} of {row.from_set} {verb}; near-duplicates: {row.near_rows:,}{parts}."
