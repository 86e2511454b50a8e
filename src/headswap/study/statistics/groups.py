"""The groups of a study's test texts, which can be the unit of resampling."""

import numpy as np

from headswap.study.statistics.runs import StudyRuns


def groups_of_test(study: StudyRuns) -> np.ndarray | None:
    """The number of the group of each test text, from 0 on, in the order of the predictions; None without groups."""
    for run in study.runs:
        if run.predictions.group_ids is not None:
            return np.unique(run.predictions.group_ids, return_inverse=True)[1].astype(np.int64)
    return None


def counted_groups(study: StudyRuns) -> tuple[int, str] | None:
    """How many groups the test texts belong to, and what one of them is called; None without groups."""
    if (groups := groups_of_test(study)) is None:
        return None
    return int(groups.max()) + 1, "context" if study.runs[0].predictions.kind == "answers" else "group"
