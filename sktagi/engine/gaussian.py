"""Moments of products of Gaussian variables (Eq. 3-6) and the Gaussian density."""

from __future__ import annotations

import numpy as np

__all__ = ["log_density", "product_cov", "product_cov_with", "product_mean", "product_var"]


def product_mean(mu_1, mu_2, cov_12=0.0):
    """E[X1 X2] (Eq. 3)."""
    return mu_1 * mu_2 + cov_12


def product_cov_with(mu_1, mu_2, cov_13, cov_23):
    """cov(X3, X1 X2) (Eq. 4)."""
    return cov_13 * mu_2 + cov_23 * mu_1


def product_cov(mu_1, mu_2, mu_3, mu_4, cov_13, cov_14, cov_23, cov_24):
    """cov(X1 X2, X3 X4) (Eq. 5)."""
    return (
        cov_13 * cov_24
        + cov_14 * cov_23
        + cov_13 * mu_2 * mu_4
        + cov_14 * mu_2 * mu_3
        + cov_23 * mu_1 * mu_4
        + cov_24 * mu_1 * mu_3
    )


def product_var(mu_1, var_1, mu_2, var_2, cov_12=0.0):
    """var(X1 X2) (Eq. 6)."""
    return (
        var_1 * var_2 + cov_12**2 + 2.0 * cov_12 * mu_1 * mu_2 + var_1 * mu_2**2 + var_2 * mu_1**2
    )


def log_density(y, mean, var):
    """log N(y; mean, var), elementwise."""
    # (y - mean) is divided by the standard deviation before it is squared: the square of a large
    # residual may overflow where that of the ratio does not.
    return -0.5 * (np.log(2.0 * np.pi * var) + ((y - mean) / np.sqrt(var)) ** 2)
