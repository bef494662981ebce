"""Estimators with full covariances: exact regression, stability, forms of input, refusals."""

import numpy as np
import oracle_full
import pytest
from helpers import with_ones
from scipy import sparse
from sklearn.datasets import load_iris

from sktagi import TAGIClassifier, TAGIRegressor


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.05 * rng.normal(size=n)


def small(estimator=TAGIRegressor, **params):
    defaults = {"hidden_layer_sizes": (6,), "covariance_type": "full", "max_iter": 4,
                "n_members": 2, "random_state": 0}  # fmt: skip
    return estimator(**{**defaults, **params})


def cubic(n=20, seed=0):
    """The paper's toy problem, y = x^3 + v with a standard deviation of 3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, size=(n, 1))
    return X, X[:, 0] ** 3 + 3 * rng.normal(size=n)


def assert_positive_definite(model):
    for covariances in model.layer_covariances_:
        n_params = covariances.shape[-1]
        for cov in covariances.reshape(-1, n_params, n_params):
            np.testing.assert_array_equal(cov, cov.T)
            np.linalg.cholesky(cov)  # raises if it is not


@pytest.mark.parametrize("hidden", [(5,), (5, 5), (30,)])
@pytest.mark.parametrize("batch_size", [1, 20])
@pytest.mark.parametrize("sigma_v", [0.1, 1e-6])
@pytest.mark.parametrize("half_life", [None, 100.0])
def test_covariances_stay_positive_definite_over_fifty_epochs(
    hidden, batch_size, sigma_v, half_life
):
    X, y = cubic()
    model = small(
        hidden_layer_sizes=hidden, batch_size=batch_size, sigma_v=sigma_v, half_life=half_life,
        early_stopping=False, max_iter=50, n_members=1,
    ).fit(X, y)  # fmt: skip
    assert_positive_definite(model)
    mean, std = model.predict(np.linspace(-6, 6, 50)[:, None], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("sigma_v", [1e-9, 1e-3])
def test_copies_of_rows_with_next_to_no_noise(batch_inference, sigma_v):
    X, y = rows(6)
    X, y = np.repeat(X, 8, axis=0), np.repeat(y, 8)
    model = small(
        batch_inference=batch_inference, sigma_v=sigma_v, half_life=None, early_stopping=False,
        max_iter=60,
    ).fit(X, y)  # fmt: skip
    assert_positive_definite(model)
    mean, std = model.predict(X, return_std=True)
    assert np.abs(mean - y).max() < 0.3 * y.std()
    assert (std > 0).all()


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
@pytest.mark.parametrize("n_members", [1, 3])
def test_variances_are_the_diagonal_of_the_covariances(hidden, n_members):
    X, y = rows()
    y = np.column_stack([y, y**2])
    model = small(hidden_layer_sizes=hidden, n_members=n_members).fit(X, y)
    lead = () if n_members == 1 else (n_members,)
    sizes = [3, *hidden, 2]
    for j, cov in enumerate(model.layer_covariances_):
        n_in, n_out = sizes[j : j + 2]
        assert cov.shape == (*lead, (n_in + 1) * n_out, (n_in + 1) * n_out)
        diagonal = np.diagonal(cov, axis1=-2, axis2=-1)
        weights, biases = diagonal[..., :-n_out], diagonal[..., -n_out:]
        np.testing.assert_array_equal(model.coef_vars_[j], weights.reshape(*lead, n_in, n_out))
        np.testing.assert_array_equal(model.intercept_vars_[j], biases)
        assert np.abs(cov - diagonal[..., None] * np.eye(cov.shape[-1])).max() > 0


def test_layer_covariances_are_only_there_with_full_covariances():
    X, y = rows()
    assert not hasattr(small(), "layer_covariances_")
    assert not hasattr(small(covariance_type="diag").fit(X, y), "layer_covariances_")
    assert hasattr(small().fit(X, y), "layer_covariances_")


@pytest.mark.parametrize("X_std", [None, 0.3])
def test_full_prior_predicts_as_the_diagonal_one(X_std):
    """One hidden layer and independent parameters: its units differ in what they do not share."""
    X, y = rows()
    full, diag = (small(covariance_type=c, max_iter=0).fit(X, y) for c in ("full", "diag"))
    np.testing.assert_allclose(
        full.predict(X, return_std=True, X_std=X_std),
        diag.predict(X, return_std=True, X_std=X_std),
        rtol=1e-10,
    )


def test_it_learns_the_function_and_how_far_it_is_off():
    X, y = rows(200)
    model = small(hidden_layer_sizes=(15,), max_iter=30).fit(X[:150], y[:150])
    assert model.score(X[150:], y[150:]) > 0.85
    mean, std = model.predict(X[150:], return_std=True)
    assert (np.abs(y[150:] - mean) < 2 * std).mean() > 0.8


def test_classifier_learns():
    X, y = load_iris(return_X_y=True)
    model = small(TAGIClassifier, max_iter=15).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    proba, std = model.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (std > 0).all()
    assert_positive_definite(model)


def test_fit_over_batches_equals_partial_fit_over_the_same_batches():
    X, y = rows()
    params = {"standardize": False, "shuffle": False, "early_stopping": False, "max_iter": 1,
              "hidden_layer_sizes": (30,), "batch_size": 5, "half_life": 500}  # fmt: skip
    whole, parts = small(**params).fit(X, y), small(**params)
    for start in range(0, 60, 5):
        parts.partial_fit(X[start : start + 5], y[start : start + 5])
    for mine, theirs in zip(whole.layer_covariances_, parts.layer_covariances_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(whole.predict(X), parts.predict(X))


def test_scaling_y_scales_mean_and_std():
    X, y = rows()
    one, other = small().fit(X, y), small().fit(X, 1000 * y + 5)
    mean, std = one.predict(X, return_std=True)
    np.testing.assert_allclose(
        other.predict(X, return_std=True), (1000 * mean + 5, 1000 * std), rtol=1e-6
    )


@pytest.mark.parametrize("standardize", [True, False])
def test_sparse_rows_are_learned_as_dense_ones(standardize):
    X, y = rows()
    X[np.abs(X) < 0.5] = 0
    X_std = np.abs(X) / 10
    model = small(standardize=standardize).fit(
        sparse.csr_array(X), y, X_std=sparse.csr_array(X_std)
    )
    expected = model.predict(X, return_std=True, X_std=X_std)
    got = model.predict(sparse.csr_array(X), return_std=True, X_std=sparse.csr_array(X_std))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    if not standardize:
        dense = small(standardize=False).fit(X, y, X_std=X_std)
        np.testing.assert_allclose(dense.predict(X, X_std=X_std), expected[0], rtol=1e-9)


def test_single_precision_gives_nearly_the_same():
    X, y = rows()
    single = small().fit(X.astype(np.float32), y.astype(np.float32))
    double = small().fit(X, y)
    mean, std = single.predict(X.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == single.coefs_[0].dtype == np.float32
    assert single.coef_vars_[0].dtype == np.float32
    assert single.layer_covariances_[0].dtype == np.float64
    np.testing.assert_allclose(
        (mean, std), double.predict(X, return_std=True), rtol=0.05, atol=0.01
    )


@pytest.mark.parametrize("n_members", [1, 2])
def test_uncertain_rows_teach_less(n_members):
    X, y = rows()
    params = {"sigma_v": 0.1, "early_stopping": False, "half_life": None, "max_iter": 1,
              "n_members": n_members}  # fmt: skip
    exact = small(**params).fit(X, y)
    forms = [0.5, np.full(3, 0.5), np.full((60, 3), 0.5)]
    models = [small(**params).fit(X, y, X_std=form) for form in forms]
    models += [small(**params).fit(X, y, X_cov=c) for c in (np.eye(3) / 4, [np.eye(3) / 4] * 60)]
    for model in models:
        for mine, theirs in zip(model.coef_vars_, models[0].coef_vars_, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10)
        for wide, narrow in zip(model.layer_covariances_, exact.layer_covariances_, strict=True):
            trace = np.trace(wide, axis1=-2, axis2=-1)
            assert (trace > np.trace(narrow, axis1=-2, axis2=-1)).all()


def test_errors_that_cancel_in_the_target_teach_more_than_independent_ones():
    """y depends on x_0 + x_1 alone, whose error is nil where theirs are opposite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X.sum(axis=1)
    params = {"hidden_layer_sizes": (), "sigma_v": 0.1, "standardize": False, "n_members": 1,
              "early_stopping": False, "max_iter": 5, "half_life": None}  # fmt: skip
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    correlated = small(**params).fit(X, y, X_cov=opposite)
    independent = small(**params).fit(X, y, X_cov=np.eye(2))
    assert np.trace(correlated.layer_covariances_[0]) < np.trace(independent.layer_covariances_[0])
    assert np.abs(correlated.predict(X) - y).max() < np.abs(independent.predict(X) - y).max()


def test_learned_noise_is_that_of_the_data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    y = X @ [1.0, -1.0] + 0.5 * rng.normal(size=400)
    model = small(hidden_layer_sizes=(), early_stopping=False, max_iter=20, n_members=1).fit(X, y)
    assert model.sigma_v_ * y.std() == pytest.approx(0.5, rel=0.1)


def test_warm_start_and_partial_fit_go_on():
    X, y = rows()
    once = small(early_stopping=False).fit(X, y)
    twice = small(early_stopping=False, warm_start=True).fit(X, y).fit(X, y)
    assert twice.train_scores_[-1] > once.train_scores_[-1]
    log_lik = [once.log_likelihood(X, y)]
    for _ in range(3):
        once.partial_fit(X, y)
        log_lik.append(once.log_likelihood(X, y))
    assert log_lik == sorted(log_lik)
    assert log_lik[-1] > log_lik[0] + 0.1
    before = [cov.copy() for cov in once.layer_covariances_]
    with pytest.raises(ValueError, match="3 features"):
        once.partial_fit(X[:, :2], y)
    once.set_params(covariance_type="diag")
    with pytest.raises(ValueError, match="covariance_type must be as in the fit"):
        once.partial_fit(X, y)
    for mine, theirs in zip(before, once.layer_covariances_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_network_too_large_names_the_memory_it_would_take():
    X, y = np.ones((5, 99)), np.arange(5.0)
    with pytest.raises(
        ValueError, match=r"'full' takes 8\.0 GB.*10,000.* parameters.*n_members=10"
    ):
        TAGIRegressor((100,), covariance_type="full").fit(X, y)
    with pytest.raises(ValueError, match=r"10,100.* parameters.*'diag'"):
        TAGIClassifier((10, 100, 100), covariance_type="full").fit(X, [0, 1, 0, 1, 0])


# --------------------------------------------------------------------- models with a known answer


def test_linear_regressor_is_conjugate_regression():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(50, 4))
    y = X @ [1, -2, 0.5, 0] + 0.3 + 0.1 * rng.normal(size=50)
    params = {"covariance_type": "full", "n_members": 1, "sigma_v": 0.1, "half_life": None,
              "early_stopping": False, "standardize": False, "random_state": 0}  # fmt: skip
    prior = TAGIRegressor((), max_iter=0, **params).fit(X, y)
    model = TAGIRegressor((), max_iter=1, **params).fit(X, y)
    mu = np.append(prior.coefs_[0], prior.intercepts_[0])
    mean, cov = oracle_full.linear_regression(
        mu, prior.layer_covariances_[0], with_ones(X), y, 0.01
    )
    np.testing.assert_allclose(np.append(model.coefs_[0], model.intercepts_[0]), mean, rtol=1e-8)
    np.testing.assert_allclose(model.layer_covariances_[0], cov, rtol=1e-8)
    new = with_ones(rng.normal(size=(7, 4)))
    predicted, std = model.predict(new[:, :-1], return_std=True)
    np.testing.assert_allclose(predicted, new @ mean, rtol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.einsum("ni,ij,nj->n", new, cov, new) + 0.01))


def test_parameters_that_meet_no_other_stay_independent():
    """Targets of features that are on in rows of their own: the posterior is diagonal by itself."""
    X = np.repeat(np.eye(4), 5, axis=0) * np.tile([1, -2, 0.5, 1.5, 3], 4)[:, None]
    y = np.arange(20) / 10
    params = {"n_members": 1, "sigma_v": 0.3, "early_stopping": False, "standardize": False,
              "max_iter": 2, "batch_size": 1, "random_state": 0, "half_life": 30.0,
              "bias_variance": 1e-14}  # fmt: skip
    diag, full = (
        TAGIRegressor((), covariance_type=c, **params).fit(X, y) for c in ("diag", "full")
    )
    np.testing.assert_allclose(full.coefs_[0], diag.coefs_[0], rtol=1e-8)
    np.testing.assert_allclose(full.coef_vars_[0], diag.coef_vars_[0], rtol=1e-8)
    mean, std = diag.predict(X, return_std=True)
    np.testing.assert_allclose(full.predict(X, return_std=True), (mean, std), rtol=1e-8)


def test_independent_rows_are_learned_one_after_the_other():
    rng = np.random.default_rng(20)
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + X[:, 1]
    params = {"covariance_type": "full", "n_members": 1, "half_life": None, "max_iter": 2,
              "sigma_v": 0.1, "random_state": 0}  # fmt: skip
    one = TAGIRegressor((5,), batch_size=1, **params).fit(X, y)
    other = TAGIRegressor((5,), batch_size=9, batch_inference="independent", **params).fit(X, y)
    for mine, theirs in zip(one.layer_covariances_, other.layer_covariances_, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-14)
