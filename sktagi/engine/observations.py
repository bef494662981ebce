"""The Gaussian density."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["log_density", "log_density_of_std"]


def log_density(y, mean, var):
    """log N(y; mean, var), elementwise."""
    return log_density_of_std(y, mean, np.sqrt(var))


def log_density_of_std(y, mean, std):
    """log N(y; mean, std**2), elementwise; the square of a tiny std may be zero."""
    # (y - mean) is divided by the standard deviation before it is squared: the square of a large
    # residual may overflow where that of the ratio does not.
    return -(np.log(std) + 0.5 * (math.log(2 * math.pi) + ((y - mean) / std) ** 2))
