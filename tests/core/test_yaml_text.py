"""YAML without a library: the text of PyYAML for usual values, and read back equal by it for all."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.yaml_text import yaml_lines

USUAL = {
    "name": "headswap classifier", "tags": ["headswap", "text-classification"], "value": 0.25, "small": 1e-07,
    "count": 3, "is_open": True,
    "results": [{"task": {"type": "text-classification"}, "metrics": [{"type": "f1", "args": {"average": "macro"}}]}],
}  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = TEXTS | st.integers(-9, 9) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


def test_usual_values_are_written_as_by_pyyaml() -> None:
    assert "\n".join(yaml_lines(USUAL)) + "\n" == yaml.safe_dump(USUAL, sort_keys=False)


@given(
    st.fixed_dictionaries({"a": VALUES, "b": st.lists(VALUES, min_size=1), "c": st.fixed_dictionaries({"d": TEXTS})})
)
def test_every_value_is_read_back_equal(value: dict) -> None:
    assert yaml.safe_load("\n".join(yaml_lines(value))) == value


def test_words_of_other_types_stay_strings() -> None:
    for word in (
        "yes",
        "Null",
        "on",
        "n",
        "1e3",
        "0x1f",
        "12",
        "1_000",
        ".5",
        "~",
        "",
        " a",
        "a: b",
        "a #b",
        "- a",
        "{}",
        "2024-01-01",
    ):
        assert yaml.safe_load("\n".join(yaml_lines({"a": word, "b": [word]}))) == {"a": word, "b": [word]}
