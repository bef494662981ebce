"""Messages from observations to outputs (Eq. 14): of each row alone, of a batch jointly, guarded.

A message is Eq. 14 divided by the prior variance of the output: what a row's site says of it. A
weight of zero means "not observed" and gives a message of exactly zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from .covariance import (
    HiddenCovariance,
    RowVariance,
    Workspace,
    hidden_covariance,
    output_covariance,
    summed_step,
)
from .fast import EPS, ONE, ZERO, threads_for_rows, transposed
from .observations import Sites
from .passes import Tape
from .posterior import Layer
from .rows import Batch

__all__ = [
    "Message", "guarded", "independent", "joint", "joint_of_batch", "joint_with_one_factor"
]  # fmt: skip

_FACTOR = {"f": (lapack.spotrf, blas.strsm), "d": (lapack.dpotrf, blas.dtrsm)}

# With noise so many times the network's variance, what is not noise is a difference of nearly
# equal numbers, and is computed another way.
MUCH_NOISE = 64


class Message(NamedTuple):
    """What observations say of outputs, (..., n_outputs, rows)."""

    nu: np.ndarray  # change of the output's mean over its variance
    kappa: np.ndarray  # loss of its variance over the square of it
    leverage: np.ndarray  # share of the row in its own prediction, 1 - noise [Sigma_y^-1]_ii


# One row alone


def independent(
    mu_z: np.ndarray,
    var_z: np.ndarray,
    sites: Sites,
    weight: np.ndarray | None = None,
    out: Sequence[np.ndarray] | None = None,
) -> Message:
    """Return what each row would say if it were alone (Eq. 14), in three arrays ``out``."""
    target, noise = sites
    nu, kappa, leverage = np.empty((3, *mu_z.shape), mu_z.dtype) if out is None else out
    if weight is None:
        np.add(var_z, noise, out=kappa)
        np.reciprocal(kappa, out=kappa)
    else:  # w / (w var + noise): small weights divide nothing
        np.multiply(weight, var_z, out=kappa)
        kappa += noise
        np.divide(weight, kappa, out=kappa)
    np.subtract(target, mu_z, out=nu)
    nu *= kappa
    np.multiply(kappa, var_z, out=leverage)
    return Message(nu, kappa, leverage)


# All rows at once


def joint(
    mu_z: np.ndarray,
    shared: np.ndarray,
    own: RowVariance,
    sites: Sites,
    weight: np.ndarray | None = None,
    work: np.ndarray | None = None,
) -> Message:
    """Condition on all rows of a batch: target ~ N(mu_z, shared + own + noise / weight).

    ``mu_z`` and the sites are (..., n_observed, rows). ``shared`` (..., n_observed, rows, rows),
    which may be overwritten, is the part of the prior covariance K that rows have in common,
    ``own`` the part that they do not. nu = Sigma_y^-1 (target - mu_z), and kappa is a row's
    leverage, [shared Sigma_y^-1]_ii, over its variance shared_ii. For one row both are Eq. 14.
    One ``shared`` (..., 1, rows, rows), with noise and weights alike, may serve all observations.

    With r = sqrt(weight), Sigma_y^-1 = r M^-1 r for M = r K r + noise, so that small weights divide
    nothing. ``work`` is an array like ``shared`` to work in, contiguous.
    """
    shared = np.ascontiguousarray(shared)
    target, noise = sites
    residual = target - mu_z
    noise = np.asarray(noise)
    noise = noise if noise.ndim > 1 else noise.reshape(-1, 1)
    shared_var = _diagonal(shared).copy()
    diagonal = shared_var
    root = None
    if weight is not None:
        root = np.sqrt(np.broadcast_to(weight, shared.shape[:-1]))
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
    common = shared.copy() if np.greater(noise, MUCH_NOISE * largest).any() else None
    own.add_pairs_to(shared)
    work = np.empty_like(shared) if work is None else work
    inverse_root, jitter = _inverse_root(shared, diagonal, noise, rounding, work)  # M^-1 = R R'
    nu = _times_inverse(inverse_root, residual)
    precision = np.einsum("...ij,...ij->...i", inverse_root, inverse_root)
    zero, one = ZERO[shared.dtype.char], ONE[shared.dtype.char]
    not_noise = one - jitter * precision
    leverage = np.maximum(not_noise, zero)
    if common is not None:
        by_shared = np.einsum("...ij,...ij->...i", inverse_root, common @ inverse_root)
    else:
        by_shared = not_noise - own.diagonal_of_product(inverse_root, precision)
    kappa = np.maximum(by_shared, zero) / shared_var
    if root is not None:
        observed = root > 0
        nu, kappa, leverage = nu * root, kappa * observed, leverage * observed
    return Message(nu, kappa, leverage)


def _times_inverse(root: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Return M^-1 r of each residual (..., n, rows), for M^-1 = R R' of each, or one for all."""
    if root.shape[-3] == residual.shape[-2]:
        return (root @ (transposed(root) @ residual[..., None]))[..., 0]
    root = root[..., 0, :, :]
    return (residual @ root) @ transposed(root)


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    """Return a view of the diagonals that can be written to; the matrices are contiguous."""
    *lead, n, _ = matrices.shape
    return matrices.reshape(*lead, n * n)[..., :: n + 1]


def _inverse_root(
    cov: np.ndarray, diagonal: np.ndarray, noise: np.ndarray, rounding: np.ndarray, out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return R with R R' = (cov + jitter)^-1, matrix by matrix, and the jitter.

    That is the noise, and as much more as it takes to make the sum positive definite. The matrices
    are overwritten; their diagonals are given apart. R is written into ``out``.
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


def joint_of_batch(
    layers: Sequence[Layer],
    tape: Tape,
    batch: Batch,
    sites: Sites,
    work: Workspace,
    hidden: HiddenCovariance | None,
    asked: np.ndarray | None = None,
) -> Message:
    """Return what the rows of a batch say jointly of the outputs.

    With ``asked`` (..., n_outputs, 1) only of these; what is said of others means nothing.
    """
    last, outputs = tape.units[-1], batch.outputs
    weight = batch.observed_weight if outputs is None else batch.weight
    if asked is not None and not asked.all():  # observations of these, by any row
        wanted = asked if outputs is None else np.take_along_axis(asked, outputs, axis=-2)
        chosen = np.flatnonzero(wanted.swapaxes(-1, -2).any(axis=tuple(range(wanted.ndim - 1))))
        outputs = chosen if outputs is None else outputs[..., chosen, :]
    at: Any = ...  # where the observed outputs stand among all
    if outputs is not None:
        at = (..., outputs, slice(None)) if outputs.ndim == 1 else _by_row(outputs)
        target, noise = sites
        sites = target[at], _choose(noise, at, last.mu_z.shape)
        weight = None if weight is None else _choose(weight, at, last.mu_z.shape)
    mu_z, var_z = last.mu_z[at], last.var_z[at]
    shared, own = output_covariance(layers, tape, hidden, var_z, work, outputs, batch.copies)
    with threads_for_rows(tape.largest, tape.n_rows):
        message = joint(mu_z, shared, own, sites, weight, work.factors.shaped(*shared.shape))
    if outputs is None:
        return message
    of_all = np.zeros((3, *last.mu_z.shape), last.mu_z.dtype)
    for values, part in zip(of_all, message, strict=True):
        values[at] = part
    return Message(*of_all)


def joint_with_one_factor(
    layers: Sequence[Layer],
    tape: Tape,
    batch: Batch,
    sites: Sites,
    work: Workspace,
    hidden: HiddenCovariance | None,
) -> Message:
    """Return what the rows say jointly of many outputs, with one covariance matrix for all.

    It is that of an average output, with the least noise that the sites of a row have. What a row
    would say alone stays as it is: the residual makes up for the noise, and kappa has the share of
    the output's own information. So outputs of which a row says little are moved a little less
    where other rows say the same, and the cost is that of one output.
    """
    last = tape.units[-1]
    target, noise = sites
    alone = 1 / (last.var_z + noise)  # kappa of a row alone (Eq. 14)
    var_z = last.var_z.mean(axis=-2, keepdims=True)
    noise = np.minimum.reduce(noise, axis=-2, keepdims=True)
    shared, own = output_covariance(
        layers, tape, hidden, var_z, work, copies=batch.copies, average=True
    )
    total = var_z + noise
    residual = (target - last.mu_z) * alone * total
    zero = ZERO[residual.dtype.char]
    with threads_for_rows(tape.largest, tape.n_rows):
        message = joint(
            zero, shared, own, (residual, noise), batch.weight, work.factors.shaped(*shared.shape)
        )
    return message._replace(kappa=message.kappa * (alone * total))


def _by_row(outputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return an index of the outputs (..., n_observed, rows) that each row has of its own."""
    *lead, _, n_rows = outputs.shape
    networks = (np.arange(n)[:, None, None] for n in lead)
    return (*networks, outputs, np.arange(n_rows))


def _choose(values: np.ndarray, at: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the part of some outputs, unless values are the same for all outputs."""
    same = values.ndim < 2 or values.shape[-2] == 1
    return values if same else np.broadcast_to(values, shape)[at]


# A sum of single rows that cannot overshoot


def guarded(
    layers: Sequence[Layer],
    tape: Tape,
    batch: Batch,
    sites: Sites,
    work: Workspace,
    *,
    one_factor: bool = False,
) -> Message:
    """Return what the rows say alone, or jointly of the outputs where the sum would overshoot.

    The sum of what each row would do alone goes too far where rows say the same thing. It cannot
    unless the leverages of an output sum to more than 2. With ``one_factor``, one covariance matrix
    serves all outputs.
    """
    last = tape.units[-1]
    alone = independent(last.mu_z, last.var_z, sites, batch.observed_weight, tape.message)
    if tape.n_rows <= 2 or np.add.reduce(alone.leverage, axis=None) <= 2:
        return alone
    if np.maximum.reduce(np.add.reduce(alone.leverage, axis=-1), axis=None) <= 2:
        return alone
    hidden = hidden_covariance(layers, tape, work)
    asked = _overshoots(layers, tape, hidden, alone, work)
    if not asked.any():
        return alone
    if one_factor:
        together = joint_with_one_factor(layers, tape, batch, sites, work, hidden)
    else:
        together = joint_of_batch(layers, tape, batch, sites, work, hidden, asked)
    return Message(*(np.where(asked, *parts) for parts in zip(together, alone, strict=True)))


def _overshoots(
    layers: Sequence[Layer],
    tape: Tape,
    hidden: HiddenCovariance | None,
    alone: Message,
    work: Workspace,
) -> np.ndarray:
    """Tell which outputs (..., n_outputs, 1) the sum of the messages would move too far.

    To first order it moves them by K nu, and the batch's own error sum(kappa (y - mu_z)^2) of an
    output grows by the sum over rows of K nu (kappa K nu - 2 nu).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        step = summed_step(layers, tape, hidden, alone.nu, work)
        slope = alone.kappa * step
        slope -= alone.nu
        slope -= alone.nu  # twice: 2 nu would be one more array
        step *= slope
        return ~(np.add.reduce(step, axis=-1, keepdims=True) <= 0)  # an overflow is worse too
