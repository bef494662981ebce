"""Some of several targets are not observed (NaN): a row teaches what it observes, and no more."""

import pickle
import warnings
from copy import deepcopy

import numpy as np
import oracle
import oracle_full
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIRegressor, metrics
from sktagi.merging import fork, merge

QUICK = {"hidden_layer_sizes": (6,), "max_iter": 4, "n_members": 2, "random_state": 0}
QUICK_LINEAR = {"max_iter": 2, "n_members": 2, "random_state": 0}
# One pass over rows as they are: what is learned can be compared row by row.
PLAIN = {
    "standardize": False, "early_stopping": False, "shuffle": False, "half_life": None,
    "n_members": 1, "max_iter": 1, "random_state": 0,
}  # fmt: skip


def make_rows(n=90, missing=0.3, seed=0):
    """Three targets that share a function; some of each are missing, at least one is there."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    shared = np.sin(2 * X[:, 0]) + X[:, 1]
    Y = np.column_stack([shared, 2 - shared, shared + X[:, 2]])
    Y += 0.2 * rng.normal(size=Y.shape)
    is_missing = rng.random(Y.shape) < missing
    is_missing[np.arange(n), rng.integers(3, size=n)] = False
    Y[is_missing] = np.nan
    return X, Y


def everything(model, X):
    return [*model.predict(X, return_std=True), model.predict_interval(X), *model.coef_vars_]


def assert_sound(model, X, n_targets=3):
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (X.shape[0], n_targets)
    for values in everything(model, X):
        assert np.isfinite(values).all()
    assert (std > 0).all()
    assert np.isfinite(model.sigma_v_).all()
    assert np.isfinite(model.train_scores_).all()


def assert_same(model, other, X, rtol=1e-9):
    for mine, theirs in zip(everything(model, X), everything(other, X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


# What is learned


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("batch_size", [1, 1000])
@pytest.mark.parametrize("sigma_v", ["auto", 0.3])
def test_each_target_of_a_linear_model_is_learned_from_the_rows_that_observe_it(
    covariance_type, batch_inference, batch_size, sigma_v
):
    """Nothing but the prior draw is shared: rows that do not observe a target are not there."""
    X, Y = make_rows(40)
    params = {**PLAIN, "max_iter": 3, "covariance_type": covariance_type, "sigma_v": sigma_v}
    params |= {"batch_inference": batch_inference, "batch_size": batch_size}
    model = TAGIRegressor((), **params).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    for target in range(3):
        rows = ~np.isnan(Y[:, target])
        assert 0 < rows.sum() < 40
        # As many targets as before, of which the others are complete, and of no interest.
        complete = np.random.default_rng(1).normal(size=(rows.sum(), 3))
        complete[:, target] = Y[rows, target]
        alone = TAGIRegressor((), **params).fit(X[rows], complete)
        mean_alone, std_alone = alone.predict(X, return_std=True)
        np.testing.assert_allclose(mean[:, target], mean_alone[:, target], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(std[:, target], std_alone[:, target], rtol=1e-8)
        if sigma_v == "auto":
            assert model.sigma_v_[target] == pytest.approx(alone.sigma_v_[target], rel=1e-8)


@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
def test_row_by_row_a_network_learns_by_the_equations_written_out(batch_inference):
    X, Y = make_rows(25)
    params = {**PLAIN, "sigma_v": 0.4, "batch_size": 1, "batch_inference": batch_inference}
    prior = TAGIRegressor((5,), "tanh", **{**params, "max_iter": 0}).fit(X, Y)
    layers = [
        oracle.from_arrays(np.vstack([w, b]), np.vstack([var_w, var_b]))
        for w, b, var_w, var_b in zip(
            prior.coefs_, prior.intercepts_, prior.coef_vars_, prior.intercept_vars_, strict=True
        )
    ]
    for x, y in zip(X, Y, strict=True):
        layers = oracle.learn_row(layers, "tanh", x, y, 0.4, observed=~np.isnan(y))
    model = TAGIRegressor((5,), "tanh", **params).partial_fit(X, Y)
    for number, layer in enumerate(layers):
        mu, var = (np.array(part) for part in oracle.to_lists(layer))
        np.testing.assert_allclose(model.coefs_[number], mu[:-1], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(model.intercepts_[number], mu[-1], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(model.coef_vars_[number], var[:-1], rtol=1e-9)
        np.testing.assert_allclose(model.intercept_vars_[number], var[-1], rtol=1e-9)


def test_full_covariances_learn_a_batch_by_the_equations_written_out():
    X, Y = make_rows(6, missing=0.4)
    assert 4 < np.isnan(Y).sum() < 12
    params = {**PLAIN, "covariance_type": "full", "sigma_v": 0.4, "batch_size": 6}
    prior = TAGIRegressor((4,), "tanh", **{**params, "max_iter": 0}).fit(X, Y)
    means = [
        np.vstack([w, b]).ravel() for w, b in zip(prior.coefs_, prior.intercepts_, strict=True)
    ]
    layers = list(zip(means, prior.layer_covariances_, strict=True))
    expected = oracle_full.learn(
        layers, "tanh", X, np.zeros((6, 3, 3)), Y, 0.4**2, observed=~np.isnan(Y)
    )
    model = TAGIRegressor((4,), "tanh", **params).partial_fit(X, Y)
    for number, (mu, cov) in enumerate(expected):
        found = np.vstack([model.coefs_[number], model.intercepts_[number]]).ravel()
        np.testing.assert_allclose(found, mu, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(model.layer_covariances_[number], cov, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_rows_of_a_batch_may_come_in_any_order(covariance_type):
    X, Y = make_rows()
    params = {**QUICK, "covariance_type": covariance_type, "batch_size": 90}
    order = np.random.default_rng(1).permutation(90)
    one = TAGIRegressor(**params).partial_fit(X, Y)
    other = TAGIRegressor(**params).partial_fit(X[order], Y[order])
    assert_same(one, other, X, rtol=1e-7)


def test_rows_taught_in_two_halves_learn_as_in_one_call():
    """A first batch that observes only some targets, with statistics that grow later."""
    X, Y = make_rows()
    params = {**QUICK, "standardize": False, "batch_size": 15}
    whole = TAGIRegressor(**params).partial_fit(X, Y)
    parts = TAGIRegressor(**params).partial_fit(X[:45], Y[:45]).partial_fit(X[45:], Y[45:])
    assert_same(whole, parts, X)


def test_other_units_of_a_target_are_other_units_of_its_predictions():
    X, Y = make_rows()
    scale, shift = np.array([1e3, 1.0, 1e-4]), np.array([7.0, 0.0, 5.0])
    for learn in ("fit", "partial_fit"):
        model, scaled = (
            getattr(TAGIRegressor(**QUICK), learn)(X, targets) for targets in (Y, Y * scale + shift)
        )
        mean, std = model.predict(X, return_std=True)
        mean_scaled, std_scaled = scaled.predict(X, return_std=True)
        np.testing.assert_allclose((mean_scaled - shift) / scale, mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(std_scaled / scale, std, rtol=1e-6)
        if learn == "partial_fit":
            offset = -(np.log(scale) * (~np.isnan(Y)).mean(axis=0)).sum()
            found = scaled.prequential_log_likelihood_ - model.prequential_log_likelihood_
            assert found == pytest.approx(offset)


def test_scores_of_an_epoch_are_likelihoods_in_original_units():
    """With NaN too: of the rows held out, and of the rows learned, each in its own share."""
    X, Y = make_rows(60)
    Y[:, 1] = 1e4 * Y[:, 1]
    Y[::2, 1] = np.nan
    params = dict(n_members=1, sigma_v=0.3, half_life=None, random_state=3, hidden_layer_sizes=(5,))
    model = TAGIRegressor(max_iter=4, **params).fit(X, Y)
    order, validation = model._split(
        model._validate_rows(X, Y, None, None, None, first=False),
        np.random.RandomState(model._split_seed),
    )
    held = validation[0]
    best = model.validation_scores_[model.best_iter_ - 1]
    model._net.calibration = None  # as it was validated
    assert best == pytest.approx(model.log_likelihood(X[held], Y[held]), rel=1e-9)
    # One batch: its rows are scored by the prior, which is that of no epoch.
    whole = TAGIRegressor(max_iter=1, batch_size=1000, **params).fit(X, Y)
    prior = TAGIRegressor(max_iter=0, **params).fit(X, Y)
    prior._scaling = whole._scaling
    rows = order[0]
    assert whole.train_scores_[0] == pytest.approx(prior.log_likelihood(X[rows], Y[rows]), rel=1e-9)


@pytest.mark.parametrize("n_rows", [12, 60])
@pytest.mark.parametrize("n_observed", [1, 2, 3])
def test_rows_with_a_rare_target_are_learned_not_held_out(n_observed, n_rows):
    """Otherwise nothing tells the units of the target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    Y = np.column_stack([X[:, 0], 1e6 + 1e4 * X[:, 1]])
    Y[n_observed:, 1] = np.nan
    for seed in range(20):
        model = TAGIRegressor(n_members=1, max_iter=3, random_state=seed).fit(X, Y)
        assert model._scaling.y.mean[1] == pytest.approx(1e6, rel=0.1)
        assert min(model.validation_scores_) > -50
        assert (np.abs(model.predict(X)[:n_observed, 1] - 1e6) < 1e5).all()


def test_polars_frames_with_nulls_are_learned_and_scored_as_arrays():
    polars = pytest.importorskip("polars")
    X, Y = make_rows()
    names = [f"y{k}" for k in range(Y.shape[1])]
    nulls = polars.DataFrame(dict(zip(names, Y.T.copy(), strict=True))).fill_nan(None)
    model, same = (TAGIRegressor(**QUICK).fit(X, y) for y in (Y, nulls))
    np.testing.assert_allclose(model.predict(X), same.predict(X), rtol=1e-9)
    assert model.score(X, Y) == model.score(X, nulls)
    assert model.log_likelihood(X, Y) == model.log_likelihood(X, nulls)
    model.partial_fit(X, nulls)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_row_of_weight_zero_needs_no_target(learn):
    X, Y = make_rows()
    weight = np.ones(len(X))
    weight[4] = 0
    without = np.delete(np.arange(len(X)), 4)
    expected = getattr(TAGIRegressor(**QUICK), learn)(X[without], Y[without])
    Y[4] = np.nan
    model = getattr(TAGIRegressor(**QUICK), learn)(X, Y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9, atol=1e-9)


def test_rows_of_weight_zero_are_not_scored():
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK).fit(X, Y)
    weight = np.ones(len(X))
    weight[4] = 0
    without = np.delete(np.arange(len(X)), 4)
    Y[4] = np.nan
    for score in (model.score, model.log_likelihood):
        expected = score(X[without], Y[without])
        assert score(X, Y, sample_weight=weight) == pytest.approx(expected, rel=1e-9)


def test_a_target_that_only_rows_of_weight_zero_observe_is_refused():
    X, Y = make_rows()
    Y[:, 0] = 1
    Y[:, 1] = np.nan
    Y[3, 1] = 2.0
    weight = np.ones(len(X))
    weight[3] = 0
    with pytest.raises(ValueError, match=r"targets that no row observes: columns \[1\]"):
        TAGIRegressor(**QUICK).fit(X, Y, sample_weight=weight)


def test_complex_targets_are_refused_with_and_without_nan():
    X, Y = make_rows()
    for y in (np.zeros_like(Y) + 1j, Y + 1j):
        with pytest.raises(ValueError, match="Complex data not supported"):
            TAGIRegressor(**QUICK).fit(X, y)


def test_score_refuses_other_shapes_clearly():
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="y has shape"):
        model.score(X, Y[:-1])
    with pytest.raises(ValueError, match="y has shape"):
        model.score(X, np.hstack([Y, Y]))
    weight = np.ones(len(X))
    weight[~np.isnan(Y[:, 1])] = 0  # nothing is left of one target
    assert np.isfinite(model.score(X, Y, sample_weight=weight))


def test_copies_stay_together_whatever_the_sign_of_nan():
    X, Y = make_rows(30)
    X, Y = np.tile(X, (2, 1)), np.tile(Y, (2, 1))
    plain = TAGIRegressor(**QUICK).fit(X, Y)
    Y[30:][np.isnan(Y[30:])] = -np.float64("nan")
    assert np.signbit(Y[30:][np.isnan(Y[30:])]).all()
    np.testing.assert_array_equal(TAGIRegressor(**QUICK).fit(X, Y).predict(X), plain.predict(X))


def test_weight_two_counts_as_two_rows():
    X, Y = make_rows(40)
    params = {**PLAIN, "hidden_layer_sizes": (5,), "batch_size": 200, "standardize": True}
    weight = 1.0 + (np.arange(40) % 3 == 0)
    rows = np.repeat(np.arange(40), weight.astype(int))
    weighted = TAGIRegressor(**params).fit(X, Y, sample_weight=weight)
    repeated = TAGIRegressor(**params).fit(X[rows], Y[rows])
    assert_same(weighted, repeated, X, rtol=1e-7)


def test_a_target_that_is_missing_half_of_the_time_has_its_own_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    noise = np.array([0.1, 0.5])
    Y = X + noise * rng.normal(size=(1500, 2))
    Y[::2, 0] = np.nan
    for params in ({"early_stopping": False}, {"n_members": 3}):
        model = TAGIRegressor((), standardize=False, max_iter=8, random_state=0, **params)
        np.testing.assert_allclose(model.fit(X, Y).sigma_v_, noise, rtol=0.1)


def test_incomplete_rows_teach_more_than_none():
    """Against the fit that leaves them out, of which a third is left."""
    gains = []
    for seed in range(3):
        X, Y = make_rows(300, missing=0.45, seed=seed)
        assert 0.25 < np.isnan(Y).mean() < 0.35
        X_test, Y_test = make_rows(500, missing=0.0, seed=100 + seed)
        complete = ~np.isnan(Y).any(axis=1)
        assert 60 < complete.sum() < 120
        model = TAGIRegressor((20,), n_members=3, max_iter=30, random_state=seed)
        incomplete = clone(model).fit(X, Y).log_likelihood(X_test, Y_test)
        dropped = model.fit(X[complete], Y[complete]).log_likelihood(X_test, Y_test)
        gains.append(incomplete - dropped)
    assert min(gains) > 0.1
    assert np.mean(gains) > 0.25


def test_a_target_that_hardly_any_row_observes_learns_of_the_others():
    """What the hidden units have learned from one target serves the other."""
    X, Y = make_rows(400, missing=0.0)
    few = Y[:, :2].copy()
    few[12:, 1] = np.nan
    X_test, Y_test = make_rows(500, missing=0.0, seed=1)
    scores = []
    for rows in (slice(None), slice(12)):
        model = TAGIRegressor((20,), n_members=3, early_stopping=False, max_iter=30, random_state=0)
        model.fit(X[rows], few[rows])
        scores.append(r2_score(Y_test[:, 1], model.predict(X_test)[:, 1]))
    assert scores[0] > max(0.6, scores[1] + 0.4)


# How rows are given


def as_frame(Y):
    return pd.DataFrame(Y, columns=["a", "b", "c"])


def as_nullable_frame(Y):
    return as_frame(Y).convert_dtypes()


def as_objects(Y):
    return pd.DataFrame(as_lists(Y), dtype=object)


def as_lists(Y):
    return [[None if np.isnan(value) else value for value in row] for row in Y]


def as_tuples(Y):
    return tuple(tuple(row) for row in as_lists(Y))


def as_rows(Y):
    return list(Y)


@pytest.mark.parametrize(
    "given", [as_frame, as_nullable_frame, as_objects, as_lists, as_tuples, as_rows]
)
def test_frames_and_lists_are_learned_and_scored_as_arrays(given):
    X, Y = make_rows()
    targets = given(Y)
    for learn in ("fit", "partial_fit"):
        expected = getattr(TAGIRegressor(**QUICK), learn)(X, Y)
        model = getattr(TAGIRegressor(**QUICK), learn)(X, targets)
        assert_same(model, expected, X, rtol=1e-12)
        assert model.score(X, targets) == pytest.approx(model.score(X, Y), rel=1e-12)
        log_lik = model.log_likelihood(X, Y)
        assert model.log_likelihood(X, targets) == pytest.approx(log_lik, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_predictions_are_finite(dtype, covariance_type, batch_inference, batch_size):
    X, Y = make_rows()
    X, Y = X.astype(dtype), Y.astype(dtype)
    params = {**QUICK, "covariance_type": covariance_type, "batch_inference": batch_inference}
    model = TAGIRegressor(**{**params, "batch_size": batch_size, "warm_start": True})
    assert_sound(model.fit(X, Y), X)
    assert model.predict(X).dtype == dtype
    assert_sound(model.fit(X, Y), X)
    assert_sound(model.partial_fit(X, Y), X)
    assert_sound(clone(model).partial_fit(X[:1], Y[:1]), X)
    assert_sound(clone(model).set_params(early_stopping=False).fit(X, Y), X)


def test_sparse_rows_are_learned_as_dense_ones():
    X, Y = make_rows()
    X = np.where(X > 0, X, 0)
    # Sparse columns are scaled and not centred: without standardisation both are the same.
    params = {**QUICK, "standardize": False}
    for learn in ("fit", "partial_fit"):
        dense = getattr(TAGIRegressor(**params), learn)(X, Y)
        thin = getattr(TAGIRegressor(**params), learn)(sparse.csr_array(X), Y)
        assert_same(thin, dense, X, rtol=1e-8)
        scaled = getattr(TAGIRegressor(**QUICK), learn)(sparse.csr_array(X), Y)
        assert_sound(scaled, sparse.csr_array(X))


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_uncertain_rows_are_learned(covariance_type):
    X, Y = make_rows()
    errors = [{"X_std": 0.3}, {"X_std": np.abs(X) / 5}]
    if covariance_type == "full":
        errors.append({"X_cov": 0.1 * np.eye(3)})
    for error in errors:
        model = TAGIRegressor(**QUICK, covariance_type=covariance_type)
        assert_sound(model.fit(X, Y, **error).partial_fit(X, Y, **error), X)


def test_rows_without_weight_are_as_if_they_were_not_there():
    X, Y = make_rows()
    weight = np.where(np.arange(90) % 4, 1.5, 0.0)
    kept = weight > 0
    model = TAGIRegressor(**QUICK).fit(X, Y, sample_weight=weight)
    assert_same(model, TAGIRegressor(**QUICK).fit(X[kept], Y[kept], weight[kept]), X)
    assert model.n_samples_seen_ == kept.sum()


# Streams, merging, files, searches


def test_a_stream_may_begin_without_a_target():
    X, Y = make_rows(400, missing=0.2)
    Y[:, 1] = np.where(np.arange(400) < 100, np.nan, Y[:, 1])
    Y[:100, 0] = 1.0
    model = TAGIRegressor(**QUICK)
    for start in range(0, 300, 10):
        model.partial_fit(X[start : start + 10], Y[start : start + 10])
        assert_sound(model, X)
    assert np.isfinite(model.prequential_log_likelihood_)
    scores = [r2_score(y[k], p[k]) for y, p, k in observed_columns(model, X[300:], Y[300:])]
    assert min(scores[1:]) > 0.4


def observed_columns(model, X, Y):
    return zip(Y.T, model.predict(X).T, ~np.isnan(Y.T), strict=True)


def test_a_target_that_nobody_has_observed_keeps_the_prior():
    X, Y = make_rows()
    Y[:, 1] = np.nan
    Y[np.isnan(Y).all(axis=1), 0] = 0.5
    model = TAGIRegressor((), **{**PLAIN, "batch_size": 90, "standardize": True})
    model.partial_fit(X[:45], Y[:45])
    prior = clone(model).set_params(max_iter=0).fit(X[:45], np.zeros((45, 3)))
    np.testing.assert_array_equal(model.coefs_[0][:, 1], prior.coefs_[0][:, 1])
    np.testing.assert_array_equal(model.coef_vars_[0][:, 1], prior.coef_vars_[0][:, 1])
    assert model.sigma_v_[1] == prior.sigma_v_[1] == 1
    assert (model.coef_vars_[0][:, [0, 2]] < prior.coef_vars_[0][:, [0, 2]]).all()


def test_what_was_learned_of_a_target_stays_while_rows_do_not_observe_it():
    X, Y = make_rows(200, missing=0.0)
    model = TAGIRegressor((), **{**PLAIN, "batch_size": 50, "standardize": True})
    model.partial_fit(X[:100], Y[:100])
    before, sigma_v = model.predict(X), model.sigma_v_
    Y[100:, 1] = np.nan
    model.partial_fit(X[100:], Y[100:])
    # The features have other units now: it is the same function of X nevertheless.
    after = model.predict(X)
    np.testing.assert_allclose(after[:, 1], before[:, 1], rtol=1e-9, atol=1e-11)
    assert model.sigma_v_[1] == sigma_v[1]
    for target in (0, 2):
        assert np.abs(after - before)[:, target].max() > 1e-3
        assert model.sigma_v_[target] != sigma_v[target]


@pytest.mark.parametrize("chunk", [20, 200])
def test_what_was_calibrated_of_a_target_stays_while_rows_do_not_observe_it(chunk):
    """The calibrated noise goes with what is left of the old noise: with all of it, here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2))
    Y = X + [0.1, 0.5] * rng.normal(size=(700, 2))
    model = TAGIRegressor((), **{**QUICK_LINEAR, "standardize": False, "half_life": None})
    sigma_v = model.fit(X[:300], Y[:300]).sigma_v_
    assert (model._net.calibration.noise_scale != 1).all()
    Y[300:, 1] = np.nan
    for start in range(300, 700, chunk):
        model.partial_fit(X[start : start + chunk], Y[start : start + chunk])
    assert model.sigma_v_[1] == pytest.approx(sigma_v[1], rel=1e-12)
    assert model.sigma_v_[0] != pytest.approx(sigma_v[0], rel=1e-3)


def test_the_noise_of_a_stream_follows_the_rows_that_observe_a_target():
    """As if rows that do not observe it were not there, calibrated noise included."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2))
    Y = X + [0.1, 0.5] * rng.normal(size=(700, 2))
    params = {**QUICK_LINEAR, "standardize": False, "half_life": None, "batch_size": 1}
    model = TAGIRegressor((), **params).fit(X[:300], Y[:300])
    other = deepcopy(model)
    seldom = Y.copy()
    seldom[300:, 1][np.arange(400) % 4 != 0] = np.nan
    model.partial_fit(X[300:], seldom[300:])
    other.partial_fit(X[300::4], Y[300::4])
    assert model.sigma_v_[1] == pytest.approx(other.sigma_v_[1], rel=1e-9)
    assert model.sigma_v_[0] != pytest.approx(other.sigma_v_[0], rel=1e-3)


def test_forks_that_miss_different_targets_are_merged():
    X, Y = make_rows(200, missing=0.0)
    start = fork(TAGIRegressor(**QUICK).fit(X[:60], Y[:60]))
    shards = []
    for target, rows in ((0, slice(60, 130)), (2, slice(130, 200))):
        some = Y[rows].copy()
        some[:, target] = np.nan
        shards.append(deepcopy(start).partial_fit(X[rows], some))
    merged = merge(shards)
    assert_sound(merged.partial_fit(X[:5], Y[:5]), X)
    merged = merge(shards)
    assert merged.n_samples_seen_ == 200
    # Statistics and noise of a target are those of the shards that have observed it.
    np.testing.assert_allclose(merged._scaling.y.weight - start._scaling.y.weight, [70, 140, 70])
    np.testing.assert_allclose(merged._scaling.y.mean[0], shards[1]._scaling.y.mean[0])
    np.testing.assert_allclose(merged._scaling.y.mean[2], shards[0]._scaling.y.mean[2])
    noise = [shard._net.noise_var[:, :, 0] for shard in shards]
    np.testing.assert_allclose(merged._net.noise_var[:, 0, 0], noise[1][:, 0], rtol=1e-9)
    np.testing.assert_allclose(merged._net.noise_var[:, 2, 0], noise[0][:, 2], rtol=1e-9)
    np.testing.assert_allclose(
        (merged._net.rows_learned - start._net.rows_learned)[:, :, 0], [[70, 140, 70]] * 2
    )


def test_fits_go_on_after_a_file():
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK, warm_start=True).fit(X[:60], Y[:60])
    loaded = pickle.loads(pickle.dumps(model))
    for learn in ("partial_fit", "fit"):
        for each in (model, loaded):
            getattr(each, learn)(X[60:], Y[60:])
        for mine, theirs in zip(everything(model, X), everything(loaded, X), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_warm_fit_may_miss_other_targets_than_the_first():
    X, Y = make_rows()
    complete = make_rows(missing=0.0)[1]
    model = TAGIRegressor(**QUICK, warm_start=True)
    for targets in (complete, Y, Y[:, ::-1], complete):
        assert_sound(model.fit(X, targets), X)


@pytest.mark.parametrize(
    "scoring", [None, "calibration", "crps", "interval_score", "log_likelihood"]
)
def test_models_are_selected(scoring):
    X, Y = make_rows()
    scorer = None if scoring is None else getattr(metrics, f"{scoring}_scorer")
    model = make_pipeline(StandardScaler(), TAGIRegressor(**QUICK))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(model, X, Y, cv=3, scoring=scorer, error_score="raise")
    assert np.isfinite(scores).all()
    grid = {"tagiregressor__max_iter": [0, 10]}
    search = GridSearchCV(model, grid, cv=3, scoring=scorer, error_score="raise").fit(X, Y)
    assert search.best_params_ == {"tagiregressor__max_iter": 10}


# Scores


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_mean_over_targets_each_over_the_rows_that_observe_it(weighted):
    X, Y = make_rows()
    weight = np.random.default_rng(0).uniform(0.2, 3, size=90) if weighted else None
    model = TAGIRegressor(**QUICK).fit(X, Y)
    scores = []
    for y, predicted, known in observed_columns(model, X, Y):
        some = None if weight is None else weight[known]
        scores.append(r2_score(y[known], predicted[known], sample_weight=some))
    assert np.ptp(scores) > 0.01
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(np.mean(scores), rel=1e-12)


def test_a_target_without_two_observed_rows_does_not_count_in_the_score():
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK).fit(X, Y)
    Y[0, 1], Y[1:, 1] = 1.0, np.nan
    Y[np.isnan(Y).all(axis=1), 0] = 0.0
    scores = [
        r2_score(y[known], predicted[known])
        for y, predicted, known in observed_columns(model, X, Y)
        if known.sum() > 1
    ]
    assert len(scores) == 2
    assert model.score(X, Y) == pytest.approx(np.mean(scores), rel=1e-12)


def test_log_likelihood_of_a_row_is_that_of_the_targets_it_observes():
    X, Y = make_rows()
    model = TAGIRegressor(**{**QUICK, "early_stopping": False}).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((Y - mean) / std) ** 2
    expected = np.nansum(density, axis=1)
    assert model.log_likelihood(X, Y) == pytest.approx(expected.mean(), rel=1e-12)
    weight = np.random.default_rng(0).uniform(0.2, 3, size=90)
    assert model.log_likelihood(X, Y, sample_weight=weight) == pytest.approx(
        np.average(expected, weights=weight), rel=1e-12
    )


def test_training_scores_are_those_of_observed_targets_in_original_units():
    X, Y = make_rows()
    Y *= 50
    params = {**PLAIN, "standardize": True, "batch_size": 90, "sigma_v": 0.5}
    prior = TAGIRegressor((5,), **{**params, "max_iter": 0}).fit(X, Y)
    model = TAGIRegressor((5,), **params).fit(X, Y)
    assert model.train_scores_ == [pytest.approx(prior.log_likelihood(X, Y), rel=1e-9)]
    streamed = TAGIRegressor((5,), **params).partial_fit(X, Y)
    assert streamed.prequential_log_likelihood_ == pytest.approx(model.train_scores_[0], rel=1e-9)


# Refused


def state(model):
    return pickle.dumps(model)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("given", [np.asarray, as_frame, as_lists])
def test_rows_without_any_target_are_refused_and_nothing_changes(learn, fitted, given):
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK)
    if fitted:
        model.fit(X, Y)
    before = state(model)
    bad = Y.copy()
    bad[[7, 30]] = np.nan
    reason = r"y has rows with no observed target \(all NaN\): rows 7, 30\."
    with pytest.raises(ValueError, match=reason):
        getattr(model, learn)(X, given(bad))
    assert state(model) == before
    bad[:6] = np.nan
    with pytest.raises(ValueError, match=r"no observed target .*: rows 0, 1, 2, 3, 4, \.\.\."):
        getattr(model, learn)(X, given(bad))
    assert state(model) == before


def test_rows_without_any_target_are_not_scored():
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK).fit(X, Y)
    Y[5] = np.nan
    for score in (model.score, model.log_likelihood):
        with pytest.raises(ValueError, match=r"rows? .*no observed target.* 5"):
            score(X, Y)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_a_single_target_must_be_there(learn, fitted, shape):
    X, Y = make_rows(missing=0.0)
    model = TAGIRegressor(**QUICK)
    if fitted:
        model.fit(X, Y[:, 0].reshape(shape))
    before = state(model)
    y = Y[:, 0].copy()
    y[3] = np.nan
    for rows in (slice(None), slice(2, 5)):  # few rows are checked in a quicker way
        with pytest.raises(ValueError, match="Input y contains NaN"):
            getattr(model, learn)(X[rows], y[rows].reshape(shape))
        with pytest.raises(ValueError, match="Input y contains NaN"):
            getattr(model, learn)(X[rows], pd.Series(y[rows]))
    assert state(model) == before


@pytest.mark.parametrize("fitted", [False, True])
def test_a_target_that_no_row_observes_is_refused_by_fit_and_not_by_partial_fit(fitted):
    X, Y = make_rows()
    model = TAGIRegressor(**QUICK, warm_start=True)
    if fitted:
        model.fit(X, Y)
    before = state(model)
    Y[:, 1] = np.nan
    Y[np.isnan(Y).all(axis=1), 0] = 0.5
    with pytest.raises(ValueError, match=r"y has targets that no row observes: columns \[1\]\."):
        model.fit(X, Y)
    assert state(model) == before
    assert_sound(model.partial_fit(X, Y), X)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_targets_are_refused_beside_missing_ones(value):
    X, Y = make_rows()
    Y[np.isnan(Y[:, 0]).argmin(), 0] = value
    model = TAGIRegressor(**QUICK)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="Input y contains infinity"):
            learn(X, Y)
    assert not model.__sklearn_is_fitted__()
