"""The covariance between the outputs of a batch's rows, which share their parameters.

The exact covariance J S J' needs a Jacobian for each row. Here the correlation of hidden units is
averaged over the units of a layer, which leaves a recursion of (rows, rows) matrices: with
s = std(a), and bars for averages over the output units of a layer,

    c_ij = sum_k S_k a_ik a_jk + rho_ij sum_k (W^2 + S)_k s_ik s_jk,   rho_ij = c_ij / sd_i sd_j

where the bias is the unit k with a = 1 and s = 0. The last layer is not averaged: c is then the
covariance K of each output. Errors of uncertain inputs are independent from row to row: they count
in the variances sd^2, not in c.

Through hidden layers the average is only nearly the truth. Its null space is not that of the exact
covariance, and with little noise conditioning would blow up whatever falls into it. So there a
small share of each row's variance counts as its own: shared with copies of the row, and hardly
with others, by a high power of the correlation (a correlation too, by Schur's product theorem).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from .network import Layer, Units

__all__ = ["hidden_correlation", "output_covariance"]

OWN_SHARE = 0.01
OWN_SQUARINGS = 10


def hidden_correlation(layers: Sequence[Layer], tape: Sequence[Units]) -> np.ndarray | None:
    """Correlation between rows of what enters the last layer; None for a linear model."""
    rho = None
    for layer, units in zip(layers[:-1], tape[:-1], strict=True):
        cov = _gram(units.mu_a, layer.var.mean(axis=-1))
        var = np.einsum("...ii->...i", cov).copy()
        if units.var_a is not None:
            moment = (units.sq_w + layer.var[..., :-1, :]).mean(axis=-1)
            if rho is None:
                var += _weighted_sum(units.var_a, moment)
            else:
                gram = _gram(np.sqrt(units.var_a), moment)
                var += np.einsum("...ii->...i", gram)
                cov += rho * gram
        scale = 1 / np.sqrt(var)
        rho = cov * scale[..., :, None]
        rho *= scale[..., None, :]
    return rho


def output_covariance(
    layers: Sequence[Layer], tape: Sequence[Units], var_z: np.ndarray, outputs=None
) -> tuple[np.ndarray, np.ndarray]:
    """Covariance between rows of what they observe, (..., observations, rows, rows), in two parts.

    The first comes from the parameters that rows share; the second, to be added, is each row's
    own. ``var_z`` (..., rows, observations) are the variances, ``outputs`` tells which output an
    observation is of (None: a column of observations is an output). Rows that observe different
    outputs have no covariance.
    """
    layer, units = layers[-1], tape[-1]
    rho = hidden_correlation(layers, tape)
    shared = _gram_of_outputs(units.mu_a, layer.var, outputs)
    if rho is not None:
        moment = units.sq_w + layer.var[..., :-1, :]
        gram = _gram_of_outputs(np.sqrt(units.var_a), moment, outputs)
        gram *= rho[..., None, :, :]
        shared += gram
    if outputs is not None:
        node = outputs.swapaxes(-1, -2)
        shared *= node[..., :, None] == node[..., None, :]
    if rho is None:
        own = np.zeros_like(shared)
        if units.var_a is None:
            return shared, own
    else:
        std = np.sqrt(var_z).swapaxes(-1, -2)
        scale = std[..., :, None] * std[..., None, :]
        own = shared / scale
        for _ in range(OWN_SQUARINGS):
            np.square(own, out=own)
        own *= OWN_SHARE * scale
        shared *= 1 - OWN_SHARE
    # What is left of a row's variance comes from the errors of its inputs alone.
    diagonal = np.einsum("...ii->...i", own)
    diagonal[...] = var_z.swapaxes(-1, -2) - np.einsum("...ii->...i", shared)
    np.maximum(diagonal, 0, out=diagonal)
    return shared, own


def _gram(a, weights: np.ndarray) -> np.ndarray:
    """sum_k weights_k a_ik a_jk."""
    if isinstance(a, np.ndarray):
        scaled = a * np.sqrt(weights)[..., None, :]
        return scaled @ scaled.swapaxes(-1, -2)
    if sparse.issparse(a):
        if weights.ndim > 1:
            return np.stack([_gram(a, part) for part in weights])
        scaled = a.multiply(np.sqrt(weights)).tocsr()
        return (scaled @ scaled.T).toarray()
    return np.stack([_gram(part, w) for part, w in zip(a, weights, strict=True)])


def _gram_of_outputs(a, weights: np.ndarray, outputs) -> np.ndarray:
    """sum_k weights_ko a_ik a_jk for the output o that row i observes, for each observation.

    Where rows i and j observe different outputs the result means nothing.
    """
    if not isinstance(a, np.ndarray):
        parts = [a] * len(weights) if sparse.issparse(a) else a
        nodes = [None] * len(parts) if outputs is None else outputs
        if weights.ndim == 2:
            return _sparse_gram_of_outputs(a, weights, outputs)
        grams = map(_sparse_gram_of_outputs, parts, weights, nodes)
        return np.stack(list(grams))
    by_output = weights.swapaxes(-1, -2)  # (..., n_out, n_in)
    if outputs is None:
        scaled = a[..., None, :, :] * by_output[..., :, None, :]
    else:
        picked = np.take_along_axis(
            by_output, outputs.reshape(*outputs.shape[:-2], -1, 1), axis=-2
        ).reshape(*outputs.shape, -1)
        scaled = picked.swapaxes(-3, -2) * a[..., None, :, :]
    return scaled @ a[..., None, :, :].swapaxes(-1, -2)


def _sparse_gram_of_outputs(a, weights: np.ndarray, outputs) -> np.ndarray:
    columns = np.arange(weights.shape[1]) if outputs is None else outputs.T
    return np.stack([(a.multiply(weights[:, k].T) @ a.T).toarray() for k in columns])


def _weighted_sum(a, weights: np.ndarray) -> np.ndarray:
    """sum_k weights_k a_ik."""
    if isinstance(a, np.ndarray):
        return np.matmul(a, weights[..., None])[..., 0]
    if sparse.issparse(a):
        return a @ weights if weights.ndim == 1 else np.stack([a @ part for part in weights])
    return np.stack([part @ w for part, w in zip(a, weights, strict=True)])
