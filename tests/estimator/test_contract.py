"""The contract of scikit-learn's estimators: a text version of each of its general checks that can apply."""

import copy
import pickle
import warnings
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import headswap as hs
from estimator.coverage import COVERED, NOT_APPLICABLE, covers, installed_checks
from estimator.estimators import KINDS, LABELS, NUMBERS, QUICK, X, Y, make, output

pytestmark = pytest.mark.usefixtures("one_thread")
WITHOUT_DATA = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
)
"""Checks that make no data, so that scikit-learn's own functions can run."""


@covers(*WITHOUT_DATA)
@pytest.mark.parametrize("check", WITHOUT_DATA)
def test_scikit_learns_own_checks_without_data(kind: str, check: str) -> None:
    getattr(estimator_checks, check)(KINDS[kind].__name__, make(kind))


def test_every_check_of_the_installed_scikit_learn_is_covered_or_has_a_reason() -> None:
    import_module("estimator.test_supervised")  # these two register their tests
    import_module("estimator.test_embedder")
    assert not COVERED.keys() & NOT_APPLICABLE.keys()
    assert COVERED.keys() | NOT_APPLICABLE.keys() == installed_checks()


def test_the_reasons_are_facts(kind: str) -> None:
    estimator = make(kind)
    assert not has_fit_parameter(estimator, "sample_weight")
    assert not hasattr(estimator, "partial_fit")
    assert not hasattr(estimator, "decision_function")
    assert "max_iter" not in estimator.get_params()
    assert not get_tags(estimator).target_tags.multi_output


def test_tags_state_the_kind_and_that_texts_are_read(kind: str) -> None:
    tags = get_tags(make(kind))
    assert (tags.input_tags.string, tags.input_tags.two_d_array) == (True, False)
    assert (is_classifier(make(kind)), is_regressor(make(kind))) == (kind == "classifier", kind == "regressor")
    assert tags.target_tags.required == (kind != "embedder")


@covers("check_estimators_unfitted", "check_transformers_unfitted", "check_get_feature_names_out_error")
def test_an_estimator_that_is_not_fitted_raises_not_fitted(kind: str) -> None:
    for method in ("predict", "predict_proba", "predict_log_proba", "transform"):
        if hasattr(make(kind), method):
            with pytest.raises(NotFittedError):
                getattr(make(kind), method)(X)
    if kind == "embedder":
        with pytest.raises(NotFittedError):
            make(kind).get_feature_names_out()


@covers(
    "check_estimators_fit_returns_self", "check_fit_check_is_fitted", "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters", "check_fit_idempotent", "check_n_features_in",
    "check_n_features_in_after_fitting",
)  # fmt: skip
def test_fit_keeps_parameters_adds_fitted_attributes_and_can_be_repeated(kind: str, fitted: Any) -> None:
    estimator = make(kind)
    before = copy.deepcopy(estimator.get_params())
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    assert estimator.fit(X, Y[kind]) is estimator
    check_is_fitted(estimator)
    assert estimator.get_params() == before
    added = set(vars(estimator)) - set(before)
    assert all(name.endswith("_") or name.startswith("_") for name in added)
    assert not hasattr(estimator, "n_features_in_"), "X has no columns to count"
    np.testing.assert_array_equal(output(estimator, X), output(fitted, X))
    np.testing.assert_array_equal(output(estimator.fit(X, Y[kind]), X), output(fitted, X))


def test_a_fit_that_fails_leaves_an_estimator_that_is_not_fitted(fitted: Any, kind: str) -> None:
    estimator = copy.deepcopy(fitted).set_params(learning_rate=-1.0)
    with pytest.raises(ValueError, match="learning_rate"):
        estimator.fit(X, Y[kind])
    with pytest.raises(NotFittedError):
        output(estimator, X)


@covers("check_dict_unchanged", "check_inplace_ensure_writeable", "check_readonly_memmap_input")
def test_using_an_estimator_changes_neither_it_nor_its_input(fitted: Any) -> None:
    before, texts = dict(vars(fitted)), np.array(X, dtype=object)
    texts.flags.writeable = False
    output(fitted, texts)
    assert vars(fitted) == before
    assert texts.tolist() == X


@covers("check_methods_sample_order_invariance", "check_methods_subset_invariance")
def test_an_output_does_not_depend_on_the_other_texts(fitted: Any) -> None:
    whole = output(fitted, X)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(output(fitted, [X[index] for index in order]), whole[order], atol=1e-6)
    np.testing.assert_allclose(np.concatenate([output(fitted, [text]) for text in X]), whole, atol=1e-6)


@covers("check_estimators_pickle")
def test_a_pickle_has_the_files_of_the_bundle_and_gives_the_same_outputs(fitted: Any) -> None:
    content = pickle.dumps(fitted)
    assert b"torch" not in content.replace(b'"torch"', b""), "no tensor is pickled"
    assert b"model.safetensors" in content
    copied = pickle.loads(content)
    np.testing.assert_array_equal(output(copied, X), output(fitted, X))
    assert copied.get_params() == fitted.get_params()


@covers(
    "check_estimators_data_not_an_array", "check_classifier_data_not_an_array", "check_regressor_data_not_an_array",
    "check_transformer_data_not_an_array", "check_estimators_dtypes", "check_f_contiguous_array_estimator",
)  # fmt: skip
def test_every_kind_of_column_gives_the_same_outputs(fitted: Any) -> None:
    class OnlyAnArray:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array(X, dtype=object)

    import pyarrow

    columns: dict[str, Any] = {
        "tuple": tuple(X),
        "objects": np.array(X, dtype=object),
        "strings": np.array(X),
        "every second of an array": np.repeat(np.array(X), 2)[::2],
        "pandas": pandas.Series(X, index=range(100, 100 + len(X))),
        "pandas strings": pandas.Series(X, dtype="string"),
        "pandas categories": pandas.Series(X, dtype="category"),
        "polars": polars.Series(X),
        "pyarrow": pyarrow.chunked_array([X]),
        "an array protocol": OnlyAnArray(),
        "a generator": (text for text in X),
    }
    for name, column in columns.items():
        np.testing.assert_array_equal(output(fitted, column), output(fitted, X), err_msg=name)


def test_targets_of_pandas_polars_and_numpy_give_the_same_model(all_fitted: dict[str, Any]) -> None:
    for kind, target in (("classifier", polars.Series(LABELS)), ("regressor", pandas.Series(NUMBERS))):
        estimator = make(kind).fit(pandas.Series(X), target)
        np.testing.assert_array_equal(output(estimator, X), output(all_fitted[kind], X))


@covers("check_estimators_empty_data_messages", "check_fit2d_1sample")
def test_no_texts_and_too_few_texts_are_value_errors(kind: str) -> None:
    with pytest.raises(ValueError, match="0 sample"):
        make(kind).fit([], [])
    if kind == "embedder":
        return
    with pytest.raises(ValueError, match=r"one class|nothing to learn"):
        make(kind).fit(X[:1], Y[kind][:1])


@covers("check_estimators_nan_inf", "check_dtype_object", "check_complex_data")
@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (None, ValueError, r"X\[3\] of 24 texts is missing \(NaN or None\)"),
        (float("nan"), ValueError, r"X\[3\] of 24 texts is missing"),
        (pandas.NA, ValueError, r"X\[3\] of 24 texts is missing"),
        ("  ", ValueError, r"X\[3\] of 24 texts is blank"),
        ({"foo": "bar"}, TypeError, r"X\[3\] is an object, argument must be a string"),
        (1 + 2j, TypeError, r"X\[3\] is a complex, argument must be a string"),
        (b"bytes", TypeError, r"X\[3\] is a sequence of bytes, argument must be a string"),
        (7, TypeError, r"X\[3\] is a number, argument must be a string"),
    ],
)
def test_what_is_not_a_text_is_refused_in_fit_and_afterwards(
    kind: str, fitted: Any, bad: Any, error: type[Exception], words: str
) -> None:
    texts = [*X[:3], bad, *X[4:]]
    with pytest.raises(error, match=words) as raised:
        make(kind).fit(texts, Y[kind])
    assert isinstance(raised.value, hs.HeadswapError)
    with pytest.raises(error, match=words):
        output(fitted, texts)


@covers(
    "check_fit1d", "check_fit2d_1feature", "check_fit2d_predict1d", "check_estimator_sparse_tag",
    "check_dataframe_column_names_consistency",
)  # fmt: skip
def test_x_that_is_not_a_column_of_texts_is_refused(kind: str, fitted: Any) -> None:
    from scipy.sparse import csr_array

    wrong: list[tuple[Any, str]] = [
        (np.array(X)[:, None], "2 dimensions"),
        (pandas.DataFrame({"text": X}), r"a table.*X\['text'\]"),
        (polars.DataFrame({"text": X}), "a table"),
        ({"text": X}, "a table"),
        (X[0], "one string"),
        (3.5, "X is a number"),
        (csr_array(np.eye(3)), "sparse"),
        (np.eye(3), "2 dimensions"),
    ]
    assert not get_tags(fitted).input_tags.sparse
    for texts, words in wrong:
        with pytest.raises((ValueError, TypeError), match=words):
            make(kind).fit(texts, Y[kind])
        with pytest.raises((ValueError, TypeError), match=words):
            output(fitted, texts)


@covers("check_supervised_y_2d", "check_classifier_multioutput")
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_column_of_targets_is_flattened_with_a_warning_and_two_columns_are_refused(kind: str, fitted: Any) -> None:
    target = np.array(Y[kind])[:, None]
    with pytest.warns(DataConversionWarning, match="1d array"):
        estimator = make(kind).fit(X, target)
    np.testing.assert_array_equal(output(estimator, X), output(fitted, X))
    with pytest.raises(ValueError, match="1d array"):
        make(kind).fit(X, np.hstack([target, target]))


@covers("check_supervised_y_no_nan", "check_requires_y_none")
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_missing_targets_are_value_errors(kind: str) -> None:
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        make(kind).fit(X, None)
    with pytest.raises(ValueError, match=r"contains NaN|contains infinity"):
        make(kind).fit(X, np.full(len(X), np.inf))
    with pytest.raises(ValueError, match="contains NaN"):
        make(kind).fit(X, [None, *Y[kind][1:]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make(kind).fit(X, Y[kind][1:])


@covers("check_fit_score_takes_y")
def test_fit_takes_y(kind: str, fitted: Any) -> None:
    assert list(signature(fitted.fit).parameters) == ["X", "y"]
    if hasattr(fitted, "score"):
        assert fitted.score(X, Y[kind]) == fitted.score(np.array(X), np.array(Y[kind]))


@covers("check_pipeline_consistency")
def test_a_pipeline_with_one_step_gives_the_same(kind: str, fitted: Any) -> None:
    pipeline = make_pipeline(make(kind)).fit(X, Y[kind])
    np.testing.assert_array_equal(output(pipeline, X), output(fitted, X))


@covers("check_param_validation")
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"max_steps": 0}, "max_steps"),
        ({"preset": "tiniest"}, "preset"),
        ({"base": "no-such-folder"}, "no-such-folder does not exist"),
        ({"random_state": "seed"}, "cannot be used to seed"),
        ({"settings": ["lora_rank"]}, "must be a dictionary"),
        ({"settings": {"learning_rate": 0.1}}, "'learning_rate', which cannot be given there"),
        ({"settings": {"seed": 3}}, "the seed is random_state"),
        ({"settings": {"hiden_size": 3}}, "Did you mean 'hidden_size'"),
        ({"class_weight": {"neg": 2}}, "class_weight"),
    ],
)
def test_wrong_parameters_are_value_errors_of_fit(kind: str, parameters: dict[str, Any], words: str) -> None:
    if not parameters.keys() <= signature(KINDS[kind]).parameters.keys():
        return
    changes = {"adapt": True} if kind == "embedder" and "base" in parameters else {}
    if "base" in parameters:
        changes |= {"settings": None}
    with pytest.raises(ValueError, match=words) as raised:
        make(kind, **(changes | parameters)).fit(X, Y[kind])
    assert isinstance(raised.value, hs.HeadswapError)


def test_a_fit_prints_nothing_warns_of_nothing_and_leaves_no_file(
    kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator = clone(make(kind, **({"max_steps": 40, "learning_rate": 0.01} if kind == "classifier" else {})))
        estimator.fit(X, Y[kind])
        output(estimator, X)
    assert capfd.readouterr() == ("", "")
    assert list((tmp_path / "temporary").iterdir()) == []
    assert {entry.name for entry in tmp_path.iterdir()} <= {"temporary", "cache"}


def test_quick_parameters_are_given_to_every_kind() -> None:
    assert all(QUICK.keys() <= signature(kind).parameters.keys() for kind in KINDS.values())
