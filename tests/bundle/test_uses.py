"""How a model with each kind of head is used."""

import pytest

from headswap.bundle.uses import PAIR_ARGUMENTS, PAIR_CALL, predicts_next, uses_of
from headswap.cli.app import VERBS
from tiny import tiny_model_shape


@pytest.mark.parametrize(
    ("head", "direction", "objective", "verbs", "pipeline"),
    [
        ("lm", "causal", "causal", ("generate",), "text-generation"),
        ("lm", "bidirectional", "masked", ("fill",), "fill-mask"),
        ("lm", "bidirectional", "causal+masked", ("generate", "fill"), "text-generation"),
        ("classify", "causal", "causal", ("predict",), "text-classification"),
        ("tag", "bidirectional", "causal+masked", ("predict",), "token-classification"),
        ("span", "bidirectional", "masked", ("predict",), "question-answering"),
    ],
)
def test_a_shape_has_the_verbs_and_the_pipeline_of_its_head(
    head: str, direction: str, objective: str, verbs: tuple[str, ...], pipeline: str
) -> None:
    uses = uses_of(tiny_model_shape(head=head, direction=direction), objective)
    assert (tuple(use.verb for use in uses), uses[0].pipeline_tag) == (verbs, pipeline)
    assert set(verbs) <= set(VERBS)


@pytest.mark.parametrize(
    ("objective", "direction", "is_next"),
    [("causal", "causal", True), ("masked", "bidirectional", False), ("causal+masked", "bidirectional", True),
     ("none", "causal", True), ("none", "bidirectional", False)],
)  # fmt: skip
def test_the_objective_decides_which_token_a_vector_predicts(objective: str, direction: str, is_next: bool) -> None:
    assert predicts_next(tiny_model_shape(direction=direction), objective) == is_next


def test_a_model_of_pairs_is_shown_with_two_texts_and_is_otherwise_the_same() -> None:
    shape = tiny_model_shape(head="classify")
    (single,), (pair,) = uses_of(shape, "causal"), uses_of(shape, "causal", reads_pairs=True)
    assert (pair.arguments, pair.call) == (PAIR_ARGUMENTS, PAIR_CALL) != (single.arguments, single.call)
    assert pair == single._replace(arguments=PAIR_ARGUMENTS, call=PAIR_CALL)
