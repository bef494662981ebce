"""Observation model y = z + v, V ~ N(0, noise_var / weight) (Eq. 1): targets -> messages.

A message is (nu, kappa) for every observation of every row: Eq. 14 divided by the prior variance
of the output that is observed. A weight of zero means "not observed" and gives a message of
exactly zero.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from .gaussian import log_density

_CHOLESKY = {"f": (lapack.spotrf, lapack.strtri), "d": (lapack.dpotrf, lapack.dtrtri)}

__all__ = ["GaussianOutputs", "independent_message", "joint_message", "noise_moment"]


class GaussianOutputs:
    """Regression: every output is observed, with a noise variance of its own."""

    shared_noise = False

    def __init__(self, n_outputs: int):
        self.n_outputs = n_outputs

    def targets(self, y: np.ndarray) -> tuple[np.ndarray, None]:
        """What each row observes, (..., rows, observations), and of which output (None: of all)."""
        return y, None

    def log_likelihood(self, mu_z, var_y, y) -> np.ndarray:
        """Log density of each row and output; ``var_y`` includes the noise."""
        return log_density(y, mu_z, var_y)


def independent_message(mu_z, var_z, y, noise_var, weight):
    """Each row as if it were alone (Eq. 14)."""
    kappa = weight / (weight * var_z + noise_var)
    return kappa * (y - mu_z), kappa


def joint_message(mu_z, var_z, rho, y, noise_var, weight, outputs=None):
    """All rows of the batch at once: condition on y ~ N(mu_z, K + noise_var / weight).

    K_ij = rho_ij sigma_i sigma_j where rows i and j observe the same output, else 0; nu =
    Sigma_y^-1 (y - mu_z), and kappa is a row's leverage over its prior variance. For one row both
    are Eq. 14. Every column of observations has a Sigma_y of its own; ``outputs`` tells which
    output an observation is of (None: a column is an output).
    """
    nu, kappa = np.empty_like(mu_z), np.empty_like(mu_z)
    residual = y - mu_z
    weight = np.broadcast_to(weight, mu_z.shape)
    noise_var = np.broadcast_to(noise_var, mu_z.shape)
    for network in np.ndindex(mu_z.shape[:-2]):
        for k in range(mu_z.shape[-1]):
            column, corr = (*network, slice(None), k), rho[network]
            if outputs is not None:
                corr = corr * (outputs[column][:, None] == outputs[column])
            nu[column], kappa[column] = _condition(
                corr, var_z[column], residual[column], weight[column], noise_var[column][0]
            )
    return nu, kappa


def _condition(corr, var_z, residual, weight, noise_var):
    """nu and kappa of one column of observations.

    With r = sqrt(weight), Sigma_y^-1 = r M^-1 r for M = r K r + noise_var I, so that small weights
    divide nothing.
    """
    root = np.sqrt(weight)
    scale = root * np.sqrt(var_z)
    cov = corr * scale[:, None]
    cov *= scale
    # K is known to rounding only, so is the noise: where they are comparable (duplicate rows with
    # tiny sigma_v), this keeps M positive definite.
    rounding = np.finfo(cov.dtype).eps * (scale @ scale)
    potrf, trtri = _CHOLESKY[cov.dtype.char]
    jitter = noise_var + rounding
    while True:
        cov_y = cov.copy()
        cov_y.flat[:: len(cov) + 1] += jitter
        chol, failed = potrf(cov_y, lower=True, overwrite_a=True, clean=True)
        if not failed:
            break
        rounding *= 10
        jitter = noise_var + rounding
    chol_inv, _ = trtri(chol, lower=True, overwrite_c=True)
    nu = root * (chol_inv.T @ (chol_inv @ (root * residual)))
    if noise_var > (scale * scale).max():
        leverage = np.einsum("ij,ij->j", chol_inv, chol_inv @ cov)  # the diagonal of M^-1 r K r
    else:  # the same for less, where the difference is not lost to rounding
        leverage = 1 - jitter * np.einsum("ij,ij->j", chol_inv, chol_inv)
    leverage = np.maximum(leverage, 0) * (root > 0)
    return nu, leverage / var_z


def noise_moment(var_z, nu, kappa, noise_var, weight):
    """E[weight v^2 | y] of each row and output: the statistic of the EM step for noise_var.

    Its sum over rows divided by the sum of weights is the next noise variance; a row of weight k
    contributes as k copies of it.
    """
    shift = noise_var * nu
    safe = np.where(weight > 0, weight, 1)
    return shift * shift / safe + noise_var * kappa * var_z
