"""Both estimators behave as estimators of scikit-learn do."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktagi import TAGIClassifier, TAGIRegressor

ESTIMATORS = [TAGIRegressor, TAGIClassifier]


SMALL_AND_FULL = {
    "hidden_layer_sizes": (6,), "covariance_type": "full", "n_members": 2, "max_iter": 12,
    "batch_size": 64,
}  # fmt: skip


@parametrize_with_checks(
    [
        TAGIRegressor(),
        TAGIClassifier(),
        TAGIRegressor(**SMALL_AND_FULL),
        TAGIClassifier(**SMALL_AND_FULL),
    ],
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


def data(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def small(estimator, **params):
    defaults = {"hidden_layer_sizes": (8,), "max_iter": 3, "n_members": 2, "random_state": 0}
    return estimator(**{**defaults, **params})


def predictions(model, X):
    if is_classifier(model):
        return model.predict_proba(X, return_std=True)
    return model.predict(X, return_std=True)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_clone_has_the_parameters_and_nothing_fitted(estimator):
    model = small(estimator, sigma_v=0.3, half_life=77.0)
    copied = clone(model.fit(*data()))
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "coefs_")
    assert not hasattr(copied, "n_features_in_")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_get_params_round_trip(estimator):
    changed = {
        "hidden_layer_sizes": (3, 4), "activation": "tanh", "sigma_v": 0.2, "batch_size": 7,
        "batch_inference": "independent", "covariance_type": "full", "max_iter": 2,
        "half_life": None, "categorical_features": [0],
        "early_stopping": False, "validation_fraction": 0.3, "n_iter_no_change": 4, "tol": 0.0,
        "cv": 3,
        "n_members": 3, "n_jobs": 2, "standardize": False, "weight_gain": 0.5, "bias_variance": 0.2,
        "shuffle": False, "random_state": 5, "warm_start": True, "verbose": 1,
    }  # fmt: skip
    if estimator is TAGIClassifier:
        changed |= {"probit_scale": 0.7, "class_coding": "tree", "class_weight": "balanced"}
    else:
        changed["target_transform"] = "log"
    assert set(changed) == set(estimator().get_params())
    assert estimator(**changed).get_params() == changed
    assert estimator().set_params(**changed).get_params() == changed
    assert all(estimator().get_params()[name] != value for name, value in changed.items())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_only_hidden_layer_sizes_and_activation_are_positional(estimator):
    assert estimator((3,), "tanh").get_params()["activation"] == "tanh"
    with pytest.raises(TypeError):
        estimator((3,), "tanh", 0.1)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy])
def test_copies_of_a_fitted_model_predict_the_same_bits(estimator, how):
    X, y = data()
    model = small(estimator).fit(X, y)
    for mine, theirs in zip(predictions(model, X), predictions(how(model), X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pickled_model_goes_on_learning_as_the_original_does(estimator):
    X, y = data()
    model = small(estimator).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    more = data(seed=1)
    model.partial_fit(*more)
    restored.partial_fit(*more)
    for mine, theirs in zip(predictions(model, X), predictions(restored, X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_shallow_copy_that_learns_leaves_the_original_alone(estimator):
    X, y = data()
    model = small(estimator).fit(X, y)
    before = predictions(model, X)
    copy.copy(model).partial_fit(*data(seed=1))
    for mine, theirs in zip(before, predictions(model, X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_predicting_changes_nothing(estimator):
    X, y = data()
    model = small(estimator).fit(X, y)
    before = pickle.dumps(model)
    predictions(model, X)
    model.predict(X)
    model.log_likelihood(X, y)
    model.score(X, y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fit_leaves_parameters_and_arrays_as_they_were(estimator):
    X, y = data()
    weight, X_std = np.full(len(X), 2.0), np.full(X.shape, 0.1)
    given = [a.copy() for a in (X, y, weight, X_std)]
    model = estimator(max_iter=2, n_members=2, hidden_layer_sizes=[4])
    params = copy.deepcopy(model.get_params())
    model.fit(X, y, sample_weight=weight, X_std=X_std)
    model.partial_fit(X, y, sample_weight=weight, X_std=X_std)
    assert model.get_params() == params
    for before, after in zip(given, (X, y, weight, X_std), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_html_repr_names_the_estimator(estimator):
    html = estimator(sigma_v=0.123)._repr_html_()
    assert estimator.__name__ in html
    assert "0.123" in html
    assert estimator.__name__ in small(estimator).fit(*data())._repr_html_()


def test_tags_name_the_kind_of_estimator():
    assert is_regressor(TAGIRegressor())
    assert is_classifier(TAGIClassifier())
    assert TAGIRegressor().__sklearn_tags__().target_tags.multi_output
    assert TAGIRegressor().__sklearn_tags__().input_tags.sparse


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equal_random_state_gives_equal_bits_and_another_one_does_not(estimator):
    X, y = load_iris(return_X_y=True)
    one, same, other = (small(estimator, random_state=s).fit(X, y) for s in (3, 3, 4))
    np.testing.assert_array_equal(predictions(one, X)[0], predictions(same, X)[0])
    assert (predictions(one, X)[0] != predictions(other, X)[0]).any()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_refitting_forgets_the_previous_fit(estimator):
    X, y = data()
    once = small(estimator).fit(X, y)
    twice = small(estimator).fit(X[:, :2] * 50, y).partial_fit(X[:, :2], y).fit(X, y)
    np.testing.assert_array_equal(predictions(once, X)[1], predictions(twice, X)[1])
    assert twice.n_features_in_ == 3
    assert twice.n_samples_seen_ == len(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fitted_attributes_of_the_contract_exist_after_fit_and_partial_fit(estimator):
    X, y = data()
    names = [
        "coefs_", "intercepts_", "coef_vars_", "intercept_vars_", "sigma_v_", "n_iter_",
        "best_iter_", "train_scores_", "validation_scores_", "n_features_in_", "n_outputs_",
        "n_samples_seen_",
    ]  # fmt: skip
    first = {"classes": [0, 1]} if estimator is TAGIClassifier else {}
    for model in (small(estimator).fit(X, y), small(estimator).partial_fit(X, y, **first)):
        assert [name for name in names if not hasattr(model, name)] == []
    assert not any(hasattr(small(estimator), name) for name in names)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_members", [1, 3])
def test_shapes_of_the_fitted_parameters_are_those_of_mlp(estimator, n_members):
    X, y = data()
    model = small(estimator, hidden_layer_sizes=(5, 4), n_members=n_members).fit(X, y)
    lead = () if n_members == 1 else (n_members,)
    shapes = [(3, 5), (5, 4), (4, 1)]
    assert [a.shape for a in model.coefs_] == [lead + s for s in shapes]
    assert [a.shape for a in model.coef_vars_] == [lead + s for s in shapes]
    assert [a.shape for a in model.intercepts_] == [lead + s[1:] for s in shapes]
    assert [a.shape for a in model.intercept_vars_] == [lead + s[1:] for s in shapes]
