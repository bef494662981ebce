"""The oracles' moments of products (Eq. 3-6) against sampling, and the Gaussian density."""

import numpy as np
import pytest
from oracle import product_cov, product_cov_with, product_mean, product_var
from scipy import stats

from sktagi.engine.gaussian import log_density, log_density_of_std

N_SAMPLES = 200_000
SEEDS = range(4)


def correlated_gaussian(seed):
    """Mean, covariance and samples of four strongly correlated variables."""
    rng = np.random.default_rng(seed)
    mu = rng.normal(scale=1.5, size=4)
    root = rng.normal(size=(4, 4)) + 0.8
    samples = mu + rng.normal(size=(N_SAMPLES, 4)) @ root.T
    return mu, root @ root.T, samples


def assert_sample_mean(terms, expected):
    """The mean of the terms differs from what is expected by at most 5 standard errors."""
    error = terms.std() / np.sqrt(len(terms))
    assert abs(terms.mean() - expected) < 5 * error
    # A statement about terms that are all noise could not fail.
    assert error < 0.05 * max(abs(expected), terms.std())


@pytest.mark.parametrize("seed", SEEDS)
def test_product_mean_agrees_with_sampling(seed):
    mu, cov, x = correlated_gaussian(seed)
    assert_sample_mean(x[:, 0] * x[:, 1], product_mean(mu[0], mu[1], cov[0, 1]))


@pytest.mark.parametrize("seed", SEEDS)
def test_covariance_with_a_product_agrees_with_sampling(seed):
    mu, cov, x = correlated_gaussian(seed)
    product = x[:, 0] * x[:, 1]
    terms = (x[:, 2] - mu[2]) * (product - product.mean())
    assert_sample_mean(terms, product_cov_with(mu[0], mu[1], cov[0, 2], cov[1, 2]))


@pytest.mark.parametrize("seed", SEEDS)
def test_covariance_of_two_products_agrees_with_sampling(seed):
    mu, cov, x = correlated_gaussian(seed)
    first, second = x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]
    terms = (first - first.mean()) * (second - second.mean())
    expected = product_cov(*mu, cov[0, 2], cov[0, 3], cov[1, 2], cov[1, 3])
    assert_sample_mean(terms, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_product_variance_agrees_with_sampling(seed):
    mu, cov, x = correlated_gaussian(seed)
    product = x[:, 0] * x[:, 1]
    terms = (product - product.mean()) ** 2
    assert_sample_mean(terms, product_var(mu[0], cov[0, 0], mu[1], cov[1, 1], cov[0, 1]))


@pytest.mark.parametrize("seed", SEEDS)
def test_variance_of_a_product_is_its_covariance_with_itself(seed):
    mu, cov, _ = correlated_gaussian(seed)
    itself = product_cov(mu[0], mu[1], mu[0], mu[1], cov[0, 0], cov[0, 1], cov[1, 0], cov[1, 1])
    expected = product_var(mu[0], cov[0, 0], mu[1], cov[1, 1], cov[0, 1])
    np.testing.assert_allclose(itself, expected, rtol=1e-12)


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
