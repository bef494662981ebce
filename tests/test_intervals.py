"""Quantiles and intervals follow the shape of held-out errors."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIRegressor
from sktagi.engine.shape import gaussian_shape
from sktagi.merging import merge
from sktagi.plotting import PredictionIntervalDisplay

QUICK = {"max_iter": 10, "n_members": 3, "validation_fraction": 0.2, "random_state": 0}
QUANTILES = np.array([1e-30, 0.001, 0.05, 0.25, 0.4, 0.5, 0.6, 0.75, 0.95, 0.999, 1 - 1e-12])


def noisy_rows(n, noise="t", seed=0, targets=()):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    draw = {
        "t": lambda shape: 0.2 * rng.standard_t(3, size=shape),
        "normal": lambda shape: 0.3 * rng.normal(size=shape),
        "uniform": lambda shape: rng.uniform(-0.5, 0.5, size=shape),
    }
    noises = noise if targets else [noise]
    y = np.column_stack([X[:, 0] - X[:, 1] + draw[name](n) for name in noises])
    return X, y if targets else y[:, 0]


def shape_of(model):
    """Shares of errors below some numbers of standard deviations, (n_targets, n)."""
    shape = model._net.calibration.shape
    return shape.cdf(np.tile(np.linspace(-4, 4, 33), (shape.n_outputs, 1)))


GAUSSIAN = stats.norm.cdf(np.linspace(-4, 4, 33))


def inside(interval, y):
    return np.mean((interval[..., 0] <= y) & (y <= interval[..., 1]), axis=0)


def gaussian_share(model, X, y, coverage):
    mean, std = model.predict(X, return_std=True)
    return np.mean(np.abs(y - mean) <= stats.norm.ppf((1 + coverage) / 2) * std, axis=0)


@pytest.mark.parametrize("noise", ["t", "uniform"])
def test_intervals_of_errors_that_are_not_gaussian_cover_what_they_promise(noise):
    X, y = noisy_rows(1500, noise)
    X_new, y_new = noisy_rows(4000, noise, seed=1)
    model = TAGIRegressor((10,), **QUICK).fit(X, y)
    levels = [0.5, 0.8, 0.95]
    off = [inside(model.predict_interval(X_new, level), y_new) - level for level in levels]
    gaussian = [gaussian_share(model, X_new, y_new, level) - level for level in levels]
    assert np.abs(off).max() < 0.05
    assert np.abs(gaussian).max() > 0.07


def test_gaussian_errors_keep_gaussian_intervals():
    X, y = noisy_rows(1500, "normal")
    model = TAGIRegressor((10,), **QUICK).fit(X, y)
    np.testing.assert_allclose(shape_of(model)[0], GAUSSIAN, atol=0.03)


def test_each_target_has_its_own_shape():
    noises = ("t", "uniform")
    X, Y = noisy_rows(1500, noises, targets=(0, 1))
    X_new, Y_new = noisy_rows(4000, noises, seed=1, targets=(0, 1))
    model = TAGIRegressor((10,), **QUICK).fit(X, Y)
    assert model._net.calibration.shape.n_outputs == 2
    np.testing.assert_allclose(inside(model.predict_interval(X_new, 0.5), Y_new), 0.5, atol=0.08)
    heavy, light = gaussian_share(model, X_new, Y_new, 0.5)
    assert heavy > 0.57
    assert light < 0.45


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantiles_are_ordered_and_of_the_type_of_the_rows(dtype):
    X, y = noisy_rows(300)
    model = TAGIRegressor((5,), **QUICK).fit(X.astype(dtype), y)
    found = model.predict_quantiles(X.astype(dtype), QUANTILES)
    assert found.dtype == dtype
    assert np.isfinite(found).all()
    assert (np.diff(found, axis=1) > 0).all()
    mean, std = model.predict(X.astype(dtype), return_std=True)
    z = (found.astype(float) - mean[:, None]) / std[:, None]  # one shape for all rows
    np.testing.assert_allclose(z, np.tile(z[:1], (len(X), 1)), rtol=1e-3, atol=1e-3)
    shape = model._net.calibration.shape
    np.testing.assert_allclose(shape.cdf(z[:1, 1:-1])[0], QUANTILES[1:-1], rtol=1e-2)


def test_the_standard_deviation_does_not_know_the_shape_and_all_else_does():
    X, y = noisy_rows(300)
    model = TAGIRegressor((5,), **QUICK).fit(X, y)
    std, interval = model.predict(X, return_std=True)[1], model.predict_interval(X)
    log_lik, samples = model.log_likelihood(X, y), model.sample_y(X)
    model._net.calibration = model._net.calibration._replace(shape=gaussian_shape(1))
    np.testing.assert_array_equal(model.predict(X, return_std=True)[1], std)
    assert (model.sample_y(X) != samples).any()
    assert model.log_likelihood(X, y) < log_lik - 0.01
    assert (model.predict_interval(X) != interval).all()


@pytest.mark.parametrize("params", [{"early_stopping": False}, {"max_iter": 0}])
def test_without_held_out_rows_the_shape_is_gaussian(params):
    X, y = noisy_rows(300)
    model = TAGIRegressor((5,), **{**QUICK, **params}).fit(X, y)
    assert model._net.calibration is None
    mean, std = model.predict(X, return_std=True)
    expected = stats.norm.ppf([0.1, 0.7], mean[:, None], std[:, None])
    np.testing.assert_allclose(model.predict_quantiles(X, [0.1, 0.7]), expected, rtol=1e-9)


def test_the_shape_of_few_held_out_rows_is_nearly_gaussian():
    X, y = noisy_rows(300)
    model = TAGIRegressor((5,), **{**QUICK, "validation_fraction": 0.01}).fit(X, y)
    np.testing.assert_allclose(shape_of(model)[0], GAUSSIAN, atol=0.02)
    many = TAGIRegressor((5,), **QUICK).fit(X, y)
    assert np.abs(shape_of(many)[0] - GAUSSIAN).max() > 0.03


def test_the_shape_is_kept_in_streams_and_files_and_learned_anew_by_fit():
    X, y = noisy_rows(300)
    model = TAGIRegressor((5,), warm_start=True, **QUICK).fit(X, y)
    shape = shape_of(model)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
    streamed = loaded.partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(shape_of(streamed), shape)
    assert TAGIRegressor((5,), **QUICK).partial_fit(X, y)._net.calibration is None
    np.testing.assert_array_equal(shape_of(clone(model).fit(X, y)), shape)
    np.testing.assert_array_equal(shape_of(model.set_params(max_iter=0).fit(X, y)), shape)
    model.set_params(max_iter=2, early_stopping=False).fit(X, y)
    assert model._net.calibration is None


def test_merged_shapes_meet_in_the_middle():
    X, y = noisy_rows(300)
    params = {**QUICK, "standardize": False, "max_iter": 2}
    shards = [TAGIRegressor((5,), **params).fit(X[k::2], y[k::2]) for k in range(2)]
    first, second = map(shape_of, shards)
    np.testing.assert_allclose(shape_of(merge(shards)), (first + second) / 2, atol=2e-3)
    shards[1]._net.calibration = None
    np.testing.assert_allclose(shape_of(merge(shards)), (first + GAUSSIAN) / 2, atol=2e-3)
    shards[0]._net.calibration = None
    assert merge(shards)._net.calibration is None


@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_band_of_a_pipeline_is_that_of_its_last_step(n_targets):
    pytest.importorskip("matplotlib")
    X, y = noisy_rows(200)
    Y = np.column_stack([y, -2 * y])[:, :n_targets]
    pipeline = make_pipeline(StandardScaler(), TAGIRegressor((5,), **QUICK)).fit(X, Y)
    target = n_targets - 1
    display = PredictionIntervalDisplay.from_estimator(pipeline, X, Y, coverage=0.6, target=target)
    expected = pipeline[-1].predict_interval(pipeline[0].transform(X), 0.6)
    expected = expected.reshape(len(X), n_targets, 2)[:, target]
    order = np.argsort(pipeline.predict(X).reshape(len(X), -1)[:, target], kind="stable")
    np.testing.assert_allclose(display.interval, expected[order])
    alone = make_pipeline(pipeline[-1])
    shown = PredictionIntervalDisplay.from_estimator(alone, X, coverage=0.6, target=target)
    assert shown.interval is not None
    with pytest.raises(ValueError, match="target must be"):
        PredictionIntervalDisplay.from_estimator(pipeline, X, target=n_targets)
    shown.coverage = 0.5
    with pytest.raises(ValueError, match=r"coverage is 0.5, but .* of coverage 0.6"):
        shown.plot()


def test_the_band_over_one_feature_is_that_of_the_model():
    pytest.importorskip("matplotlib")
    X, y = noisy_rows(200)
    model = TAGIRegressor((5,), **QUICK).fit(X[:, :1], y)
    display = PredictionIntervalDisplay.from_estimator(model, X[:, :1], coverage=0.5)
    np.testing.assert_allclose(display.interval, model.predict_interval(display.x[:, None], 0.5))


def test_intervals_of_others_are_not_asked_for():
    """Theirs may mean anything: here it would be an error."""
    pytest.importorskip("matplotlib")

    class Other(BayesianRidge):
        def predict_interval(self, X, coverage):
            raise AssertionError

    X, y = noisy_rows(50)
    other = Other().fit(X, y)
    display = PredictionIntervalDisplay.from_estimator(other, X, coverage=0.8)
    mean, std = other.predict(X, return_std=True)
    order = np.argsort(mean, kind="stable")
    expected = np.column_stack(stats.norm.interval(0.8, mean, std))[order]
    np.testing.assert_allclose(display.interval, expected)


def test_intervals_of_nearly_all_are_finite():
    X, y = noisy_rows(100)
    model = TAGIRegressor((5,), **QUICK).fit(X, y)
    for coverage in (1e-12, 1 - 1e-16):
        interval = model.predict_interval(X, coverage)
        assert np.isfinite(interval).all()
        assert (np.diff(interval) > 0).all()
    assert np.isfinite(model.predict_quantiles(X, [1e-320])).all()
