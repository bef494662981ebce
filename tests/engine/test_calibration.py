"""The variance that a mixture reports, from rows that its members have held out."""

import numpy as np
import pytest
from helpers import calibrate, make_network, with_ones
from scipy import stats

from sktagi.engine import calibration
from sktagi.engine.calibration import (
    MORE_ROWS,
    OPTIMISM,
    SPREADS,
    TEMPERATURES,
    Case,
    errors_of,
    score_noise,
)
from sktagi.engine.held_out import predict_held_out
from sktagi.engine.noise import trusted_noise
from sktagi.engine.noise_network import LARGEST_LOG, N_FOLDS, draw_noise_network
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rows import Rows
from sktagi.engine.shape import gaussian_shape


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


def growth(of_a_member, of_all, optimism=OPTIMISM):
    """By how much variances grow that so many rows of a member, and so many of all, have told."""
    trust = of_all**2 / (100 + of_all**2)
    return 1 + optimism / (of_a_member + MORE_ROWS) + trust * 2 / max(of_all - 2, 1)


def reported(net, x):
    mean, var = reported_of_mean(net, x)
    return mean, var + net.reported_noise.mean()


def reported_of_mean(net, x):
    """Mean of the mixture, and its variance without noise, each of shape (rows, outputs)."""
    mu, var = predict_moments(net.reported(), x)
    var = var.mean(axis=0) + net.calibration.spread * mu.var(axis=0)
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


def usual(sure, noise=0.5, n=200):
    """The temperature at which 3 parameters are as sure as ordinary least squares leaves them."""
    var = noise**2 / n  # of each
    return TEMPERATURES[np.abs(np.log(TEMPERATURES * sure**2 / var)).argmin()]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sure", [0.02, 0.1, 0.4])
def test_variances_are_those_that_so_many_rows_leave_to_a_linear_regression(sure, seed):
    """Held-out errors hardly tell them from the noise."""
    net, data, validation = made(1, n=200, noise=0.5, sure=sure, seed=seed)
    calibrate(net, data, validation)
    ratio = net.calibration.temperature / (growth(200, 200) * usual(sure))
    assert 0.49 < ratio < 2.01
    assert net.reported_noise.item() == pytest.approx(0.25, rel=0.25)


def test_the_number_of_rows_that_were_learned_counts_not_of_those_held_out(monkeypatch):
    monkeypatch.setattr(calibration, "GAIN_OF_HALVING", 1e9)
    found = []
    for n_learned in (200.0, 3200.0):
        net, data, validation = made(1, n=200, noise=0.5, sure=0.1)
        held = predict_held_out(net, data, validation, TEMPERATURES)
        calibration.set_calibration(net, calibration.HeldOutHere(held), n_learned=n_learned)
        found.append(net.calibration.temperature)
    assert found[1] == pytest.approx(found[0] / 16, rel=1e-12)


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.2])
def test_reported_variance_is_the_error_of_the_mixture(spread):
    """Members that disagree: the mean of ten is better than each, and known to be."""
    net, data, validation = made(10, n=3000, noise=0.5, sure=1e-4, spread=spread, seed=3)
    calibrate(net, data, validation)
    mean, var = reported(net, data.x)
    ratio = np.mean(np.square(data.y - mean)) / np.mean(var)
    assert 0.85 < ratio < 1.15


def independent(seed, members, noise, n=600, n_inputs=20, v=0.04):
    """Members that err each in another direction, by a variance of v on average, and by noise."""
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n, n_inputs)))
    net = make_network([n_inputs, 1], seed, members, learn_noise=True)
    (layer,) = net.layers
    layer.mu[...] = np.sqrt(v / (n_inputs + 1)) * rng.normal(size=layer.mu.shape)
    layer.var[...] = 1e-8
    net.noise_var[...] = max(noise**2, 1e-6)
    folds = np.array_split(rng.permutation(n), members - 1)
    data = Rows(x, noise * rng.normal(size=(n, 1)), np.ones(n))
    return net, data, [folds[0], *folds]


def reported_and_errors(members, noise=0.0, shared=0.0):
    """Mean reported variances, and mean squared errors, for some seeds."""
    found = []
    for seed in range(6):
        net, data, validation = independent(seed, members, noise)
        error = np.random.default_rng(seed).normal(size=net.layers[0].mu.shape[1:])
        net.layers[0].mu += shared * error
        calibrate(net, data, validation)
        if not (noise or shared):
            assert net.calibration.spread in SPREADS[1:]
        mean, var = reported(net, data.x)
        found.append((var.mean(), np.square(data.y - mean).mean()))
    return np.mean(found, axis=0)


@pytest.mark.parametrize(("members", "most"), [(6, 0.55), (10, 0.35), (20, 0.3), (40, 0.25)])
def test_members_that_err_independently_without_noise_are_sure_of_their_mean(members, most):
    """It errs by v / M; the variance of their means is (1 - 1/M) v.

    A few hundred rows tell v only roughly, and some noise is reported for that.
    """
    v = 0.04
    var, error = reported_and_errors(members)
    assert error == pytest.approx(v / members, rel=0.25)
    assert 0.9 * error < var < most * (1 - 1 / members) * v


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.5])
def test_members_that_err_independently_beside_noise_report_what_their_mean_errs_by(noise):
    var, error = reported_and_errors(8, noise)
    assert error == pytest.approx(noise**2 + 0.04 / 8, rel=0.2)
    assert 0.9 * error < var < noise**2 + 0.5 * (1 - 1 / 8) * 0.04


def test_what_members_err_by_together_is_reported():
    """The mean of all is hardly better than each, and not known to be."""
    var, error = reported_and_errors(6, shared=0.1)
    assert error > 0.1
    assert error / var == pytest.approx(1, abs=0.15)


def test_the_spread_is_not_lowered_without_a_clear_gain(monkeypatch):
    """Noise that is far larger hides what it should be; without noise it is lowered if it may."""
    for seed in range(4):
        net, data, validation = independent(seed, 6, noise=2.0)
        calibrate(net, data, validation)
        assert net.calibration.spread == 1
    monkeypatch.setattr(calibration, "CLEAR_GAIN", 1e9)
    net, data, validation = independent(0, 6, noise=0.0)
    calibrate(net, data, validation)
    assert net.calibration.spread == 1


def test_one_member_has_no_spread():
    net, data, validation = made(1, n=400, noise=0.01, sure=0.1)
    calibrate(net, data, validation)
    assert net.calibration.spread == 1


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
    assert one.calibration.spread == two.calibration.spread
    np.testing.assert_allclose(one.calibration.noise_scale, two.calibration.noise_scale, rtol=1e-12)


def test_replicates_with_other_targets_are_rows_of_their_own():
    net, data, validation = made(1, n=200)
    calibrate(net, data._replace(x=np.repeat(data.x[:5], 40, axis=0)), validation)
    steps = np.log2(net.calibration.temperature / growth(200, 200))
    assert steps == pytest.approx(round(steps), abs=1e-9)
    of_five_rows = np.log2(net.calibration.temperature / growth(5, 5))
    assert of_five_rows != pytest.approx(round(of_five_rows), abs=0.1)


@pytest.mark.parametrize("members", [1, 4])
def test_variances_grow_with_few_rows(members, monkeypatch):
    """By what choosing epochs makes of a member's rows, and by what all rows leave unknown."""
    found = []
    for optimism in (0.0, 8.0):
        monkeypatch.setattr(calibration, "OPTIMISM", optimism)
        net, data, validation = made(members, n=25 * members)
        calibrate(net, data, validation)
        found.append((net.calibration.temperature, net.calibration.noise_scale))
    ratio = growth(25, 25 * members, 8.0) / growth(25, 25 * members, 0.0)
    np.testing.assert_allclose(found[1][0], found[0][0] * ratio, rtol=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1] * ratio, rtol=1e-12)


@pytest.mark.parametrize("n", [5, 20, 200])
def test_variances_of_n_rows_are_those_of_a_student_distribution(n, monkeypatch):
    """As far as the noise that they have found is trusted; many are trusted fully."""
    monkeypatch.setattr(calibration, "OPTIMISM", 0.0)
    # The temperature is the usual one, which is 1 at most.
    monkeypatch.setattr(calibration, "GAIN_OF_HALVING", 1e9)
    net, data, validation = made(1, n=n, sure=1e-4)
    calibrate(net, data, validation)
    grown = (stats.t(n).var() - 1) * n**2 / (100 + n**2)
    assert net.calibration.temperature == pytest.approx(1 + grown, rel=1e-12)
    if n == 200:
        assert 1 + grown == pytest.approx(stats.t(n).var(), rel=1e-4)


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("varies", [False, True])
def test_three_rows_are_enough_for_finite_and_positive_variances(members, varies):
    net, data, _ = made(members, n=20)
    rows = np.array_split(np.arange(3), members)
    start = draw_noise_network(2, 1, np.float64, 0) if varies else None
    calibrate(net, data, rows, start)
    assert np.isfinite(net.calibration.temperature)
    assert 0 < net.calibration.temperature < np.inf
    _, var = reported(net, data.x)
    assert np.isfinite(var).all()
    assert (var > 0).all()
    shape = net.calibration.shape
    q = np.array([[0.05, 0.25, 0.75, 0.95]])
    np.testing.assert_allclose(shape.ppf(q), gaussian_shape(1).ppf(q), atol=0.15)


def test_the_noise_that_few_rows_speak_for_is_trusted_little(monkeypatch):
    """Three rows without any error, as if there were no noise: it stays near what was learned."""
    monkeypatch.setattr(calibration, "OPTIMISM", 0.0)
    scales = []
    for n in (3, 10, 300):
        net, data, validation = made(1, n=n, sure=1e-6)
        calibrate(net, data._replace(y=data.x @ net.layers[0].mu[0]), validation)
        scales.append(net.calibration.noise_scale.item() / growth(n, n, 0.0))
    assert 1 > scales[0] > 0.2 > scales[1] > scales[2]
    least = np.full((1, 1), 1.0 / calibration.REACH**2)
    for n, scale in zip((3, 10), scales, strict=False):
        expected = trusted_noise(least, np.ones((1, 1)), np.array([n])).item()
        assert np.log(scale) == pytest.approx(np.log(expected), rel=0.2)


def test_each_halving_of_the_temperature_must_gain():
    halvings = -np.log2(TEMPERATURES)
    least = calibration.GAIN_OF_HALVING
    for gain, chosen in ((0.9 * least, 0), (1.1 * least, len(halvings) - 1)):
        assert calibration._best_temperature(gain * halvings[:, None], 0) == chosen
    some = least * np.minimum(2 * halvings, 6)[:, None]  # nothing is gained after three
    assert calibration._best_temperature(some, 0) == 3
    both = np.hstack([some, -some])  # of all targets together
    assert calibration._best_temperature(both, 0) == 0


def test_each_doubling_beyond_the_usual_temperature_must_gain():
    halvings = -np.log2(TEMPERATURES)
    least = calibration.GAIN_OF_HALVING
    for gain, chosen in ((0.9 * least, 4), (1.1 * least, 0)):
        assert calibration._best_temperature(-gain * halvings[:, None], 4) == chosen
    nothing = np.zeros((len(halvings), 1))
    for usual in range(len(halvings)):
        assert calibration._best_temperature(nothing, usual) == usual


def test_the_temperature_is_lowered_as_far_as_each_halving_gains(monkeypatch):
    monkeypatch.setattr(calibration, "OPTIMISM", 0.0)
    chosen = {}
    for gain in (0.0, 1e9):
        monkeypatch.setattr(calibration, "GAIN_OF_HALVING", gain)
        net, data, validation = made(1, n=400, noise=0.05, sure=0.1)
        net.layers[0].mu[0] += 0.2  # what the rows held out tell, other than the usual
        calibrate(net, data, validation)
        chosen[gain] = net.calibration.temperature / growth(400, 400, 0.0)
    assert np.isclose(chosen[1e9], TEMPERATURES, rtol=1e-12).any()
    assert chosen[0.0] > 4 * chosen[1e9]


# Targets that are not observed


def two_targets(members=3, n=600, seed=9, spread=0.05):
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n, 2)))
    y = x[:, :2] + np.array([0.1, 0.7]) * rng.normal(size=(n, 2))
    net = make_network([2, 2], 5, members, learn_noise=True)
    (layer,) = net.layers
    layer.mu[...] = np.vstack([np.eye(2), np.zeros((1, 2))])
    layer.mu[...] += spread * rng.normal(size=layer.mu.shape)
    layer.var[...] = 1e-4
    validation = list(np.array_split(rng.permutation(n), members))
    return net, Rows(x, y, rng.uniform(0.5, 2, size=n)), validation


def test_each_target_is_calibrated_by_the_rows_that_observe_it(monkeypatch):
    """As if the others held only rows that observe it: noise and shapes do not mix targets.

    Temperature and spread are one for all targets: here they are 1.
    """
    monkeypatch.setattr(calibration, "CLEAR_GAIN", 1e9)
    monkeypatch.setattr(calibration, "GAIN_OF_HALVING", 1e9)
    net, data, validation = two_targets(spread=0.02)
    data.y[np.random.default_rng(0).random(600) < 0.5, 1] = np.nan
    both = net.copy()
    calibrate(both, data, validation)
    assert all(np.isfinite(field).all() for field in both.calibration.shape)
    np.testing.assert_allclose(np.sqrt(both.reported_noise[0, :, 0]), [0.1, 0.7], rtol=0.15)
    known = ~np.isnan(data.y[:, 1])
    some = net.copy()
    calibrate(some, data, [rows[known[rows]] for rows in validation])
    n_known = known.sum()
    ratio = growth(200, n_known) / growth(n_known / 3, n_known)
    np.testing.assert_allclose(
        both.calibration.noise_scale[1], ratio * some.calibration.noise_scale[1], rtol=1e-9
    )
    for mine, theirs in zip(both.calibration.shape, some.calibration.shape, strict=True):
        np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-9, atol=1e-12)
    assert np.abs(both.calibration.shape.weight[0] - some.calibration.shape.weight[0]).max() > 1e-3


def test_a_target_that_hardly_any_held_out_row_observes_stays_near_its_noise(monkeypatch):
    monkeypatch.setattr(calibration, "OPTIMISM", 0.0)
    scales = {}
    for n_observed in (0, 1, 3, 100):
        net, data, validation = two_targets()
        data.y[n_observed:, 1] = np.nan
        net.noise_var[:, 1] = 1e4  # far from the truth
        calibrate(net, data, validation)
        scales[n_observed] = net.calibration.noise_scale[1, 0] / growth(200, n_observed, 0.0)
        assert net.calibration.noise_scale[0, 0] != pytest.approx(1, rel=1e-3)
        assert all(np.isfinite(field).all() for field in net.calibration.shape)
    assert scales[0] == pytest.approx(1, rel=1e-12)
    assert 1 > scales[1] > 0.7
    assert scales[1] > scales[3] > 0.1
    assert 1e4 * scales[100] == pytest.approx(0.49, rel=0.4)


def test_a_target_that_no_held_out_row_observes_has_the_shape_of_a_gaussian():
    net, data, validation = two_targets()
    data.y[:, 1] = np.nan
    calibrate(net, data, validation)
    q = np.tile([1e-3, 0.05, 0.3, 0.6, 0.95, 0.999], (2, 1))
    gaussian = gaussian_shape(2).ppf(q)
    found = net.calibration.shape.ppf(q)
    np.testing.assert_allclose(found[1], gaussian[1], atol=0.01)
    assert np.abs(found[0] - gaussian[0]).max() > 0.02


# Noise that varies


def varying(members, n=800, slope=1.0, seed=0, spread=0.05):
    """As ``made``, with noise of variance 0.09 exp(slope * x); folds 0 and 1 are the same."""
    net, data, _ = made(members, n, 0.3, seed, 0.02, spread)
    rng = np.random.default_rng(100 + seed)
    x = data.x[:, :1]
    truth = 0.09 * np.exp(slope * x)
    y = x - 0.5 * data.x[:, 1:2] + np.sqrt(truth) * rng.normal(size=(n, 1))
    folds = np.array_split(rng.permutation(n), max(members - 1, 1))
    validation = folds if members == 1 else [folds[0], *folds]
    return net, data._replace(y=y), validation, truth[:, 0]


def calibrate_varying(net, data, validation, seed=0):
    start = draw_noise_network(data.x.shape[1] - 1, data.y.shape[1], data.x.dtype, seed)
    calibrate(net, data, validation, start, seed)
    return net.noise_net


def noise_of(net, x):
    """Reported noise variances of the first target."""
    return (net.reported_noise.mean(axis=0) * net.noise_net.ratio(x))[0]


@pytest.mark.parametrize("members", [1, 2, 5])
def test_noise_that_varies_is_found(members):
    for seed in range(3):
        net, data, validation, truth = varying(members, seed=seed)
        noise = calibrate_varying(net, data, validation, seed)
        assert noise.exponent.item() > 0
        found = noise_of(net, data.x)
        assert np.corrcoef(np.log(found), np.log(truth))[0, 1] > 0.9
        assert np.polyfit(np.log(truth), np.log(found), 1)[0] == pytest.approx(1, abs=0.35)
        assert np.median(found / truth) == pytest.approx(1, abs=0.3)


def test_constant_noise_is_left_constant_for_most_seeds():
    exponents, spreads = [], []
    for seed in range(12):
        net, data, validation, _ = varying(3, n=300, slope=0.0, seed=seed)
        noise = calibrate_varying(net, data, validation, seed)
        exponents.append(noise.exponent.item())
        spreads.append(np.log(noise_of(net, data.x)).std())
    assert np.count_nonzero(exponents) <= 4
    assert np.mean(spreads) < 0.1


def test_each_target_has_noise_of_its_own():
    net, data, validation = two_targets(n=1000)
    rng = np.random.default_rng(1)
    data.y[:, 0] += np.exp(data.x[:, 1]) * rng.normal(size=1000)
    noise = calibrate_varying(net, data, validation)
    assert noise.exponent[0] > 0
    assert noise.exponent[1] == 0
    log_ratio = noise.log_ratio(data.x)
    assert np.corrcoef(log_ratio[0], data.x[:, 1])[0, 1] > 0.9
    assert np.ptp(log_ratio[1]) == 0
    np.testing.assert_allclose(np.sqrt(net.reported_noise[0, 1, 0]), 0.7, rtol=0.1)


def test_noise_that_does_not_vary_reports_the_level_of_constant_noise():
    net, data, validation, _ = varying(3, n=300, slope=0.0, seed=1)
    constant = net.copy()
    calibrate(constant, data, validation)
    noise = calibrate_varying(net, data, validation)
    assert not noise.varies
    assert net.calibration.temperature == constant.calibration.temperature
    assert net.calibration.spread == constant.calibration.spread
    for mine, theirs in zip(
        (net.calibration.noise_scale, net.reported_noise, *reported(net, data.x)),
        (constant.calibration.noise_scale, constant.reported_noise, *reported(constant, data.x)),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("slope", [0.0, 1.0])
@pytest.mark.parametrize("members", [2, 5])
def test_the_level_is_that_of_errors_at_new_rows(members, slope):
    """Members err each in its own way in twenty directions, half as much as the noise."""
    n_inputs, ratios = 20, []

    def rows(n):
        x = with_ones(rng.normal(size=(n, n_inputs)))
        noise = 0.3 * np.exp(slope * x[:, :1] / 2) * rng.normal(size=(n, 1))
        return Rows(x, x[:, :1] + noise, np.ones(n))

    for seed in range(6):
        rng = np.random.default_rng(seed)
        net = make_network([n_inputs, 1], seed, members, sigma_v=1.0, learn_noise=True)
        (layer,) = net.layers
        layer.mu[...] = 0.05 * rng.normal(size=layer.mu.shape)
        layer.mu[:, 0] += 1
        layer.var[...] = 1e-8
        folds = np.array_split(np.arange(600), members - 1)
        calibrate_varying(net, rows(600), [folds[0], *folds], seed)
        new = rows(3000)
        mean, var = reported_of_mean(net, new.x)
        var = var[:, 0] + noise_of(net, new.x)
        ratios.append(np.mean(np.square((new.y - mean)[:, 0]) / var))
    assert np.mean(ratios) == pytest.approx(1, abs=0.2)


def test_members_that_sit_on_the_rows_they_learned_are_known_to_disagree_at_new_ones():
    """Two members share a fold: what they differ by there is reported, not what others do."""
    rng = np.random.default_rng(0)
    net, data, _ = made(2, n=600, noise=0.3, sure=1e-4, spread=0.0)
    net.layers[0].mu[0] += 0.3 * rng.normal(size=(3, 1))  # both err, each in its own way
    net.layers[0].mu[1] += 0.3 * rng.normal(size=(3, 1))
    calibrate(net, data, [np.arange(300), np.arange(300)])
    mean, var = reported(net, data.x)
    ratio = np.mean(np.square(data.y - mean)) / np.mean(var)
    assert ratio == pytest.approx(1, abs=0.15)


def test_learning_is_not_changed_by_calibration():
    net, data, validation, _ = varying(3)
    before = net.copy()
    calibrate_varying(net, data, validation)
    for mine, theirs in zip(net.layers, before.layers, strict=True):
        np.testing.assert_array_equal(mine.mu, theirs.mu)
        np.testing.assert_array_equal(mine.var, theirs.var)
    np.testing.assert_allclose(net.noise_var, before.noise_var.mean(axis=0)[None].repeat(3, axis=0))


def test_a_noise_that_is_given_stays_as_it_is():
    net, data, validation = made(3, n=300, noise=0.5)
    net.noise_is_learned = False
    calibrate(net, data, validation)
    assert (net.calibration.noise_scale == 1).all()
    assert (net.reported_noise == 1).all()


def test_only_a_share_of_very_many_rows_is_learned_by_the_noise_network(monkeypatch):
    net, data, validation, truth = varying(2, n=800)
    monkeypatch.setattr(calibration, "MOST_ERRORS", 400)
    learned = []
    original = calibration.learn_errors

    def spy(start, errors, seed):
        learned.append(len(errors.weight))
        return original(start, errors, seed)

    monkeypatch.setattr(calibration, "learn_errors", spy)
    calibrate_varying(net, data, validation)
    assert learned == [400]
    assert np.corrcoef(np.log(noise_of(net, data.x)), np.log(truth))[0, 1] > 0.8


# Questions to rows held out


def held_out_rows(members, n=300, groups=None, seed=0, shared=False):
    """Members hold out a set of rows each, or the first two the same if it is ``shared``."""
    net, data, validation = made(members, n=n, sure=0.3, spread=0.1, seed=seed)
    if shared:
        folds = np.array_split(np.concatenate(validation), members - 1)
        validation = [folds[0], *folds]
    data.y[::7] = np.nan
    data = data._replace(weight=np.random.default_rng(seed).uniform(0.5, 2, size=n))
    return predict_held_out(net, data, validation, TEMPERATURES, groups)


@pytest.mark.parametrize("varies", [False, True])
def test_scores_are_summed_log_densities_of_errors(varies, monkeypatch):
    monkeypatch.setattr(calibration, "BLOCK_ROWS", 64)
    held = held_out_rows(3)
    rng = np.random.default_rng(1)
    held = held._replace(disagreement=rng.uniform(0, 1, size=held.error.shape))
    if varies:
        held = held._replace(log_noise=rng.normal(size=held.error.shape))
        held.log_noise[0, :3] = 100, -100, 1e6
    cases = [Case(0, 0.0), Case(3, 0.5), Case(8, np.array([[1.25]])), Case(11, 0.5, 0.125)]
    noise = rng.uniform(0.1, 2, size=(4, 4, 1, 1))
    found = score_noise(held, cases, noise)
    assert found.shape == (4, 4, 1)
    for c, g in np.ndindex(4, 4):
        case = cases[c]
        expected = 0.0
        for row in np.flatnonzero(~np.isnan(held.error[0])):
            ratio = 1.0
            if varies:
                exponent = np.asarray(case.exponent).item()
                log_ratio = exponent * held.log_noise[0, row]
                ratio = np.exp(min(max(log_ratio, -LARGEST_LOG), LARGEST_LOG))
            # Each row is held out by one of three: (1 - 1/3 + spread (1 - 1/3)) v.
            v = held.disagreement[0, row] / (2 - 2 / 3)
            var = held.var_z[case.temperature, 0, row] + 2 / 3 * (1 + case.spread) * v
            std = np.sqrt(var + ratio * noise[c, g, 0, 0])
            expected += held.weight[row] * stats.norm.logpdf(held.error[0, row], 0, std)
        np.testing.assert_allclose(found[c, g, 0], expected, rtol=1e-10)


def test_errors_to_learn_from_are_in_units_of_the_noise():
    held = held_out_rows(3)
    held = held._replace(disagreement=np.full(held.error.shape, 0.2))
    errors = errors_of(held, Case(2), np.array([[4.0]]), 1.0, 0)
    np.testing.assert_allclose(errors.error, held.error / 2, rtol=1e-12)
    np.testing.assert_allclose(errors.var, (held.var_z[2] + 0.2) / 4, rtol=1e-12)
    less = errors_of(held, Case(2, spread=0.5), np.array([[4.0]]), 1.0, 0)
    np.testing.assert_allclose(less.var, (held.var_z[2] + 0.15) / 4, rtol=1e-12)
    np.testing.assert_array_equal(errors.weight, held.weight)
    some = errors_of(held, Case(2), np.array([[4.0]]), 0.25, 0)
    assert len(some.weight) == 75
    assert np.isin(some.weight, held.weight).all()


def folds_of(held):
    return errors_of(held, Case(0), np.ones((1, 1)), 1.0, 0).fold


@pytest.mark.parametrize(("members", "shared"), [(4, False), (8, False), (5, True), (8, True)])
def test_rows_that_were_held_out_together_are_so_by_the_noise_network(members, shared):
    held = held_out_rows(members, shared=shared)
    assert held.n_splits == members - shared
    fold = folds_of(held)
    for member in set(held.holder):
        assert len(set(fold[held.holder == member])) == 1
    assert len(set(fold)) == min(members - 1, N_FOLDS)


@pytest.mark.parametrize("members", [5, 6, 8, 11, 12])
def test_folds_of_the_noise_network_hold_as_many_sets_each(members):
    """As far as they can: the first two members share a set, and the numbers differ by one."""
    held = held_out_rows(members, n=60 * (members - 1), shared=True)
    fold = folds_of(held)
    sets = np.bincount(fold) / 60
    np.testing.assert_array_equal(sets, np.round(sets))
    assert sets.sum() == members - 1
    assert np.ptp(sets) <= 1
    assert len(sets) == min(members - 1, N_FOLDS)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_few_sets_held_out_leave_the_folds_of_the_noise_network_to_chance(members):
    held = held_out_rows(members)
    fold = folds_of(held)
    np.testing.assert_array_equal(np.bincount(fold), 60)
    for member in range(members):  # each set is in all folds
        assert len(set(fold[held.holder == member])) == N_FOLDS
    order = np.random.default_rng(2).permutation(300)
    np.testing.assert_array_equal(folds_of(held.take(order)), fold[order])


def test_folds_of_rows_with_equal_inputs_do_not_depend_on_rounding():
    held = held_out_rows(2)
    rng = np.random.default_rng(4)
    held = held._replace(x=held.x[np.arange(300) // 10 * 10], error=rng.normal(size=(1, 300)))
    nearly = held._replace(x=held.x * (1 + 1e-15), error=held.error * (1 - 1e-15))
    for other in (held, nearly):  # the keys of rows that are not equal are as by chance
        keys = rng.permutation(300).astype(np.uint64)
        np.testing.assert_array_equal(folds_of(other._replace(keys=keys)), folds_of(held))


def test_copies_of_a_row_and_rows_of_a_group_are_in_one_fold_of_the_noise_network():
    held = held_out_rows(2)
    copies = held.take(np.repeat(np.arange(300), 2))
    np.testing.assert_array_equal(folds_of(copies), np.repeat(folds_of(held), 2))
    groups = np.random.default_rng(3).integers(40, size=300)
    fold = folds_of(held_out_rows(2, groups=groups))
    for group in range(40):
        assert len(set(fold[groups == group])) == 1
    assert len(set(fold)) == N_FOLDS
