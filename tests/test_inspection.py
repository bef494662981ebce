"""Derivatives of the mean: finite differences, Jacobians by hand, and drawn functions."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.inspection import predict_gradient

SMALL = {"n_members": 3, "max_iter": 15, "random_state": 0}
NETWORKS = {
    "kinds": {},
    "linear": {"hidden_layer_sizes": ()},
    "tanh": {"hidden_layer_sizes": (10,), "activation": "tanh"},
    "logistic": {"hidden_layer_sizes": (10,), "activation": "logistic"},
    "softplus": {"hidden_layer_sizes": (10, 8), "activation": "softplus"},
    "leaky": {"hidden_layer_sizes": (10, 8), "activation": "leaky_relu"},
    "deep": {"hidden_layer_sizes": (10, 8, 8), "activation": "tanh"},
    "full": {"hidden_layer_sizes": (5,), "activation": "tanh", "covariance_type": "full"},
    "prior": {"hidden_layer_sizes": (10,), "activation": "tanh", "max_iter": 0},
    "raw": {"hidden_layer_sizes": (10,), "activation": "tanh", "standardize": False},
}


def make_data(n=200, n_targets=1, seed=0):
    """Features in units that differ."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    X = Z * [1, 10, 0.1] + [0, 50, 1]
    Y = np.sin(2 * Z[:, :1]) + Z @ rng.normal(size=(3, n_targets))
    return X, 5 * Y[:, 0] if n_targets == 1 else 5 * Y


def fitted(X=None, y=None, **params):
    if X is None:
        X, y = make_data()
        if params.get("standardize") is False:
            X = (X - [0, 50, 1]) / [1, 10, 0.1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TAGIRegressor(**{**SMALL, **params}).fit(X, y), X


def differences(function, X):
    """Central differences of a function of rows, on a last axis."""
    found = []
    for k, step in enumerate(1e-5 * X.std(axis=0)):
        beside = step * np.eye(X.shape[1])[k]
        found.append((function(X + beside) - function(X - beside)) / (2 * step))
    return np.stack(found, axis=-1)


@pytest.fixture(scope="module", params=list(NETWORKS))
def case(request):
    return fitted(**NETWORKS[request.param])


def test_gradient_is_that_of_finite_differences(case):
    model, X = case
    gradient = predict_gradient(model, X[:20])
    expected = differences(lambda Z: np.float64(model.predict(Z)), X)[:20]
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(gradient / scale, expected / scale, atol=1e-6)


def test_std_is_that_of_drawn_functions(case):
    model, X = case
    std = predict_gradient(model, X[:8], return_std=True)[1]
    drawn = differences(model.sample_functions(4000, random_state=0), X)[:8].std(axis=1)
    # Through several hidden layers, and with full covariances, rows have a scale, which counts as
    # a constant here.
    sizes = model.hidden_layer_sizes
    is_scaled = model.covariance_type == "full" or (sizes != "auto" and len(sizes) > 1)
    np.testing.assert_allclose(std, drawn, rtol=0.15 if is_scaled else 0.06)


def test_linear_model_has_its_coefficients():
    model, X = fitted(hidden_layer_sizes=())
    gradient = predict_gradient(model, X[:5])
    np.testing.assert_allclose(gradient, np.tile(model.coef_, (5, 1)), rtol=1e-10)


def test_jacobian_written_out_by_hand():
    model, X = fitted(
        hidden_layer_sizes=(4,), activation="tanh", n_members=1, standardize=False,
        early_stopping=False,
    )  # fmt: skip
    (w, v), (b, _) = model.coefs_, model.intercepts_
    for row, found in zip(X[:4], predict_gradient(model, X[:4]), strict=True):
        expected = [
            sum(w[k, h] * v[h, 0] / np.cosh(row @ w[:, h] + b[h]) ** 2 for h in range(4))
            for k in range(3)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_std_falls_with_more_rows():
    stds = []
    for n in (40, 1000):
        X, y = make_data(n)
        model, _ = fitted(X, y, hidden_layer_sizes=(), max_iter=30)
        stds.append(predict_gradient(model, X[:20], return_std=True)[1].mean(axis=0))
    assert (stds[1] < stds[0]).all()


def test_several_targets_come_before_features():
    X, Y = make_data(n_targets=2)
    model, _ = fitted(X, Y)
    gradient, std = predict_gradient(model, X[:6], return_std=True)
    assert gradient.shape == std.shape == (6, 2, 3)
    expected = differences(lambda Z: np.float64(model.predict(Z)), X)[:6]
    scale = np.abs(expected).max(axis=(0, 1))
    np.testing.assert_allclose(gradient / scale, expected / scale, atol=1e-6)


def test_single_precision_stays():
    X, y = make_data()
    model, _ = fitted(X.astype(np.float32), y)
    gradient = predict_gradient(model, X[:6].astype(np.float32))
    assert gradient.dtype == np.float32
    reference = predict_gradient(fitted(X, y)[0], X[:6])
    assert np.corrcoef(gradient.ravel(), reference.ravel())[0, 1] > 0.99


def test_wrong_readings_are_clipped_in_the_derivative_too():
    X, y = make_data()
    X[0, 1] = 1e5
    model, _ = fitted(X, y)
    far = np.array([[0.0, 1000.0, 1.0]])
    gradient = predict_gradient(model, np.vstack([far, X[1:4]]))
    numeric = differences(lambda Z: np.float64(model.predict(Z)), np.vstack([far, X[1:]]))[:4]
    scale = np.abs(numeric).max(axis=0)
    np.testing.assert_allclose(gradient / scale, numeric / scale, atol=1e-5)


def test_categories_and_gaps_have_no_derivative():
    pd = pytest.importorskip("pandas")
    X, y = make_data()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=rng.choice(["u", "v"], 200))
    frame.loc[rng.uniform(size=200) < 0.2, "b"] = np.nan
    model, _ = fitted(frame, y)
    gradient, std = predict_gradient(model, frame, return_std=True)
    for values in (gradient, std):
        assert np.isnan(values[:, 3]).all()
        np.testing.assert_array_equal(np.isnan(values[:, 1]), frame["b"].isna())
        assert np.isfinite(values[:, [0, 2]]).all()


def test_sparse_rows_are_as_dense_ones():
    X, y = make_data()
    X = X * (np.abs(X) > 0.5)
    model, _ = fitted(sparse.csr_array(X), y)
    rows = predict_gradient(model, sparse.csr_array(X[:5]), return_std=True)
    np.testing.assert_allclose(rows, predict_gradient(model, X[:5], return_std=True))


def test_blocks_of_rows_change_nothing(monkeypatch):
    model, X = fitted()
    whole = predict_gradient(model, X[:9])
    monkeypatch.setattr("sktagi.engine.sensitivity.BLOCK_ELEMENTS", 1)
    np.testing.assert_allclose(predict_gradient(model, X[:9]), whole, rtol=1e-10)


def test_what_has_no_such_derivative_is_refused():
    X, y = make_data()
    with pytest.raises(ValueError, match="relu_exact"):
        predict_gradient(fitted(hidden_layer_sizes=(5,), activation="relu_exact")[0], X)
    with pytest.raises(ValueError, match="target_transform"):
        predict_gradient(fitted(X, np.exp(y / 10), target_transform="log")[0], X)
    with pytest.raises(ValueError, match="TAGIRegressor; got TAGIClassifier"):
        predict_gradient(TAGIClassifier(), X)
