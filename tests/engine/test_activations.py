"""Activation functions of Gaussian units: Eq. 11-12, and the exact moments of the rectifier."""

import numpy as np
import oracle
import pytest
from helpers import DTYPES, LINEARISED, activate, rtol
from scipy import stats

from sktagi.engine.activations import ACTIVATIONS

# Away from the kink of the rectifiers.
MEANS = np.array([-6.0, -2.5, -0.7, -0.2, 0.3, 0.9, 2.0, 5.5])


@pytest.mark.parametrize("name", LINEARISED)
def test_mean_is_the_function_of_the_mean(name):
    mu_a, _, _ = activate(name, MEANS, np.full_like(MEANS, 0.3))
    expected = [oracle.ACTIVATIONS[name][0](z) for z in MEANS]
    np.testing.assert_allclose(mu_a, expected, rtol=1e-13)


@pytest.mark.parametrize("name", LINEARISED)
def test_jacobian_is_the_derivative_at_the_mean(name):
    _, _, jac = activate(name, MEANS, np.full_like(MEANS, 0.3))
    step = 1e-5
    phi = oracle.ACTIVATIONS[name][0]
    differences = [(phi(z + step) - phi(z - step)) / (2 * step) for z in MEANS]
    np.testing.assert_allclose(jac, differences, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", LINEARISED)
def test_variance_is_scaled_by_the_squared_jacobian(name):
    var_z = np.geomspace(1e-3, 10, len(MEANS))
    _, var_a, jac = activate(name, MEANS, var_z)
    np.testing.assert_allclose(var_a, jac**2 * var_z, rtol=1e-14)
    assert np.any(var_a > 0)


@pytest.mark.parametrize("name", LINEARISED)
def test_linearisation_agrees_with_sampling_where_the_variance_is_small(name):
    std_z, n_samples = 0.02, 200_000
    phi = np.vectorize(oracle.ACTIVATIONS[name][0])
    noise = np.random.default_rng(0).normal(scale=std_z, size=n_samples)
    for mean in (-2.0, -0.5, 0.4, 1.5):
        samples = phi(mean + noise)
        mu_a, var_a, jac = activate(name, np.array([mean]), np.array([std_z**2]))
        # Standard errors, plus the terms of higher order: |phi''| < 1, |phi'''| <= 2.
        error = samples.std() / np.sqrt(n_samples)
        assert abs(samples.mean() - mu_a[0]) < 5 * error + 0.5 * std_z**2
        error = samples.var() * np.sqrt(2 / n_samples)
        assert abs(samples.var() - var_a[0]) < 5 * error + 3 * std_z**4
        slope = np.mean((samples - samples.mean()) * noise) / np.mean(noise**2)
        assert abs(slope - jac[0]) < 2 * std_z**2


def rectified_moments(mean, var):
    """Mean, variance and cov(A, Z) / var(Z) of A = max(0, Z) by quadrature, without differences."""
    std = np.sqrt(var)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    low, high = max(0.0, mean - 13 * std), max(0.0, mean) + 13 * std
    z = low + (nodes + 1) / 2 * (high - low)
    density = weights * (high - low) / 2 * stats.norm.pdf(z, mean, std)
    mu_a = density @ z
    below = stats.norm.cdf(-mean / std)
    var_a = density @ (z - mu_a) ** 2 + below * mu_a**2
    return mu_a, var_a, density @ (z * (z - mean)) / var


@pytest.mark.parametrize("var", [1e-4, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("ratio", [-8.0, -4.0, -1.0, -0.1, 0.0, 0.2, 1.0, 3.0, 10.0])
def test_exact_rectifier_has_the_moments_of_the_rectified_gaussian(ratio, var):
    mean = ratio * np.sqrt(var)
    computed = activate("relu_exact", np.array([mean]), np.array([var]))
    for value, expected in zip(computed, rectified_moments(mean, var), strict=True):
        np.testing.assert_allclose(value[0], expected, rtol=1e-9)


@pytest.mark.parametrize("ratio", [-3.0, -1.0, 0.0, 0.2, 1.0, 3.0, 10.0])
def test_exact_rectifier_in_single_precision_agrees_with_double(ratio):
    var = np.array([1e-4, 0.3, 50.0])
    mean = ratio * np.sqrt(var)
    single = activate("relu_exact", mean.astype(np.float32), var.astype(np.float32))
    double = activate("relu_exact", mean, var)
    for value, expected in zip(single, double, strict=True):
        np.testing.assert_allclose(value, expected, rtol=rtol(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_rectifier_never_adds_variance(dtype):
    """max(0, z) moves no two points apart, so var(A) <= var(Z); far above zero they are equal."""
    ratio = np.concatenate([-np.geomspace(1e-3, 1e9, 400), np.geomspace(1e-3, 1e9, 400)])
    var_z = np.full(ratio.shape, 0.01, dtype)
    mu_z = (ratio * 0.1).astype(dtype)
    _, var_a, jac = activate("relu_exact", mu_z, var_z)
    assert np.all(var_a <= var_z * (1 + rtol(dtype)))
    np.testing.assert_allclose(var_a[ratio > 40], var_z[ratio > 40], rtol=rtol(dtype))
    # Cauchy-Schwarz: cov(A, Z)^2 <= var(A) var(Z)
    least = jac.astype(float) ** 2 * var_z
    assert np.all(least <= var_a * (1 + rtol(dtype)) + np.finfo(dtype).tiny)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_is_kept(name, dtype):
    mu_z = np.linspace(-3, 3, 7).astype(dtype)
    for value in activate(name, mu_z, np.full(7, 0.5, dtype)):
        assert value.dtype == dtype


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(("dtype", "largest"), [(np.float64, 1e30), (np.float32, 1e8)])
def test_extreme_means_give_finite_activate(name, dtype, largest):
    extreme = [1e3, 1e8, largest]
    mu_z = np.array([0.0, *extreme, *(-value for value in extreme)], dtype)
    for var in (1e-12, 1.0, 1e12):
        mu_a, var_a, jac = activate(name, mu_z, np.full(mu_z.shape, var, dtype))
        assert np.all(np.isfinite(mu_a))
        assert np.all(np.isfinite(jac))
        assert np.all(np.isfinite(var_a))
        assert np.all(var_a >= 0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_leading_axes_are_elementwise(name):
    rng = np.random.default_rng(0)
    mu_z, var_z = rng.normal(size=(2, 3, 4)), rng.uniform(0.1, 1, size=(2, 3, 4))
    stacked = activate(name, mu_z, var_z)
    for index in np.ndindex(2, 3):
        for whole, part in zip(stacked, activate(name, mu_z[index], var_z[index]), strict=True):
            np.testing.assert_array_equal(whole[index], part)
