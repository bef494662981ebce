"""Rows together: predict(return_cov=True), sample_y(joint=True), sample_functions."""

import pickle
import warnings

import numpy as np
import oracle_full
import pytest
from helpers import with_ones
from scipy import sparse

from sktagi import TAGIRegressor
from sktagi.merging import fork, merge

SMALL = {"n_members": 3, "max_iter": 4, "random_state": 0}


def make_data(n=80, d=3, n_targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(X @ rng.normal(size=(d, n_targets))) + 0.2 * rng.exponential(size=(n, n_targets))
    return X, Y[:, 0] if n_targets == 1 else Y


def quiet_fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*args, **kwargs)


def a_frame(X, rng):
    """Numbers with gaps, and a category."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.where(rng.uniform(size=X.shape) < 0.15, np.nan, X))
    frame.columns = [f"x{k}" for k in range(X.shape[1])]
    return frame.assign(kind=rng.choice(["a", "b", "c"], len(X)))


def streamed(**params):
    X, y = make_data()
    model = TAGIRegressor((8,), **SMALL, **params)
    for part in range(4):
        model.partial_fit(X[part::4], y[part::4])
    return model, X


def fitted(sizes=(8,), n_targets=1, n=80, change=lambda X: X, y_change=lambda y: y, **params):
    X, y = make_data(n, n_targets=n_targets)
    X, y = change(X), y_change(y)
    return quiet_fit(TAGIRegressor(sizes, **{**SMALL, **params}), X, y), X


def merged():
    X, y = make_data()
    model = quiet_fit(TAGIRegressor((8,), **SMALL), X, y)
    parts = [fork(model) for _ in range(2)]
    for number, part in enumerate(parts):
        part.partial_fit(X[number::2], y[number::2])
    return merge(parts), X


CASES = {
    "kinds": lambda: fitted("auto"),
    "kinds, many rows": lambda: fitted("auto", n=1200, max_iter=2),
    "kinds, two targets": lambda: fitted("auto", n_targets=2),
    "kinds, no batch": lambda: fitted("auto", max_iter=0),
    "linear": lambda: fitted(()),
    "one hidden layer": lambda: fitted(activation="tanh"),
    "deep": lambda: fitted((8, 6)),
    "exact": lambda: fitted(activation="relu_exact"),
    "prior": lambda: fitted(max_iter=0),
    "one member": lambda: fitted(n_members=1),
    "two targets": lambda: fitted(n_targets=2),
    "constant noise": lambda: fitted(sigma_v="constant"),
    "sigma_v": lambda: fitted(sigma_v=0.3, early_stopping=False),
    "full": lambda: fitted((4,), covariance_type="full", n_members=2),
    "full, two targets": lambda: fitted((4,), n_targets=2, covariance_type="full", n_members=2),
    "single precision": lambda: fitted("auto", change=lambda X: X.astype(np.float32)),
    "sparse": lambda: fitted("auto", change=lambda X: sparse.csr_array(X * (X > 0))),
    "table": lambda: fitted("auto", change=lambda X: a_frame(X, np.random.default_rng(0))),
    "stream": streamed,
    "merged": merged,
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    return CASES[request.param]()


@pytest.fixture(scope="module")
def plain():
    return fitted("auto")


def first_rows(X, n):
    return X.iloc[:n] if hasattr(X, "iloc") else X[:n]


# ------------------------------------------------------------------------------------- covariance


def test_diagonal_is_the_square_of_the_std(case):
    model, X = case
    X = first_rows(X, 30)
    mean, std = model.predict(X, return_std=True)
    same_mean, cov = model.predict(X, return_cov=True)
    np.testing.assert_array_equal(same_mean, mean)
    assert cov.shape == (30, 30, *mean.shape[1:])
    assert cov.dtype == np.float64
    by_target = np.moveaxis(cov.reshape(30, 30, -1), -1, 0)
    for matrix, of_target in zip(by_target, std.reshape(30, -1).T, strict=True):
        np.testing.assert_allclose(np.sqrt(matrix.diagonal()), of_target, rtol=1e-6)
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix.astype(float)).min() > -1e-5 * matrix.diagonal().max()


def test_rows_that_are_alike_differ_by_noise_only(plain):
    model, X = plain
    cov = model.predict(X[[0, 0, 1]], return_cov=True)[1]
    epistemic = model.predict_variance(X[:1])[0]
    np.testing.assert_allclose(cov[0, 1], epistemic[0], rtol=1e-5)
    np.testing.assert_allclose(cov[0, 2], cov[1, 2], rtol=1e-5)


def test_rows_nearby_go_together_and_far_ones_do_not():
    X = np.linspace(-3, 3, 80)[:, None]
    model = quiet_fit(
        TAGIRegressor((20,), "tanh", n_members=10, random_state=0), X, np.sin(X[:, 0])
    )
    cov = model.predict(np.array([[2.0], [2.1], [-2.0]]), return_cov=True)[1]
    cov = cov - np.diag(model.predict_variance(np.array([[2.0], [2.1], [-2.0]]))[1])
    correlation = cov / np.sqrt(np.outer(cov.diagonal(), cov.diagonal()))
    assert correlation[0, 1] > 0.9
    assert abs(correlation[0, 2]) < 0.8


def test_linear_model_with_full_covariance_is_conjugate_regression():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(50, 4))
    y = X @ [1, -2, 0.5, 0] + 0.3 + 0.1 * rng.normal(size=50)
    params = {"covariance_type": "full", "n_members": 1, "sigma_v": 0.1, "half_life": None,
              "early_stopping": False, "standardize": False, "random_state": 0}  # fmt: skip
    prior = TAGIRegressor((), max_iter=0, **params).fit(X, y)
    model = TAGIRegressor((), max_iter=1, **params).fit(X, y)
    mu = np.append(prior.coefs_[0], prior.intercepts_[0])
    _, cov = oracle_full.linear_regression(mu, prior.layer_covariances_[0], with_ones(X), y, 0.01)
    new = with_ones(rng.normal(size=(7, 4)))
    expected = new @ cov @ new.T + 0.01 * np.eye(7)
    found = model.predict(new[:, :-1], return_cov=True)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)


def test_errors_of_inputs_are_in_the_diagonal_only(plain):
    model, X = plain
    exact = model.predict(X[:5], return_cov=True)[1]
    cov = model.predict(X[:5], return_cov=True, X_std=0.3)[1]
    std = model.predict(X[:5], return_std=True, X_std=0.3)[1]
    np.testing.assert_allclose(cov.diagonal(), np.square(std))
    beside = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(cov[beside], exact[beside], rtol=1e-9)


def test_covariance_scales_with_the_targets():
    X, y = make_data()
    covs = [
        quiet_fit(TAGIRegressor("auto", **SMALL), X, scale * y).predict(X[:5], return_cov=True)[1]
        for scale in (1.0, 64.0)
    ]
    np.testing.assert_allclose(covs[1], 64**2 * covs[0], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_covariances_are_in_double_precision_as_variances_are(scale):
    X, y = make_data()
    X, y = X.astype(np.float32), (scale * y).astype(np.float32)
    model = quiet_fit(TAGIRegressor(**SMALL), X, y)
    std = model.predict(X, return_std=True)[1].astype(np.float64)
    cov = model.predict(X, return_cov=True)[1]
    assert cov.dtype == np.float64
    np.testing.assert_allclose(np.diagonal(cov), np.square(std), rtol=1e-5)


def test_std_and_cov_together_are_refused_as_by_a_gaussian_process(plain):
    model, X = plain
    with pytest.raises(RuntimeError, match="return_std or return_cov"):
        model.predict(X, return_std=True, return_cov=True)


def test_cov_of_transformed_targets_is_refused_with_what_to_do():
    model, X = fitted(y_change=np.exp, target_transform="log")
    with pytest.raises(ValueError, match=r"return_cov.*target_transform.*joint=True"):
        model.predict(X, return_cov=True)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_inputs_far_away_give_finite_numbers(plain, scale):
    model, _ = plain
    X = scale * np.eye(3)
    cov = model.predict(X, return_cov=True)[1]
    assert np.isfinite(cov).all()
    assert (cov.diagonal() > 0).all()
    assert np.isfinite(model.sample_y(X, 3, joint=True)).all()
    assert np.isfinite(model.sample_functions(3, 0)(X)).all()


# ------------------------------------------------------------------------------------ joint draws


def test_joint_draws_have_the_covariance_if_errors_are_gaussian():
    model, X = fitted(sigma_v=0.1, early_stopping=False)
    cov = model.predict(X[:4], return_cov=True)[1]
    draws = model.sample_y(X[:4], 40_000, joint=True)
    scale = np.sqrt(np.outer(cov.diagonal(), cov.diagonal()))
    assert np.abs((np.cov(draws) - cov) / scale).max() < 0.03


@pytest.mark.parametrize("transform", [None, "log"])
def test_each_row_of_joint_draws_has_its_own_distribution(transform):
    model, X = fitted("auto", y_change=np.exp, target_transform=transform)
    X, q = X[:3], np.array([0.05, 0.5, 0.95])
    draws = model.sample_y(X, 40_000, joint=True)
    expected = model.predict_quantiles(X, q)
    for row, of_row in zip(draws, expected, strict=True):
        np.testing.assert_allclose([(row < v).mean() for v in of_row], q, atol=0.01)


def test_joint_draws_of_transformed_targets_go_together():
    model, X = fitted((8,), y_change=np.exp, target_transform="log", max_iter=0)
    X = np.vstack([X[:1], X[:1] + 1e-3])
    draws = np.log(model.sample_y(X, 4000, joint=True))
    alone = np.log(model.sample_y(X, 4000))
    epistemic, noise = (v[0] for v in model.predict_variance(X))
    assert abs(np.corrcoef(draws)[0, 1] - epistemic / (epistemic + noise)) < 0.06
    assert epistemic / (epistemic + noise) > 0.1
    assert abs(np.corrcoef(alone)[0, 1]) < 0.1


def test_joint_draws_have_the_shape_of_other_draws(case):
    model, X = case
    X = first_rows(X, 6)
    joint, alone = (model.sample_y(X, 3, joint=value) for value in (True, False))
    assert joint.shape == alone.shape
    assert joint.dtype == alone.dtype
    assert np.isfinite(joint).all()
    np.testing.assert_array_equal(model.sample_y(X, 3, joint=True), joint)


# -------------------------------------------------------------------------------------- functions


def test_functions_have_the_shape_of_draws(case):
    model, X = case
    functions = model.sample_functions(5, random_state=0)
    values = functions(first_rows(X, 7))
    assert values.shape == model.sample_y(first_rows(X, 7), 5).shape
    assert values.dtype == model.predict(first_rows(X, 7)).dtype
    assert len(functions) == 5


def test_functions_stay_the_same_whatever_rows_they_are_asked_for(case):
    model, X = case
    functions = model.sample_functions(4, random_state=0)
    whole = functions(first_rows(X, 20))
    np.testing.assert_allclose(functions(first_rows(X, 20)[5:9]), whole[5:9], rtol=1e-4, atol=1e-5)
    again = pickle.loads(pickle.dumps(functions))
    np.testing.assert_array_equal(again(first_rows(X, 20)), whole)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.sample_functions(4, 0)(first_rows(X, 20)), whole)


def test_functions_keep_the_posterior_that_they_were_drawn_from():
    model, X = fitted()
    functions = model.sample_functions(4, random_state=0)
    before = functions(X)
    model.partial_fit(X, np.full(len(X), 100.0))
    np.testing.assert_array_equal(functions(X), before)
    assert np.abs(model.sample_functions(4, 0)(X) - before).max() > 1


def test_each_call_draws_other_functions_unless_a_seed_is_given(plain):
    model, X = plain
    assert (model.sample_functions()(X) != model.sample_functions()(X)).any()
    same = [model.sample_functions(2, np.random.RandomState(3))(X) for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_functions_of_transformed_targets_are_in_their_units():
    model, X = fitted(y_change=np.exp, target_transform="log")
    values = model.sample_functions(2000, random_state=0)(X[:20])
    assert (values > 0).all()
    median = model.predict_quantiles(X[:20], 0.5)[:, 0]
    np.testing.assert_allclose(np.median(values, axis=1), median, rtol=0.3)


def test_functions_at_gaps_have_their_mean_over_what_is_missing():
    model, X = CASES["table"]()
    gaps = X[X.isna().any(axis=1)][:4]
    values = model.sample_functions(20_000, random_state=0)(gaps)
    error = values.std(axis=1) / np.sqrt(20_000)
    assert (np.abs(values.mean(axis=1) - model.predict(gaps)) < 4 * error).all()
    assert (values.var(axis=1) < 1.1 * model.predict_variance(gaps)[0]).all()


@pytest.mark.parametrize(("name", "value"), [("n_samples", 0), ("random_state", "x")])
def test_wrong_arguments_are_named(plain, name, value):
    model, _ = plain
    with pytest.raises(ValueError, match=name):
        model.sample_functions(**{name: value})


def test_nothing_is_drawn_before_fit():
    from sklearn.exceptions import NotFittedError

    for call in (
        lambda m: m.sample_functions(),
        lambda m: m.predict([[0.0]], return_cov=True),
        lambda m: m.sample_y([[0.0]], joint=True),
    ):
        with pytest.raises(NotFittedError):
            call(TAGIRegressor())


# ------------------------------------------------------------------------- moments of many draws

N_DRAWS = 2000
CHECKED = [name for name in CASES if name != "kinds, many rows"]


def moment_checks(name):
    """Errors of moments of draws over their Monte Carlo standard errors, of a few rows."""
    model, X = CASES[name]()
    if hasattr(X, "dropna"):  # functions of rows with gaps leave out what a gap may be
        X = X.dropna()
    X = first_rows(X, 6)
    mean, cov = model.predict(X, return_cov=True)
    epistemic, noise = (v.reshape(6, -1)[:, 0] for v in model.predict_variance(X))
    mean, cov = mean.reshape(6, -1)[:, 0], cov.reshape(6, 6, -1)[..., 0]
    functions = model.sample_functions(N_DRAWS, random_state=1)(X)
    targets = model.sample_y(X, N_DRAWS, random_state=1, joint=True)
    functions, targets = (
        v.reshape(6, -1, N_DRAWS)[:, 0].astype(float) for v in (functions, targets)
    )
    for values, variance in ((functions, epistemic), (targets, epistemic + noise)):
        apart = values - mean[:, None]
        for k in (0, 1):
            yield _score(apart[k], 0)
            yield _score(np.square(apart[k]), variance[k])
    for i, j in ((0, 1), (1, 2), (0, 2)):
        yield _score((functions[i] - mean[i]) * (functions[j] - mean[j]), cov[i, j])


def _score(values, expected):
    return (values.mean() - expected) / (values.std() / np.sqrt(len(values)))


def test_moments_of_draws_are_within_their_monte_carlo_error():
    scores = np.array([score for name in CHECKED for score in moment_checks(name)])
    assert len(scores) >= 200
    assert (np.abs(scores) < 2.58).mean() >= 0.95
    assert np.abs(scores).max() < 5
