"""TextClassifier and TextRegressor: classes, probabilities, numbers, and scikit-learn's tools around them."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline

import headswap as hs
from estimator.coverage import covers
from estimator.estimators import LABELS, NUMBERS, QUICK, X, make, output
from tiny import SMALL, sentences

pytestmark = pytest.mark.usefixtures("one_thread")
LONG_ENOUGH: dict[str, Any] = {"max_steps": 40, "learning_rate": 0.01}


@covers("check_classifiers_train", "check_classifiers_predictions")
def test_a_classifier_learns_and_its_probabilities_are_those_of_its_predictions() -> None:
    classifier = make("classifier", **LONG_ENOUGH).fit(X, LABELS)
    assert classifier.score(X, LABELS) > 0.85
    probabilities = classifier.predict_proba(X)
    assert probabilities.shape == (len(X), 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (classifier.predict(X) == classifier.classes_[probabilities.argmax(axis=1)]).all()
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(X)), probabilities)


@covers("check_classifiers_classes")
@pytest.mark.parametrize(
    "names", [["neg", "pos"], [0, 1], [10, 2], [-1, 1], [False, True], [1.0, 2.0], ["b", "a c"]], ids=str
)
def test_classes_keep_their_type_and_order(names: list[Any]) -> None:
    target = np.array([names[label == "pos"] for label in LABELS])
    classifier = make("classifier", **LONG_ENOUGH).fit(X, target)
    np.testing.assert_array_equal(classifier.classes_, np.unique(target))
    assert classifier.classes_.dtype == target.dtype
    predicted = classifier.predict(X)
    assert predicted.dtype == target.dtype
    assert (predicted == target).mean() > 0.85


@covers("check_classifiers_one_label", "check_classifiers_regression_target")
@pytest.mark.parametrize(
    ("target", "words"),
    [
        (["pos"] * len(X), "only one class"),
        (np.linspace(0.1, 2.3, len(X)), "Unknown label type: continuous"),
        (["a", " a"] * (len(X) // 2), "differ only by white space"),
        (["a", "  "] * (len(X) // 2), "blank"),
        (["a", 1] * (len(X) // 2), "y mixes a number and a string"),
    ],
)
def test_targets_that_are_no_classes_are_value_errors(target: Any, words: str) -> None:
    values = target if isinstance(target, np.ndarray) else np.array(target, dtype=object)
    with pytest.raises(ValueError, match=words):
        make("classifier").fit(X, values)


@covers("check_class_weight_balanced_classifiers")
def test_balanced_classes_raise_the_recall_of_the_rare_class() -> None:
    rows = [row for number, row in enumerate(sentences(90, seed=5)) if row[1] == "neg" or number % 11 == 1]
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    few = {"max_steps": 12, "learning_rate": 0.01}
    found = {
        weight: make("classifier", class_weight=weight, **few).fit(texts, labels).predict_proba(texts)[:, 1].mean()
        for weight in (None, "balanced")
    }
    assert found["balanced"] > found[None] + 0.1


@covers("check_regressors_train", "check_regressors_int", "check_regressors_no_decision_function")
def test_a_regressor_learns_numbers_and_integers_alike() -> None:
    regressor = make("regressor", **LONG_ENOUGH).fit(X, NUMBERS)
    assert regressor.score(X, NUMBERS) > 0.5
    whole = make("regressor", **LONG_ENOUGH).fit(X, np.array(NUMBERS, dtype=int))
    np.testing.assert_array_equal(whole.predict(X), regressor.predict(X))
    assert regressor.predict(X).dtype == np.float64
    assert not hasattr(regressor, "decision_function")


def test_a_regressor_refuses_words_and_constants() -> None:
    with pytest.raises(ValueError, match="y must have numbers"):
        make("regressor").fit(X, LABELS)
    with pytest.raises(ValueError, match="all labels are 3, so there is nothing to learn"):
        make("regressor").fit(X, [3.0] * len(X))


@pytest.mark.parametrize(("kind", "target"), [("classifier", LABELS), ("regressor", NUMBERS)])
def test_the_weights_are_those_of_finetune_with_the_same_settings(tmp_path: Path, kind: str, target: list) -> None:
    estimator = make(kind, random_state=5, learning_rate=1e-3).fit(X, target)
    task = {"classifier": "classify", "regressor": "regress"}[kind]
    rows = list(zip(X, target, strict=True))
    run = hs.finetune(
        "scratch", train=rows, out=tmp_path / "run", task=task, seed=5, max_steps=2, learning_rate=1e-3, **SMALL
    )
    expected = run.model.bundle.model.state_dict()
    found = estimator.bundle_.model.state_dict()
    assert found.keys() == expected.keys()
    assert all((found[name] == expected[name]).all() for name in expected)
    ours = {name: value for name, value in estimator.result_.items() if name in ("history", "best_epoch", "num_train")}
    assert ours == {name: run.result[name] for name in ours}


def test_a_base_that_was_pretrained_is_fine_tuned(tiny_base: hs.Run, tiny_runs: Path) -> None:
    parameters = {"max_steps": 2, "device": "cpu", "threads": 1}
    estimators = [hs.TextClassifier(base, **parameters).fit(X, LABELS) for base in (tiny_base, str(tiny_runs / "base"))]
    assert estimators[0].bundle_.card["base"] == "base"
    np.testing.assert_array_equal(output(estimators[0], X), output(estimators[1], X))


def test_a_random_state_draws_another_seed_in_every_fit_and_an_integer_does_not() -> None:
    def weights(random_state: Any) -> list[np.ndarray]:
        estimator = make("classifier", random_state=random_state)
        return [output(estimator.fit(X, LABELS), X) for _ in range(2)]

    same = weights(np.int64(7))
    np.testing.assert_array_equal(*same)
    first, second = weights(np.random.RandomState(0))
    assert not np.array_equal(first, second)
    np.random.seed(3)
    by_global = weights(None)[0]
    np.random.seed(3)
    np.testing.assert_array_equal(weights(None)[0], by_global)


def test_a_model_that_predicts_one_class_warns_that_it_did_not_converge(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.warns(ConvergenceWarning, match="predicts '.*' for all 24 texts of train") as found:
        make("classifier", max_steps=1, learning_rate=1e-9).fit(X, LABELS)
    assert found[0].filename == __file__


def test_texts_that_are_cut_off_are_a_warning_where_they_are_predicted(all_fitted: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="of the tokens were cut off: the model reads at most 24 per text"):
        all_fitted["classifier"].predict([" ".join(X)])


def test_verbose_prints_what_the_training_logs(capsys: pytest.CaptureFixture) -> None:
    make("classifier", verbose=True).fit(X, LABELS)
    assert "Fine-tuning for 2 steps" in capsys.readouterr().out


def test_a_given_folder_keeps_the_run(tmp_path: Path) -> None:
    estimator = make("classifier", out=tmp_path / "run").fit(X, LABELS)
    run = hs.Run(tmp_path / "run")
    assert run.result == estimator.result_
    assert run.model.predict(X) == estimator.predict(X).tolist()
    again = hs.finetune(config=tmp_path / "run" / "recipe.toml", out=tmp_path / "again")
    assert again.result["history"] == run.result["history"]
    with pytest.raises(ValueError, match="run"):
        estimator.fit(X, LABELS)


def test_cross_validation_and_grid_search_use_clones() -> None:
    classifier = make("classifier", **LONG_ENOUGH)
    assert cross_val_score(classifier, X, LABELS, cv=2).shape == (2,)
    grid = {"learning_rate": np.array([1e-9, 0.01]), "settings": [QUICK["settings"]]}
    search = GridSearchCV(classifier, grid, cv=2).fit(pandas.Series(X), pandas.Series(LABELS))
    assert search.best_params_["learning_rate"] == 0.01
    assert search.predict(X[:3]).shape == (3,)
    assert not hasattr(clone(search.best_estimator_), "bundle_")


def test_probabilities_can_be_calibrated() -> None:
    calibrated = CalibratedClassifierCV(make("classifier", **LONG_ENOUGH), cv=2).fit(X, LABELS)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    assert calibrated.classes_.tolist() == ["neg", "pos"]


@pytest.mark.slow
def test_estimators_are_fitted_in_other_processes() -> None:
    scores = cross_val_score(make("classifier"), X, LABELS, cv=2, n_jobs=2)
    assert np.isfinite(scores).all()


@pytest.mark.slow
def test_a_pickle_is_restored_in_a_new_process_without_the_folder_it_came_from(
    tmp_path: Path, all_fitted: dict[str, Any]
) -> None:
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(all_fitted["classifier"]))
    program = (
        "import pickle, sys, pathlib\n"
        "model = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(model.predict_proba(sys.argv[2:]).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model.pkl"), *X[:2]], capture_output=True, text=True, check=True
    )
    np.testing.assert_allclose(eval(done.stdout), output(all_fitted["classifier"], X[:2]), atol=1e-5)


def test_a_damaged_pickle_is_refused(all_fitted: dict[str, Any]) -> None:
    state = all_fitted["classifier"].__getstate__()
    weights = bytearray(state["bundle_files"]["model.safetensors"])
    weights[-1] ^= 1
    state["bundle_files"]["model.safetensors"] = bytes(weights)
    with pytest.raises(hs.HeadswapError, match="The pickle is damaged"):
        make("classifier").__setstate__(state)


def test_the_parts_of_a_table_are_estimated_together() -> None:
    frame = pandas.DataFrame({"text": X, "length": NUMBERS})
    columns = ColumnTransformer([("vectors", make("embedder"), "text"), ("rest", "passthrough", ["length"])])
    model = make_pipeline(columns, LogisticRegression()).fit(frame, LABELS)
    assert columns.fit_transform(frame).shape == (len(X), 33)
    assert model.predict(frame).shape == (len(X),)
    both = FeatureUnion([("one", make("embedder")), ("two", make("embedder", pooling="max"))]).fit(X)
    assert both.transform(X).shape == (len(X), 64)


@pytest.mark.slow
def test_the_names_are_exposed_without_importing_anything_early() -> None:
    program = (
        "import sys, headswap\n"
        "print(any(name in sys.modules for name in ('torch', 'sklearn')))\n"
        "headswap.TextClassifier"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert {"TextClassifier", "TextRegressor", "TextEmbedder"} <= set(dir(hs))


def test_a_folder_that_is_not_empty_is_refused_in_the_words_of_the_estimator(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ValueError, match=r"which exists and is not empty\. Give a new folder") as caught:
        make("classifier", out=str(tmp_path)).fit(X, LABELS)
    assert "--" not in str(caught.value)
