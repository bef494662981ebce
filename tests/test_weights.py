"""The common size of weights does not matter to fit; in a stream a weight of two is a row twice."""

import warnings

import numpy as np
import pytest
from helpers import DTYPES, rtol

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._base import _n_rows
from sktagi._input import scaled_weight
from sktagi.metrics import gaussian_crps, gaussian_log_likelihood, interval_coverage

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


SMALL = {"batch_size": 1000, "shuffle": False, "n_members": 2, "max_iter": 6, "random_state": 0}


def with_counts(n, seed, most):
    X, y = make_data(n, seed)
    counts = np.random.default_rng(seed).integers(1, most + 1, size=n)
    counts[0] = 1
    copies = np.repeat(np.arange(n), counts)
    return X, y, counts, copies


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("sizes", ["auto", (5,)])
@pytest.mark.parametrize(("n", "most"), [(20, 2), (60, 3), (110, 2), (110, 5), (150, 2)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_of_weight_two_is_the_row_twice_also_where_rows_are_held_out(
    estimator, sizes, n, most, seed
):
    """In one batch; the noise network learns each distinct row once, too."""
    X, y, counts, copies = with_counts(n, seed, most)
    y = y if estimator is TAGIRegressor else np.digitize(y, [-1, 1])
    weighted = estimator(sizes, **SMALL).fit(X, y, sample_weight=counts)
    repeated = estimator(sizes, **SMALL).fit(X[copies], y[copies])
    np.testing.assert_allclose(weighted.sigma_v_, repeated.sigma_v_, rtol=1e-6)
    spread = "predict" if estimator is TAGIRegressor else "predict_proba"
    found = getattr(weighted, spread)(X, return_std=True)
    expected = getattr(repeated, spread)(X, return_std=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("skewed", [lambda y: y, lambda y: np.exp(0.3 * y), lambda y: -np.exp(y)])
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_powers_of_targets_are_found_with_weights(skewed, learn):
    """Those of scikit-learn for copies of the rows."""
    X, y, counts, copies = with_counts(110, 0, 3)
    y = np.column_stack([skewed(y), y])
    y[5:40:3, 1] = np.nan  # not observed
    params = {**SMALL, "hidden_layer_sizes": (5,), "target_transform": "power"}
    weighted, repeated = TAGIRegressor(**params), TAGIRegressor(**params)
    getattr(weighted, learn)(X, y, sample_weight=counts)
    getattr(repeated, learn)(X[copies], y[copies])
    mine, theirs = (m.target_transformer_[1].lambdas_ for m in (weighted, repeated))
    np.testing.assert_allclose(mine, theirs, atol=1e-6)
    found, expected = (m.predict(X, return_std=True) for m in (weighted, repeated))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e-150, 1e-40, 1e40, 1e150])
def test_powers_of_targets_with_weights_of_any_size_are_sound(size):
    X, y = make_data(60)
    for weight in absurd_weights(size):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            model = quick(target_transform="power").fit(X, y, sample_weight=weight)
            mean, std = model.predict(X, return_std=True)
        assert np.isfinite(mean).all()
        assert (std > 0).all()
        assert np.isfinite(std).all()


def rows_of(model, X, y, weight=None):
    return model._validate_rows(X, y, weight, None, None, first=True)


@pytest.mark.parametrize("most", [2, 3, 5])
def test_members_kinds_and_precision_depend_on_copies_as_on_weights(most):
    """At all numbers of rows at which something changes."""
    for n in (190, 200, 340, 500):
        X, y, counts, copies = with_counts(n, 0, most)
        params = {"max_iter": 1, "random_state": 0}
        weighted = TAGIRegressor(**params).fit(X, y, sample_weight=counts)
        repeated = TAGIRegressor(**params).fit(X[copies], y[copies])
        assert weighted._n_members == repeated._n_members
        once, twice = rows_of(weighted, X, y, counts), rows_of(repeated, X[copies], y[copies])
        assert _n_rows(once, once.weight) == _n_rows(twice, twice.weight)


ABSURD = [1e-320, 1e-300, 1e-150, 1e-60, 1e-40, 1e40, 1e60, 1e150, 1e300]


def absurd_weights(size):
    spread = size ** np.random.default_rng(0).uniform(size=60)
    one, others = np.ones(60), np.full(60, size)
    one[3], others[3] = size, 1
    return [np.full(60, size), one, others, spread, np.where(np.arange(60) % 2, size, 1 / size)]


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("size", [a for a in ABSURD if a != 1e-320])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["fit", "auto", "full", "stream", "fit and stream"])
def test_weights_of_any_size_give_sound_numbers_without_a_warning(estimator, size, dtype, way):
    X, y = make_data(60)
    X = X[:, :3].astype(dtype)
    y = y if estimator is TAGIRegressor else y > 0
    first = {} if estimator is TAGIRegressor else {"classes": [False, True]}
    params = {"hidden_layer_sizes": "auto" if way == "auto" else (4,), "max_iter": 2}
    params["covariance_type"] = "full" if way == "full" else "diag"
    for weight in absurd_weights(size):
        model = quick(estimator, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if way == "stream":
                model.partial_fit(X, y, sample_weight=weight, **first)
            else:
                model.fit(X, y, sample_weight=None if way == "fit and stream" else weight)
            if "stream" in way:
                model.partial_fit(X, y, sample_weight=weight)
            spread = "predict" if estimator is TAGIRegressor else "predict_proba"
            mean, std = getattr(model, spread)(X, return_std=True)
            scores = model.score(X, y, weight), model.log_likelihood(X, y, weight)
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
        assert (std >= 0).all() if first else (std > 0).all()  # a probability may be exactly 0
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("metric", [gaussian_log_likelihood, gaussian_crps, interval_coverage])
@pytest.mark.parametrize("size", ABSURD)
def test_the_common_size_of_weights_does_not_matter_to_scores(metric, size):
    rng = np.random.default_rng(0)
    y, mean, std, weight = rng.normal(size=(4, 30)) ** 2 + 1
    expected = metric(y, mean, std, sample_weight=np.ones(30) if size < 1e-300 else weight)
    found = metric(y, mean, std, sample_weight=size * (np.ones(30) if size < 1e-300 else weight))
    assert found == pytest.approx(expected, rel=1e-9)
