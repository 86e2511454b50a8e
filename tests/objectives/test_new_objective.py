"""A new pre-training objective is one class and one line in the table."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

import headswap as hs
from headswap.batches.batch import Batch
from headswap.batches.windows import Pieces
from headswap.core.random_streams import Draws
from headswap.objectives.causal import CausalObjective
from headswap.objectives.registry import PRETRAINING
from headswap.pretraining.config import PretrainRecipe
from new_names import allowed
from tiny import TINY

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = Literal["causal", "masked", "masked+nsp", "masked+sop", "same"]


class SameTokenObjective(CausalObjective):
    """Predict the token that is read: learnt within a few steps."""

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        return super().make_batch(replace(pieces, next_ids=pieces.ids), draws)


def test_a_new_objective_is_one_class_and_one_line(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRETRAINING, "same", lambda tokenizer, masking: SameTokenObjective(tokenizer))
    training = PretrainRecipe.model_fields["training"].annotation
    assert training is not None
    shape = {name: value for name, value in TINY.items() if name != "max_position_embeddings"}
    with allowed(NAMES, "objective", [training], [PretrainRecipe]):
        base = hs.pretrain(
            corpus_file, objective="same", out=tmp_path / "base", max_steps=40, batch_size=16, learning_rate=1e-2,
            kind="word", max_length=32, device="cpu", threads=1, **shape,
        )  # fmt: skip
    assert base.model.bundle.objective == "same"
    assert base.model.evaluate(corpus_file)["loss"] < 0.5, "less than any model of the next token can reach"
