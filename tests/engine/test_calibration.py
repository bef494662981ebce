"""The variance that a mixture reports, from rows that its members have held out."""

import numpy as np
import pytest
from helpers import make_network, with_ones

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine import calibration
from sktagi.engine.calibration import OPTIMISM, TEMPERATURES, calibrate
from sktagi.engine.learning import Rows, predict_moments
from sktagi.engine.training import MIN_ROWS_FOR_NOISE


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
    return mu.mean(axis=0), var.mean(axis=0) + mu.var(axis=0) + net.noise_var.mean()


def test_one_member_learns_the_noise_of_its_rows():
    net, data, validation = made(1, n=4000, sure=1e-4)
    calibrate(net, data, validation)
    np.testing.assert_allclose(np.sqrt(net.reported().noise_var), 0.3, rtol=0.05)


def test_variances_that_are_too_wide_are_cooled():
    """Where the noise is small nothing but a lower temperature can make the network surer."""
    net, data, validation = made(1, n=400, noise=0.15, sure=1.0)
    before = net.copy()
    calibrate(net, data, validation)
    assert net.temperature < 1 / 30
    np.testing.assert_array_equal(net.layers[0].var, before.layers[0].var)  # learning is not cooled
    np.testing.assert_allclose(
        net.reported().layers[0].var, net.temperature * before.layers[0].var, rtol=1e-12
    )
    mean, var = reported(net, data.x)
    assert 0.7 < np.mean(np.square(data.y - mean) / var) < 1.4


@pytest.mark.parametrize("sure", [0.05, 0.02])
def test_variances_that_suit_the_rows_stay_as_they_are(sure):
    """What a temperature below 1 would gain is not clear where the noise explains the errors."""
    net, data, validation = made(1, n=200, noise=0.5, sure=sure)
    calibrate(net, data, validation)
    assert net.temperature == 1 + OPTIMISM / 200


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
    np.testing.assert_allclose(np.sqrt(noise_var[0, 0]), [0.1, 0.7], rtol=0.1)


def test_weight_two_counts_as_two_rows():
    one, data, validation = made(2, n=120, noise=0.4, sure=0.3, spread=0.1, seed=7)
    two = one.copy()
    calibrate(one, data._replace(weight=np.full(120, 2.0)), validation)
    doubled = [np.concatenate([v, v + 120]) for v in validation]
    calibrate(two, data.take(np.tile(np.arange(120), 2)), doubled)
    assert one.temperature == two.temperature
    np.testing.assert_allclose(one.noise_scale, two.noise_scale, rtol=1e-12)


def test_replicates_with_other_targets_are_rows_of_their_own():
    net, data, validation = made(1, n=200)
    calibrate(net, data._replace(x=np.repeat(data.x[:5], 40, axis=0)), validation)
    assert net.temperature in TEMPERATURES * (1 + OPTIMISM / 200)


@pytest.mark.parametrize("members", [1, 4])
def test_variances_grow_with_few_rows(members, monkeypatch):
    found = []
    for optimism in (0.0, 8.0):
        monkeypatch.setattr(calibration, "OPTIMISM", optimism)
        net, data, validation = made(members, n=25 * members)
        calibrate(net, data, validation)
        found.append((net.temperature, net.noise_scale))
    np.testing.assert_allclose(found[1][0], found[0][0] * (1 + 8 / 25), rtol=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1] * (1 + 8 / 25), rtol=1e-12)


def test_too_few_rows_change_nothing():
    net, data, validation = made(2, n=2 * MIN_ROWS_FOR_NOISE - 1)
    calibrate(net, data, validation)
    assert net.temperature == 1
    assert net.noise_scale == 1
    assert np.all(net.noise_var == 1)


def test_the_choice_is_the_highest_temperature_without_a_clear_loss(monkeypatch):
    monkeypatch.setattr(calibration, "OPTIMISM", 0.0)
    chosen = {}
    for gain in (0.0, 1e9):
        monkeypatch.setattr(calibration, "CLEAR_GAIN", gain)
        net, data, validation = made(1, n=400, noise=0.05, sure=1.0)
        calibrate(net, data, validation)
        chosen[gain] = net.temperature
    assert chosen[1e9] == 1.0
    assert chosen[0.0] in TEMPERATURES[3:]


def data_with_little_noise(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 1))
    return X, np.sin(1.5 * X[:, 0]) + X[:, 0] / 2 + 0.1 * rng.normal(size=n)


def test_intervals_of_data_with_little_noise_are_not_far_too_wide():
    X, y = data_with_little_noise()
    X_new, y_new = data_with_little_noise(2000, seed=1)
    model = TAGIRegressor(random_state=0).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    inside = np.mean(np.abs(y_new - mean) < 0.674 * std)
    assert 0.4 < inside < 0.75
    low, high = model.predict_interval(X_new, 0.9).T
    assert 0.82 < np.mean((low < y_new) & (y_new < high)) < 0.99


@pytest.mark.parametrize(
    "params",
    [{"early_stopping": False}, {"max_iter": 0}],
    ids=["no rows held out", "nothing learnt"],
)
def test_nothing_is_calibrated(params):
    X, y = data_with_little_noise(200)
    settings = {"max_iter": 2, "n_members": 2, "random_state": 0}
    regressor = TAGIRegressor(**{**settings, **params}).fit(X, y)
    classifier = TAGIClassifier(**settings).fit(X, y > 0)
    for model in (regressor, classifier):
        assert (model._net.temperature, model._net.noise_scale) == (1.0, 1.0)
    assert TAGIRegressor(**settings).fit(X, y)._net.temperature != 1  # where nothing forbids it


def test_noise_that_is_given_stays_and_the_network_is_cooled():
    """Too much noise was assumed: rows held out still tell how sure the network may be."""
    X, y = data_with_little_noise(600)
    X_new, y_new = data_with_little_noise(2000, seed=1)
    model = TAGIRegressor(n_members=3, sigma_v=0.05, random_state=0).fit(X, y)
    assert model.sigma_v_ == pytest.approx(0.05)
    assert model._net.temperature < 0.6
    calibrated = model.log_likelihood(X_new, y_new)
    model._net.temperature = 1.0
    assert calibrated > model.log_likelihood(X_new, y_new) + 0.05


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_predictions_are_cooled_and_learning_goes_on_from_what_was_learnt(covariance_type):
    X, y = data_with_little_noise(200)
    model = TAGIRegressor(
        (5,), covariance_type=covariance_type, n_members=2, max_iter=8, random_state=0
    ).fit(X, y)
    learnt = model._net.layers[0].var[:, :-1]
    assert model._net.temperature != 1
    np.testing.assert_allclose(model.coef_vars_[0], model._net.temperature * learnt, rtol=1e-12)
    np.testing.assert_allclose(
        model.sigma_v_, np.sqrt(model._net.noise_var[0] * model._net.noise_scale).item(), rtol=1e-12
    )
    before = model._net.temperature
    model.partial_fit(X[:1], y[:1])
    assert model._net.temperature == before
    if covariance_type == "full":
        assert all(np.linalg.eigvalsh(cov).min() > 0 for cov in model.layer_covariances_)


def test_warm_fits_go_on_learning():
    X, y = data_with_little_noise(200)
    model = TAGIRegressor((10,), max_iter=1, n_members=2, warm_start=True, random_state=0)
    scores = [model.fit(X, y).log_likelihood(X, y) for _ in range(6)]
    assert scores[-1] > scores[0] + 0.1


def test_a_warm_fit_without_epochs_changes_no_prediction():
    X, y = data_with_little_noise(200)
    model = TAGIRegressor((10,), max_iter=3, n_members=2, warm_start=True, random_state=0)
    before = model.fit(X, y).predict(X, return_std=True)
    assert model._net.temperature != 1
    after = model.set_params(max_iter=0).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(after, before, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 9.0])
@pytest.mark.parametrize("chunk", [16, 1600])
def test_in_a_stream_the_noise_is_that_of_its_rows(scale, chunk):
    """What was calibrated counts with what is left of the noise that it was calibrated for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 3))
    Y = X[:, :2] + [0.1, 0.4] * rng.normal(size=(2100, 2))
    params = {"n_members": 2, "max_iter": 1, "standardize": False, "half_life": None}
    model = TAGIRegressor((), batch_size=16, random_state=0, **params).fit(X[:500], Y[:500])
    model._net.noise_scale = np.array([[scale, 1.0]])
    learnt = model._net.noise_var.mean(axis=0)
    for start in range(500, 2100, chunk):
        model.partial_fit(X[start : start + chunk], Y[start : start + chunk])
    rows = model._net.rows_learned[0, 0, 0] - 1600 + 16 * np.arange(1, 101)
    kept = np.prod(1 - (16 / rows) ** 0.6)
    expected = model._net.noise_var.mean(axis=0) + kept * learnt * [[scale - 1, 0]]
    np.testing.assert_allclose(np.square(model.sigma_v_), expected[0], rtol=1e-6)
    np.testing.assert_allclose(model.sigma_v_, [0.1, 0.4], rtol=0.1)


def test_a_given_noise_is_not_scaled():
    X, y = data_with_little_noise(200)
    model = TAGIRegressor((10,), max_iter=3, n_members=2, random_state=0).fit(X, y)
    model.set_params(sigma_v=0.7).partial_fit(X, y)
    np.testing.assert_allclose(model.sigma_v_, 0.7, rtol=1e-12)
