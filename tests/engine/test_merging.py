"""One posterior of several that started equal and learned different rows."""

import numpy as np
import pytest
from helpers import assert_same_posterior, make_network, make_rows

from sktagi.engine.learning import Settings
from sktagi.engine.merging import merge_networks
from sktagi.engine.noise_network import draw_noise_network
from sktagi.engine.posterior import Calibration
from sktagi.engine.shape import error_histogram, fit_shape, gaussian_shape

from .test_learning import learn

CUTS = [slice(0, 10), slice(10, 40), slice(40, 41)]


def shards(n_outputs=2, members=2, y=None):
    """A network, and copies of it that have learned 10, 30 and 1 rows."""
    start = make_network([3, 5, n_outputs], members=members, learn_noise=True)
    data = make_rows(41, 3, n_outputs)
    if y is not None:
        data = data._replace(y=y(data.y.copy()))
    learn(start, make_rows(20, 3, n_outputs, seed=1), [np.arange(20)] * members, Settings(5))
    nets = [start.copy() for _ in CUTS]
    for net, cut in zip(nets, CUTS, strict=True):
        learn(net, data, [np.arange(41)[cut]] * members, Settings(5))
    return start, nets


def test_means_are_weighted_by_precision_and_variances_are_the_harmonic_mean():
    start, nets = shards()
    merged = merge_networks(nets, start.rows_learned)
    for number, layer in enumerate(merged.layers):
        mu, var = (np.stack([getattr(n.layers[number], k) for n in nets]) for k in ("mu", "var"))
        np.testing.assert_allclose(layer.var, 3 / (1 / var).sum(axis=0), rtol=1e-12)
        expected = (mu / var).sum(axis=0) / (1 / var).sum(axis=0)
        np.testing.assert_allclose(layer.mu, expected, rtol=1e-12, atol=1e-14)


def test_equal_networks_make_the_same_and_none_is_changed():
    start, nets = shards()
    before = [net.copy() for net in nets]
    assert_same_posterior(merge_networks([nets[0]] * 3, start.rows_learned), nets[0], 1e-12)
    merged = merge_networks(nets, start.rows_learned)
    for layer in merged.layers:
        layer.mu[...] = layer.var[...] = 7.0
    merged.noise_var[...] = merged.rows_learned[...] = 7.0
    for net, same in zip(nets, before, strict=True):
        assert_same_posterior(net, same, 0)
        np.testing.assert_array_equal(net.rows_learned, same.rows_learned)


def test_noise_counts_with_the_rows_behind_it():
    start, nets = shards()
    merged = merge_networks(nets, start.rows_learned)
    noise = [net.noise_var for net in nets]
    expected = (10 * noise[0] + 30 * noise[1] + noise[2]) / 41
    np.testing.assert_allclose(merged.noise_var, expected, rtol=1e-12)
    np.testing.assert_array_equal(merged.rows_learned, start.rows_learned + 41)


def test_noise_of_each_target_counts_with_the_rows_that_observe_it():
    def without_some(y):
        y[:4, 0] = y[10:, 1] = np.nan
        return y

    start, nets = shards(y=without_some)
    merged = merge_networks(nets, start.rows_learned)
    noise = [net.noise_var[:, :, 0] for net in nets]
    first = (6 * noise[0] + 30 * noise[1] + noise[2])[:, 0] / 37
    np.testing.assert_allclose(merged.noise_var[:, 0, 0], first, rtol=1e-12)
    np.testing.assert_allclose(merged.noise_var[:, 1, 0], noise[0][:, 1], rtol=1e-12)
    learned = merged.rows_learned - start.rows_learned
    np.testing.assert_array_equal(learned[:, :, 0], [[37, 10]] * 2)


def test_noise_of_shards_that_learned_nothing_is_their_mean():
    nets = [make_network([3, 5, 1], sigma_v=s, learn_noise=True) for s in (1.0, 3.0)]
    merged = merge_networks(nets, nets[0].rows_learned)
    assert merged.noise_var.item() == pytest.approx(5)


def skewed_shape(seed=0):
    """Two targets, the first with skewed errors, the second with heavy tails."""
    rng = np.random.default_rng(seed)
    z = np.stack([rng.gamma(2, size=3000) - 2, rng.standard_t(3, size=3000)])
    return fit_shape(error_histogram(z, np.ones(3000)), np.full(2, 3000.0))


def test_calibrations_meet_in_the_middle():
    start, nets = shards()
    assert merge_networks(nets, start.rows_learned).calibration is None
    shape = skewed_shape()
    nets[0].calibration = Calibration(0.25, np.array([[4.0], [1.0]]), shape, 0.125)
    nets[1].calibration = Calibration(0.5, np.array([[2.0], [1.0]]), shape)
    found = merge_networks(nets, start.rows_learned).calibration  # one shard was not calibrated
    assert found.temperature == pytest.approx(0.5)
    assert found.spread == pytest.approx(0.5)  # of 1/8, 1 and 1
    np.testing.assert_allclose(found.noise_scale, [[2.0], [1.0]])
    gaussian = fit_shape(np.zeros((2, 400)), np.zeros(2))  # by the same components
    np.testing.assert_allclose(
        found.shape.weight, (2 * shape.weight + gaussian.weight) / 3, rtol=1e-12
    )
    z = np.tile(np.linspace(-9, 9, 50), (2, 1))
    expected = (2 * shape.cdf(z) + gaussian_shape(2).cdf(z)) / 3
    np.testing.assert_allclose(found.shape.cdf(z), expected, atol=0.02)  # but for its units


def test_shapes_that_are_equal_stay_as_they_are():
    start, nets = shards()
    shape = skewed_shape()
    for net in nets:
        net.calibration = Calibration(1.0, np.ones((2, 1)), shape)
    found = merge_networks(nets, start.rows_learned).calibration.shape
    for field, expected in zip(found, shape, strict=True):
        np.testing.assert_allclose(field, expected, rtol=1e-9, atol=1e-12)


def test_shapes_mix_to_mean_0_and_variance_1():
    start, nets = shards()
    for seed, net in enumerate(nets):
        net.calibration = Calibration(1.0, np.ones((2, 1)), skewed_shape(seed))
    weight, mu, sd = merge_networks(nets, start.rows_learned).calibration.shape
    np.testing.assert_allclose(weight.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose((weight * mu).sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose((weight * (mu**2 + sd**2)).sum(axis=1), 1, rtol=1e-12)


def test_shapes_that_are_all_gaussian_stay_one_gaussian():
    start, nets = shards()
    for net in nets:
        net.calibration = Calibration(1.0, np.ones((2, 1)), gaussian_shape(2))
    assert merge_networks(nets, start.rows_learned).calibration.shape.is_gaussian


def with_noise_networks(nets):
    rng = np.random.default_rng(0)
    for net in nets:
        net.noise_net = draw_noise_network(3, 2, np.float64, 0)
        for layer in net.noise_net.net.layers:
            layer.mu += rng.normal(size=layer.mu.shape)
            layer.var *= rng.uniform(0.1, 1, size=layer.var.shape)
        net.noise_net.exponent[...] = rng.choice([0.25, 1.0], size=(2, 1))
        net.noise_net.level[...] = rng.normal(size=(2, 1))
        net.noise_net.scores[...] = rng.normal(size=net.noise_net.scores.shape)
        net.noise_net.bounds[...] = np.sort(rng.normal(size=(2, 2, 1)), axis=0)
    return nets


def test_noise_networks_are_weighted_by_precision_too():
    start, nets = shards()
    found = merge_networks(with_noise_networks(nets), start.rows_learned).noise_net
    noises = [net.noise_net for net in nets]
    for number, layer in enumerate(found.net.layers):
        layers = [noise.net.layers[number] for noise in noises]
        mu, var = (np.stack([getattr(a, k) for a in layers]) for k in ("mu", "var"))
        np.testing.assert_allclose(layer.var, 3 / (1 / var).sum(axis=0), rtol=1e-12)
        expected = (mu / var).sum(axis=0) / (1 / var).sum(axis=0)
        np.testing.assert_allclose(layer.mu, expected, rtol=1e-12, atol=1e-14)
    for name in ("exponent", "level", "scores"):
        expected = np.mean([getattr(noise, name) for noise in noises], axis=0)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12)
    for noise in noises:  # what one shard has seen, all have
        assert (found.bounds[0] <= noise.bounds[0]).all()
        assert (found.bounds[1] >= noise.bounds[1]).all()


def test_merging_changes_no_noise_network():
    start, nets = shards()
    before = [net.noise_net.copy() for net in with_noise_networks(nets)]
    found = merge_networks(nets, start.rows_learned).noise_net
    for values in (found.exponent, found.level, found.bounds, found.net.layers[0].mu):
        values[...] = 7
    for net, same in zip(nets, before, strict=True):
        assert_same_posterior(net.noise_net.net, same.net, 0)
        for name in ("exponent", "level", "bounds", "scores"):
            np.testing.assert_array_equal(getattr(net.noise_net, name), getattr(same, name))


def test_a_shard_without_a_noise_network_leaves_none():
    start, nets = shards()
    with_noise_networks(nets)[1].noise_net = None
    assert merge_networks(nets, start.rows_learned).noise_net is None
