"""How sure estimators are: calibrated by held-out rows, and in streams after that."""

import numpy as np
import pytest

from sktagi import TAGIClassifier, TAGIRegressor


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
    ids=["no rows held out", "nothing learned"],
)
def test_nothing_is_calibrated(params):
    X, y = data_with_little_noise(200)
    settings = {"max_iter": 2, "n_members": 2, "random_state": 0}
    regressor = TAGIRegressor(**{**settings, **params}).fit(X, y)
    assert regressor._net.calibration is None
    classifier = TAGIClassifier(**{**settings, **params}).fit(X, y > 0)
    calibration = classifier._net.calibration
    assert calibration is None or (calibration.slope, calibration.usual_var) == (1, None)
    calibrated = TAGIRegressor(**settings).fit(X, y)  # where nothing forbids it
    assert calibrated._net.calibration.temperature != 1


def test_noise_that_is_given_stays_and_the_network_is_cooled():
    """Too much noise was assumed: rows held out still tell how sure the network may be."""
    X, y = data_with_little_noise(600)
    X_new, y_new = data_with_little_noise(2000, seed=1)
    model = TAGIRegressor(
        (50,), n_members=3, sigma_v=0.05, half_life=300.0, max_iter=100, random_state=0
    ).fit(X, y)
    assert model.sigma_v_ == pytest.approx(0.05)
    assert model._net.calibration.temperature < 0.6
    calibrated = model.log_likelihood(X_new, y_new)
    model._net.calibration = model._net.calibration._replace(temperature=1.0)
    assert calibrated > model.log_likelihood(X_new, y_new) + 0.05


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_predictions_are_cooled_and_learning_goes_on_from_what_was_learned(covariance_type):
    X, y = data_with_little_noise(200)
    model = TAGIRegressor(
        (5,), covariance_type=covariance_type, n_members=2, max_iter=8, random_state=0
    ).fit(X, y)
    learned, noise_var = model._net.layers[0].var[:, :-1], model._net.noise_var[0]
    temperature, noise_scale, *_ = model._net.calibration
    assert temperature != 1
    np.testing.assert_allclose(model.coef_vars_[0], temperature * learned, rtol=1e-12)
    np.testing.assert_allclose(model.sigma_v_, np.sqrt(noise_var * noise_scale).item(), rtol=1e-12)
    model.partial_fit(X[:1], y[:1])
    assert model._net.calibration.temperature == temperature
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
    assert model._net.calibration.temperature != 1
    after = model.set_params(max_iter=0).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(after, before, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 9.0])
@pytest.mark.parametrize("chunk", [16, 1600])
def test_in_a_stream_the_noise_is_that_of_its_rows(scale, chunk):
    """What was calibrated counts with what is left of the noise that it was calibrated for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 3))
    Y = X[:, :2] + [0.1, 0.4] * rng.normal(size=(2100, 2))
    params = {"n_members": 2, "max_iter": 1, "standardize": False, "half_life": None,
              "sigma_v": "constant"}  # fmt: skip
    model = TAGIRegressor((), batch_size=16, random_state=0, **params).fit(X[:500], Y[:500])
    noise_scale = np.array([[scale], [1.0]])
    model._net.calibration = model._net.calibration._replace(noise_scale=noise_scale)
    learned = model._net.noise_var.mean(axis=0)
    for start in range(500, 2100, chunk):
        model.partial_fit(X[start : start + chunk], Y[start : start + chunk])
    rows = model._net.rows_learned[0, 0, 0] - 1600 + 16 * np.arange(1, 101)
    kept = np.prod(1 - (16 / rows) ** 0.6)
    expected = model._net.noise_var.mean(axis=0) + kept * learned * (noise_scale - 1)
    np.testing.assert_allclose(np.square(model.sigma_v_), expected[:, 0], rtol=1e-6)
    np.testing.assert_allclose(model.sigma_v_, [0.1, 0.4], rtol=0.1)


def test_a_given_noise_is_not_scaled():
    X, y = data_with_little_noise(200)
    model = TAGIRegressor((10,), max_iter=3, n_members=2, random_state=0).fit(X, y)
    model.set_params(sigma_v=0.7).partial_fit(X, y)
    np.testing.assert_allclose(model.sigma_v_, 0.7, rtol=1e-12)
