"""Uncertain inputs through a network with independent parameters: full Sigma_Z for their part.

The errors of the inputs reach all hidden units at once, so that the units are correlated, and with
diagonal covariances they cannot add up or cancel as they should (paper, section 4.1). Here the
covariance of the units of a layer is

    Sigma_Z = F' F + diag(rest),   F = Sigma_X^(1/2) dz/dx

whose first part comes from the inputs and passes through the layers as a product of Jacobians
(Eq. 10 and 12), and whose rest comes from the parameters, independent from unit to unit as where
inputs are exact. Without uncertain parameters the first part is all, and the standard deviation
of an output is that of Eq. 18. It costs n_in times the mean, not the square of a layer's width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from .activations import activate
from .network import Layer, matmul

__all__ = ["forward_uncertain", "input_rank"]


def input_rank(var_x) -> int:
    """The rank that the covariance of a row's inputs may have, at least 1."""
    if var_x is None:
        return 1
    if sparse.issparse(var_x):
        return max(1, int(np.diff(var_x.indptr).max(initial=0)))
    return var_x.shape[-1]


def forward_uncertain(
    layers: Sequence[Layer], activation: Callable, x, var_x
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the outputs, (members, rows, n_out).

    ``x`` (rows, n_in + 1) is dense or sparse; ``var_x`` are variances (rows or 1, n_in), dense or
    sparse, or covariances (rows, n_in, n_in).
    """
    first = layers[0]
    var_a, factor = _first_factor(var_x, first.mu[..., :-1, :])
    mu_z = matmul(x, first.mu)
    # Errors of inputs and of weights are independent: E[a^2] S, and what the factor carries
    var_z = matmul(x.multiply(x) if sparse.issparse(x) else x * x, first.var)
    var_z = var_z + matmul(var_a, first.var[..., :-1, :]) + np.square(factor).sum(axis=-2)
    for layer in layers[1:]:
        mu_a, var_a, jac = activate(activation, mu_z, var_z)
        factor = factor * jac[..., None, :]
        rest = np.maximum(var_a - np.square(factor).sum(axis=-2), 0)
        weights, bias = layer.mu[..., :-1, :], layer.mu[..., -1:, :]
        var_w, var_b = layer.var[..., :-1, :], layer.var[..., -1:, :]
        factor = factor @ weights[..., None, :, :]
        mu_z = mu_a @ weights + bias
        var_z = (np.square(mu_a) + var_a) @ var_w + rest @ np.square(weights) + var_b
        var_z += np.square(factor).sum(axis=-2)
    return mu_z, var_z


def _first_factor(var_x, weights: np.ndarray):
    """Variances of the inputs, and F = Sigma_X^(1/2) W, (members, rows, rank, n_out)."""
    weights = weights[..., None, :, :]
    if sparse.issparse(var_x):
        columns, values = _entries(var_x)
        return var_x, np.sqrt(values)[..., None] * weights[..., 0, columns, :]
    if var_x.ndim == 2:
        return var_x, np.sqrt(var_x)[..., None] * weights
    values, vectors = np.linalg.eigh(var_x.astype(np.float64))
    root = np.sqrt(np.maximum(values, 0))[..., None] * vectors.swapaxes(-1, -2)
    return np.einsum("rkk->rk", var_x), root.astype(weights.dtype) @ weights


def _entries(var_x) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of the entries of each row of a CSR matrix, filled up with zeros."""
    count = np.diff(var_x.indptr)
    there = np.arange(count.max(initial=0)) < count[:, None]
    columns = np.zeros(there.shape, dtype=var_x.indices.dtype)
    values = np.zeros(there.shape, dtype=var_x.dtype)
    columns[there], values[there] = var_x.indices, var_x.data
    return columns, values
