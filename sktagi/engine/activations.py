"""Activation functions of Gaussian hidden units: (mu_z, var_z) -> (mu_a, var_a, jac) (Eq. 11-12).

``jac`` is cov(A, Z) / var(Z), what the backward pass needs. For the locally linearised functions
of the paper it is the derivative at the mean, and ``var_a = jac**2 * var_z``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, ndtr

__all__ = ["ACTIVATIONS", "LEAKY_SLOPE"]

LEAKY_SLOPE = 0.01


def identity(mu_z, var_z):
    return mu_z, var_z, np.ones_like(mu_z)


def relu(mu_z, var_z):
    jac = (mu_z > 0).astype(mu_z.dtype)
    return mu_z * jac, var_z * jac, jac


def leaky_relu(mu_z, var_z):
    jac = np.where(mu_z > 0, 1, LEAKY_SLOPE).astype(mu_z.dtype)
    return mu_z * jac, var_z * jac * jac, jac


def tanh(mu_z, var_z):
    mu_a = np.tanh(mu_z)
    jac = 1 - mu_a * mu_a
    return mu_a, var_z * jac * jac, jac


def logistic(mu_z, var_z):
    mu_a = expit(mu_z)
    jac = mu_a * (1 - mu_a)
    return mu_a, var_z * jac * jac, jac


def softplus(mu_z, var_z):
    jac = expit(mu_z)
    return np.logaddexp(0, mu_z).astype(mu_z.dtype), var_z * jac * jac, jac


def relu_exact(mu_z, var_z):
    """Exact mean, variance and covariance of max(0, Z) for a Gaussian Z."""
    dtype = mu_z.dtype
    std_z = np.sqrt(var_z.astype(np.float64))
    ratio = mu_z / std_z
    above, below = ndtr(ratio), ndtr(-ratio)
    slope = np.exp(-0.5 * ratio * ratio) / np.sqrt(2.0 * np.pi)
    mu_a = std_z * np.maximum(ratio * above + slope, 0)
    unit_var = above + above * (ratio * ratio * below) + (below - above) * ratio * slope
    unit_var -= slope * slope
    # Differences are lost to rounding far below zero; there Cauchy-Schwarz still holds.
    unit_var = np.clip(unit_var, above * above, 1)
    jac = above  # Stein: cov(max(0, Z), Z) = P(Z > 0) var(Z)
    return mu_a.astype(dtype), (var_z * unit_var).astype(dtype), jac.astype(dtype)


ACTIVATIONS: dict[str, Callable] = {
    f.__name__: f for f in (identity, relu, leaky_relu, tanh, logistic, softplus, relu_exact)
}
