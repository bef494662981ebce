"""Uncertain inputs of estimators: Fig. 8, shapes of X_std and X_cov, errors."""

import numpy as np
import pytest
from helpers import with_ones

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.passes import forward
from sktagi.engine.posterior import Layer

COV = np.array([[1.0, 0.4, 0], [0.4, 0.5, -0.2], [0, -0.2, 0.3]]) / 10


def rows(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2


def fitted(estimator=TAGIRegressor, **params):
    X, y = rows()
    defaults = {"hidden_layer_sizes": (8, 6), "max_iter": 4, "n_members": 2, "random_state": 0}
    return estimator(**{**defaults, **params}).fit(X, y if estimator is TAGIRegressor else y > 0)


# ---------------------------------------------------------------------------------------- Figure 8


@pytest.mark.parametrize(("hidden", "covariance_type"), [
    ((50,), "diag"), ((50, 50), "diag"), ((30,), "full"),
])  # fmt: skip
def test_output_std_follows_the_slope_of_the_function(hidden, covariance_type):
    """Fig. 8: x^3 with sigma_X = 0.2 has 6 x^2 / 10, which diagonal Sigma_Z does not give."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(600, 1))
    model = TAGIRegressor(
        hidden, covariance_type=covariance_type, sigma_v=0.01, half_life=None, n_members=1,
        early_stopping=False, max_iter=40 if covariance_type == "diag" else 8, random_state=0,
    ).fit(X, X[:, 0] ** 3)  # fmt: skip
    grid = np.concatenate([np.linspace(-0.9, -0.3, 61), np.linspace(0.3, 0.9, 61)])[:, None]
    truth = 0.6 * grid[:, 0] ** 2
    std = np.sqrt(model.predict_variance(grid, X_std=0.2)[0])
    assert np.median(np.abs(std - truth) / truth) < 0.2
    if covariance_type == "full":
        return
    # The same posterior, in standardised units, through the form for learning: diagonal Sigma_Z
    layers = []
    for j in range(len(model.coefs_)):
        mu = np.vstack([model.coefs_[j], model.intercepts_[j]])
        var = np.vstack([model.coef_vars_[j], model.intercept_vars_[j]])
        layers.append(Layer(mu, var, np.ones((len(mu), 1))))
    x, y = (grid - X.mean()) / X.std(), X[:, 0] ** 3
    var_x = np.full((1, 1), (0.2 / X.std()) ** 2)
    mu_z, var_z, _ = forward(layers, ACTIVATIONS["relu"], with_ones(x).T, var_x)
    np.testing.assert_allclose(mu_z[0] * y.std() + y.mean(), model.predict(grid, X_std=0.2))
    diagonal = np.sqrt(var_z[0]) * y.std()
    assert np.median(np.abs(diagonal - truth) / truth) > 0.3


# -------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_forms_of_the_uncertainty_agree(covariance_type):
    X, _ = rows()
    model = fitted(covariance_type=covariance_type)
    expected = model.predict(X, return_std=True, X_std=0.3)
    for X_std in (np.full(3, 0.3), [0.3] * 3, np.full((1, 3), 0.3), np.full((50, 3), 0.3)):
        got = model.predict(X, return_std=True, X_std=X_std)
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    for X_cov in (0.09 * np.eye(3), np.tile(0.09 * np.eye(3), (50, 1, 1)), 0.09 * np.eye(3)[None]):
        if X_cov.shape == (1, 3, 3):
            got = np.hstack([
                model.predict(X[i : i + 1], return_std=True, X_cov=X_cov) for i in range(50)
            ])  # fmt: skip
        else:
            got = model.predict(X, return_std=True, X_cov=X_cov)
        np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_units_of_the_features_do_not_matter(covariance_type):
    X, y = rows()
    scale = np.array([1e-3, 1.0, 50.0])
    params = {"covariance_type": covariance_type, "max_iter": 2, "random_state": 0}
    one = TAGIRegressor((5,), **params).fit(X, y)
    other = TAGIRegressor((5,), **params).fit(X * scale, y)
    np.testing.assert_allclose(
        other.predict(X * scale, return_std=True, X_cov=COV * scale * scale[:, None]),
        one.predict(X, return_std=True, X_cov=COV),
        rtol=1e-6,
    )


def test_correlated_errors_may_cancel():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(100, 2))
    model = TAGIRegressor((), n_members=1, sigma_v=0.01, half_life=None, random_state=0)
    model.fit(X, X.sum(axis=1))
    together, opposite = np.ones((2, 2)), np.array([[1.0, -1], [-1, 1]])
    np.testing.assert_allclose(np.sqrt(model.predict_variance(X, X_cov=together)[0]), 2, rtol=0.05)
    assert np.sqrt(model.predict_variance(X, X_cov=opposite)[0]).max() < 0.1
    independent = np.sqrt(model.predict_variance(X, X_std=1.0)[0])
    np.testing.assert_allclose(independent, np.sqrt(2), rtol=0.05)


def test_every_prediction_takes_covariances():
    X, y = rows()
    model, wide = fitted(), {"X_cov": COV}
    mean, std = model.predict(X, return_std=True, **wide)
    epistemic, aleatoric = model.predict_variance(X, **wide)
    np.testing.assert_allclose(std**2, epistemic + aleatoric)
    dist = model.predict_dist(X, **wide)
    np.testing.assert_allclose(dist.mean(), mean)
    np.testing.assert_allclose(dist.std(), std)
    np.testing.assert_allclose(model.predict_quantiles(X, 0.5, **wide)[:, 0], dist.ppf(0.5))
    narrow = np.diff(model.predict_interval(X))
    assert (np.diff(model.predict_interval(X, **wide)) > narrow).all()
    drawn = model.sample_y(X, n_samples=4000, **wide).std(axis=1)
    np.testing.assert_allclose(drawn, std, rtol=0.1)
    assert model.log_likelihood(X, y, **wide) != model.log_likelihood(X, y)
    classifier = fitted(TAGIClassifier)
    sure = classifier.predict_proba(X)
    unsure = classifier.predict_proba(X, X_cov=100 * COV)
    assert np.abs(unsure - 0.5).mean() < np.abs(sure - 0.5).mean()
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(X, X_cov=100 * COV)), unsure)
    assert classifier.predict(X, X_cov=COV).shape == y.shape
    assert classifier.log_likelihood(X, y > 0, X_cov=100 * COV) < classifier.log_likelihood(
        X, y > 0
    )


def test_zero_covariances_are_exact_inputs():
    X, _ = rows()
    model = fitted()
    np.testing.assert_array_equal(
        model.predict(X, return_std=True, X_cov=np.zeros((3, 3))), model.predict(X, return_std=True)
    )


BAD_COV = {
    "shape": (np.eye(2), r"shape \(2, 2\).*\(3, 3\).*\(50, 3, 3\)"),
    "rows": (np.tile(np.eye(3), (49, 1, 1)), r"shape \(49, 3, 3\)"),
    "std in its place": (np.ones((50, 3)), r"shape \(50, 3\)"),
    "number": (0.1, r"shape \(\)"),
    "negative": (np.diag([1.0, -1e-3, 1.0]), "negative"),
    "indefinite": (COV + 0.2 * (1 - np.eye(3)), "semi-definite"),
    "covariance without variance": ([[1, 1, 0], [1, 0, 0], [0, 0, 1]], "semi-definite"),
    "not symmetric": (np.eye(3) + np.diag([0.5, 0], 1), "symmetric"),
    "nan": (np.full((3, 3), np.nan), "finite"),
    "text": ("a", "numbers"),
}


@pytest.mark.parametrize("kind", BAD_COV)
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_wrong_covariances_are_refused(kind, covariance_type):
    X, y = rows()
    X_cov, message = BAD_COV[kind]
    model = fitted(covariance_type=covariance_type, max_iter=1)
    with pytest.raises(ValueError, match=f"X_cov.*{message}"):
        model.predict(X, X_cov=X_cov)
    if covariance_type == "full":
        with pytest.raises(ValueError, match=f"X_cov.*{message}"):
            model.fit(X, y, X_cov=X_cov)


def test_uncertainty_that_cannot_be_used_is_refused():
    X, y = rows()
    model = fitted(max_iter=1)
    with pytest.raises(ValueError, match="X_std or X_cov, not both"):
        model.predict(X, X_std=0.1, X_cov=COV)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="covariance_type='full' only"):
            learn(X, y, X_cov=COV)
    with pytest.raises(ValueError, match="X_cov is too large"):
        fitted().fit(X.astype(np.float32), y).predict(X, X_cov=COV * 1e60)
