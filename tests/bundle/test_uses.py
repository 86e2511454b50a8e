"""How a model with each kind of head is used."""

import pytest

from headswap.bundle.uses import PAIR_ARGUMENTS, PAIR_CALL, uses_of
from headswap.cli.app import VERBS
from tiny import tiny_model_shape


@pytest.mark.parametrize(
    ("head", "direction", "objective", "uses"),
    [
        ("lm", "causal", "causal", [("generate", "text-generation")]),
        ("lm", "bidirectional", "masked", [("fill", "fill-mask")]),
        ("lm", "bidirectional", "causal+masked", [("generate", "text-generation"), ("fill", "fill-mask")]),
        ("classify", "causal", "causal", [("predict", "text-classification")]),
        ("tag", "bidirectional", "masked", [("predict", "token-classification")]),
        ("span", "bidirectional", "causal+masked", [("predict", "question-answering")]),
    ],
)
def test_a_shape_has_the_commands_and_the_pipelines_of_its_head(
    head: str, direction: str, objective: str, uses: list[tuple[str, str]]
) -> None:
    found = uses_of(tiny_model_shape(head=head, direction=direction), objective)
    assert [(use.verb, use.pipeline_tag) for use in found] == uses
    assert {use.verb for use in found} <= set(VERBS)


def test_a_model_of_pairs_is_shown_with_two_texts_and_is_otherwise_the_same() -> None:
    shape = tiny_model_shape(head="classify")
    (single,), (pair,) = uses_of(shape, "causal"), uses_of(shape, "causal", reads_pairs=True)
    assert (pair.arguments, pair.call) == (PAIR_ARGUMENTS, PAIR_CALL) != (single.arguments, single.call)
    assert pair == single._replace(arguments=PAIR_ARGUMENTS, call=PAIR_CALL)
