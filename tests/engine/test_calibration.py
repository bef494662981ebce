"""The variance that a mixture reports, from rows that its members have held out."""

import numpy as np
import pytest
from helpers import make_network, with_ones

from sktagi.engine import calibration
from sktagi.engine.calibration import OPTIMISM, TEMPERATURES, calibrate
from sktagi.engine.noise import MIN_ROWS_FOR_NOISE
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rows import Rows
from sktagi.engine.tails import TAILS


def made(members, n=400, noise=0.3, seed=0, sure=1.0, spread=0.0):
    """Linear members whose means lie around the truth; their variances are ``sure`` times too wide.

    A member's weights are the true ones plus errors of standard deviation ``spread``.
    """
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n, 2)))
    y = x[:, :1] - 0.5 * x[:, 1:2] + noise * rng.normal(size=(n, 1))
    net = make_network([2, 1], seed, members, learn_noise=True)
    (layer,) = net.layers
    layer.mu[...] = np.array([[1.0], [-0.5], [0.0]]) + spread * rng.normal(size=layer.mu.shape)
    layer.var[...] = sure**2
    net.noise_var[...] = 1.0
    validation = np.array_split(rng.permutation(n), members)
    return net, Rows(x, y, np.ones(n)), list(validation)


def reported(net, x):
    net = net.reported()
    mu, var = predict_moments(net, x)
    var = var.mean(axis=0) + mu.var(axis=0) + net.noise_var.mean()
    return mu.mean(axis=0).T, var.T


def test_one_member_learns_the_noise_of_its_rows():
    net, data, validation = made(1, n=4000, sure=1e-4)
    calibrate(net, data, validation)
    np.testing.assert_allclose(np.sqrt(net.reported().noise_var), 0.3, rtol=0.05)


def test_variances_that_are_too_wide_are_cooled():
    """Where the noise is small nothing but a lower temperature can make the network surer."""
    net, data, validation = made(1, n=400, noise=0.15, sure=1.0)
    before = net.copy()
    calibrate(net, data, validation)
    assert net.calibration.temperature < 1 / 30
    np.testing.assert_array_equal(net.layers[0].var, before.layers[0].var)  # learning is not cooled
    cooled = net.calibration.temperature * before.layers[0].var
    np.testing.assert_allclose(net.reported().layers[0].var, cooled, rtol=1e-12)
    mean, var = reported(net, data.x)
    assert 0.7 < np.mean(np.square(data.y - mean) / var) < 1.4


@pytest.mark.parametrize("sure", [0.05, 0.02])
def test_variances_that_suit_the_rows_stay_as_they_are(sure):
    """What a temperature below 1 would gain is not clear where the noise explains the errors."""
    net, data, validation = made(1, n=200, noise=0.5, sure=sure)
    calibrate(net, data, validation)
    assert net.calibration.temperature == 1 + OPTIMISM / 200


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.2])
def test_reported_variance_is_the_error_of_the_mixture(spread):
    """Members that disagree: the mean of ten is better than each, and known to be."""
    net, data, validation = made(10, n=3000, noise=0.5, sure=1e-4, spread=spread, seed=3)
    calibrate(net, data, validation)
    mean, var = reported(net, data.x)
    ratio = np.mean(np.square(data.y - mean)) / np.mean(var)
    assert 0.85 < ratio < 1.15


def test_noise_is_one_for_all_members_and_each_target():
    rng = np.random.default_rng(5)
    x = with_ones(rng.normal(size=(2000, 2)))
    y = x[:, :2] + np.array([0.1, 0.7]) * rng.normal(size=(2000, 2))
    net = make_network([2, 2], 5, 3, learn_noise=True)
    (layer,) = net.layers
    layer.mu[...] = np.vstack([np.eye(2), np.zeros((1, 2))])
    layer.var[...] = 1e-8
    calibrate(net, Rows(x, y, np.ones(2000)), list(np.array_split(rng.permutation(2000), 3)))
    noise_var = net.reported().noise_var
    assert np.ptp(noise_var, axis=0).max() == 0
    np.testing.assert_allclose(np.sqrt(noise_var[0, :, 0]), [0.1, 0.7], rtol=0.1)


def test_weight_two_counts_as_two_rows():
    one, data, validation = made(2, n=120, noise=0.4, sure=0.3, spread=0.1, seed=7)
    two = one.copy()
    calibrate(one, data._replace(weight=np.full(120, 2.0)), validation)
    doubled = [np.concatenate([v, v + 120]) for v in validation]
    calibrate(two, data.take(np.tile(np.arange(120), 2)), doubled)
    assert one.calibration.temperature == two.calibration.temperature
    np.testing.assert_allclose(one.calibration.noise_scale, two.calibration.noise_scale, rtol=1e-12)


def test_replicates_with_other_targets_are_rows_of_their_own():
    net, data, validation = made(1, n=200)
    calibrate(net, data._replace(x=np.repeat(data.x[:5], 40, axis=0)), validation)
    assert net.calibration.temperature in TEMPERATURES * (1 + OPTIMISM / 200)


@pytest.mark.parametrize("members", [1, 4])
def test_variances_grow_with_few_rows(members, monkeypatch):
    found = []
    for optimism in (0.0, 8.0):
        monkeypatch.setattr(calibration, "OPTIMISM", optimism)
        net, data, validation = made(members, n=25 * members)
        calibrate(net, data, validation)
        found.append((net.calibration.temperature, net.calibration.noise_scale))
    np.testing.assert_allclose(found[1][0], found[0][0] * (1 + 8 / 25), rtol=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1] * (1 + 8 / 25), rtol=1e-12)


def test_too_few_rows_change_nothing():
    net, data, validation = made(2, n=2 * MIN_ROWS_FOR_NOISE - 1)
    calibrate(net, data, validation)
    assert net.calibration is None
    assert np.all(net.noise_var == 1)


def test_the_choice_is_the_highest_temperature_without_a_clear_loss(monkeypatch):
    monkeypatch.setattr(calibration, "OPTIMISM", 0.0)
    chosen = {}
    for gain in (0.0, 1e9):
        monkeypatch.setattr(calibration, "CLEAR_GAIN", gain)
        net, data, validation = made(1, n=400, noise=0.05, sure=1.0)
        calibrate(net, data, validation)
        chosen[gain] = net.calibration.temperature
    assert chosen[1e9] == 1.0
    assert chosen[0.0] in TEMPERATURES[3:]


# Targets that are not observed


def two_targets(members=3, n=600, seed=9):
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n, 2)))
    y = x[:, :2] + np.array([0.1, 0.7]) * rng.normal(size=(n, 2))
    net = make_network([2, 2], 5, members, learn_noise=True)
    (layer,) = net.layers
    layer.mu[...] = np.vstack([np.eye(2), np.zeros((1, 2))])
    layer.mu[...] += 0.05 * rng.normal(size=layer.mu.shape)
    layer.var[...] = 1e-4
    validation = list(np.array_split(rng.permutation(n), members))
    return net, Rows(x, y, rng.uniform(0.5, 2, size=n)), validation


def test_each_target_is_calibrated_by_the_rows_that_observe_it():
    """As if the others held only rows that observe it: noise and tails do not mix targets."""
    net, data, validation = two_targets()
    data.y[np.random.default_rng(0).random(600) < 0.5, 1] = np.nan
    both = net.copy()
    calibrate(both, data, validation)
    assert np.isfinite(both.calibration.tails).all()
    np.testing.assert_allclose(np.sqrt(both.reported_noise[0, :, 0]), [0.1, 0.7], rtol=0.15)
    known = ~np.isnan(data.y[:, 1])
    some = net.copy()
    calibrate(some, data, [rows[known[rows]] for rows in validation])
    growth = (1 + 3 * OPTIMISM / 600) / (1 + 3 * OPTIMISM / known.sum())
    np.testing.assert_allclose(
        both.calibration.noise_scale[1], growth * some.calibration.noise_scale[1], rtol=1e-9
    )
    np.testing.assert_allclose(
        both.calibration.tails[:, 1], some.calibration.tails[:, 1], rtol=1e-9
    )
    assert np.abs(both.calibration.tails[:, 0] - some.calibration.tails[:, 0]).max() > 1e-3


def test_a_target_that_hardly_any_held_out_row_observes_keeps_its_noise():
    for n_observed, is_kept in ((MIN_ROWS_FOR_NOISE - 1, True), (MIN_ROWS_FOR_NOISE, False)):
        net, data, validation = two_targets()
        data.y[n_observed:, 1] = np.nan
        calibrate(net, data, validation)
        growth = 1 + 3 * OPTIMISM / 600
        scale = net.calibration.noise_scale[:, 0] / growth
        assert (scale[1] == pytest.approx(1, rel=1e-12)) == is_kept
        assert scale[0] != pytest.approx(1, rel=1e-3)
        assert np.isfinite(net.calibration.tails).all()
        assert (np.diff(net.calibration.tails, axis=0) > 0).all()


def test_a_target_that_no_held_out_row_observes_has_gaussian_tails():
    net, data, validation = two_targets()
    data.y[:, 1] = np.nan
    calibrate(net, data, validation)
    np.testing.assert_allclose(net.calibration.tails[:, 1], TAILS)
    assert np.abs(net.calibration.tails[:, 0] - TAILS).max() > 1e-3
