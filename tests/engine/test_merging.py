"""One posterior of several that started equal and learned different rows."""

import numpy as np
import pytest
from helpers import assert_same_posterior, make_network, make_rows

from sktagi.engine.learning import Settings
from sktagi.engine.merging import merge_networks
from sktagi.engine.posterior import Calibration
from sktagi.engine.tails import gaussian_tails

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


def test_calibrations_meet_in_the_middle():
    start, nets = shards()
    assert merge_networks(nets, start.rows_learned).calibration is None
    tails = np.square(gaussian_tails(2))
    nets[0].calibration = Calibration(0.25, np.array([[4.0], [1.0]]), tails)
    nets[1].calibration = Calibration(0.5, np.array([[2.0], [1.0]]), tails)
    found = merge_networks(nets, start.rows_learned).calibration  # one shard had too few rows
    assert found.temperature == pytest.approx(0.5)
    np.testing.assert_allclose(found.noise_scale, [[2.0], [1.0]])
    np.testing.assert_allclose(found.tails, (2 * tails + gaussian_tails(2)) / 3)
