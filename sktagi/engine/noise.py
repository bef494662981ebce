"""Observation model y = z + v, V ~ N(0, noise_var / weight) (Eq. 1): targets -> messages.

A message is Eq. 14 divided by the prior variance of the output that is observed, for every
observation of every row. A weight of zero means "not observed" and gives a message of
exactly zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from .constants import EPS, ONE, ZERO
from .gaussian import log_density

_FACTOR = {"f": (lapack.spotrf, blas.strsm), "d": (lapack.dpotrf, blas.dtrsm)}

# Where the noise is so many times the variance of the network, a row's leverage is next to nothing.
MUCH_NOISE = 64

__all__ = [
    "GaussianOutputs", "Message", "Own", "by_network", "independent_message", "joint_message",
    "noise_moment",
]  # fmt: skip


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
    """What observations say, (..., rows, observations), or of all outputs: zero for the others."""

    nu: np.ndarray  # the change of the output's mean over its variance
    kappa: np.ndarray  # the loss of its variance over the square of it
    leverage: np.ndarray  # the share of the row in its own prediction, 1 - noise [Sigma_y^-1]_ii


def independent_message(mu_z, var_z, y, noise_var, weight=None, out=None) -> Message:
    """Each row as if it were alone (Eq. 14); ``out`` are three arrays for the message."""
    nu, kappa, leverage = np.empty((3, *mu_z.shape), mu_z.dtype) if out is None else out
    if weight is None:
        np.add(var_z, noise_var, out=kappa)
        np.reciprocal(kappa, out=kappa)
    else:
        np.multiply(weight, var_z, out=kappa)
        kappa += noise_var
        np.divide(weight, kappa, out=kappa)
    np.subtract(y, mu_z, out=nu)
    nu *= kappa
    np.multiply(kappa, var_z, out=leverage)
    return Message(nu, kappa, leverage)


class Own(NamedTuple):
    """What a row's prior covariance has that it shares with no row but copies of it."""

    var: np.ndarray  # (..., observations, rows)
    # Which rows are copies, for each observation that they share: numbers of networks,
    # observations, rows and their copies. Both orders of a pair are there. None: no copies
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
    cov: Any = None  # (pairs,)

    def times(self, root: np.ndarray) -> Own:
        """Of rows that are multiplied by ``root`` (..., observations, rows)."""
        var = self.var * np.square(root)
        if self.pairs is None:
            return Own(var)
        network, observation, row, other = self.pairs
        root = by_network(root, 2)
        factor = root[network, observation, row] * root[network, observation, other]
        return Own(var, self.pairs, self.cov * factor)

    def add_pairs_to(self, cov: np.ndarray) -> None:
        """Add to covariances (..., observations, rows, rows) beside the diagonal, in place."""
        if self.pairs is not None:
            by_network(cov, 3)[self.pairs] += self.cov

    def diagonal_of_product(self, root: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """The diagonal of these covariances times root @ root', whose diagonal is ``precision``."""
        result = self.var * precision
        if self.pairs is not None:
            network, observation, row, other = self.pairs
            if len(row) > precision.size:  # many pairs: cheaper to take them from all
                entries = by_network(root @ root.swapaxes(-1, -2), 3)[self.pairs]
            else:
                roots = by_network(root, 3)
                rows, others = (roots[network, observation, k] for k in (row, other))
                entries = np.einsum("pk,pk->p", rows, others)
            entries *= self.cov
            places: Any = network, observation, row  # a row may have several copies
            np.add.at(by_network(result, 2), places, entries)
        return result


def by_network(values: np.ndarray, n_axes: int) -> np.ndarray:
    """A view with one axis for networks before the last ``n_axes``."""
    return values.reshape(-1, *values.shape[-n_axes:])


def joint_message(mu_z, shared, own: Own, y, noise_var, weight=None, work=None) -> Message:
    """All rows of the batch at once: condition on y ~ N(mu_z, shared + own + noise_var / weight).

    ``shared`` (..., observations, rows, rows), which may be overwritten, is the part of the prior
    covariance K that rows have in common, ``own`` the part that they do not.
    nu = Sigma_y^-1 (y - mu_z), and kappa is a row's leverage, [shared Sigma_y^-1]_ii, over its
    variance shared_ii. For one row both are Eq. 14.

    With r = sqrt(weight), Sigma_y^-1 = r M^-1 r for M = r K r + noise_var I, so that small weights
    divide nothing. ``work`` is an array of that shape and type to work in, whole in memory.
    """
    shared = np.ascontiguousarray(shared)
    residual = (y - mu_z).swapaxes(-1, -2)
    noise = np.asarray(noise_var)
    noise = (noise if noise.ndim > 1 else noise.reshape(1, -1)).swapaxes(-1, -2)
    shared_var = _diagonal(shared).copy()
    diagonal = shared_var
    root = None
    if weight is not None:
        root = np.sqrt(np.broadcast_to(weight, mu_z.shape)).swapaxes(-1, -2)
        shared *= root[..., :, None]
        shared *= root[..., None, :]
        diagonal = _diagonal(shared)
        own = own.times(root)
        residual = root * residual
    diagonal = diagonal + own.var
    # K is known to rounding only, so is the noise: where they are comparable (duplicate rows with
    # tiny sigma_v), this keeps M positive definite.
    rounding = EPS[shared.dtype.char] * np.add.reduce(diagonal, axis=-1, keepdims=True)
    largest = np.maximum.reduce(diagonal, axis=-1, keepdims=True)
    # With much noise, what is not noise would be a difference of nearly equal numbers (below).
    common = shared.copy() if np.greater(noise, MUCH_NOISE * largest).any() else None
    own.add_pairs_to(shared)
    work = np.empty_like(shared) if work is None else work
    inverse_root, jitter = _inverse_root(shared, diagonal, noise, rounding, work)
    # M^-1 = R R'
    nu = inverse_root @ (inverse_root.swapaxes(-1, -2) @ residual[..., None])
    precision = np.einsum("...ij,...ij->...i", inverse_root, inverse_root)
    zero, one = ZERO[shared.dtype.char], ONE[shared.dtype.char]
    not_noise = one - jitter * precision
    leverage = np.maximum(not_noise, zero)
    if common is not None:
        by_shared = np.einsum("...ij,...ij->...i", inverse_root, common @ inverse_root)
    else:
        by_shared = not_noise - own.diagonal_of_product(inverse_root, precision)
    nu = nu[..., 0]
    kappa = np.maximum(by_shared, zero) / shared_var
    if root is not None:
        observed = root > 0
        nu, kappa, leverage = nu * root, kappa * observed, leverage * observed
    return Message(*(part.swapaxes(-1, -2) for part in (nu, kappa, leverage)))


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    """A view of the diagonals that can be written to; the matrices are whole in memory."""
    *lead, n, _ = matrices.shape
    return matrices.reshape(*lead, n * n)[..., :: n + 1]


def _inverse_root(cov: np.ndarray, diagonal: np.ndarray, noise, rounding, out: np.ndarray):
    """R with R R' = (cov + jitter)^-1, matrix by matrix, and the jitter: the noise and some more.

    As much more as it takes to make the sum positive definite. The matrices are overwritten; their
    diagonals are given apart. R is written into ``out``.
    """
    jitter = noise + rounding
    _diagonal(cov)[...] = diagonal + jitter
    out[...] = ZERO[cov.dtype.char]
    _diagonal(out)[...] = ONE[cov.dtype.char]
    potrf, trsm = _FACTOR[cov.dtype.char]
    n_rows = cov.shape[-1]
    stacks = cov.reshape(-1, n_rows, n_rows), out.reshape(-1, n_rows, n_rows)
    for number, (matrix, root) in enumerate(zip(*stacks, strict=True)):
        # Symmetric, and transposed in the order that LAPACK wants.
        chol, failed = potrf(matrix.T, lower=True, overwrite_a=True, clean=False)
        while failed:
            index = np.unravel_index(number, cov.shape[:-2])
            more = 9 * rounding[index]
            for values in (rounding, jitter):
                values[index] += more
            upper = np.triu(matrix.T, 1)  # what is still there of the matrix
            matrix[...] = upper + upper.T + np.diag(diagonal[index] + jitter[index])
            if not np.isfinite(matrix).all():  # more will not help
                root[...] = np.nan
                break
            chol, failed = potrf(matrix.T, lower=True, overwrite_a=True, clean=False)
        trsm(1.0, chol, root.T, lower=True, overwrite_b=True)
    return out, jitter


def noise_moment(message: Message, noise_var, weight=None):
    """E[weight v^2 | y] of each row and output: the statistic of the EM step for noise_var.

    Its sum over rows divided by the sum of weights is the next noise variance; a row of weight k
    contributes as k copies of it.
    """
    moment = np.multiply(noise_var, message.nu, dtype=np.float64)  # squares of large targets
    moment *= moment
    if weight is not None:
        moment /= np.where(weight > 0, weight, 1)
    moment += np.multiply(noise_var, message.leverage, dtype=np.float64)
    return moment
