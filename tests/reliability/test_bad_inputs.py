"""Malformed inputs: exit code 2, a message with the place and what to do, and no change on the disk."""

from collections import Counter
from pathlib import Path

import pytest

from reliability.bad_inputs import Case, Good
from reliability.extreme_inputs import CASES
from reliability.outcome import make_good, outcome_of

pytestmark = pytest.mark.usefixtures("one_thread")
FEWEST_CASES = 120


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    folder = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        return make_good(folder / "good")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_malformed_input_is_a_sentence_and_changes_nothing(case: Case, good: Good, tmp_path: Path) -> None:
    problems = outcome_of(case, tmp_path / "case", good).problems(case)
    assert not problems, "\n".join(problems)


def test_the_catalogue_is_as_large_as_promised_and_names_each_case_once() -> None:
    assert len(CASES) >= FEWEST_CASES
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
