"""The correlation between the outputs of a batch's rows, which share their parameters.

The exact covariance J S J' needs a Jacobian for each row. Here it is averaged over the units of a
layer, which leaves a recursion of (rows, rows) matrices: with s = std(a), and bars for averages
over the output units of a layer,

    c_ij = sum_k S_k a_ik a_jk + rho_ij sum_k (W^2 + S)_k s_ik s_jk,   rho = c_ij / sqrt(c_ii c_jj)

where the bias is the unit k with a = 1 and s = 0.

Through hidden layers the average is only nearly the truth. Its null space is not that of the exact
covariance, and with little noise conditioning would blow up whatever falls into it. So there a
small share of each row's variance counts as its own: shared with copies of the row, and hardly
with others, by a high power of rho (which is a correlation too, by Schur's product theorem).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from .network import Layer, Units

__all__ = ["row_correlation"]

OWN_SHARE = 0.01
OWN_SQUARINGS = 10


def row_correlation(layers: Sequence[Layer], tape: Sequence[Units]) -> np.ndarray:
    """Correlation of the outputs between the rows of a batch, shape (..., rows, rows)."""
    rho: np.ndarray = np.empty(0)
    for layer, units in zip(layers, tape, strict=True):
        cov = _gram(units.mu_a, layer.var.mean(axis=-1))
        if units.var_a is not None:
            moment = (units.sq_w + layer.var[..., :-1, :]).mean(axis=-1)
            if units.jac is None:
                # Errors of the inputs are independent from row to row.
                diag = np.einsum("...ii->...i", cov)
                diag += _weighted_sum(units.var_a, moment)
            else:
                cov += rho * _gram(np.sqrt(units.var_a), moment)
        scale = 1 / np.sqrt(np.einsum("...ii->...i", cov))
        rho = cov * scale[..., :, None]
        rho *= scale[..., None, :]
    if len(layers) == 1:
        return rho
    own = rho.copy()
    for _ in range(OWN_SQUARINGS):
        np.square(own, out=own)
    rho *= 1 - OWN_SHARE
    own *= OWN_SHARE
    rho += own
    return rho


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


def _weighted_sum(a, weights: np.ndarray) -> np.ndarray:
    """sum_k weights_k a_ik."""
    if isinstance(a, np.ndarray):
        return np.matmul(a, weights[..., None])[..., 0]
    if sparse.issparse(a):
        return a @ weights if weights.ndim == 1 else np.stack([a @ part for part in weights])
    return np.stack([part @ w for part, w in zip(a, weights, strict=True)])
