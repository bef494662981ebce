"""TAGIRegressor: what it returns, the invariances it keeps, what it learns."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from sktagi import TAGIRegressor
from sktagi.engine import learning
from sktagi.metrics import log_likelihood_scorer

QUICK = {"hidden_layer_sizes": (10,), "max_iter": 5, "n_members": 2, "random_state": 0}


def quick(**params):
    return TAGIRegressor(**{**QUICK, **params})


def make_data(n=80, d=3, n_targets=None, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.stack([np.sin(X[:, 0] + k) + X[:, 1] * k for k in range(n_targets or 1)], axis=1)
    y += noise * rng.normal(size=y.shape)
    return X, y if n_targets else y[:, 0]


def assert_same_posterior(model, other, rtol, atol=0.0):
    for name in ("coefs_", "intercepts_", "coef_vars_", "intercept_vars_"):
        for mine, theirs in zip(getattr(model, name), getattr(other, name), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)
    np.testing.assert_allclose(model.sigma_v_, other.sigma_v_, rtol=rtol)


# Shapes and agreement of what is returned


@pytest.mark.parametrize(("n_targets", "tail"), [(None, ()), (1, (1,)), (3, (3,))])
def test_shapes_follow_the_target(n_targets, tail):
    X, y = make_data(n_targets=n_targets)
    model = quick().fit(X, y)
    new = X[:7]
    mean, std = model.predict(new, return_std=True)
    assert model.predict(new).shape == mean.shape == std.shape == (7, *tail)
    assert all(part.shape == (7, *tail) for part in model.predict_variance(new))
    assert model.predict_interval(new).shape == (7, *tail, 2)
    assert model.predict_quantiles(new, [0.1, 0.2, 0.3, 0.4]).shape == (7, *tail, 4)
    assert model.predict_quantiles(new, 0.5).shape == (7, *tail, 1)
    assert model.sample_y(new, n_samples=6).shape == (7, *tail, 6)
    assert np.ndim(model.log_likelihood(X, y)) == 0
    assert model.n_outputs_ == (n_targets or 1)
    assert np.shape(model.sigma_v_) == ((3,) if n_targets == 3 else ())


@pytest.mark.parametrize("n_targets", [None, 2, 3])
@pytest.mark.parametrize("n_samples", [1, 4])
def test_samples_have_the_shapes_of_a_gaussian_process(n_targets, n_samples):
    X, y = make_data(30, n_targets=n_targets)
    process = GaussianProcessRegressor(alpha=0.1).fit(X, y)
    ours, theirs = (m.sample_y(X[:5], n_samples) for m in (quick().fit(X, y), process))
    assert ours.shape == theirs.shape
    assert quick().fit(X, y).predict(X, return_std=True)[1].shape == (
        process.predict(X, return_std=True)[1].shape
    )


def test_an_interval_is_two_quantiles():
    X, y = make_data(n_targets=2)
    model = quick().fit(X, y)
    np.testing.assert_allclose(
        model.predict_interval(X, coverage=0.8), model.predict_quantiles(X, [0.1, 0.9]), rtol=1e-12
    )
    np.testing.assert_array_equal(
        model.predict_interval(X), model.predict_interval(X, coverage=0.9)
    )


def test_quantiles_are_those_of_the_normal_distribution_if_no_rows_were_held_out():
    X, y = make_data()
    model = quick(early_stopping=False).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    quantiles = [0.025, 0.5, 0.999]
    expected = stats.norm.ppf(quantiles, mean[:, None], std[:, None])
    np.testing.assert_allclose(model.predict_quantiles(X, quantiles), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_quantiles(X, 0.5)[:, 0], mean)


@pytest.mark.parametrize("n_targets", [None, 2])
def test_parts_of_the_variance_sum_to_the_squared_std(n_targets):
    X, y = make_data(n_targets=n_targets)
    model = quick().fit(X, y)
    epistemic, aleatoric = model.predict_variance(X)
    std = model.predict(X, return_std=True)[1]
    np.testing.assert_allclose(epistemic + aleatoric, std**2, rtol=1e-12)
    assert (epistemic > 0).all()
    assert (aleatoric == aleatoric[:1]).all()  # the same noise for all rows
    assert epistemic.std() > 0


def test_fixed_noise_is_the_aleatoric_part_in_units_of_y():
    X, y = make_data()
    model = quick(sigma_v=0.3, early_stopping=False).fit(X, 50 * y)
    assert model.sigma_v_ == pytest.approx(0.3)
    np.testing.assert_allclose(model.predict_variance(X)[1], (0.3 * 50 * y.std()) ** 2)


@pytest.mark.parametrize("n_targets", [None, 2])
def test_samples_match_the_moments(n_targets):
    X, y = make_data(n_targets=n_targets)
    model = quick().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    samples = model.sample_y(X, n_samples=20_000, random_state=1)
    np.testing.assert_allclose(samples.mean(axis=-1), mean, atol=5 * std.max() / 20_000**0.5)
    np.testing.assert_allclose(samples.std(axis=-1), std, rtol=0.04)


def test_samples_follow_their_random_state():
    X, y = make_data()
    model = quick().fit(X, y)
    np.testing.assert_array_equal(model.sample_y(X), model.sample_y(X, random_state=0))
    assert (model.sample_y(X) != model.sample_y(X, random_state=1)).all()
    rng = np.random.RandomState(0)
    assert (model.sample_y(X, random_state=rng) != model.sample_y(X, random_state=rng)).all()


@pytest.mark.parametrize("n_targets", [None, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_log_likelihood_by_hand(n_targets, weighted):
    X, y = make_data(n_targets=n_targets)
    model = quick(early_stopping=False).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    rows = stats.norm.logpdf(y, mean, std).reshape(len(X), -1).sum(axis=1)
    weight = np.linspace(0, 3, len(X)) if weighted else None
    assert model.log_likelihood(X, y, sample_weight=weight) == pytest.approx(
        np.average(rows, weights=weight)
    )


def test_log_likelihood_of_uncertain_inputs_uses_them():
    X, y = make_data()
    model = quick(early_stopping=False).fit(X, y)
    mean, std = model.predict(X, return_std=True, X_std=0.5)
    expected = stats.norm.logpdf(y, mean, std).mean()
    assert model.log_likelihood(X, y, X_std=0.5) == pytest.approx(expected)


def test_score_is_r2():
    X, y = make_data(n_targets=2)
    model = quick().fit(X, y)
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)))


# Invariances

stopping = pytest.mark.parametrize("early_stopping", [False, True])


@stopping
@pytest.mark.parametrize("scale", [1e-6, 2.0**10, 3.7])
@pytest.mark.parametrize("shift", [0.0, 17.0])
def test_scaling_and_shifting_y_scales_and_shifts_the_answer(early_stopping, scale, shift):
    X, y = make_data()
    params = {"early_stopping": early_stopping}
    mean, std = quick(**params).fit(X, y).predict(X, return_std=True)
    other = quick(**params).fit(X, scale * (y + shift)).predict(X, return_std=True)
    np.testing.assert_allclose(other[0], scale * (mean + shift), rtol=1e-7, atol=1e-7 * scale)
    np.testing.assert_allclose(other[1], scale * std, rtol=1e-7)


def test_scores_are_in_units_of_y():
    X, y = make_data()
    params = {"early_stopping": False, "max_iter": 3}
    one, ten = (quick(**params).fit(X, k * y).train_scores_ for k in (1, 10))
    np.testing.assert_allclose(np.array(ten) - one, -np.log(10))


@stopping
def test_scaling_and_shifting_X_changes_nothing(early_stopping):
    X, y = make_data()
    scale, shift = np.array([1e-5, 1.0, 1e6]), np.array([0.0, -4.0, 1e6])
    params = {"early_stopping": early_stopping}
    one = quick(**params).fit(X, y, X_std=0.1)
    other = quick(**params).fit(X * scale + shift, y, X_std=0.1 * scale)
    np.testing.assert_allclose(
        other.predict(X * scale + shift, return_std=True, X_std=0.2 * scale),
        one.predict(X, return_std=True, X_std=0.2),
        rtol=1e-6,
        atol=1e-7,
    )


@stopping
@pytest.mark.parametrize("sigma_v", [0.2, "auto"])
def test_row_order_does_not_matter_in_one_joint_batch(early_stopping, sigma_v):
    X, y = make_data()
    order = np.random.default_rng(1).permutation(len(X))
    params = {"batch_size": 1000, "sigma_v": sigma_v, "early_stopping": early_stopping}
    one = quick(**params).fit(X, y)
    other = quick(**params).fit(X[order], y[order])
    np.testing.assert_allclose(
        one.predict(X, return_std=True), other.predict(X, return_std=True), rtol=1e-6, atol=1e-8
    )


def test_several_targets_are_learned_together():
    X, y = make_data(200, n_targets=3)
    model = quick(hidden_layer_sizes=(30,), max_iter=30).fit(X, y)
    assert (r2_score(y, model.predict(X), multioutput="raw_values") > 0.8).all()


def test_max_iter_zero_is_the_prior_predictive():
    X, y = make_data(300)
    model = quick(max_iter=0, n_members=20, sigma_v=0.5).fit(X, y)
    prior = quick(max_iter=0, n_members=20, sigma_v=0.5).fit(X, y[::-1])
    np.testing.assert_array_equal(model.coefs_[0], prior.coefs_[0])
    sizes = [(3, 10), (10, 1)]
    for var, (n_in, n_out) in zip(model.coef_vars_, sizes, strict=True):
        np.testing.assert_allclose(var, 2 / (n_in + n_out))
    for mu, (n_in, n_out) in zip(model.coefs_, sizes, strict=True):
        assert mu.std() == pytest.approx(np.sqrt(2 / (n_in + n_out)), rel=0.2)
    assert abs(model.score(X, y)) < 0.5


def test_all_numbers_of_epochs_start_from_the_same_prior():
    """Noise of a million standard deviations teaches nothing: what is left is the prior."""
    X, y = make_data()
    none, some = (
        quick(max_iter=k, sigma_v=1e6, early_stopping=k == 5, n_members=3).fit(X, y) for k in (0, 5)
    )
    some._net.calibration = None  # what held-out rows say of its variances
    assert_same_posterior(none, some, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_targets", [None, 2])
@pytest.mark.parametrize("sigma_v", [0.05, 1.0])
def test_linear_joint_batch_has_the_mean_of_exact_conditioning(n_targets, sigma_v):
    X, y = make_data(40, n_targets=n_targets)
    params = {
        "hidden_layer_sizes": (), "standardize": False, "shuffle": False, "half_life": None,
        "sigma_v": sigma_v, "n_members": 1, "early_stopping": False, "batch_size": 40,
    }  # fmt: skip
    prior = quick(**params | {"max_iter": 0}).fit(X, y)
    model = quick(**params | {"max_iter": 1}).fit(X, y)
    design = np.column_stack([X, np.ones(40)])
    S = np.diag(np.append(prior.coef_vars_[0][:, 0], prior.intercept_vars_[0][0]))
    w = np.vstack([prior.coefs_[0], prior.intercepts_[0]])
    cov = design @ S @ design.T + sigma_v**2 * np.eye(40)
    exact = w + S @ design.T @ np.linalg.solve(cov, y.reshape(40, -1) - design @ w)
    np.testing.assert_allclose(model.coefs_[0], exact[:-1], rtol=1e-8)
    np.testing.assert_allclose(model.intercepts_[0], exact[-1], rtol=1e-8)
    np.testing.assert_allclose(model.predict(X).reshape(40, -1), design @ exact, rtol=1e-8)


# Weights


@pytest.mark.parametrize("half_life", [None, 60.0, "auto"])
@pytest.mark.parametrize("sigma_v", [0.3, "auto"])
@pytest.mark.parametrize("standardize", [True, False])
def test_weight_k_equals_k_copies_in_the_same_batch(half_life, sigma_v, standardize):
    X, y = make_data(30)
    weight = np.random.default_rng(0).integers(1, 4, size=30)
    params = {
        "half_life": half_life, "sigma_v": sigma_v, "standardize": standardize,
        "batch_size": 1000, "early_stopping": False, "max_iter": 3,
    }  # fmt: skip
    weighted = quick(**params).fit(X, y, sample_weight=weight)
    copies = quick(**params).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_same_posterior(weighted, copies, rtol=1e-8, atol=1e-10)


def test_weight_k_equals_k_copies_with_early_stopping():
    X, y = make_data(60)
    weight = np.random.default_rng(0).integers(1, 4, size=60)
    params = {"batch_size": 1000, "max_iter": 5}
    weighted = quick(**params).fit(X, y, sample_weight=weight)
    copies = quick(**params).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_same_posterior(weighted, copies, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(weighted.best_iter_, copies.best_iter_)


@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@stopping
def test_weight_zero_equals_row_left_out(early_stopping, batch_inference):
    X, y = make_data(50)
    weight = np.ones(50)
    weight[::4] = 0
    params = {"early_stopping": early_stopping, "batch_inference": batch_inference}
    spoilt = X.copy()
    spoilt[::4] = 1e6
    weighted = quick(**params).fit(spoilt, y, sample_weight=weight, X_std=np.abs(X))
    left_out = quick(**params).fit(X[weight > 0], y[weight > 0], X_std=np.abs(X[weight > 0]))
    assert_same_posterior(weighted, left_out, rtol=0)
    streamed = quick().partial_fit(spoilt, y, sample_weight=weight)
    assert_same_posterior(streamed, quick().partial_fit(X[weight > 0], y[weight > 0]), rtol=0)


def test_a_number_is_the_same_weight_for_all_rows():
    X, y = make_data(50)
    one = quick().fit(X, y, sample_weight=3)
    assert_same_posterior(one, quick().fit(X, y, sample_weight=np.full(50, 3.0)), rtol=0)


def test_heavier_rows_are_fitted_more_closely():
    X, y = make_data(100, noise=1.0)
    params = {"hidden_layer_sizes": (30,), "sigma_v": 0.5, "early_stopping": False, "max_iter": 20}
    heavy = np.arange(100) < 50
    weighted = quick(**params).fit(X, y, sample_weight=np.where(heavy, 10.0, 0.1))
    plain = quick(**params).fit(X, y)
    error_weighted, error_plain = ((m.predict(X) - y) ** 2 for m in (weighted, plain))
    assert error_weighted[heavy].mean() < error_plain[heavy].mean()
    assert error_weighted[~heavy].mean() > error_plain[~heavy].mean()


# Uncertain inputs


def test_input_uncertainty_widens_the_prediction():
    X, y = make_data()
    model = quick().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    for X_std in (0.01, 0.1, 1.0):
        uncertain_mean, uncertain = model.predict(X, return_std=True, X_std=X_std)
        assert (uncertain > std).all()
        std = uncertain
        np.testing.assert_allclose(uncertain_mean, mean)  # linearised at the mean


def test_forms_of_X_std_agree():
    X, y = make_data()
    model = quick().fit(X, y)
    column = np.array([0.1, 0.2, 0.3])
    full = np.tile(column, (len(X), 1))
    expected = model.predict(X, return_std=True, X_std=full)
    for form in (column, column[None], column.tolist()):
        np.testing.assert_allclose(model.predict(X, return_std=True, X_std=form), expected)
    np.testing.assert_allclose(
        model.predict(X, return_std=True, X_std=0.1),
        model.predict(X, return_std=True, X_std=np.full(X.shape, 0.1)),
    )
    rows = np.linspace(0, 1, len(X))[:, None]
    np.testing.assert_allclose(
        model.predict(X, return_std=True, X_std=rows),
        model.predict(X, return_std=True, X_std=np.tile(rows, 3)),
    )
    for form in (column, full, column.tolist()):
        assert_same_posterior(
            quick().fit(X, y, X_std=form), quick().fit(X, y, X_std=full), rtol=1e-9, atol=1e-11
        )


def test_zero_X_std_equals_none():
    X, y = make_data()
    one = quick().fit(X, y)
    for zero in (0, np.zeros(3), np.zeros_like(X)):
        assert_same_posterior(one, quick().fit(X, y, X_std=zero), rtol=0)
        np.testing.assert_array_equal(
            one.predict(X, return_std=True), one.predict(X, return_std=True, X_std=zero)
        )


@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
def test_uncertain_training_rows_leave_the_posterior_less_certain(batch_inference):
    X, y = make_data()
    params = {"sigma_v": 0.2, "early_stopping": False, "max_iter": 1,
              "batch_inference": batch_inference}  # fmt: skip
    certain = quick(**params).fit(X, y)
    uncertain = quick(**params).fit(X, y, X_std=1.0)
    for exact, wide in zip(certain.coef_vars_, uncertain.coef_vars_, strict=True):
        assert wide.sum() > exact.sum()
    linear = {**params, "hidden_layer_sizes": (), "n_members": 1}
    if batch_inference == "independent":
        linear["batch_size"] = 1  # so that no batch of exact rows is learned jointly
    certain, uncertain = (quick(**linear).fit(X, y, X_std=s) for s in (None, 1.0))
    assert (certain.predict_variance(X)[0] < uncertain.predict_variance(X)[0]).all()


def test_linear_model_propagates_input_uncertainty_exactly():
    """var(w x + b) for independent w and x is (w^2 + S) s^2 + S x^2 + S_b."""
    X, y = make_data()
    model = quick(hidden_layer_sizes=(), n_members=1, standardize=False, sigma_v=0.1).fit(X, y)
    w, S, S_b = model.coefs_[0][:, 0], model.coef_vars_[0][:, 0], model.intercept_vars_[0][0]
    X_std = np.abs(X) / 3
    expected = X_std**2 @ (w**2 + S) + X**2 @ S + S_b
    np.testing.assert_allclose(model.predict_variance(X, X_std=X_std)[0], expected)


# Early stopping and history


def test_early_stopping_gives_back_the_best_posterior():
    X, y = make_data(60, noise=1.0)
    params = {"hidden_layer_sizes": (30,), "n_members": 1, "sigma_v": 0.1, "half_life": 50.0}
    model = quick(**params, max_iter=30, n_iter_no_change=30).fit(X, y)
    scores = model.validation_scores_
    assert len(scores) == len(model.train_scores_) == model.n_iter_ == 30
    assert isinstance(model.best_iter_, int)
    assert model.best_iter_ == np.argmax(scores) + 1
    assert model.best_iter_ < 30  # or the test would show nothing
    shorter = quick(**params, max_iter=model.best_iter_, n_iter_no_change=30).fit(X, y)
    assert_same_posterior(model, shorter, rtol=0)


def test_each_member_keeps_its_own_best_epoch():
    X, y = make_data(60, noise=1.0)
    params = {"hidden_layer_sizes": (30,), "n_members": 4, "sigma_v": 0.1, "half_life": 50.0}
    model = quick(**params, max_iter=20, n_iter_no_change=30).fit(X, y)
    assert model.best_iter_.shape == (4,)
    assert len(set(model.best_iter_)) > 1
    for member, best in enumerate(model.best_iter_):
        shorter = quick(**params, max_iter=int(best), n_iter_no_change=30).fit(X, y)
        np.testing.assert_array_equal(model.coefs_[0][member], shorter.coefs_[0][member])


@pytest.mark.parametrize("patience", [1, 4])
def test_training_stops_after_n_iter_no_change_epochs_without_a_gain(patience):
    X, y = make_data()
    params = {"sigma_v": "constant", "tol": 1e6}
    model = quick(max_iter=50, n_iter_no_change=patience, **params).fit(X, y)
    assert model.n_iter_ == 1 + patience
    patient = quick(max_iter=12, n_iter_no_change=50, **params).fit(X, y)
    assert patient.n_iter_ == 12


@pytest.mark.parametrize(("patience", "first", "second"), [(1, 1, 1), (4, 3, 2), (20, 15, 10)])
def test_patience_is_shared_by_epochs_before_and_after_the_noise_may_vary(patience, first, second):
    X, y = make_data()
    params = {"max_iter": 100, "n_iter_no_change": patience, "tol": 1e6}
    model = quick(**params).fit(X, y)
    assert model.n_iter_ == 1 + first  # constant noise
    X, y = make_data(n=600)
    y += 3 * y.std() * (X[:, 0] > 0) * np.random.default_rng(0).normal(size=len(y))
    assert quick(**params).fit(X, y).n_iter_ == 1 + first + second
    assert len(model.validation_scores_) == len(model.train_scores_) == model.n_iter_
    patient = quick(max_iter=12, n_iter_no_change=50, tol=1e6).fit(X, y)
    assert patient.n_iter_ == 12


def test_without_early_stopping_all_epochs_and_all_rows_are_learned():
    X, y = make_data()
    model = quick(early_stopping=False, max_iter=7).fit(X, y)
    assert model.n_iter_ == model.best_iter_ == 7
    assert model.validation_scores_ is None
    assert len(model.train_scores_) == 7


def test_held_out_rows_do_not_enter_the_statistics():
    """One outlier in y: the members that hold it out still share statistics of training rows."""
    X, y = make_data(40)
    y[13] = 1e6
    model = quick(n_members=1, sigma_v=1.0, validation_fraction=0.5, max_iter=1)
    held = [
        seed
        for seed in range(8)
        if np.abs(model.set_params(random_state=seed).fit(X, y).predict(X)).max() < 1e3
    ]
    assert 0 < len(held) < 8


# Learned noise


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.5])
def test_noise_of_generated_data_is_found(noise):
    X, y = make_data(800, d=2, noise=noise)
    # With validation rows the noise also makes up for a network that is too unsure of itself.
    model = TAGIRegressor(random_state=0, early_stopping=noise > 0.2).fit(X, y)
    assert np.sqrt(model.predict_variance(X[:1])[1][0]) == pytest.approx(noise, rel=0.25)
    assert model.sigma_v_ * y.std() == pytest.approx(noise, rel=0.25)


def test_noise_is_found_per_target():
    X, y = make_data(800, d=2, n_targets=2, noise=0.0)
    noise = np.array([0.3, 0.7])
    y += noise * np.random.default_rng(1).normal(size=y.shape)
    model = TAGIRegressor(random_state=0).fit(X, y)
    assert model.sigma_v_.shape == (2,)
    np.testing.assert_allclose(np.sqrt(model.predict_variance(X)[1][0]), noise, rtol=0.25)


def test_noise_is_found_without_early_stopping_and_on_a_stream():
    X, y = make_data(1500, d=2, noise=0.4)
    fitted = TAGIRegressor(early_stopping=False, max_iter=10, random_state=0).fit(X, y)
    streamed = TAGIRegressor(random_state=0)
    for _ in range(4):
        streamed.partial_fit(X, y)
    for model in (fitted, streamed):
        assert np.sqrt(model.predict_variance(X)[1][0]) == pytest.approx(0.4, rel=0.25)


# Members


def test_first_member_has_the_prior_of_a_single_network():
    X, y = make_data()
    single = quick(n_members=1, max_iter=0).fit(X, y)
    stack = quick(n_members=4, max_iter=0).fit(X, y)
    for mine, theirs in zip(single.coefs_, stack.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs[0])
    assert len(np.unique(stack.coefs_[0][:, 0, 0])) == 4


def test_members_learn_as_they_would_alone():
    X, y = make_data()
    params = {"early_stopping": False, "sigma_v": 0.3}
    single = quick(n_members=1, **params).fit(X, y)
    stack = quick(n_members=3, **params).fit(X, y)
    np.testing.assert_allclose(single.coefs_[0], stack.coefs_[0][0], rtol=1e-9)
    np.testing.assert_allclose(single.coef_vars_[1], stack.coef_vars_[1][0], rtol=1e-9)


def test_prediction_by_hand_from_the_members():
    X, y = make_data(n_targets=2)
    model = quick(hidden_layer_sizes=(6, 5), n_members=3, standardize=False, sigma_v=0.2).fit(X, y)
    means, variances = [], []
    for member in range(3):
        mu_a, var_a = X, np.zeros_like(X)
        for layer in range(3):
            w, S = model.coefs_[layer][member], model.coef_vars_[layer][member]
            mu_z = mu_a @ w + model.intercepts_[layer][member]
            var_z = (mu_a**2 + var_a) @ S + var_a @ w**2 + model.intercept_vars_[layer][member]
            active = mu_z > 0
            mu_a, var_a = mu_z * active, var_z * active
        means.append(mu_z)
        variances.append(var_z)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, np.mean(means, axis=0), rtol=1e-10, atol=1e-12)
    epistemic = np.mean(variances, axis=0) + np.var(means, axis=0)
    np.testing.assert_allclose(model.predict_variance(X)[0], epistemic, rtol=1e-10)
    np.testing.assert_allclose(std, np.sqrt(epistemic + 0.2**2), rtol=1e-10)


def test_several_members_doubt_what_lies_outside_the_data():
    """y = x^3 + N(0, 9) on [-4, 4]: at x = -6 and 6 one mode does not know that it knows little."""
    inside, outside = np.linspace(-4, 4, 60)[:, None], np.array([[-6.0], [6.0]])
    smaller_end = {1: [], 10: []}
    for seed in range(4):
        rng = np.random.RandomState(seed)
        X = rng.uniform(-4, 4, size=(40, 1))
        y = X[:, 0] ** 3 + 3 * rng.standard_normal(40)
        for n_members, found in smaller_end.items():
            model = TAGIRegressor(
                (20, 20), n_members=n_members, batch_size=5, half_life=None,
                validation_fraction=0.5, random_state=seed,
            ).fit(X, y)  # fmt: skip
            std_inside = model.predict(inside, return_std=True)[1].mean()
            found.append((model.predict(outside, return_std=True)[1] / std_inside).min())
    assert np.median(smaller_end[10]) >= 2
    assert np.median(smaller_end[10]) > 1.5 * np.median(smaller_end[1])


# Continuing


@pytest.mark.parametrize("sigma_v", [0.3, "auto"])
def test_warm_start_epoch_by_epoch_equals_one_longer_fit(sigma_v):
    X, y = make_data()
    params = {"early_stopping": False, "shuffle": False, "sigma_v": sigma_v}
    longer = quick(max_iter=4, **params).fit(X, y)
    model = quick(max_iter=1, warm_start=True, **params)
    for _ in range(4):
        model.fit(X, y)
    assert_same_posterior(model, longer, rtol=0)


def test_warm_start_goes_on_learning_and_a_cold_start_does_not():
    X, y = make_data(200)
    scores = {}
    for warm_start in (True, False):
        model = quick(max_iter=1, warm_start=warm_start, early_stopping=False)
        scores[warm_start] = [model.fit(X, y).log_likelihood(X, y) for _ in range(6)]
    assert scores[True][-1] > scores[True][0] + 0.1
    assert scores[False][-1] == scores[False][0]


@pytest.mark.parametrize(
    ("name", "value"), [("hidden_layer_sizes", (11,)), ("hidden_layer_sizes", (10, 10)),
                        ("n_members", 3)],
)  # fmt: skip
def test_a_continued_fit_refuses_another_architecture(name, value):
    X, y = make_data()
    model = quick(warm_start=True).fit(X, y)
    before = model.predict(X)
    model.set_params(**{name: value})
    with pytest.raises(ValueError, match=name):
        model.fit(X, y)
    with pytest.raises(ValueError, match=name):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_noise_can_be_changed_between_calls():
    X, y = make_data()
    model = quick(sigma_v=0.3, warm_start=True).fit(X, y).set_params(sigma_v=0.9)
    assert model.sigma_v_ == pytest.approx(0.3)
    assert model.fit(X, y).sigma_v_ == pytest.approx(0.9)


# Interrupts


def interrupt(monkeypatch, name, good, owner=learning.Learner):
    original, calls = getattr(owner, name), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) > good:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)


def test_interrupted_fit_keeps_what_was_learned_and_warns(monkeypatch):
    X, y = make_data()
    expected = quick(max_iter=2, early_stopping=False).fit(X, y)
    interrupt(monkeypatch, "learn", good=2)
    with pytest.warns(UserWarning, match=r"interrupted in epoch 3.*learned so far"):
        model = quick(max_iter=9, early_stopping=False).fit(X, y)
    assert_same_posterior(model, expected, rtol=0)
    assert model.n_iter_ == 2
    assert model.n_samples_seen_ == len(X)


def test_interrupted_fit_with_early_stopping_keeps_the_best_epoch(monkeypatch):
    X, y = make_data()
    params = {"sigma_v": "constant", "half_life": 200.0}  # not that of the planned epochs
    expected = quick(max_iter=3, **params).fit(X, y)
    interrupt(monkeypatch, "learn", good=3)
    with pytest.warns(UserWarning, match="interrupted"):
        model = quick(max_iter=9, **params).fit(X, y)
    assert_same_posterior(model, expected, rtol=0)
    assert len(model.validation_scores_) == len(model.train_scores_) == 3


@pytest.mark.parametrize("good", [0, 1, 3])
def test_interrupt_within_an_epoch_leaves_a_usable_model(monkeypatch, good):
    X, y = make_data()
    interrupt(monkeypatch, "backward", good=good, owner=learning)
    with pytest.warns(UserWarning, match="interrupted in epoch 1"):
        model = quick(batch_size=10).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert model.n_iter_ == 0


def test_the_warning_points_at_the_call_of_fit(monkeypatch):
    X, y = make_data()
    interrupt(monkeypatch, "learn", good=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quick(sigma_v="constant").fit(X, y)
    assert [w.filename for w in caught] == [__file__]


def interrupt_once(monkeypatch, call):
    """Raise in one call of ``Learner.learn``; networks of the noise learn by it, too."""
    original, calls = learning.Learner.learn, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(learning.Learner, "learn", interrupted)


@pytest.mark.parametrize("call", [2, 5])
def test_interrupted_epochs_before_the_noise_may_vary_are_calibrated(monkeypatch, call):
    X, y = make_data()
    interrupt_once(monkeypatch, call)
    with pytest.warns(UserWarning, match=f"interrupted in epoch {call}"):
        model = quick(max_iter=30).fit(X, y)
    assert model.n_iter_ == call - 1
    assert model._net.calibration is not None
    assert model._net.noise_net is not None
    assert (model.predict(X, return_std=True)[1] > 0).all()


def test_an_interrupt_while_the_noise_is_learned_keeps_the_epochs_so_far(monkeypatch):
    X, y = make_data()
    interrupt_once(monkeypatch, 8)  # the noise network's first pass, after seven epochs
    model = quick(max_iter=10, n_iter_no_change=100)
    try:
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(X, y)
    except KeyboardInterrupt:
        pytest.fail("the interrupt was not caught")
    assert model.n_iter_ == 7


# Quality of the default


@pytest.mark.parametrize("name", ["diabetes", "friedman"])
def test_coverage_of_the_default_is_near_nominal(name):
    found = []
    for seed in range(3):
        X, y = make_friedman1(400, noise=1.0, random_state=seed)
        if name == "diabetes":
            X, y = load_diabetes(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=seed)
        model = TAGIRegressor(random_state=seed).fit(X, y)
        bounds = [model.predict_interval(X_test, coverage).T for coverage in (0.5, 0.9, 0.95)]
        found.append([np.mean((lower < y_test) & (y_test < upper)) for lower, upper in bounds])
    np.testing.assert_allclose(np.mean(found, axis=0), [0.5, 0.9, 0.95], atol=0.1)


def test_the_default_beats_a_linear_model_where_the_truth_is_not_linear():
    X, y = make_friedman1(400, noise=1.0, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    model, linear = TAGIRegressor(random_state=0).fit(X, y), BayesianRidge().fit(X, y)
    assert model.score(X_test, y_test) > linear.score(X_test, y_test) + 0.05
    assert model.log_likelihood(X_test, y_test) > log_likelihood_scorer(linear, X_test, y_test)


def test_the_default_is_close_to_a_linear_model_where_the_truth_is_linear():
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    model, linear = TAGIRegressor(random_state=0).fit(X, y), BayesianRidge().fit(X, y)
    gap = log_likelihood_scorer(linear, X_test, y_test) - model.log_likelihood(X_test, y_test)
    assert gap < 0.15


@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("batch_size", [1, 10, 50, 1000])
def test_every_batch_size_learns(batch_inference, batch_size):
    X, y = make_friedman1(200, noise=1.0, random_state=0)
    model = TAGIRegressor(batch_size=batch_size, batch_inference=batch_inference, n_members=1,
                          max_iter=30, random_state=0).fit(X, y)  # fmt: skip
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize(
    "activation",
    ["relu", "leaky_relu", "tanh", "logistic", "softplus", "relu_exact"],
)
def test_every_activation_learns_a_curve(activation):
    X = np.linspace(-2, 2, 200)[:, None]
    y = X[:, 0] ** 2
    model = TAGIRegressor((50,), activation, n_members=2, random_state=0)
    if activation == "logistic":
        model.set_params(n_iter_no_change=100)  # it learns nothing at first
    model.fit(X, y)
    assert model.score(X, y) > 0.8


def test_warm_fits_without_a_seed_hold_out_the_same_rows_again():
    """Rows that were learned once would flatter the noise if they validated later."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + 0.5 * rng.normal(size=300)
    # Other numbers in each fit, as without a random_state, but the same ones in each test
    model = TAGIRegressor(warm_start=True, n_members=2, random_state=np.random.RandomState(0))
    noise = [model.fit(X, y).sigma_v_ * y.std() for _ in range(5)]
    assert min(noise) > 0.8 * noise[0]


def test_a_warm_fit_never_validates_worse_than_what_it_started_from():
    X, y = make_data()
    model = quick(n_members=1, max_iter=30, warm_start=True).fit(X, y)
    reached = max(model.validation_scores_)
    model.set_params(sigma_v=model.sigma_v_, max_iter=1)
    before = model.predict(X)
    model.fit(X, y)
    if model.validation_scores_[0] < reached:
        assert model.best_iter_ == 0
        np.testing.assert_array_equal(model.predict(X), before)


def test_partial_fit_keeps_its_last_posterior():
    X, y = make_data()
    model = quick().fit(X, y).partial_fit(X, y)
    assert model.best_iter_ == model.n_iter_


@pytest.mark.parametrize(
    ("give", "params"),
    [
        (lambda X, y: ((X * 1e19).astype(np.float32), y, {}), {"standardize": False}),
        (lambda X, y: (X.astype(np.float32), y, {"X_std": 1e25}), {}),
        (lambda X, y: (X, y, {"X_std": 1e200}), {}),
        (lambda X, y: (X.astype(np.float32), y * 1e39, {}), {"standardize": False}),
        (lambda X, y: (X.astype(np.float32), y, {"sample_weight": np.full(len(y), 1e39)}), {}),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_beyond_the_type_are_refused_or_learned_but_never_nan(give, params):
    X, y = make_data()
    X, y, extra = give(X, y)
    model = quick(**params)
    with suppress(ValueError):
        model.fit(X, y, **extra)
    if hasattr(model, "coefs_"):
        assert all(np.isfinite(w).all() for w in model.coefs_)
        assert all((v > 0).all() for v in model.coef_vars_)
    else:
        with pytest.raises(ValueError, match="too large"):
            model.fit(X, y, **extra)


def test_a_stream_is_not_poisoned_by_numbers_beyond_its_type():
    X, y = make_data()
    model = quick(standardize=False).partial_fit(X.astype(np.float32), y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="X"), np.errstate(over="ignore"):
        model.partial_fit(X * 1e39, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e20), (np.float64, 1e200)])
def test_uncertainty_beyond_the_type_is_refused_in_predict(dtype, size):
    X, y = make_data()
    model = quick().fit(X.astype(dtype), y)
    with pytest.raises(ValueError, match="X_std is too large"):
        model.predict(X, return_std=True, X_std=size)
