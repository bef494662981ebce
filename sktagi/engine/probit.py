"""Observations of a sign: p(sign | z) = Phi(sign z / scale), Phi the normal distribution function.

With c = sign mu / sqrt(scale^2 + var), a Gaussian z has E[Phi] = Phi(c), and the posterior of z
given the sign has the moments (h = phi(c) / Phi(c))

    mean = mu + var nu,         nu = sign h / sqrt(scale^2 + var)
    variance = var - var^2 kappa,   kappa = h (h + c) / (scale^2 + var)

so its site has the noise 1 / kappa - var, which is never negative, and the target mu + nu / kappa.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, owens_t

from .observations import Sites

__all__ = ["log_moment_ratio", "probit_ratio", "probit_sites"]

# A row that says less than this of an output, beside the most that a row can say, says nothing.
LEAST_INFORMATION = 1e-6
LOG_ROOT_2_PI = 0.5 * np.log(2 * np.pi)


def probit_ratio(mu_z: np.ndarray, var: np.ndarray, scale_var: Any) -> np.ndarray:
    """Return c = mu / sqrt(scale^2 + var), so that E[Phi(z / scale)] = Phi(c)."""
    ratio = mu_z / np.sqrt(scale_var + var)
    # Beyond this a probability is 0 or 1, and its logarithm still finite in float32.
    return np.clip(ratio, -1e15, 1e15)


def probit_sites(
    mu_z: np.ndarray, var_z: np.ndarray, sign: np.ndarray, scale_var: np.ndarray
) -> Sites:
    """Return the sites of signs +1 and -1; ``scale_var`` is the square of the scale."""
    total = scale_var + var_z
    root = np.sqrt(total)
    c = np.clip(sign * mu_z / root, -1e8, 1e8)
    h = np.exp(-0.5 * c * c - LOG_ROOT_2_PI - log_ndtr(c))
    # h + c is a difference of nearly equal numbers if c is far below zero.
    far = np.minimum(c, -30.0)
    rest = np.where(c < -30, (2 / (far * far) - 1) / far, h + c)
    information = np.maximum(h * rest, LEAST_INFORMATION)
    noise = (scale_var + var_z * (1 - information)) / information
    step = np.where(h * rest < LEAST_INFORMATION, h / LEAST_INFORMATION, 1 / rest)
    dtype = mu_z.dtype
    return (mu_z + sign * root * step).astype(dtype), np.abs(noise).astype(dtype)


def log_moment_ratio(ratio: np.ndarray, var: np.ndarray, scale_var: Any) -> np.ndarray:
    """Return log(E[Phi^2] / E[Phi]^2) of Phi(z / scale), at least 0.

    E[Phi^2] = Phi(c) - 2 T(c, scale / sqrt(scale^2 + 2 var)), T Owen's function, even in c.
    ``ratio`` is c, of one sign or the other.
    """
    owen = 2 * owens_t(ratio, np.sqrt(scale_var / (scale_var + 2 * var)))
    square = np.maximum(ndtr(ratio) - owen, np.finfo(ratio.dtype).tiny)
    return np.maximum(np.log(square) - 2 * log_ndtr(ratio), 0)
