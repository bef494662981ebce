"""The common size of weights does not matter to fit; in a stream a weight of two is a row twice."""

import numpy as np
import pytest
from helpers import DTYPES, rtol

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._input import scaled_weight

SIZES = [100.0, 1e-3, 1e150, 1e-150]
COEF = [1.0, 2.0, -1.0, 0.5, 0.0]


def make_data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X @ COEF + 0.1 * rng.normal(size=n)


def quick(estimator=TAGIRegressor, **params):
    defaults = {"hidden_layer_sizes": (8,), "n_members": 2, "max_iter": 8, "random_state": 0}
    return estimator(**{**defaults, **params})


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([1, 1, 1], [1, 1, 1]),
        ([7, 7], [1, 1]),
        ([1e-320, 1e-320], [1, 1]),
        ([1e308, 1e308], [1, 1]),
        ([1, 2, 3, 1], [1, 2, 3, 1]),  # counts
        ([0, 1, 2], [0, 1, 2]),
        ([10, 20, 0, 40], [1, 2, 0, 4]),
        ([0.5, 2, 1], [0.5, 2, 1]),  # their mean is above 1, their smallest below
        ([0.1, 0.2, 0.3], [0.5, 1, 1.5]),
        ([0.1, 0, 0.3], [0.5, 0, 1.5]),
        ([1e-3, 1], [1e-3 / 0.5005, 1 / 0.5005]),
    ],
)
def test_weights_are_divided_by_the_smallest_above_one_or_by_a_mean_below_one(weight, expected):
    np.testing.assert_allclose(scaled_weight(np.array(weight, float)), expected, rtol=1e-3)


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("early_stopping", [True, False])
def test_equal_weights_of_any_size_are_no_weights(estimator, size, dtype, early_stopping):
    X, y = make_data(100)
    X, y = X.astype(dtype), y if estimator is TAGIRegressor else y > 0
    model = quick(estimator, early_stopping=early_stopping).fit(X, y)
    weighted = quick(estimator, early_stopping=early_stopping).fit(X, y, np.full(100, size))
    for mine, theirs in zip(weighted.coefs_, model.coefs_, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol(dtype), atol=rtol(dtype))
    np.testing.assert_allclose(weighted.sigma_v_, model.sigma_v_, rtol=rtol(dtype))


@pytest.mark.parametrize("size", [100.0, 1e150])
@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_times_a_number_are_the_counts(size, dtype):
    X, y = make_data(100)
    X = X.astype(dtype)
    counts = np.random.default_rng(1).integers(1, 5, size=100)
    mean, std = quick().fit(X, y, counts).predict(X, return_std=True)
    other, other_std = quick().fit(X, y, counts * size).predict(X, return_std=True)
    np.testing.assert_allclose(other, mean, rtol=rtol(dtype, 100), atol=rtol(dtype, 100))
    np.testing.assert_allclose(other_std, std, rtol=rtol(dtype, 100))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_weights_of_any_size_fit_equally_well(size, dtype):
    """Error and std of weights that vary are nearly those of the weights times a number."""
    X, y = make_data()
    X_new, y_new = make_data(1000, seed=1)
    weight = np.random.default_rng(2).uniform(0.5, 2, size=len(y))
    found = []
    for factor in (1.0, size):
        model = TAGIRegressor(random_state=0).fit(X.astype(dtype), y, sample_weight=weight * factor)
        mean, std = model.predict(X_new, return_std=True)
        found.append((np.sqrt(np.mean((y_new - mean) ** 2)), std.mean()))
    np.testing.assert_allclose(found[1], found[0], rtol=0.1)
    assert found[1][0] < 0.13  # the noise is 0.1


def test_weights_that_add_up_to_one_learn_as_well_as_none():
    X, y = make_data()
    X_new, y_new = make_data(1000, seed=1)
    weight = np.random.default_rng(2).pareto(1.5, size=len(y)) + 0.1  # some are far above the mean
    model = TAGIRegressor(random_state=0).fit(X, y, sample_weight=weight / weight.sum())
    assert np.sqrt(np.mean((y_new - model.predict(X_new)) ** 2)) < 0.15


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_a_stream_takes_weights_as_they_are(estimator):
    X, y = make_data(20)
    classes = {}
    if estimator is TAGIClassifier:
        y, classes = y > 0, {"classes": [False, True]}
    params = {"batch_size": 100, "standardize": False}
    weighted = quick(estimator, **params).partial_fit(X, y, sample_weight=3, **classes)
    copies = quick(estimator, **params).partial_fit(
        np.repeat(X, 3, axis=0), np.repeat(y, 3), **classes
    )
    np.testing.assert_allclose(weighted.coef_vars_[0], copies.coef_vars_[0], rtol=1e-8)
    plain = quick(estimator, **params).partial_fit(X, y, **classes)
    assert (weighted.coef_vars_[0] != plain.coef_vars_[0]).any()
