"""Observation model y = z + v, V ~ N(0, noise_var / weight) (Eq. 1): targets -> messages.

A message is Eq. 14 divided by the prior variance of the output that is observed, for every
observation of every row. A weight of zero means "not observed" and gives a message of
exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from .gaussian import log_density

_CHOLESKY = {"f": (lapack.spotrf, lapack.strtri), "d": (lapack.dpotrf, lapack.dtrtri)}

__all__ = ["GaussianOutputs", "Message", "independent_message", "joint_message", "noise_moment"]


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


class Message(NamedTuple):
    """What an observation says, (..., rows, observations)."""

    nu: np.ndarray  # the change of the output's mean over its variance
    kappa: np.ndarray  # the loss of its variance over the square of it
    leverage: np.ndarray  # the share of the row in its own prediction, 1 - noise [Sigma_y^-1]_ii


def independent_message(mu_z, var_z, y, noise_var, weight):
    """Each row as if it were alone (Eq. 14)."""
    kappa = weight / (weight * var_z + noise_var)
    return Message(kappa * (y - mu_z), kappa, kappa * var_z)


def joint_message(mu_z, shared, own, y, noise_var, weight):
    """All rows of the batch at once: condition on y ~ N(mu_z, shared + own + noise_var / weight).

    ``shared`` and ``own`` (..., observations, rows, rows) are the parts of the prior covariance K
    that rows have in common and that they do not. nu = Sigma_y^-1 (y - mu_z), and kappa is a row's
    leverage, [shared Sigma_y^-1]_ii, over its variance shared_ii. For one row both are Eq. 14.
    """
    message = Message(*(np.empty_like(mu_z) for _ in range(3)))
    residual = y - mu_z
    weight = np.broadcast_to(weight, mu_z.shape)
    noise_var = np.broadcast_to(noise_var, mu_z.shape)
    for index in np.ndindex(shared.shape[:-2]):
        column = (*index[:-1], slice(None), index[-1])
        parts = _condition(
            shared[index], own[index], residual[column], weight[column], noise_var[column][0]
        )
        for values, part in zip(message, parts, strict=True):
            values[column] = part
    return message


def _condition(shared, own, residual, weight, noise_var) -> Message:
    """The message of one column of observations.

    With r = sqrt(weight), Sigma_y^-1 = r M^-1 r for M = r K r + noise_var I, so that small weights
    divide nothing.
    """
    root = np.sqrt(weight)
    pair = root[:, None] * root
    common = shared * pair
    cov = common + own * pair
    # K is known to rounding only, so is the noise: where they are comparable (duplicate rows with
    # tiny sigma_v), this keeps M positive definite.
    rounding = np.finfo(cov.dtype).eps * np.trace(cov)
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
    leverage = np.maximum(1 - jitter * np.einsum("ij,ij->j", chol_inv, chol_inv), 0) * (root > 0)
    if own.any() or noise_var > cov.diagonal().max():
        by_shared = np.einsum("ij,ij->j", chol_inv, chol_inv @ common)
        kappa = np.maximum(by_shared, 0) / shared.diagonal()
    else:  # the same for less, and exact where the noise is small
        kappa = leverage / shared.diagonal()
    return Message(nu, kappa, leverage)


def noise_moment(message: Message, noise_var, weight):
    """E[weight v^2 | y] of each row and output: the statistic of the EM step for noise_var.

    Its sum over rows divided by the sum of weights is the next noise variance; a row of weight k
    contributes as k copies of it.
    """
    noise_var = np.asarray(noise_var, dtype=np.float64)  # squares of large targets
    shift = noise_var * message.nu
    safe = np.where(weight > 0, weight, 1)
    return shift * shift / safe + noise_var * message.leverage
