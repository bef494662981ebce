"""The oracles' moments of products (Eq. 3-6) against sampling."""

import numpy as np
import pytest
from oracle import product_cov, product_cov_with, product_mean, product_var

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
