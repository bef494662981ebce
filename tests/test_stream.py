"""Learning from streams: partial_fit, its agreement with fit, and forgetting."""

import pickle

import numpy as np
import pytest
from sklearn.base import is_classifier

from sktagi import TAGIClassifier, TAGIRegressor

both = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
PLAIN = {
    "hidden_layer_sizes": (7,), "standardize": False, "shuffle": False, "early_stopping": False,
    "max_iter": 1, "batch_size": 8, "random_state": 0,
}  # fmt: skip


def make_stream(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)


def stream(model, X, y, size, **kwargs):
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        if is_classifier(model):
            kwargs["classes"] = [0, 1]
        rows = {k: v[part] if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        model.partial_fit(X[part], y[part], **rows)
    return model


def assert_same_posterior(model, other, rtol=0.0):
    for name in ("coefs_", "intercepts_", "coef_vars_", "intercept_vars_"):
        for mine, theirs in zip(getattr(model, name), getattr(other, name), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.sigma_v_, other.sigma_v_, rtol=rtol)


@both
@pytest.mark.parametrize("sigma_v", [0.3, "auto"])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("half_life", [None, 25.0, "auto"])
@pytest.mark.parametrize("n_members", [1, 3])
def test_fit_over_batches_equals_partial_fit_over_them(
    estimator, sigma_v, batch_inference, half_life, n_members
):
    X, y = make_stream()
    params = {**PLAIN, "sigma_v": sigma_v, "batch_inference": batch_inference,
              "half_life": half_life, "n_members": n_members}  # fmt: skip
    fitted = estimator(**params).fit(X, y)
    streamed = stream(estimator(**params), X, y, 8)
    assert_same_posterior(fitted, streamed)
    assert streamed.n_samples_seen_ == fitted.n_samples_seen_ == 60


@both
def test_fit_equals_partial_fit_with_weights_and_uncertain_inputs(estimator):
    X, y = make_stream()
    rng = np.random.default_rng(1)
    extra = {"sample_weight": rng.uniform(0.5, 3, 60), "X_std": rng.uniform(0, 0.3, X.shape)}
    fitted = estimator(**PLAIN).fit(X, y, **extra)
    assert_same_posterior(fitted, stream(estimator(**PLAIN), X, y, 8, **extra))


@both
def test_epochs_of_fit_equal_passes_of_partial_fit(estimator):
    X, y = make_stream()
    fitted = estimator(**{**PLAIN, "max_iter": 3}).fit(X, y)
    streamed = estimator(**PLAIN)
    for _ in range(3):
        stream(streamed, X, y, 8)
    assert_same_posterior(fitted, streamed)


@both
@pytest.mark.parametrize("sigma_v", [0.3, "auto"])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_chunk_boundaries_do_not_matter_row_by_row(estimator, sigma_v, size):
    X, y = make_stream()
    params = {**PLAIN, "batch_size": 1, "sigma_v": sigma_v, "half_life": 40.0}
    whole = estimator(**params).fit(X, y)
    assert_same_posterior(whole, stream(estimator(**params), X, y, size), rtol=1e-10)


@both
@pytest.mark.parametrize("size", [16, 60])
def test_chunks_of_whole_batches_learn_as_their_batches(estimator, size):
    X, y = make_stream()
    assert_same_posterior(
        stream(estimator(**PLAIN), X, y, 8), stream(estimator(**PLAIN), X, y, size)
    )


@both
def test_partial_fit_never_shuffles(estimator):
    X, y = make_stream()
    shuffling = {**PLAIN, "shuffle": True}
    assert_same_posterior(
        stream(estimator(**PLAIN), X, y, 20), stream(estimator(**shuffling), X, y, 20)
    )


@both
def test_counters_count_calls_and_rows(estimator):
    X, y = make_stream()
    model = stream(estimator(**PLAIN), X, y, 20)
    assert model.n_iter_ == 3
    assert model.n_samples_seen_ == 60
    weight = np.repeat([1.0, 0.0], 30)
    stream(model, X, y, 60, sample_weight=weight)
    assert model.n_iter_ == 4


@both
def test_partial_fit_continues_a_fit(estimator):
    X, y = make_stream(300)
    model = estimator(hidden_layer_sizes=(20,), n_members=2, max_iter=3, random_state=0)
    model.fit(X[:50], y[:50])
    before = model.log_likelihood(*make_stream(200, seed=5))
    model.partial_fit(X[50:], y[50:])
    assert model.log_likelihood(*make_stream(200, seed=5)) > before
    assert model.n_samples_seen_ == 300


def test_prior_of_a_stream_is_the_prior_of_fit():
    X, y = make_stream()
    prior = TAGIRegressor(max_iter=0, random_state=3).fit(X, y)
    tiny = TAGIRegressor(random_state=3).partial_fit(X, y, sample_weight=np.full(60, 1e-12))
    for mine, theirs in zip(tiny.coefs_, prior.coefs_, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_single_rows_from_the_first_at_a_large_scale_converge(dtype, scale):
    rng = np.random.default_rng(0)
    X = (scale * (5 + rng.normal(size=(600, 2)))).astype(dtype)
    y = 3 * X[:, 0].astype(float) - X[:, 1] + 0.1 * scale * rng.normal(size=600)
    model = TAGIRegressor(hidden_layer_sizes=(10,), n_members=2, random_state=0)
    for row in range(500):
        model.partial_fit(X[row : row + 1], y[row : row + 1])
        if row < 20:
            mean, std = model.predict(X[500:], return_std=True)
            assert np.isfinite(mean).all()
            assert np.isfinite(std).all()
            assert (std > 0).all()
    assert model.score(X[500:], y[500:]) > 0.8


def test_single_rows_of_a_classifier_converge():
    rng = np.random.default_rng(0)
    X = 1e6 * (5 + rng.normal(size=(600, 2)))
    y = np.where(X[:, 0] > X[:, 1], "left", "right")
    model = TAGIClassifier(hidden_layer_sizes=(10,), n_members=2, random_state=0)
    for row in range(500):
        model.partial_fit(X[row : row + 1], y[row : row + 1], classes=["left", "right"])
        assert np.isfinite(model.predict_proba(X[500:501])).all()
    assert model.score(X[500:], y[500:]) > 0.8


def test_running_statistics_equal_those_of_all_rows():
    X, y = make_stream(97)
    X = X * [1e3, 1e-3, 1] + [1e5, 0, -3]
    weight = np.random.default_rng(0).uniform(0.1, 4, 97)
    whole = TAGIRegressor(random_state=0).partial_fit(X, y, sample_weight=weight)
    parts = stream(TAGIRegressor(random_state=0), X, y, 10, sample_weight=weight)
    for mine, theirs in (
        (whole._x_moments, parts._x_moments), (whole._y_moments, parts._y_moments),
    ):  # fmt: skip
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-10)
        np.testing.assert_allclose(mine.scale, theirs.scale, rtol=1e-10)
        assert mine.weight == pytest.approx(theirs.weight)


def test_a_shorter_half_life_follows_an_abrupt_change_faster():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 2))
    y = np.where(np.arange(1600) < 1500, X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=1600)
    errors = {}
    for half_life in (None, 100.0):
        model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=1, half_life=half_life,
                              batch_size=10, random_state=0)  # fmt: skip
        stream(model, X, y, 100)
        errors[half_life] = np.mean((model.predict(X[1500:]) - y[1500:]) ** 2)
    assert errors[100.0] < 0.5 * errors[None]


def test_forgetting_bounds_the_evidence_of_an_endless_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=4000)
    variance = {}
    for half_life in (None, 50.0):
        model = TAGIRegressor(hidden_layer_sizes=(), n_members=1, half_life=half_life,
                              sigma_v=0.3, standardize=False, random_state=0)  # fmt: skip
        stream(model, X, y, 500)
        early = model.coef_vars_[0].mean()
        stream(model, X, y, 4000)
        variance[half_life] = (early, model.coef_vars_[0].mean())
    early, late = variance[None]
    assert late < 0.7 * early
    early, late = variance[50.0]
    assert late == pytest.approx(early, rel=0.3)
    assert early > 3 * variance[None][0]


@both
def test_half_life_counts_weights_not_rows(estimator):
    X, y = make_stream(8)
    params = {**PLAIN, "batch_size": 100, "half_life": 10.0, "sigma_v": 0.5, "n_members": 1}
    first = {"classes": [0, 1]} if estimator is TAGIClassifier else {}
    double = estimator(**params).partial_fit(X, y, sample_weight=np.full(8, 2.0), **first)
    copies = estimator(**params).partial_fit(np.tile(X, (2, 1)), np.tile(y, 2), **first)
    np.testing.assert_allclose(double.coef_vars_[0], copies.coef_vars_[0], rtol=1e-8)


def test_memory_of_a_stream_is_bounded():
    X, y = make_stream()
    model = TAGIRegressor(hidden_layer_sizes=(5,), n_members=1, random_state=0).partial_fit(X, y)
    size = len(pickle.dumps(model))
    for _ in range(30):
        model.partial_fit(X, y)
    assert len(pickle.dumps(model)) <= size + 50
