"""What the id of a job depends on."""

from headswap.data.config import LabelledSettings
from headswap.finetuning.config import (
    AdaptationSettings,
    ConsistencySettings,
    FinetuneRecipe,
    FinetuneTraining,
    HeadSettings,
)
from headswap.study.jobs.job_id import recipe_content

NEWER = (
    "token_dropout", "head_epochs", "head_init", "head_similarity", "unlabelled", "unseen_labels", "answer_offsets",
    "parallel", "pair_encoding", "head_norm",
)  # fmt: skip


def test_settings_of_newer_versions_are_part_of_an_id_only_where_they_are_set() -> None:
    names = recipe_content(FinetuneRecipe())
    assert not [name for name in names if "consistency" in name or name.endswith(NEWER)]
    assert "training.weight_decay" in names
    changed = recipe_content(
        FinetuneRecipe(
            training=FinetuneTraining(token_dropout=0.1),
            adaptation=AdaptationSettings(head_epochs=2, head_init="class-means"),
            consistency=ConsistencySettings(unlabelled=("texts.txt",), consistency_weight=2.0),
        )
    )
    assert set(changed) - set(names) == {
        "training.token_dropout", "adaptation.head_epochs", "adaptation.head_init", "consistency.unlabelled",
        "consistency.consistency_weight",
    }  # fmt: skip


def test_a_job_of_pairs_is_that_of_an_earlier_version_only_where_they_are_read_as_one_sequence() -> None:
    data = LabelledSettings(text_pair_column="text_pair")
    before = recipe_content(FinetuneRecipe(data=data, head=HeadSettings(pair_encoding="joined")))
    assert "head.pair_encoding" not in before, "earlier versions read all pairs so"
    now = recipe_content(FinetuneRecipe(data=data))
    assert set(now) - set(before) == {"head.pair_encoding"}
    separate = recipe_content(FinetuneRecipe(data=data, head=HeadSettings(pair_encoding="separate")))
    assert separate["head.pair_encoding"] == "separate"
