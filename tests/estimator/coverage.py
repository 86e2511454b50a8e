"""Which of scikit-learn's general checks have a text version here, and why the others do not apply.

scikit-learn runs a single check on estimators whose X is a column of strings, because its checks make numbers.
"""

import inspect
from collections.abc import Callable
from typing import TypeVar

from sklearn.utils import estimator_checks

Test = TypeVar("Test", bound=Callable[..., None])
COVERED: dict[str, str] = {}
"""The check, and the test that is its text version."""


def covers(*names: str) -> Callable[[Test], Test]:
    """Declare that a test is the text version of these checks."""

    def register(test: Test) -> Test:
        COVERED.update(dict.fromkeys(names, test.__name__))
        return test

    return register


def installed_checks() -> set[str]:
    """The names of all checks of the installed scikit-learn."""
    members = inspect.getmembers(estimator_checks, inspect.isfunction)
    return {name for name, one in members if name.startswith("check_") and one.__module__ == estimator_checks.__name__}


NO_WEIGHTS = "fit takes no sample_weight: a batch has every text with the same weight"
NO_ARRAYS = "X has texts; array namespaces have numbers only"
NO_CLUSTERS = "no estimator here is a clusterer"
NO_OUTLIERS = "no estimator here detects outliers"
NO_MULTILABEL = "TextClassifier has one label per text (headswap.finetune has the task multilabel)"
NO_SPARSE = "X has texts, and a text cannot be sparse; that sparse X is refused is part of check_estimator_sparse_tag"
NOT_APPLICABLE = {
    "check_all_zero_sample_weights_error": NO_WEIGHTS,
    "check_array_api_input": NO_ARRAYS,
    "check_array_api_input_and_values": NO_ARRAYS,
    "check_array_api_mixed_inputs": NO_ARRAYS,
    "check_array_api_same_namespace": NO_ARRAYS,
    "check_class_weight_balanced_linear_classifier": "no linear classifier: there is no coef_ to compare",
    "check_class_weight_classifiers": "class_weight is None or 'balanced'; test_wrong_parameters covers a dictionary",
    "check_classifier_not_supporting_multiclass": "TextClassifier supports more than two classes",
    "check_classifiers_multilabel_output_format_decision_function": NO_MULTILABEL,
    "check_classifiers_multilabel_output_format_predict": NO_MULTILABEL,
    "check_classifiers_multilabel_output_format_predict_proba": NO_MULTILABEL,
    "check_classifiers_multilabel_representation_invariance": NO_MULTILABEL,
    "check_classifiers_one_label_sample_weights": NO_WEIGHTS,
    "check_clusterer_compute_labels_predict": NO_CLUSTERS,
    "check_clustering": NO_CLUSTERS,
    "check_decision_proba_consistency": "TextClassifier has no decision_function: its scores are probabilities",
    "check_estimator": "it runs the other checks",
    "check_estimator_sparse_array": NO_SPARSE,
    "check_estimator_sparse_matrix": NO_SPARSE,
    "check_estimators_partial_fit_n_features": "no estimator here has partial_fit",
    "check_fit_non_negative": "for estimators that need positive numbers in X",
    "check_non_transformer_estimators_n_iter": "no estimator here has max_iter",
    "check_nonsquare_error": "for estimators whose X is a matrix of distances",
    "check_outlier_contamination": NO_OUTLIERS,
    "check_outlier_corruption": NO_OUTLIERS,
    "check_outliers_fit_predict": NO_OUTLIERS,
    "check_outliers_train": NO_OUTLIERS,
    "check_positive_only_tag_during_fit": "X has texts, which have no sign",
    "check_regressor_multioutput": "TextRegressor has one number per text; check_supervised_y_2d covers the refusal",
    "check_sample_weight_equivalence_on_dense_data": NO_WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": NO_WEIGHTS,
    "check_sample_weights_list": NO_WEIGHTS,
    "check_sample_weights_not_an_array": NO_WEIGHTS,
    "check_sample_weights_not_overwritten": NO_WEIGHTS,
    "check_sample_weights_pandas_series": NO_WEIGHTS,
    "check_sample_weights_shape": NO_WEIGHTS,
    "check_sparsify_coefficients": "for linear models with the method sparsify",
    "check_transformer_n_iter": "no estimator here has max_iter",
    "check_transformers_unfitted_stateless": "TextEmbedder has a state, its base, also where fit only loads it",
}
