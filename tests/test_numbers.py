"""Finite input never gives NaN, an infinite, a zero or a negative variance."""

import contextlib
import itertools
import warnings

import numpy as np
import pytest
from helpers import of_layers

from sktagi import TAGIClassifier, TAGIRegressor

GRID = {
    "batch_size": [1, 10, 50, 1000],
    "x_scale": [1e-8, 1.0, 1e8],
    "y_scale": [1e-8, 1.0, 1e8],
    "sigma_v": [1e-6, 1e-3, 1.0, 1e6, "auto"],
    "dtype": [np.float32, np.float64],
    "standardize": [True, False],
    "batch_inference": ["joint", "independent"],
    "hidden_layer_sizes": [(), (20,), (20, 20), "auto"],
}


def corners():
    """The extremes of every range, for the networks that differ most."""
    ends = {name: [v[0], v[-1]] for name, v in GRID.items()}
    ends["sigma_v"] = [1e-6, 1e6, "auto"]
    ends["batch_size"] = [1, 1000]
    ends["hidden_layer_sizes"] = [(20,), "auto"]
    return [dict(zip(ends, v, strict=True)) for v in itertools.product(*ends.values())]


def random_cases(n, seed):
    cases = [dict(zip(GRID, v, strict=True)) for v in itertools.product(*GRID.values())]
    return [cases[k] for k in np.random.default_rng(seed).choice(len(cases), n, replace=False)]


def label(case):
    return "-".join(getattr(v, "__name__", str(v)) for v in case.values())


def parameters(model):
    means = of_layers(model.coefs_) + of_layers(model.intercepts_)
    variances = of_layers(model.coef_vars_) + of_layers(model.intercept_vars_)
    return means, variances


def assert_sound(model):
    means, variances = parameters(model)
    assert all(np.isfinite(a).all() for a in means), "parameter means are not finite"
    assert all(np.isfinite(a).all() for a in variances), "parameter variances are not finite"
    assert all((a > 0).all() for a in variances), "parameter variances are not positive"
    assert np.isfinite(model.sigma_v_).all()
    assert (np.asarray(model.sigma_v_) > 0).all()


def assert_sound_regression(model, X):
    assert_sound(model)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all(), "means are not finite"
    assert np.isfinite(std).all(), "standard deviations are not finite"
    assert (std > 0).all(), "standard deviations are not positive"
    epistemic, aleatoric = model.predict_variance(X)
    for part in (epistemic, aleatoric):
        assert np.isfinite(part).all()
        assert (part > 0).all()


def assert_sound_classification(model, X):
    assert_sound(model)
    proba, std = model.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert (proba >= 0).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    assert np.isfinite(model.predict_log_proba(X)).all()


@pytest.fixture(autouse=True)
def _runtime_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def settings(case, **params):
    return {
        "batch_size": case["batch_size"], "sigma_v": case["sigma_v"],
        "standardize": case["standardize"], "batch_inference": case["batch_inference"],
        "hidden_layer_sizes": case["hidden_layer_sizes"], "max_iter": 2, "n_members": 1,
        "random_state": 0, **params,
    }  # fmt: skip


def make_rows(case, n=100, d=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    return (X * case["x_scale"]).astype(case["dtype"]), y * case["y_scale"]


@pytest.mark.parametrize("case", corners(), ids=label)
def test_regressor_at_the_corners(case):
    X, y = make_rows(case)
    assert_sound_regression(TAGIRegressor(**settings(case)).fit(X, y), X)


@pytest.mark.parametrize("case", random_cases(120, seed=0), ids=label)
def test_regressor_in_between(case):
    X, y = make_rows(case)
    model = TAGIRegressor(**settings(case, early_stopping=False, half_life=None)).fit(X, y)
    assert_sound_regression(model, X)


@pytest.mark.parametrize("case", [c for c in corners() if c["y_scale"] == 1e8], ids=label)
def test_classifier_at_the_corners(case):
    X, y = make_rows({**case, "y_scale": 1.0})
    labels = np.digitize(y, [-0.5, 0.5])
    assert_sound_classification(TAGIClassifier(**settings(case)).fit(X, labels), X)


@pytest.mark.parametrize("case", random_cases(60, seed=1), ids=label)
def test_classifier_in_between(case):
    X, y = make_rows({**case, "y_scale": 1.0})
    labels = np.digitize(y, [-0.5, 0.5])
    model = TAGIClassifier(**settings(case, early_stopping=False, half_life=None)).fit(X, labels)
    assert_sound_classification(model, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("x_scale", [1e-8, 1e8])
@pytest.mark.parametrize("y_scale", [1e-8, 1e8])
def test_the_default_with_many_rows_which_are_learned_in_single_precision(
    dtype, standardize, x_scale, y_scale
):
    case = {"x_scale": x_scale, "y_scale": y_scale, "dtype": dtype}
    X, y = make_rows(case, n=1200)
    params = {"standardize": standardize, "max_iter": 2, "n_members": 1, "random_state": 0}
    model = TAGIRegressor(**params).fit(X, y)
    assert_sound_regression(model, X)
    assert_sound_regression(model.partial_fit(X[:64], y[:64]), X)
    labels = np.digitize(y / y_scale, [-0.5, 0.5])
    assert_sound_classification(TAGIClassifier(**params).fit(X, labels), X)


@pytest.mark.parametrize("n", [100, 1200])
@pytest.mark.parametrize(
    ("x_scale", "y_scale"), [(1e-60, 1.0), (1e60, 1.0), (1.0, 1e-60), (1.0, 1e60)]
)
def test_units_beyond_single_precision_change_nothing(n, x_scale, y_scale):
    X, y = make_rows({"x_scale": 1.0, "y_scale": 1.0, "dtype": np.float64}, n=n)
    params = {"max_iter": 2, "n_members": 1, "random_state": 0}
    expected = TAGIRegressor(**params).fit(X, y).predict(X, return_std=True)
    model = TAGIRegressor(**params).fit(X * x_scale, y * y_scale)
    found = np.array(model.predict(X * x_scale, return_std=True)) / y_scale
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [1e3, 1e60])
@pytest.mark.parametrize("standardize", [True, False])
def test_an_outlier_among_many_inputs(size, standardize):
    X, y = make_rows({"x_scale": 1.0, "y_scale": 1.0, "dtype": np.float64}, n=1200)
    X[7, 1] = size
    params = {"standardize": standardize, "max_iter": 2, "n_members": 1, "random_state": 0}
    assert_sound_regression(TAGIRegressor(**params).fit(X, y), X)


STREAMS = [c for c in random_cases(120, seed=2) if c["batch_size"] <= 50]


@pytest.mark.parametrize("case", STREAMS[:40], ids=label)
def test_streams_of_all_kinds(case):
    X, y = make_rows(case, n=40)
    model = TAGIRegressor(**settings(case))
    for start in range(0, 40, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
    assert_sound_regression(model, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma_v", [1e-6, "auto"])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("kind", ["all equal", "few distinct", "one row many times"])
def test_duplicate_rows(dtype, sigma_v, batch_inference, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).astype(dtype)
    y = X[:, 0].astype(float)
    if kind == "all equal":
        X, y = np.ones_like(X), np.ones_like(y)
    elif kind == "few distinct":
        X, y = np.tile(X[:5], (24, 1)), rng.normal(size=120)  # contradictory targets
    else:
        X[:100], y[:100] = X[0], y[0]
    model = TAGIRegressor(sigma_v=sigma_v, batch_inference=batch_inference, max_iter=5,
                          n_members=2, batch_size=120, random_state=0).fit(X, y)  # fmt: skip
    assert_sound_regression(model, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma_v", [1e-6, 1.0, 1e6, "auto"])
@pytest.mark.parametrize("value", [0.0, 1e-8, 0.998, 1e8])
def test_constant_target(dtype, sigma_v, value):
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(dtype)
    model = TAGIRegressor(sigma_v=sigma_v, max_iter=10, n_members=1, random_state=0)
    assert_sound_regression(model.fit(X, np.full(60, value)), X)


@pytest.mark.parametrize("sigma_v", [1e-6, 1e-3])
@pytest.mark.parametrize("max_iter", [200])
@pytest.mark.parametrize("half_life", [None, 1.0])
def test_variances_survive_many_epochs(sigma_v, max_iter, half_life):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)).astype(np.float32)
    model = TAGIRegressor(hidden_layer_sizes=(10,), sigma_v=sigma_v, max_iter=max_iter,
                          half_life=half_life, early_stopping=False, n_members=1, batch_size=10,
                          random_state=0).fit(X, X[:, 0])  # fmt: skip
    assert_sound_regression(model, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e3, 1e8, 1e15])
def test_outlying_rows_at_predict(dtype, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).astype(dtype)
    far = (X[:5] * size).astype(dtype)
    regressor = TAGIRegressor(max_iter=3, n_members=2, random_state=0).fit(X, X[:, 0])
    assert_sound_regression(regressor, far)
    classifier = TAGIClassifier(max_iter=3, n_members=2, random_state=0).fit(X, X[:, 0] > 0)
    assert_sound_classification(classifier, far)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e3, 1e8, 1e15])
@pytest.mark.parametrize("where", ["X", "y"])
def test_an_outlier_among_the_training_rows(dtype, size, where):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).astype(dtype)
    y = X[:, 0].astype(float)
    if dtype is np.float32:
        size = min(size, 1e10)  # variances are squares
    if where == "X":
        X[7, 1] = size
    else:
        y[7] = size
    for params in ({}, {"standardize": False}, {"batch_inference": "independent"}):
        model = TAGIRegressor(max_iter=3, n_members=2, random_state=0, **params).fit(X, y)
        assert_sound_regression(model, X)


@pytest.mark.parametrize("weight", [1e-12, 1e-3, 1e3, 1e12])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
def test_extreme_weights(weight, batch_inference):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] > 0
    mixed = np.where(rng.random(60) < 0.5, weight, 1.0)
    params = {"max_iter": 2, "n_members": 1, "batch_inference": batch_inference, "random_state": 0}
    for given in (np.full(60, weight), mixed):
        model = TAGIRegressor(**params).fit(X, y.astype(float), sample_weight=given)
        assert_sound_regression(model, X)
        assert_sound_classification(TAGIClassifier(**params).fit(X, y, sample_weight=given), X)


@pytest.mark.parametrize("X_std", [1e-12, 1e-3, 1e3, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_input_uncertainty(X_std, dtype):
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(dtype)
    model = TAGIRegressor(max_iter=2, n_members=1, random_state=0).fit(X, X[:, 0], X_std=X_std)
    assert_sound_regression(model, X)
    assert np.isfinite(model.predict(X, return_std=True, X_std=X_std)).all()


@pytest.mark.parametrize(
    "activation",
    ["identity", "relu", "leaky_relu", "tanh", "logistic", "softplus", "relu_exact"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("x_scale", [1e-8, 1e8])
def test_all_activations_without_standardisation(activation, dtype, x_scale):
    X = (x_scale * np.random.default_rng(0).normal(size=(60, 3))).astype(dtype)
    y = X[:, 0].astype(float) / x_scale
    model = TAGIRegressor((10, 10), activation, standardize=False, max_iter=2, n_members=1,
                          random_state=0).fit(X, y)  # fmt: skip
    assert_sound_regression(model, X)


@pytest.mark.parametrize("gain", [1e-6, 1e6])
def test_extreme_priors(gain):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = TAGIRegressor(weight_gain=gain, bias_variance=gain, max_iter=3, n_members=1,
                          random_state=0).fit(X, X[:, 0])  # fmt: skip
    assert_sound_regression(model, X)


@pytest.mark.parametrize("y_scale", [1e-120, 1e-50, 1e-25, 1e-12, 1e12, 1e21, 1e50, 1e120])
@pytest.mark.parametrize("way", ["fit", "stream", "auto"])
def test_targets_of_any_size_beside_features_in_single_precision(y_scale, way):
    """Variances are squares: those of 1e-25 or 1e21 are beyond float32."""
    X, y = make_rows({"x_scale": 1.0, "y_scale": 1.0, "dtype": np.float32})
    sizes = "auto" if way == "auto" else (5,)

    def learned(y):
        model = TAGIRegressor(sizes, max_iter=2, n_members=2, random_state=0)
        return model.partial_fit(X, y) if way == "stream" else model.fit(X, y)

    plain, model = learned(y), learned(y * y_scale)
    assert_sound_regression(model, X)
    for expected, found in zip(plain.predict_variance(X), model.predict_variance(X), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected * y_scale**2, rtol=1e-2)
    for method in ("predict_noise_std", "predict_interval", "predict"):
        found = getattr(model, method)(X)
        np.testing.assert_allclose(found / y_scale, getattr(plain, method)(X), rtol=0.01, atol=1e-3)
    assert model.score(X, y * y_scale) == pytest.approx(plain.score(X, y), abs=1e-3)


def test_a_stream_that_outgrows_single_precision_stays_sound():
    X, y = make_rows({"x_scale": 1.0, "y_scale": 1.0, "dtype": np.float32})
    model = TAGIRegressor((5,), n_members=2, random_state=0).partial_fit(X, y)
    for y_scale in (1e20, 1e-60):
        model.partial_fit(X, y * y_scale)
        assert_sound_regression(model, X)


@pytest.mark.parametrize("size", [1e12, 1e19, 1e20, 1e30])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("where", ["X", "y"])
def test_a_huge_row_in_single_precision_is_refused_or_does_no_harm(size, standardize, where):
    X, y = make_rows({"x_scale": 1.0, "y_scale": 1.0, "dtype": np.float32})
    model = TAGIRegressor((5,), n_members=1, standardize=standardize, random_state=0)
    model.partial_fit(X, y)
    row, target = X[:1].copy(), y[:1].copy()
    (row if where == "X" else target).flat[0] = size
    with contextlib.suppress(ValueError):
        model.partial_fit(row, target)
    model.partial_fit(X, y)
    assert_sound_regression(model, X)
