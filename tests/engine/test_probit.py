"""Signs seen through a probit: sites, and moments of probabilities."""

import numpy as np
import pytest
from helpers import DTYPES
from scipy import stats
from scipy.special import ndtr

from sktagi.engine.probit import log_moment_ratio, probit_ratio, probit_sites


def moments_by_quadrature(mu, var, sign, alpha):
    """Mean and variance of one output given its sign."""
    nodes, weights = np.polynomial.legendre.leggauss(2000)
    z = mu + 12 * np.sqrt(var) * nodes
    density = weights * stats.norm.pdf(z, mu, np.sqrt(var)) * ndtr(sign * z / alpha)
    density /= density.sum()
    mean = density @ z
    return mean, density @ (z - mean) ** 2


def after_site(mu, var, target, noise):
    """Mean and variance of an output after a Gaussian observation of it."""
    gain = var / (var + noise)
    return mu + gain * (target - mu), var - gain * var


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("mu", [-3.0, -0.3, 0.0, 0.8, 2.5])
@pytest.mark.parametrize("var", [0.02, 0.5, 6.0])
@pytest.mark.parametrize("alpha", [1 / 3, 1.0])
def test_a_site_gives_the_moments_of_quadrature(sign, mu, var, alpha):
    site = probit_sites(*(np.array([a]) for a in (mu, var, sign)), np.array(alpha**2))
    found = np.ravel(after_site(mu, var, *site))
    expected = moments_by_quadrature(mu, var, sign, alpha)
    if abs(sign * mu) * 1 / np.sqrt(alpha**2 + var) < 4:  # beyond, a row may say nothing
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert site[1] > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("var", [1e-12, 1e-3, 1.0, 1e12])
def test_extreme_outputs_have_sites(dtype, var):
    mu = np.array([-1e15, -1e8, -1e3, -40, -1, 0, 1, 40, 1e3, 1e8, 1e15], dtype)
    for sign in (-1.0, 1.0):
        with np.errstate(all="raise", under="ignore"):
            target, noise = probit_sites(
                mu, np.full_like(mu, var), np.full_like(mu, sign), np.array(1 / 9)
            )
        assert target.dtype == noise.dtype == dtype
        assert np.isfinite(target).all()
        assert np.isfinite(noise).all()
        assert (noise > 0).all()
        # A sign moves an output to its own side, or nowhere.
        assert (sign * (target - mu) >= -np.abs(mu) * np.finfo(dtype).eps * 4).all()


def test_what_is_certain_already_says_next_to_nothing():
    target, noise = probit_sites(np.array([5.0]), np.array([0.1]), np.array([1.0]), np.array(1 / 9))
    assert noise > 1e5
    mean, var = after_site(5.0, 0.1, target, noise)
    np.testing.assert_allclose([mean, var], [[5.0], [0.1]], rtol=1e-5)


@pytest.mark.parametrize("mu", [-1.0, 0.2, 0.9])
@pytest.mark.parametrize("var", [0.01, 0.3, 4.0])
def test_second_moments_of_probabilities_agree_with_sampling(mu, var):
    alpha, n = 0.5, 400_000
    draws = ndtr((mu + np.sqrt(var) * np.random.default_rng(0).normal(size=n)) / alpha)
    ratio = probit_ratio(np.array(mu), np.array(var), alpha**2)
    mean = ndtr(ratio)
    assert abs(mean - draws.mean()) < 5 * draws.std() / np.sqrt(n)
    found = mean**2 * np.expm1(log_moment_ratio(ratio, np.array(var), alpha**2))
    assert found == pytest.approx(draws.var(), rel=0.01)


def test_an_output_that_is_known_has_a_probability_that_is_known():
    ratio = np.linspace(-5, 5, 11)
    assert np.abs(log_moment_ratio(ratio, np.zeros(11), 1 / 9)).max() < 1e-9


def test_a_sign_that_was_nearly_excluded_has_the_site_of_its_formula():
    """Far below zero h + c is a series; in float64 the difference still has some digits there."""
    c, var, scale_var = -np.linspace(30.5, 60, 20), 1.0, 0.5
    root = np.sqrt(scale_var + var)
    target, noise = probit_sites(c * root, np.full(20, var), np.ones(20), np.array(scale_var))
    h = np.exp(stats.norm.logpdf(c) - stats.norm.logcdf(c))
    np.testing.assert_allclose((target - c * root) / root, 1 / (h + c), rtol=5e-5)
    np.testing.assert_allclose(noise, (scale_var + var) / (h * (h + c)) - var, rtol=5e-5)
