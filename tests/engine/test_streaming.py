"""Rows of a stream: predicted, then learned; their errors teach the noise."""

import numpy as np
import pytest
from helpers import DTYPES, assert_same_posterior, make_network, make_rows, with_ones
from scipy import sparse, stats

from sktagi.engine import noise_stream, streaming
from sktagi.engine.learning import Learner, Settings
from sktagi.engine.noise_network import draw_noise_network, mean_outputs
from sktagi.engine.posterior import Calibration, full_prior
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rows import Rows
from sktagi.engine.shape import gaussian_shape
from sktagi.engine.streaming import learn_stream

SETTINGS = Settings(16, True, None)


def all_rows(net, n):
    return np.tile(np.arange(n), (net.n_members, 1))


# ------------------------------------------------------------------- moments before learning


@pytest.mark.parametrize("kind", ["dense", "sparse", "full"])
@pytest.mark.parametrize("members", [1, 3])
def test_moments_recorded_are_those_that_were_predicted_before_each_batch(kind, members):
    data = make_rows(23, 3, 2)
    if kind == "sparse":
        data = data._replace(x=sparse.csr_array(data.x))
    net = make_network([3, 4, 2], members=members, learn_noise=True)
    if kind == "full":
        net.layers = full_prior(net.layers)
    step = net.copy()
    learner = Learner(net, Settings(5), records=True)
    learner.learn(data, all_rows(net, 23))
    assert learner.moments.shape == (2, members, 2, 23)
    for start in range(0, 23, 5):
        rows = np.arange(start, min(start + 5, 23))
        expected = predict_moments(step, data.x[rows])
        np.testing.assert_allclose(learner.moments[..., rows], expected, rtol=1e-9, atol=1e-12)
        Learner(step, Settings(5)).learn(data, np.tile(rows, (members, 1)))


def test_a_learner_that_does_not_record_learns_the_same():
    data = make_rows(40, 3)
    one, two = (make_network([3, 4, 1], members=2, learn_noise=True) for _ in range(2))
    scores = [
        Learner(net, SETTINGS, records=records).learn(data, all_rows(net, 40))
        for net, records in ((one, True), (two, False))
    ]
    np.testing.assert_array_equal(*scores)
    assert_same_posterior(one, two, 0)


# --------------------------------------------------------------- with and without noise network


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_stream_is_learned_as_the_same_rows_by_a_learner(dtype):
    data = make_rows(50, 3, dtype=dtype)
    streamed = make_network([3, 5, 1], members=2, learn_noise=True, dtype=dtype)
    expected = streamed.copy()
    found = learn_stream(streamed, data, [SETTINGS])
    scores = Learner(expected, SETTINGS).learn(data, all_rows(expected, 50))
    np.testing.assert_array_equal(found, scores)
    assert_same_posterior(streamed, expected, 0)
    assert streamed.noise_net is None


def test_a_noise_network_of_constant_noise_does_not_change_what_means_learn():
    data = make_rows(50, 3)
    plain, watched = (make_network([3, 5, 1], members=2, learn_noise=True) for _ in range(2))
    watched.noise_net = draw_noise_network(3, 1, np.float64, 0)
    np.testing.assert_array_equal(
        learn_stream(plain, data, [SETTINGS]), learn_stream(watched, data, [SETTINGS])
    )
    assert_same_posterior(plain, watched, 0)


def test_means_learn_with_constant_noise():
    """Where a function changes, errors grow, and rows there must not be learned less for that."""
    data = make_rows(50, 3)
    net = make_network([3, 5, 1], members=2, learn_noise=True)
    net.noise_net = draw_noise_network(3, 1, np.float64, 0)
    net.noise_net.net.layers[-1].mu[...] = 0.3
    net.noise_net.exponent[...] = 0.75
    net.noise_net.bounds[0], net.noise_net.bounds[1] = -2, 2
    assert np.ptp(net.noise_net.ratio(data.x)) > 0.1
    expected = net.copy()
    found = learn_stream(net, data, [SETTINGS])
    scores = Learner(expected, SETTINGS).learn(data, all_rows(expected, 50))
    np.testing.assert_array_equal(found, scores)
    assert_same_posterior(net, expected, 0)


# ------------------------------------------------------------------------- what errors teach


def stream(seed, slope, n=1500, chunk=50):
    """A linear function with noise of variance exp(slope * x) * 0.09, learned in chunks."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, size=(n, 2))
    noise = 0.3 * np.exp(slope * x[:, :1] / 2) * rng.normal(size=(n, 1))
    y = x[:, :1] - 0.5 * x[:, 1:] + noise
    net = make_network([2, 8, 1], seed, 3, sigma_v=1.0, learn_noise=True)
    net.noise_net = draw_noise_network(2, 1, np.float64, seed)
    seen = []
    for start in range(0, n, chunk):
        part = slice(start, start + chunk)
        learn_stream(net, Rows(with_ones(x[part]), y[part], np.ones(chunk)), [Settings(chunk)])
        seen.append(net.noise_net.exponent.ravel().copy())
    return net, np.array(seen)


NEW_X = with_ones(np.random.default_rng(9).uniform(-1.5, 1.5, size=(500, 2)))


def variances_at_new_rows(net, slope):
    """Reported variances of noise and of errors, both over what is true; errors of means known."""
    noise = net.reported_noise.mean() * net.noise_net.ratio(NEW_X)[0]
    truth = 0.09 * np.exp(slope * NEW_X[:, 0])
    mu, var = (moments[:, 0] for moments in predict_moments(net.reported(), NEW_X))
    error = mu.mean(axis=0) - NEW_X[:, 0] + 0.5 * NEW_X[:, 1]
    total = var.mean(axis=0) + mu.var(axis=0) + noise
    return noise / truth, total / (truth + np.square(error))


def test_constant_noise_hardly_varies_in_streams_and_its_total_is_found():
    """An exponent may be positive, for the level; what is reported hardly differs between rows."""
    spreads, levels = [], []
    for seed in range(8):
        noise, total = variances_at_new_rows(stream(seed, 0.0)[0], 0.0)
        spreads.append(np.log(noise).std())
        levels.append(np.log(total).mean())
    assert max(spreads) < 0.25
    assert np.mean(spreads) < 0.15
    assert np.abs(levels).max() < np.log(1.25)
    assert np.mean(levels) == pytest.approx(0, abs=0.1)


def test_the_level_of_constant_noise_is_found_beside_a_noise_network():
    for seed in range(3):
        net, _ = stream(seed, 0.0)
        assert np.sqrt(net.noise_var.mean()) == pytest.approx(0.3, rel=0.15)
        assert np.log(net.noise_net.ratio(NEW_X)).std() < 0.2


def test_noise_that_depends_on_x_is_found_in_a_stream():
    x = NEW_X
    for seed in range(3):
        net, exponents = stream(seed, 2.0)
        assert exponents[0] == 0  # errors that are to teach have not been learned yet
        assert (exponents[-10:] > 0).all()
        log_ratio = net.noise_net.log_ratio(x)[0]
        assert np.corrcoef(log_ratio, 2 * x[:, 0])[0, 1] > 0.9
        # Steeper than the noise: it makes up for the variance of the means, which has no slope.
        assert 0.6 < np.polyfit(2 * x[:, 0], log_ratio, 1)[0] < 2


def test_the_total_of_noise_that_depends_on_x_is_found_in_a_stream():
    """Where the noise is small, most of the variance is that of the means."""
    noises, totals = [], []
    for seed in range(4):
        noise, total = variances_at_new_rows(stream(seed, 2.0)[0], 2.0)
        noises.append(np.median(noise))
        totals.append(np.log(total).mean())
    assert np.abs(np.log(noises)).max() < np.log(3)
    assert np.abs(totals).max() < np.log(1.7)
    assert np.mean(totals) == pytest.approx(0, abs=0.3)


def test_each_target_of_a_stream_has_noise_of_its_own():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        net = make_network([2, 8, 2], seed, 3, sigma_v=1.0, learn_noise=True)
        net.noise_net = draw_noise_network(2, 2, np.float64, seed)
        for _ in range(30):
            x = rng.uniform(-1.5, 1.5, size=(50, 2))
            y = x + 0.3 * np.column_stack([np.exp(x[:, 0]), np.ones(50)]) * rng.normal(size=(50, 2))
            learn_stream(net, Rows(with_ones(x), y, np.ones(50)), [Settings(50)])
        assert net.noise_net.exponent[0] > 0
        log_ratio = net.noise_net.log_ratio(NEW_X)
        assert np.corrcoef(log_ratio[0], NEW_X[:, 0])[0, 1] > 0.95
        assert np.polyfit(2 * NEW_X[:, 0], log_ratio[0], 1)[0] == pytest.approx(1, abs=0.35)
        assert log_ratio[1].std() < 0.2
        std = np.sqrt(net.reported_noise.mean(axis=0)[1] * np.exp(log_ratio[1])).mean()
        assert std == pytest.approx(0.3, rel=0.15)


@pytest.mark.parametrize(("temperature", "spread"), [(1.0, 1.0), (0.25, 1.0), (0.25, 0.125)])
def test_exponents_are_scored_by_errors_with_variances_as_they_are_reported(temperature, spread):
    """At U = 0 all but 0 say the same; constant noise has its own level."""
    data = make_rows(40, 3, weight=np.random.default_rng(3).uniform(0.5, 2, size=40))
    net = make_network([3, 5, 1], members=2, learn_noise=True, sigma_v=1.0)
    net.calibration = Calibration(temperature, np.full((1, 1), 0.6), gaussian_shape(1), spread)
    net.noise_net = draw_noise_network(3, 1, np.float64, 0)
    net.noise_net.level[...] = 0.4
    net.noise_net.scores[...] = 2.0
    mu, var = (moments[:, 0] for moments in predict_moments(net, data.x))
    error = data.y[:, 0] - mu.mean(axis=0)
    var = temperature * var.mean(axis=0) + spread * mu.var(axis=0)
    assert (np.abs(error) < 6 * np.sqrt(var + 0.6)).all()  # no outlier
    learn_stream(net, data, [Settings(40)])
    constant, at_zero = (
        stats.norm.logpdf(error, 0, np.sqrt(var + 0.6 * factor)) @ data.weight
        for factor in (1, np.exp(0.4))
    )
    units = 2.0 * 2 ** (-data.weight.sum() / 500)
    expected = units + np.array([0, *[at_zero - constant] * 5])
    np.testing.assert_allclose(net.noise_net.scores[:, 0], expected, rtol=1e-9)


@pytest.mark.parametrize("half_life", [None, 100.0, 1e9])
def test_the_noise_network_forgets_as_fast_as_the_means_or_faster(half_life, monkeypatch):
    """After ten rows for each of its parameters at the latest, if the means forget at all."""
    net = make_network([3, 5, 1], learn_noise=True)
    net.noise_net = draw_noise_network(3, 1, np.float64, 0)
    n_parameters = sum(layer.mu[0].size for layer in net.noise_net.net.layers)
    found = []

    def spy(learned, settings, **others):
        found.append(settings.half_life)
        return Learner(learned, settings, **others)

    for module in (streaming, noise_stream):
        monkeypatch.setattr(module, "Learner", spy)
    learn_stream(net, make_rows(40, 3), [Settings(40, True, half_life)])
    of_noise = {None: None, 100.0: 100.0, 1e9: 10.0 * n_parameters}[half_life]
    assert found == [half_life, of_noise]


def test_the_noise_network_of_before_stays_as_it_was():
    data = make_rows(80, 3)
    net = make_network([3, 5, 1], members=2, learn_noise=True)
    net.noise_net = old = draw_noise_network(3, 1, np.float64, 0)
    before = old.copy()
    learn_stream(net, data, [SETTINGS])
    assert net.noise_net is not old
    assert_same_posterior(old.net, before.net, 0)
    for name in ("exponent", "level", "bounds", "scores"):
        np.testing.assert_array_equal(getattr(old, name), getattr(before, name))
    assert not np.array_equal(net.noise_net.net.layers[-1].mu, old.net.layers[-1].mu)


def test_rows_are_judged_before_they_are_learned():
    """The first rows gain nothing from a network that has learned nothing, however they are."""
    x = with_ones(np.random.default_rng(0).uniform(-1.5, 1.5, size=(200, 2)))
    y = np.exp(2 * x[:, :1]) * np.random.default_rng(1).normal(size=(200, 1))
    net = make_network([2, 5, 1], learn_noise=True, sigma_v=1.0)
    net.noise_net = draw_noise_network(2, 1, np.float64, 0)
    learn_stream(net, Rows(x, y, np.ones(200)), [Settings(50)])
    np.testing.assert_array_equal(net.noise_net.scores, 0)
    assert np.ptp(mean_outputs(net.noise_net.net, x)) > 0.1
    learn_stream(net, Rows(x, y, np.ones(200)), [Settings(50)])
    assert net.noise_net.scores.max() > 4
    assert (net.noise_net.scores[0] == 0).all()  # gains over constant noise


def test_a_target_that_is_not_observed_teaches_no_noise():
    data = make_rows(60, 3, 2)
    data.y[:, 1] = np.nan
    net = make_network([3, 5, 2], learn_noise=True)
    net.noise_net = draw_noise_network(3, 2, np.float64, 0)
    learn_stream(net, data, [SETTINGS])
    outputs = mean_outputs(net.noise_net.net, data.x)
    assert np.ptp(outputs[:, 0]) > 0
    np.testing.assert_array_equal(outputs[:, 1], 0)
    np.testing.assert_array_equal(net.noise_net.scores[:, 1], 0)


@pytest.mark.parametrize("size", [1e3, 1e9])
def test_an_outlier_teaches_no_more_than_one_of_six_standard_deviations(size):
    """Beyond that its size does not matter."""
    outputs = []
    for outlier in (size, 1e12):
        data = make_rows(64, 3)
        data.y[5] = outlier
        net = make_network([3, 5, 1], learn_noise=True, sigma_v=1.0)
        net.noise_net = draw_noise_network(3, 1, np.float64, 0)
        learn_stream(net, data, [Settings(64)])
        outputs.append(mean_outputs(net.noise_net.net, data.x))
    np.testing.assert_allclose(*outputs, rtol=1e-6, atol=1e-9)
    assert np.abs(outputs[0]).max() < 3


def test_a_noise_network_that_would_break_is_kept_as_it_was():
    data = make_rows(20, 3)
    net = make_network([3, 5, 1], learn_noise=True)
    net.noise_net = old = draw_noise_network(3, 1, np.float64, 0)
    old.net.layers[0].var[...] = np.inf
    with np.errstate(all="ignore"):
        learn_stream(net, data, [SETTINGS])
    assert net.noise_net is old


# ----------------------------------------------------------------------------- calibrated noise


def test_a_calibrated_scale_fades_as_new_rows_teach_the_noise():
    data = make_rows(400, 3, noise=0.3)
    net = make_network([3, 5, 1], learn_noise=True)
    net.rows_learned[...] = 50
    net.calibration = Calibration(1.0, np.full((1, 1), 4.0), gaussian_shape(1))
    scales = [4.0]
    for start in range(0, 400, 100):
        rows = data.take(np.arange(start, start + 100))
        learn_stream(net, rows, [SETTINGS])
        scales.append(net.calibration.noise_scale.item())
    assert (np.diff(scales) < 0).all()
    assert 1 <= scales[-1] < 1.2


def test_a_noise_that_is_given_keeps_its_scale():
    net = make_network([3, 5, 1])
    net.calibration = Calibration(1.0, np.full((1, 1), 4.0), gaussian_shape(1))
    learn_stream(net, make_rows(100, 3), [SETTINGS])
    assert net.calibration.noise_scale.item() == 4.0
