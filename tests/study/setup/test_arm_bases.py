"""What the name of an arm tells about its base, also where the name of its study follows."""

import pytest

from headswap.study.report.findings import describe_arm
from headswap.study.report.write import make_report
from headswap.study.setup.arm_bases import is_adapted, is_existing_base, is_from_box, own_name, with_study
from study_fixture import synthetic_study


@pytest.mark.parametrize("arm", ["box", "box:mine", "adapted", "adapted:box:mine", "consistency:adapted", "adapted:x"])
def test_the_name_of_a_study_changes_nothing_about_an_arm(arm: str) -> None:
    named = with_study(arm, "study (1)")
    assert own_name(named) == arm
    for tells in (is_from_box, is_adapted, is_existing_base):
        assert tells(named) == tells(arm)
    assert is_from_box(arm) == (arm != "adapted:x")
    assert is_existing_base(arm) == (arm != "consistency:adapted")


def test_arms_of_two_studies_have_the_tests_and_the_caveat_of_installed_bases() -> None:
    cells = {("scratch", 100): [0.6, 0.61, 0.62], ("pretrained", 100): [0.7, 0.71, 0.72]}
    cells |= {(f"box ({study})", 100): [0.8, 0.81, 0.82] for study in ("a", "b")}
    report = make_report(synthetic_study(cells))
    others = [row.other for row in report.results.comparisons if row.arm == "pretrained"]
    assert others == ["scratch", "box (a)", "box (b)"]
    assert any(
        "'box (a)' and 'box (b)' start from a base that was not pre-trained here" in one for one in report.caveats
    )
    assert describe_arm("box (a)") == describe_arm("box") != "a given bundle or recipe"
