"""Activation functions of Gaussian hidden units: (mu_z, var_z) -> (mu_a, var_a, jac) (Eq. 11-12).

``jac`` is cov(A, Z) / var(Z), what the backward pass needs. For the locally linearised functions
of the paper it is the derivative at the mean, and ``var_a = jac**2 * var_z``. The three results are
written into the arrays given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import expit, ndtr

from .fast import ZERO

__all__ = ["ACTIVATIONS", "CURVATURES", "LEAKY_SLOPE", "Activation", "activate"]

# Writes mu_a, var_a and jac, the last three of five arrays of one shape.
Array: TypeAlias = np.ndarray
Activation: TypeAlias = Callable[[Array, Array, Array, Array, Array], None]

LEAKY_SLOPE = 0.01


def identity(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    mu_a[...] = mu_z
    var_a[...] = var_z
    jac[...] = 1


def relu(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    np.maximum(mu_z, ZERO[mu_z.dtype.char], out=mu_a)
    np.sign(mu_a, out=jac)
    np.multiply(var_z, jac, out=var_a)


def leaky_relu(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    np.greater(mu_z, 0, out=jac)
    np.maximum(jac, LEAKY_SLOPE, out=jac)
    np.multiply(mu_z, jac, out=mu_a)
    _linearised(var_z, var_a, jac)


def tanh(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    np.tanh(mu_z, out=mu_a)
    np.square(mu_a, out=jac)
    np.subtract(1, jac, out=jac)
    _linearised(var_z, var_a, jac)


def logistic(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    expit(mu_z, out=mu_a)
    np.subtract(1, mu_a, out=jac)
    jac *= mu_a
    _linearised(var_z, var_a, jac)


def softplus(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    np.logaddexp(0, mu_z, out=mu_a)
    expit(mu_z, out=jac)
    _linearised(var_z, var_a, jac)


def _linearised(var_z: Array, var_a: Array, jac: Array) -> None:
    np.multiply(var_z, jac, out=var_a)
    var_a *= jac


def relu_exact(mu_z: Array, var_z: Array, mu_a: Array, var_a: Array, jac: Array) -> None:
    """Write the exact mean, variance and covariance of max(0, Z) for a Gaussian Z."""
    std_z = np.sqrt(var_z.astype(np.float64))
    ratio = mu_z / std_z
    above, below = ndtr(ratio), ndtr(-ratio)
    slope = np.exp(-0.5 * ratio * ratio) / np.sqrt(2.0 * np.pi)
    mu_a[...] = std_z * np.maximum(ratio * above + slope, 0)
    unit_var = above + above * (ratio * ratio * below) + (below - above) * ratio * slope
    unit_var -= slope * slope
    # Differences are lost to rounding far below zero; there Cauchy-Schwarz still holds.
    unit_var = np.clip(unit_var, above * above, 1)
    var_a[...] = var_z * unit_var
    jac[...] = above  # Stein: cov(max(0, Z), Z) = P(Z > 0) var(Z)


ACTIVATIONS: dict[str, Activation] = {
    f.__name__: f for f in (identity, relu, leaky_relu, tanh, logistic, softplus, relu_exact)
}

# Second derivatives at the mean, of mu_a and jac; relu_exact has none: it depends on var_z, too.
CURVATURES: dict[Activation, Callable[[Array, Array], Array]] = {
    identity: lambda mu_a, jac: np.zeros_like(jac),
    relu: lambda mu_a, jac: np.zeros_like(jac),
    leaky_relu: lambda mu_a, jac: np.zeros_like(jac),
    tanh: lambda mu_a, jac: -2 * mu_a * jac,
    logistic: lambda mu_a, jac: (1 - 2 * mu_a) * jac,
    softplus: lambda mu_a, jac: (1 - jac) * jac,
}


def activate(activation: Activation, mu_z: Array, var_z: Array) -> tuple[Array, Array, Array]:
    """Return mu_a, var_a and jac in new arrays."""
    mu_a, var_a, jac = np.empty((3, *mu_z.shape), mu_z.dtype)
    activation(mu_z, var_z, mu_a, var_a, jac)
    return mu_a, var_a, jac
