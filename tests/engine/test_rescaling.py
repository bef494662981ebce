"""A change of units changes what the numbers are called, not what was learnt."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import LINEARISED, random_layers, rtol, with_ones

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._scaling import Moments
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.full import full_prior
from sktagi.engine.learning import Network, predict_moments
from sktagi.engine.network import forward
from sktagi.engine.noise import GaussianOutputs
from sktagi.engine.units import Change, rescale_inputs, rescale_outputs


def moments_of(values, start=None):
    start = Moments.empty(values.shape[1]) if start is None else start
    return start.updated(values, np.ones(len(values)), "X")


def outputs(layers, x, activation="relu"):
    return forward(layers, ACTIVATIONS[activation], with_ones(x, layers[0].mu.dtype))[:2]


@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
def test_mean_function_is_the_same_in_new_units(activation, dtype, hidden):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    layers = random_layers((3, *hidden, 2), members=2, dtype=dtype)
    before, _ = outputs(layers, x, activation)
    into = Change(np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0]))
    out = Change(np.array([3.0, 0.25]), np.array([0.0, 0.7]))
    rescale_inputs(layers[0], into)
    rescale_outputs(layers[-1], out)
    after, _ = outputs(layers, (x - into.shift) / into.ratio, activation)
    np.testing.assert_allclose(
        after * out.ratio + out.shift, before, rtol=rtol(dtype), atol=rtol(dtype)
    )


def test_there_and_back_restores_means_and_weight_variances():
    layers = random_layers((3, 2), members=2)
    layers[0].var[...] = np.minimum(layers[0].var, 0.9 * layers[0].var_prior)
    mu, var = layers[0].mu.copy(), layers[0].var.copy()
    ratio, shift = np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0])
    rescale_inputs(layers[0], Change(ratio, shift))
    rescale_inputs(layers[0], Change(1 / ratio, -shift / ratio))
    np.testing.assert_allclose(layers[0].mu, mu, rtol=1e-12)
    np.testing.assert_allclose(layers[0].var[:, :-1], var[:, :-1], rtol=1e-12)


def test_weights_without_evidence_keep_the_prior_variance():
    (layer,) = random_layers((3, 2), members=1)
    layer.var[...] = layer.var_prior
    rescale_inputs(layer, Change(np.array([1e3, 1e-3, 1.0]), np.zeros(3)))
    np.testing.assert_allclose(layer.var, np.broadcast_to(layer.var_prior, layer.var.shape))


def test_much_evidence_scales_the_variance_with_the_weight():
    (layer,) = random_layers((3, 2), members=1)
    layer.var[...] = 1e-9
    rescale_inputs(layer, Change(np.array([2.0, 0.5, 1.0]), np.zeros(3)))
    expected = np.broadcast_to([[4e-9], [0.25e-9], [1e-9]], layer.var[0, :-1].shape)
    np.testing.assert_allclose(layer.var[0, :-1], expected, rtol=1e-6)


def test_change_of_statistics_is_a_change_of_units():
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(50, 3)), 1 + 2 * rng.normal(size=(30, 3))
    old = moments_of(X)
    new = moments_of(more, old)
    change = old.change_to(new)
    np.testing.assert_allclose(
        new.standardise(X, float) * change.ratio + change.shift, old.standardise(X, float)
    )
    assert old.change_to(old).is_none


def test_guesses_and_outgrown_units_change_no_weights():
    rng = np.random.default_rng(0)
    few = moments_of(rng.normal(size=(9, 1)))
    assert few.change_to(moments_of(rng.normal(size=(1, 1)), few)).is_none
    constant = moments_of(np.full((100, 1), 3.0))
    varies = moments_of(rng.normal(size=(50, 1)), constant)
    assert constant.change_to(varies).is_none
    assert not varies.change_to(moments_of(rng.normal(size=(50, 1)), varies)).is_none
    noise = moments_of(1e-6 * rng.normal(size=(100, 1)))
    assert noise.change_to(moments_of(rng.normal(size=(1, 1)), noise)).is_none


def predictions(model, X):
    if isinstance(model, TAGIClassifier):
        return model.predict_log_proba(X)
    return model.predict(X)


def make_stream(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = 100 + 20 * rng.normal(size=(n, 3))
    return X, (X[:, 0] + X[:, 1] ** 2 / 100 > 200).astype(float)


@pytest.mark.parametrize("shift", [0, 30])
@pytest.mark.parametrize("size", [1, 40])
def test_no_jump_when_the_statistics_change(shift, size):
    X, y = make_stream()
    y = 1e3 * y + X[:, 2]
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=2, random_state=0)
    model.partial_fit(X[:200], y[:200])
    before, std_before = model.predict(X, return_std=True)
    # A tiny weight in the update itself: only the statistics change, and they change much.
    model._x_moments = replace(model._x_moments, weight=1e-9 * 200)
    model._x_moments = replace(model._x_moments, deviation=model._x_moments.deviation * 1e-9)
    model._y_moments = replace(model._y_moments, weight=1e-9 * 200)
    model._y_moments = replace(model._y_moments, deviation=model._y_moments.deviation * 1e-9)
    model.partial_fit(
        1.5 * X[:size] + shift, 2 * y[:size] + shift, sample_weight=np.full(size, 1e-9)
    )
    after, std_after = model.predict(X, return_std=True)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-4 * y.std())
    ratio = std_after / std_before
    assert ratio.max() < 1.5
    assert ratio.min() > 1 / 1.5


def test_a_wider_range_does_not_wipe_out_what_was_learnt():
    X, y = make_stream(2000)
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=2, random_state=0)
    for start in range(0, 2000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    error = np.mean((model.predict(X) - y) ** 2)
    far = X[:1] + 2000  # one row at a hundred spreads
    model.partial_fit(far, [1.0], sample_weight=[1e-3])
    moved = model._x_moments.scale
    model.partial_fit(far, [1.0])
    assert (model._x_moments.scale > 1.5 * moved).all()
    assert np.mean((model.predict(X) - y) ** 2) < 1.5 * error


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("first", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stream_may_start_with_equal_rows(estimator, first, dtype):
    X, y = make_stream()
    X = X.astype(dtype)
    model = estimator(hidden_layer_sizes=(10,), n_members=1, random_state=0)
    known = {"classes": [0.0, 1.0]} if estimator is TAGIClassifier else {}
    for row in [0] * first + list(range(100)):
        model.partial_fit(X[row : row + 1], y[row : row + 1], **known)
        assert np.isfinite(predictions(model, X)).all()
    assert model.score(X[100:], y[100:]) > {TAGIRegressor: 0.2, TAGIClassifier: 0.75}[estimator]


def test_a_column_that_wakes_up_late_is_learnt():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    X[:200, 1] = 7.0
    X[:100, 0] *= 1e-6  # and one that outgrows its spread
    y = X[:, 0] + 2 * (X[:, 1] - 7) * (np.arange(1000) >= 200) + 0.1 * rng.normal(size=1000)
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=1, random_state=0)
    for start in range(0, 900, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
    assert model.score(X[900:], y[900:]) > 0.8


def test_warm_fit_on_other_rows_keeps_the_function():
    X, y = make_stream()
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=2, warm_start=True, random_state=0)
    model.fit(X, y)
    before = model.predict(X)
    model.set_params(max_iter=0).fit(2 * X + 50, 3 * y + 7)
    np.testing.assert_allclose(model.predict(X), before, atol=1e-9)
    assert model._x_moments.mean[0] > 200


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_full_covariances_say_the_same_in_new_units(hidden):
    """Mean and variance: with full covariances the change of units is exact."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 3))
    layers = full_prior(random_layers((3, *hidden, 2), members=2))
    for layer in layers:
        root = rng.normal(size=layer.cov.shape) / layer.cov.shape[-1]
        layer.cov[...] += root @ root.swapaxes(-1, -2)
    net = Network(layers, ACTIVATIONS["tanh"], GaussianOutputs(2), np.ones((2, 1, 2)))
    mean, var = predict_moments(net, with_ones(x))
    into = Change(np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0]))
    out = Change(np.array([3.0, 0.25]), np.array([0.0, 0.7]))
    rescale_inputs(layers[0], into)
    rescale_outputs(layers[-1], out)
    new_mean, new_var = predict_moments(net, with_ones((x - into.shift) / into.ratio))
    np.testing.assert_allclose(new_mean * out.ratio + out.shift, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(new_var * np.square(out.ratio), var, rtol=1e-9)
    assert all(np.linalg.eigvalsh(layer.cov).min() > 0 for layer in layers)
