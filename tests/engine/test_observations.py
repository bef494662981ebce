"""Observation models (Eq. 1): targets, sites, densities; what sites do, through learning."""

import numpy as np
import oracle
import oracle_full
import pytest
from helpers import DTYPES, assert_same_posterior, make_network, make_rows, with_ones
from scipy import integrate, stats

from sktagi.engine.learning import Learner, Settings
from sktagi.engine.observations import (
    OUTLYING,
    ForAllMembers,
    Gaussian,
    Targets,
    log_density_of_std,
    robust_log_density,
)
from sktagi.engine.passes import backward, forward
from sktagi.engine.posterior import full_prior
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rows import Rows
from sktagi.engine.tree import ClassTree
from sktagi.engine.validation import validate

# --------------------------------------------------------------------------------- the density


def log_density(y, mean, var):
    return log_density_of_std(y, mean, np.sqrt(var))


def test_log_density_is_that_of_the_normal_distribution():
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, 100)) * 10
    var = 10.0 ** rng.uniform(-6, 6, size=100)
    expected = stats.norm.logpdf(y, mean, np.sqrt(var))
    np.testing.assert_allclose(log_density(y, mean, var), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("residual", [1e20, -1e100, 1e160, -1e180])
@pytest.mark.parametrize("var", [1e150, 1e220])
def test_log_density_of_a_huge_residual_does_not_overflow(residual, var):
    density = log_density(residual, 0.0, var)
    assert np.isfinite(density)
    np.testing.assert_allclose(density, stats.norm.logpdf(residual, 0.0, np.sqrt(var)), rtol=1e-12)


def test_log_density_keeps_single_precision():
    y = np.float32([1e20, -3.0])
    density = log_density(y, np.float32(0.0), np.float32([1e30, 2.0]))
    assert density.dtype == np.float32
    expected = stats.norm.logpdf(y.astype(float), 0.0, np.sqrt([1e30, 2.0]))
    np.testing.assert_allclose(density, expected, rtol=1e-5)


@pytest.mark.parametrize("std", [1e-300, 1e-200, 1e200, 1e300])
def test_log_density_of_a_std_whose_square_is_no_number(std):
    for z in (0.0, -1.5):
        expected = stats.norm.logpdf(z) - np.log(std)
        np.testing.assert_allclose(log_density_of_std(z * std, 0.0, std), expected, rtol=1e-12)


# ------------------------------------------------------------------------------ Gaussian targets


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_regression_target_is_observed(dtype):
    y = np.arange(6.0).reshape(3, 2)
    targets = Gaussian(2).targets(y, dtype)
    np.testing.assert_array_equal(targets.value, y.T)
    assert targets.value.dtype == dtype
    assert targets.observed is None is targets.outputs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(), (3,)])
def test_a_target_that_is_missing_is_not_observed(dtype, lead):
    y = np.random.default_rng(0).normal(size=(*lead, 5, 2))
    missing = np.random.default_rng(1).random(y.shape) < 0.4
    assert missing.any()
    assert not missing.all()
    targets = Gaussian(2).targets(np.where(missing, np.nan, y), dtype)
    seen = ~missing.swapaxes(-1, -2)
    assert targets.value.dtype == targets.observed.dtype == dtype
    np.testing.assert_array_equal(targets.observed, seen)
    np.testing.assert_array_equal(targets.value[seen], y.swapaxes(-1, -2)[seen].astype(dtype))
    assert np.all(np.isfinite(targets.value))
    assert targets.outputs is None


def test_sites_of_gaussian_targets_are_the_targets():
    """With a noise for all outputs, for each of them, or for each row of them."""
    y, model = np.random.default_rng(2).normal(size=(5, 2)), Gaussian(2)
    targets = model.targets(y, np.float64)
    for noise in (np.array(0.3), np.array([[0.3], [0.4]]), np.linspace(0.1, 1, 10).reshape(2, 5)):
        target, variance = model.sites(np.zeros((2, 5)), np.ones((2, 5)), targets.value, noise)
        np.testing.assert_array_equal(target, y.T)
        np.testing.assert_array_equal(variance, noise)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_log_likelihood_is_the_density_of_what_is_observed_and_zero_elsewhere(lead):
    """Moments may be those of several networks, for the same rows or for rows of each."""
    rng = np.random.default_rng(3)
    mu_z, var_y = rng.normal(size=(3, 2, 5)), rng.uniform(0.1, 2, size=(3, 2, 5))
    y = rng.normal(size=(*lead, 5, 2))
    model = Gaussian(2)
    complete = model.log_likelihood(mu_z, var_y, y)
    expected = stats.norm.logpdf(y.swapaxes(-1, -2), mu_z, np.sqrt(var_y))
    np.testing.assert_allclose(complete, expected, rtol=1e-12)
    y[..., 1, 0] = y[..., 4, 1] = np.nan
    seen = np.broadcast_to(~np.isnan(y).swapaxes(-1, -2), mu_z.shape)
    partial = model.log_likelihood(mu_z, var_y, y)
    np.testing.assert_array_equal(partial[seen], complete[seen])
    assert np.all(partial[~seen] == 0)
    assert np.count_nonzero(~seen) == 6


# ------------------------------------------------------------------------------- robust targets


def robust_density(z):
    return robust_log_density(np.asarray(z, dtype=float), np.zeros(()), np.ones(()))


def test_the_robust_density_integrates_to_one():
    inner = integrate.quad(lambda z: np.exp(robust_density(z)), -OUTLYING, OUTLYING)[0]
    outer = integrate.quad(lambda z: np.exp(robust_density(z)), OUTLYING, np.inf)[0]
    assert inner + 2 * outer == pytest.approx(1, abs=1e-4)
    assert outer > 0


def test_the_robust_density_is_that_of_a_gaussian_within_and_a_power_beyond():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=100), rng.uniform(0.1, 5, size=100)
    z = rng.uniform(-OUTLYING, OUTLYING, size=100)
    found = robust_log_density(mean + z * std, mean, std)
    np.testing.assert_allclose(found, stats.norm.logpdf(mean + z * std, mean, std), rtol=1e-9)
    for factor in (1.5, 10.0, 1e6):
        fall = robust_density(OUTLYING) - robust_density(factor * OUTLYING)
        assert fall == pytest.approx(OUTLYING**2 * np.log(factor))
        assert robust_density(-factor * OUTLYING) == robust_density(factor * OUTLYING)


def test_the_robust_density_has_no_jump_and_no_bend_at_its_threshold():
    step = 1e-6
    below, here, above = robust_density(OUTLYING + step * np.array([-1, 0, 1]))
    assert above - below == pytest.approx(-2 * step * OUTLYING, rel=1e-4)
    assert here - below == pytest.approx(above - here, rel=1e-4)


def test_robust_likelihoods_are_those_of_the_robust_density():
    rng = np.random.default_rng(1)
    mu_z, var_y = rng.normal(size=(2, 6)), rng.uniform(0.5, 2, size=(2, 6))
    y = 20 * rng.normal(size=(6, 2))
    y[3, 1] = np.nan
    scale = np.array([2.0, 0.5])
    found = Gaussian(2, scale, robust=True).log_likelihood(mu_z, var_y, y)
    expected = robust_log_density(y.T, mu_z, np.sqrt(var_y)) - np.log(scale)[:, None]
    expected[1, 3] = 0
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    plain = Gaussian(2, scale).log_likelihood(mu_z, var_y, y)
    assert (found > plain + 1).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_outlier_has_the_site_of_a_row_of_less_weight(dtype):
    """The weight is (c / z)^2: the variance of y is larger by the inverse."""
    model = Gaussian(1, robust=True)
    mu_z, var_z = np.zeros((1, 5), dtype), np.full((1, 5), 0.75, dtype)
    noise = np.array([[0.25]], dtype)
    z = np.array([[0.0, -5.9, 6.1, -60.0, 6e6]], dtype)  # the standard deviation is 1
    target, variance = model.sites(mu_z, var_z, z, noise)
    np.testing.assert_array_equal(target, z)
    expected = np.maximum(1, np.square(z / OUTLYING)) - 0.75
    np.testing.assert_allclose(variance, expected, rtol=1e-5)
    assert variance.dtype == dtype


@pytest.mark.parametrize("z", [0.5, 5.9, 6.1, 20.0, -300.0])
@pytest.mark.parametrize("noise", [1e-4, 0.25, 0.9])
def test_a_site_moves_the_mean_as_the_robust_density_says(z, noise):
    """The slope of log p(y) by the mean is (y - mu) / (var_z + the noise of the site)."""
    site = (
        Gaussian(1, robust=True)
        .sites(
            np.zeros((1, 1)), np.full((1, 1), 1 - noise), np.full((1, 1), z), np.full((1, 1), noise)
        )[1]
        .item()
    )
    step = 1e-5
    above, below = (robust_log_density(z, np.array(m), np.array(1.0)) for m in (step, -step))
    assert z / (1 - noise + site) == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_rows_that_are_far_away_all_together_are_no_outliers():
    """Where a function jumps, they tell how it goes on."""
    model, noise = Gaussian(2, robust=True), np.full((2, 1), 0.25)
    zeros, var_z = np.zeros((2, 5)), np.full((2, 5), 0.75)
    z = np.array([[50.0, 60.0, 70.0, 80.0, 90.0], [0.0, 0.0, 0.0, 0.0, 80.0]])
    _, variance = model.sites(zeros, var_z, z, noise)
    np.testing.assert_array_equal(variance[0], 0.25)
    np.testing.assert_allclose(variance[1], [0.25, 0.25, 0.25, 0.25, (80 / OUTLYING) ** 2 - 0.75])
    for few in (1, 4):  # of few rows nobody can tell
        some = model.sites(zeros[:, :few], var_z[:, :few], z[:, :few], noise)[1]
        assert (some[0] > 0.25).all()


def test_sites_without_an_outlier_have_the_noise_itself():
    model, noise = Gaussian(1, robust=True), np.array([[0.25]])
    _, variance = model.sites(np.zeros((1, 3)), np.ones((1, 3)), np.ones((1, 3)), noise)
    assert variance is noise


def test_the_mean_moves_less_the_farther_an_outlier_is():
    """The derivative of the tail is c^2 / z: what is far enough off is no longer followed."""
    steps = []
    for y in (1.0, 5.0, 20.0, 1e3, 1e6):
        net = make_network([1, 1], sigma_v=0.5, outputs=Gaussian(1, robust=True))
        data = Rows(with_ones([[1.0]]), np.array([[y]]), np.ones(1))
        before = predict_moments(net, data.x)[0].item()
        Learner(net, Settings(1)).learn(data, np.zeros((1, 1), dtype=int))
        steps.append(predict_moments(net, data.x)[0].item() - before)
    assert steps[0] < steps[1]
    assert steps[2] > steps[3] > steps[4] > 0
    assert steps[4] < 1e-3


@pytest.mark.parametrize("batch_size", [1, 8])
def test_noise_learned_from_an_outlier_is_bounded(batch_size):
    """An outlier says nothing of the noise, however large it is."""
    noise = []
    for size in (0.0, 1e2, 1e4, 1e8):
        net = make_network(
            [2, 4, 1], sigma_v=0.5, outputs=Gaussian(1, robust=True), learn_noise=True
        )
        net.rows_learned[...] = 20
        data = make_rows(8, 2)
        bound = predict_moments(net, data.x)[1].max() + 0.25
        data.y[-1] += size
        order = np.arange(8)[None] if batch_size == 8 else np.array([[7]])
        Learner(net, Settings(batch_size)).learn(data, order)
        noise.append(net.noise_var.item())
    assert noise[-1] == pytest.approx(noise[-2], rel=1e-2)
    rows = order.size
    step = (rows / (20 + rows)) ** 0.6
    assert noise[-1] - noise[0] < step * 1.05 * OUTLYING**2 * bound / rows


@pytest.mark.parametrize("full", [False, True])
def test_learning_without_outliers_is_the_same(full):
    data = make_rows(30, 3)
    nets = []
    for robust in (False, True):
        net = network([3, 4, 1], full=full, outputs=Gaussian(1, robust=robust), learn_noise=True)
        learn(net, data, 6)
        nets.append(net)
    assert_same_posterior(*nets, 1e-12)


# ------------------------------------------------------------------ rows with noise of their own


def network(sizes, *, full=False, seed=0, **kwargs):
    """Posteriors of full networks are drawn from the diagonal one, which rows correlate."""
    net = make_network(sizes, seed, **kwargs)
    if full:
        net.layers = full_prior(net.layers)
    return net


def learn(net, data, batch_size, joint=True, half_life=None, order=None):
    order = np.arange(len(data.weight)) if order is None else order
    return Learner(net, Settings(batch_size, joint, half_life)).learn(data, np.atleast_2d(order))


def to_oracle(layers):
    """Of the first member."""
    return [oracle.from_arrays(layer.mu[0], layer.var[0]) for layer in layers]


def to_full_oracle(net):
    return [(layer.mu[0].flatten(), layer.cov[0].copy()) for layer in net.layers]


def assert_full_posterior(net, expected, rtol=1e-8):
    for layer, (mu, cov) in zip(net.layers, expected, strict=True):
        np.testing.assert_allclose(layer.mu[0].ravel(), mu, rtol=rtol, atol=rtol)
        size = np.abs(cov).max()
        np.testing.assert_allclose(layer.cov[0], cov, rtol=rtol, atol=rtol * size)


def ratios(n, n_noise=1, low=0.1, high=10.0, seed=5):
    return np.exp(np.random.default_rng(seed).uniform(*np.log([low, high]), size=(n, n_noise)))


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_noise_of_a_row_times_r_equals_its_weight_over_r(joint, full, batch_size, members, kind):
    """Of rows by themselves r >= 1: a single one that weighs more stands for several copies."""
    ratio = ratios(20, low=1.0 if batch_size == 1 else 0.1)
    data, outputs = make_rows(20, 3, 2), Gaussian(2)
    if kind == "classes":
        data, outputs = data._replace(y=np.arange(20) * 7 % 5), ClassTree(5)
    by_noise, by_weight, plain = (
        network([3, 5, outputs.n_outputs], full=full, members=members, outputs=outputs,
                activation="tanh")
        for _ in range(3)
    )  # fmt: skip
    order = np.stack([np.random.default_rng(m).permutation(20) for m in range(members)])
    noisy = data._replace(noise_ratio=np.repeat(ratio, outputs.n_noise, axis=1))
    learn(by_noise, noisy, batch_size, joint, order=order)
    learn(by_weight, data._replace(weight=1 / ratio[:, 0]), batch_size, joint, order=order)
    learn(plain, data, batch_size, joint, order=order)
    assert_same_posterior(by_noise, by_weight, 1e-9)
    assert np.abs(by_noise.layers[0].mu - plain.layers[0].mu).max() > 1e-3


@pytest.mark.parametrize("hidden", [(), (5,)])
def test_a_batch_is_conditioned_on_with_the_noise_of_each_observation(hidden):
    """Sigma_Y = K + diag(noise), from covariances of naive loops; the noise is learned as by EM."""
    n, sigma_v = 12, 0.5
    ratio = ratios(n, 2)
    data = make_rows(n, 3, 2)._replace(noise_ratio=ratio)
    learned, by_hand = (
        make_network([3, *hidden, 2], sigma_v=sigma_v, learn_noise=True, activation="tanh")
        for _ in range(2)
    )
    learn(learned, data, n)
    shared, own = oracle.output_covariance(to_oracle(by_hand.layers), "tanh", data.x[:, :-1])
    mu_z, _, tape = forward(by_hand.layers, by_hand.activation, data.x.T)
    nu, kappa = np.zeros_like(mu_z), np.zeros_like(mu_z)
    for o in range(2):
        cov_v = np.diag(sigma_v**2 * ratio[:, o])
        common = np.array(shared[o])
        inverse = np.linalg.inv(common + np.array(own[o]) + cov_v)
        residual = data.y[:, o] - mu_z[0, o]
        nu[0, o] = inverse @ residual
        kappa[0, o] = np.diag(common @ inverse) / np.diag(common)
        mean, cov = cov_v @ inverse @ residual, cov_v - cov_v @ inverse @ cov_v
        # v_i has the variance sigma_v^2 r_i; the first batch is a whole step.
        by_hand.noise_var[0, o] = ((mean**2 + np.diag(cov)) / ratio[:, o]).mean()
    backward(by_hand.layers, tape, nu, kappa)
    assert_same_posterior(learned, by_hand, 1e-9)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("batch_size", [1, 6])
def test_full_covariances_are_conditioned_on_with_the_noise_of_each_observation(hidden, batch_size):
    ratio = ratios(6, 2)
    data = make_rows(6, 2, 2)._replace(noise_ratio=ratio)
    net = network([2, *hidden, 2], full=True, sigma_v=0.5, activation="tanh")
    expected = to_full_oracle(net)
    learn(net, data, batch_size)
    for start in range(0, 6, batch_size):
        part = slice(start, start + batch_size)
        expected = oracle_full.learn(
            expected, "tanh", data.x[part, :-1], np.zeros((batch_size, 2, 2)), data.y[part],
            0.25 * ratio[part].ravel(),
        )  # fmt: skip
    assert_full_posterior(net, expected)


@pytest.mark.parametrize("joint", [False, True])
def test_full_covariances_learn_the_noise_that_rows_have_multiples_of(joint):
    """As the diagonal form does from a single row, which sees no covariance that it leaves out."""
    x, y, ratio = make_rows(5, 3).x[:1], np.full((1, 1), 1.3), np.full((1, 1), 4.0)
    data = Rows(x, y, np.ones(1), noise_ratio=ratio)
    diag, full = (
        network([3, 4, 1], full=f, learn_noise=True, activation="tanh") for f in (False, True)
    )
    mu_z, var_z = predict_moments(diag, data.x)
    for net in (diag, full):
        learn(net, data, 1, joint)
    noise = 4 * 0.09
    gain = noise / (noise + var_z.item())
    moment = (gain * (1.3 - mu_z.item())) ** 2 + noise * (1 - gain)
    np.testing.assert_allclose(diag.noise_var, moment / 4, rtol=1e-9)
    np.testing.assert_allclose(full.noise_var, moment / 4, rtol=1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_the_score_of_rows_has_their_noise(full):
    data = make_rows(10, 3, 2, weight=np.linspace(0.5, 2, 10))._replace(noise_ratio=ratios(10, 2))
    net = network([3, 5, 2], full=full, sigma_v=0.5)
    mu_z, var_z = predict_moments(net, data.x)
    std = np.sqrt(var_z[0] + 0.25 * data.noise_ratio.T)
    log_lik = stats.norm.logpdf(data.y.T, mu_z[0], std).sum(axis=0)
    (score,) = learn(net, data, 10)
    np.testing.assert_allclose(score, np.average(log_lik, weights=data.weight), rtol=1e-10)


# ----------------------------------------------- an observation that is no Gaussian: yes or no


class Probit(ForAllMembers):
    """A target is the sign of an output plus noise: P(y = s | z) = Phi(s z / alpha)."""

    def __init__(self, n_outputs=1, alpha=0.7):
        self.n_outputs = n_outputs
        self.n_noise = 1
        self.alpha = alpha

    def targets(self, y, dtype):
        return Targets(y.astype(dtype).swapaxes(-1, -2))

    def sites(self, mu_z, var_z, value, noise_var, weight=None):
        var_y = self.alpha**2 + var_z
        c = value * mu_z / np.sqrt(var_y)
        h = np.exp(stats.norm.logpdf(c) - stats.norm.logcdf(c))
        nu = value * h / np.sqrt(var_y)
        kappa = h * (h + c) / var_y
        return mu_z + nu / kappa, 1 / kappa - var_z

    def log_likelihood(self, mu_z, var_y, y):
        sign = y.swapaxes(-1, -2)
        return stats.norm.logcdf(sign * mu_z / np.sqrt(self.alpha**2 + var_y))


def probit_moments(mu_z, var_z, sign, alpha=0.7):
    """Mean and variance of one output given its sign, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(600)
    std = np.sqrt(var_z)
    z = mu_z + 12 * std * nodes
    density = weights * stats.norm.pdf(z, mu_z, std) * stats.norm.cdf(sign * z / alpha)
    density /= density.sum()
    mean = density @ z
    return mean, density @ (z - mean) ** 2


def probit_site(mu_z, var_z, sign):
    """Target and noise variance of the Gaussian observation that gives the same moments."""
    mean, var = probit_moments(mu_z, var_z, sign)
    noise = 1 / (1 / var - 1 / var_z)
    return mu_z + (mean - mu_z) * (var_z + noise) / var_z, noise


def signs(n, n_outputs=1, seed=6):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, n_outputs))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("mu_z", [-2.0, -0.3, 0.0, 1.5])
@pytest.mark.parametrize("var_z", [0.05, 1.0, 6.0])
def test_a_site_is_the_observation_that_gives_the_moments_of_quadrature(sign, mu_z, var_z):
    target, noise = Probit().sites(mu_z, var_z, sign, None)
    np.testing.assert_allclose((target, noise), probit_site(mu_z, var_z, sign), rtol=1e-7)
    assert noise > 0


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("joint", [False, True])
def test_one_row_alone_gets_the_posterior_of_its_moments(sign, joint):
    """Full covariances of a linear model: the output has just these moments afterwards."""
    x = with_ones(np.random.default_rng(7).normal(size=(1, 3)))
    net = network([3, 1], full=True, outputs=Probit())
    net.layers[0].cov *= 3
    before = predict_moments(net, x)
    expected = probit_moments(*(moment.item() for moment in before), sign)
    learn(net, Rows(x, np.array([[sign]]), np.ones(1)), 1, joint)
    after = [moment.item() for moment in predict_moments(net, x)]
    np.testing.assert_allclose(after, expected, rtol=1e-8)
    assert abs(after[0] - before[0].item()) > 0.01


def learned_by_sites(layers, activation, x, sites):
    """The posterior after one row by the naive transcription, output by output.

    What outputs change adds up; each has a target and a noise variance of its own.
    """
    total = [oracle.to_lists(layer) for layer in layers]
    total = [tuple(np.array(part) for part in layer) for layer in total]
    for o, (_, noise) in enumerate(sites):
        observed = [k == o for k in range(len(sites))]
        targets = [target for target, _ in sites]
        posterior = oracle.learn_row(
            layers, activation, x, targets, np.sqrt(noise), observed=observed
        )
        for sums, old, new in zip(total, layers, posterior, strict=True):
            for part, before, after in zip(
                sums, oracle.to_lists(old), oracle.to_lists(new), strict=True
            ):
                part += np.array(after) - np.array(before)
    return [oracle.from_arrays(mu, var) for mu, var in total]


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("joint", [False, True])
def test_rows_one_at_a_time_are_learned_as_observations_of_their_moments(hidden, n_outputs, joint):
    """By the naive transcription, which takes targets and noise of each row from quadrature."""
    data = make_rows(10, 3)._replace(y=signs(10, n_outputs))
    net = make_network([3, *hidden, n_outputs], outputs=Probit(n_outputs), activation="tanh")
    expected = to_oracle(net.layers)
    learn(net, data, 1, joint)
    for x, y in zip(data.x[:, :-1], data.y, strict=True):
        record = oracle.forward_row(expected, "tanh", x)
        sites = [
            probit_site(*part) for part in zip(record.mu_z[-1], record.var_z[-1], y, strict=True)
        ]
        expected = learned_by_sites(expected, "tanh", x, sites)
    for layer, other in zip(net.layers, expected, strict=True):
        mu, var = oracle.to_lists(other)
        np.testing.assert_allclose(layer.mu[0], mu, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(layer.var[0], var, rtol=1e-7)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("batch_size", [4, 12])
def test_a_batch_is_conditioned_on_the_sites_that_its_moments_before_give(full, batch_size):
    """Exactly, for a linear model; sites of each batch from quadrature."""
    data = make_rows(12, 3)._replace(y=signs(12))
    net = network([3, 1], full=full, outputs=Probit())
    for start in range(0, 12, batch_size):
        part = np.arange(start, start + batch_size)
        x = data.x[part]
        layer = net.layers[0]
        mu = layer.mu[0, :, 0].copy()
        cov = layer.cov[0].copy() if full else np.diag(layer.var[0, :, 0])
        parts = zip(x @ mu, np.einsum("ni,ij,nj->n", x, cov, x), data.y[part, 0], strict=True)
        target, noise = np.array([probit_site(*moments) for moments in parts]).T
        mean, exact = oracle_full.linear_regression(mu, cov, x, target, noise)
        learn(net, data, batch_size, order=part)
        np.testing.assert_allclose(layer.mu[0, :, 0], mean, rtol=1e-6, atol=1e-8)
        if full:
            np.testing.assert_allclose(layer.cov[0], exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("batch_size", [1, 6])
def test_members_take_sites_from_moments_of_their_own(joint, batch_size):
    data = make_rows(18, 3)._replace(y=signs(18, 2))
    net = make_network([3, 5, 2], members=3, outputs=Probit(2))
    alone = [net.members(slice(m, m + 1)).copy() for m in range(3)]
    order = np.stack([np.random.default_rng(m).permutation(18) for m in range(3)])
    scores = learn(net, data, batch_size, joint, order=order)
    for m, one in enumerate(alone):
        (score,) = learn(one, data, batch_size, joint, order=order[m])
        np.testing.assert_allclose(score, scores[m], rtol=1e-10)
        assert_same_posterior(net.members(slice(m, m + 1)), one, 1e-10)


# ---------------------------------------------------------------------- targets that are missing


class Masked(Gaussian):
    """Targets of which those are not observed that have a certain value, which is a number."""

    def __init__(self, n_outputs, unseen):
        super().__init__(n_outputs)
        self.unseen = unseen

    def targets(self, y, dtype):
        value = y.astype(dtype).swapaxes(-1, -2)
        return Targets(value, (value != self.unseen).astype(dtype))

    def log_likelihood(self, mu_z, var_y, y):
        density = stats.norm.logpdf(y.swapaxes(-1, -2), mu_z, np.sqrt(var_y))
        return np.where(y.swapaxes(-1, -2) == self.unseen, 0, density)


def incomplete_rows(n, d, n_outputs=2, seed=8, **kwargs):
    """Each row observes one of its targets at least."""
    rng = np.random.default_rng(seed)
    data = make_rows(n, d, n_outputs, seed, **kwargs)
    missing = rng.random(data.y.shape) < 0.4
    missing[np.arange(n), rng.integers(n_outputs, size=n)] = False
    assert missing.any(axis=0).all()
    data.y[missing] = np.nan
    return data


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("batch_size", [1, 6])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize(("members", "half_life"), [(1, None), (1, 30.0), (3, 30.0)])
@pytest.mark.parametrize("unseen", [0.0, 77.0])
def test_a_missing_target_is_one_without_weight_whatever_its_value(
    joint, batch_size, full, learn_noise, members, half_life, unseen
):
    data = incomplete_rows(20, 3, weight=np.linspace(0.5, 2, 20))
    there = ~np.isnan(data.y)
    known = data._replace(y=np.where(there, data.y, unseen))
    order = np.stack([np.random.default_rng(m).permutation(20) for m in range(members)])
    nets = []
    scores = []
    for outputs, rows in ((Gaussian(2), data), (Masked(2, unseen), known)):
        net = network(
            [3, 4, 2], full=full, members=members, outputs=outputs, learn_noise=learn_noise,
            activation="tanh", sigma_v=0.5,
        )  # fmt: skip
        scores.append(learn(net, rows, batch_size, joint, half_life, order))
        nets.append(net)
    assert_same_posterior(*nets, 1e-10)
    np.testing.assert_allclose(nets[0].rows_learned, nets[1].rows_learned, rtol=1e-12)
    np.testing.assert_allclose(*scores, rtol=1e-10)
    if learn_noise:
        expected = there.T @ data.weight
        np.testing.assert_allclose(nets[0].rows_learned[..., 0], [expected] * members, rtol=1e-12)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_full_covariances_are_conditioned_on_what_is_observed(hidden, batch_size):
    data = incomplete_rows(6, 2)
    net = network([2, *hidden, 2], full=True, sigma_v=0.5, activation="tanh")
    expected = to_full_oracle(net)
    learn(net, data, batch_size)
    for start in range(0, 6, batch_size):
        part = slice(start, start + batch_size)
        expected = oracle_full.learn(
            expected, "tanh", data.x[part, :-1], np.zeros((batch_size, 2, 2)), data.y[part],
            0.25, ~np.isnan(data.y[part]),
        )  # fmt: skip
    assert_full_posterior(net, expected)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_batch_leaves_the_noise_of_a_target_that_it_does_not_observe(full, batch_size):
    data = make_rows(10, 3, 2)
    data.y[:5, 1] = np.nan
    net = network([3, 4, 2], full=full, learn_noise=True)
    net.noise_var[:, 1] = 0.7
    learn(net, data, batch_size, order=np.arange(5))
    assert net.noise_var[0, 1, 0] == 0.7
    assert net.noise_var[0, 0, 0] != 0.09
    np.testing.assert_array_equal(net.rows_learned[0, :, 0], [5, 0])
    learn(net, data, batch_size, order=np.arange(5, 10))
    assert net.noise_var[0, 1, 0] != 0.7
    np.testing.assert_array_equal(net.rows_learned[0, :, 0], [10, 5])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_rows_with_noise_of_their_own_may_be_incomplete(full, joint, batch_size):
    """Where a target is missing, its noise says nothing."""
    data = incomplete_rows(12, 3)
    noise = ratios(12, 2)
    elsewhere = np.where(np.isnan(data.y), 1e6, noise)
    nets = [network([3, 4, 2], full=full, learn_noise=True, activation="tanh") for _ in range(2)]
    scores = [
        learn(net, data._replace(noise_ratio=values), batch_size, joint)
        for net, values in zip(nets, (noise, elsewhere), strict=True)
    ]
    assert_same_posterior(*nets, 1e-10)
    np.testing.assert_allclose(*scores, rtol=1e-12)


def test_likelihoods_are_those_of_targets_in_other_units():
    """Each observed target of a row has a density that is ``scale`` times lower."""
    rng = np.random.default_rng(5)
    scale = np.array([1e3, 1e-4])
    mu_z, var_y = rng.normal(size=(2, 6)), rng.uniform(0.5, 2, size=(2, 6))
    y = rng.normal(size=(6, 2))
    y[2, 0] = np.nan
    got = Gaussian(2, scale).log_likelihood(mu_z, var_y, y)
    std = np.sqrt(var_y) * scale[:, None]
    expected = stats.norm.logpdf(y.T * scale[:, None], mu_z * scale[:, None], std)
    np.testing.assert_allclose(got, np.nan_to_num(expected), rtol=1e-12)
    assert got[0, 2] == 0


@pytest.mark.parametrize("learned", [False, True])
def test_held_out_rows_are_scored_with_their_noise(learned):
    """A ratio of 100 is a network with 100 times the noise."""
    data = make_rows(60, 3, 2)
    noisy = data._replace(noise_ratio=np.full((60, 2), 100.0))
    one, other = (network([3, 5, 2], sigma_v=s, learn_noise=learned) for s in (0.1, 1.0))
    held_out = [np.arange(30)]
    scores, noise_var = validate(one, noisy, held_out)
    expected, expected_noise = validate(other, data, held_out)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    np.testing.assert_allclose(100 * noise_var, expected_noise, rtol=1e-9)
