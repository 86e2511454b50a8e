"""TextEmbedder: vectors of a base that is loaded, pre-trained or adapted in fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import headswap as hs
from estimator.coverage import covers
from estimator.estimators import LABELS, X, make
from tiny import SMALL

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def embedder(all_fitted: dict[str, Any]) -> hs.TextEmbedder:
    """A base of one layer, pre-trained for two steps."""
    return all_fitted["embedder"]


@covers("check_transformer_general", "check_transformer_preserve_dtypes")
def test_fit_transform_equals_fit_and_transform(embedder: hs.TextEmbedder) -> None:
    vectors = make("embedder").fit_transform(X, LABELS)
    np.testing.assert_array_equal(vectors, embedder.transform(np.array(X)))
    assert (vectors.shape, vectors.dtype) == ((len(X), 32), np.float32)


@covers("check_transformer_get_feature_names_out", "check_transformer_get_feature_names_out_pandas")
def test_every_dimension_has_a_name(embedder: hs.TextEmbedder) -> None:
    assert embedder.get_feature_names_out().tolist() == [f"textembedder{number}" for number in range(32)]


@covers(
    "check_set_output_transform", "check_set_output_transform_pandas", "check_global_output_transform_pandas",
    "check_set_output_transform_polars", "check_global_set_output_transform_polars",
)  # fmt: skip
def test_the_output_can_be_a_table(embedder: hs.TextEmbedder) -> None:
    plain = embedder.transform(X)
    texts = pandas.Series(X, index=range(50, 50 + len(X)))
    with sklearn.config_context(transform_output="pandas"):
        frame = embedder.transform(texts)
    assert frame.index.tolist() == texts.index.tolist()
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    with sklearn.config_context(transform_output="polars"):
        frame = embedder.transform(X)
    assert isinstance(frame, polars.DataFrame)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    other = make("embedder").set_output(transform="pandas").fit(X)
    assert list(other.transform(X).columns) == embedder.get_feature_names_out().tolist()


def test_the_vectors_of_a_given_base_are_those_of_embed(tiny_base: hs.Run) -> None:
    for pooling in ("mean", "mean+max", "weighted-mean"):
        embedder = hs.TextEmbedder(tiny_base, pooling=pooling, device="cpu")
        np.testing.assert_array_equal(
            embedder.fit_transform(X), hs.load(tiny_base, device="cpu").embed(X, pooling=pooling)
        )


def test_a_base_from_scratch_is_that_of_pretrain_with_the_same_settings(
    tmp_path: Path, embedder: hs.TextEmbedder
) -> None:
    run = hs.pretrain(hs.Texts(X), out=tmp_path / "run", max_steps=2, **SMALL)
    np.testing.assert_array_equal(embedder.transform(X), run.model.embed(X))


def test_a_base_is_adapted_as_by_adapt(tmp_path: Path, tiny_base: hs.Run) -> None:
    embedder = hs.TextEmbedder(tiny_base, adapt=True, max_steps=2, device="cpu", threads=1).fit(X)
    run = hs.adapt(tiny_base, hs.Texts(X), out=tmp_path / "run", max_steps=2, device="cpu", threads=1)
    np.testing.assert_array_equal(embedder.transform(X), run.model.embed(X))
    assert not np.array_equal(embedder.transform(X), hs.load(tiny_base, device="cpu").embed(X))


def test_settings_of_a_training_that_does_not_run_are_refused(tiny_base: hs.Run) -> None:
    with pytest.raises(ValueError, match="'max_steps': no effect, because the base is used as it is"):
        hs.TextEmbedder(tiny_base, max_steps=3).fit(X)
    with pytest.raises(ValueError, match="base is 'scratch'"):
        make("embedder", adapt=True).fit(X)
    with pytest.raises(ValueError, match="pooling = 'sum' is not allowed"):
        make("embedder", pooling="sum").fit(X)


def test_vectors_are_the_input_of_a_linear_model(tiny_base: hs.Run) -> None:
    model = make_pipeline(hs.TextEmbedder(tiny_base, device="cpu"), LogisticRegression()).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.6
