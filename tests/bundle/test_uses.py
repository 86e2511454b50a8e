"""How a model with each kind of head is used."""

import pytest

from headswap.bundle.uses import PAIR_ARGUMENTS, PAIR_CALL, use_of
from headswap.cli.app import VERBS
from tiny import tiny_model_shape


@pytest.mark.parametrize(
    ("head", "direction", "verb", "pipeline"),
    [
        ("lm", "causal", "generate", "text-generation"),
        ("lm", "bidirectional", "fill", "fill-mask"),
        ("classify", "causal", "predict", "text-classification"),
        ("tag", "bidirectional", "predict", "token-classification"),
        ("span", "bidirectional", "predict", "question-answering"),
    ],
)
def test_a_shape_has_the_verb_and_the_pipeline_of_its_head(head: str, direction: str, verb: str, pipeline: str) -> None:
    use = use_of(tiny_model_shape(head=head, direction=direction))
    assert (use.verb, use.pipeline_tag) == (verb, pipeline)
    assert use.verb in VERBS


def test_a_model_of_pairs_is_shown_with_two_texts_and_is_otherwise_the_same() -> None:
    shape = tiny_model_shape(head="classify")
    single, pair = use_of(shape), use_of(shape, reads_pairs=True)
    assert (pair.arguments, pair.call) == (PAIR_ARGUMENTS, PAIR_CALL) != (single.arguments, single.call)
    assert pair == single._replace(arguments=PAIR_ARGUMENTS, call=PAIR_CALL)
