"""A change of units changes what the numbers are called, not what was learned."""

import numpy as np
import pytest
from helpers import LINEARISED, columns, random_layers, rtol, with_ones

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.observations import Gaussian
from sktagi.engine.passes import forward
from sktagi.engine.posterior import Network, full_prior
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rescaling import Change


def outputs(layers, x, activation="relu"):
    """Means and variances, (members, rows, outputs)."""
    x = with_ones(x, layers[0].mu.dtype)
    return [columns(m) for m in forward(layers, ACTIVATIONS[activation], x.T)[:2]]


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
    layers[0].rescale_inputs(into)
    layers[-1].rescale_outputs(out)
    after, _ = outputs(layers, (x - into.shift) / into.ratio, activation)
    np.testing.assert_allclose(
        after * out.ratio + out.shift, before, rtol=rtol(dtype), atol=rtol(dtype)
    )


def test_there_and_back_restores_means_and_weight_variances():
    layers = random_layers((3, 2), members=2)
    layers[0].var[...] = np.minimum(layers[0].var, 0.9 * layers[0].var_prior)
    mu, var = layers[0].mu.copy(), layers[0].var.copy()
    ratio, shift = np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0])
    layers[0].rescale_inputs(Change(ratio, shift))
    layers[0].rescale_inputs(Change(1 / ratio, -shift / ratio))
    np.testing.assert_allclose(layers[0].mu, mu, rtol=1e-12)
    np.testing.assert_allclose(layers[0].var[:, :-1], var[:, :-1], rtol=1e-12)


def test_weights_without_evidence_keep_the_prior_variance():
    (layer,) = random_layers((3, 2), members=1)
    layer.var[...] = layer.var_prior
    layer.rescale_inputs(Change(np.array([1e3, 1e-3, 1.0]), np.zeros(3)))
    np.testing.assert_allclose(layer.var, np.broadcast_to(layer.var_prior, layer.var.shape))


def test_much_evidence_scales_the_variance_with_the_weight():
    (layer,) = random_layers((3, 2), members=1)
    layer.var[...] = 1e-9
    layer.rescale_inputs(Change(np.array([2.0, 0.5, 1.0]), np.zeros(3)))
    expected = np.broadcast_to([[4e-9], [0.25e-9], [1e-9]], layer.var[0, :-1].shape)
    np.testing.assert_allclose(layer.var[0, :-1], expected, rtol=1e-6)


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_full_covariances_say_the_same_in_new_units(hidden):
    """Mean and variance: with full covariances the change of units is exact."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 3))
    layers = full_prior(random_layers((3, *hidden, 2), members=2))
    for layer in layers:
        root = rng.normal(size=layer.cov.shape) / layer.cov.shape[-1]
        layer.cov[...] += root @ root.swapaxes(-1, -2)
    net = Network(layers, ACTIVATIONS["tanh"], Gaussian(2), np.ones((2, 2, 1)))
    mean, var = map(columns, predict_moments(net, with_ones(x)))
    into = Change(np.array([2.0, 0.5, 1.0]), np.array([0.3, -1.0, 0.0]))
    out = Change(np.array([3.0, 0.25]), np.array([0.0, 0.7]))
    layers[0].rescale_inputs(into)
    layers[-1].rescale_outputs(out)
    x = (x - into.shift) / into.ratio
    new_mean, new_var = map(columns, predict_moments(net, with_ones(x)))
    np.testing.assert_allclose(new_mean * out.ratio + out.shift, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(new_var * np.square(out.ratio), var, rtol=1e-9)
    assert all(np.linalg.eigvalsh(layer.cov).min() > 0 for layer in layers)
