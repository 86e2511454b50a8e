"""State what the intervals of a study do not cover, what is missing, and the result of the overlap check."""

from collections.abc import Mapping

from headswap.core.errors import counted
from headswap.study.arms import SCRATCH, is_from_box
from headswap.study.cell_quality import collapse_sentences
from headswap.study.config import ALL
from headswap.study.results import CollapsedRuns, SetOverlap, StudyResults


def caveats(results: StudyResults) -> list[str]:
    """What the intervals do not cover, and what is missing."""
    found = []
    if results.num_bases == 1:
        found.append(
            "All runs of a pre-trained arm share one base. These intervals leave out the variation between "
            "pre-training runs; use --base-seeds 3 or more to include it."
        )
    elif results.num_bases == 2:
        found.append(
            "The runs of a pre-trained arm share two bases, which are too few to state anything about other bases; use "
            "--base-seeds 3 or more."
        )
    if any(budget.name == ALL for budget in results.budgets):
        found.append(
            "With the budget all, every seed has the same labels. Its intervals and tests hold for this training set "
            "and leave out the variation between training sets."
        )
    found += results.design_changes
    for arm in results.arms:
        sentences = [_existing_base(arm)] if is_from_box(arm) else []
        sentences += _other_size(arm, results.parameters)
        found += [" ".join(sentences)] if sentences else []
    found += map(_collapsed_sentence, results.collapsed)
    found += collapse_sentences(results.cells)
    if results.missing:
        verb = "is" if len(results.missing) == 1 else "are"
        found.append(
            f"{counted(len(results.missing), 'planned run')} {verb} missing (logs/ has the messages of failed jobs). "
            "A comparison uses only the seeds that both arms have."
        )
    return [*found, *results.notes]


def _existing_base(arm: str) -> str:
    return (
        f"The arm '{arm}' starts from one base that was not pre-trained by this study. Its intervals leave out the "
        "variation between pre-training runs, and its corpus could not be checked for overlap with this test set (the "
        "card of the base describes the corpus)."
    )


def _other_size(arm: str, parameters: Mapping[str, int]) -> list[str]:
    """A sentence if the model of an arm is larger or smaller than that of scratch."""
    own, scratch = parameters.get(arm), parameters.get(SCRATCH)
    if not own or not scratch or 0.95 < own / scratch < 1.05:
        return []
    return [
        f"The arm '{arm}' has {_size(own)} parameters and scratch {_size(scratch)}, so their difference is not due to "
        "pre-training alone."
    ]


def _size(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e5 else f"{parameters:,}"


def _collapsed_sentence(row: CollapsedRuns) -> str:
    return (
        f"{row.arm}: {row.count} of {counted(row.of, 'run')} predicted the same label for every test text, so the "
        "score is the share of that label."
    )


def overlap_sentence(row: SetOverlap) -> str:
    """One row of the overlap check."""
    is_one = row.exact_rows == 1
    if row.from_set == row.to_set:
        verb = f"repeat{'s' if is_one else ''} an earlier row of the same set"
    else:
        verb = f"{'is' if is_one else 'are'} also in {row.to_set}"
    return f"{counted(row.exact_rows, 'row')} of {row.from_set} {verb}; near-duplicates: {row.near_rows:,}."
