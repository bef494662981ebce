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

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .activations import Activation, activate
from .fast import transposed
from .posterior import Layer
from .sparse import product, squared

__all__ = ["InputErrors", "forward_uncertain"]


class InputErrors(NamedTuple):
    """Errors of uncertain inputs, independent from row to row; one row may stand for all."""

    # (n or 1, n_in): variances, dense or CSR; or (n or 1, n_in, n_in): covariances
    values: Any

    @property
    def are_covariances(self) -> bool:
        """Whether the errors of a row are correlated."""
        return self.values.ndim == 3

    @property
    def is_shared(self) -> bool:
        """Whether one row stands for all."""
        return self.values.shape[0] == 1

    @property
    def rank(self) -> int:
        """The rank that the covariance of a row's errors may have, at least 1."""
        if sparse.issparse(self.values):
            return max(1, int(np.diff(self.values.indptr).max(initial=0)))
        return self.values.shape[-1]

    def take(self, rows: Any) -> InputErrors:
        """Return the errors of some rows: numbers (..., n), a mask or a slice."""
        if self.is_shared:
            return self
        return InputErrors(self.values[rows])

    def scaled(self, scale: np.ndarray, dtype: np.typing.DTypeLike) -> InputErrors:
        """Return the errors of inputs that are divided by ``scale`` (n_in,)."""
        with np.errstate(over="ignore"):
            if sparse.issparse(self.values):
                values = self.values.multiply(1 / np.square(scale)).tocsr().astype(dtype)
            elif self.are_covariances:
                values = (self.values / scale[:, None] / scale).astype(dtype)
            else:
                values = (self.values / scale / scale).astype(dtype)
        return InputErrors(values)

    def times(self, slope: np.ndarray) -> InputErrors:
        """Return the errors of functions of the inputs that have these slopes (n, n_in)."""
        if self.are_covariances:
            return InputErrors(self.values * slope[:, :, None] * slope[:, None, :])
        return InputErrors(self.to_dense().values * np.square(slope))

    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        values = self.values.data if sparse.issparse(self.values) else self.values
        return bool(np.isfinite(values).all())

    def to_dense(self) -> InputErrors:
        """Return the errors as an array."""
        return InputErrors(self.values.toarray()) if sparse.issparse(self.values) else self

    def covariances(self) -> np.ndarray:
        """Return float64 covariance matrices (n or 1, n_in, n_in)."""
        values = self.to_dense().values.astype(np.float64)
        return values if values.ndim == 3 else values[:, :, None] * np.eye(values.shape[1])


def forward_uncertain(
    layers: Sequence[Layer],
    activation: Activation,
    x: Any,
    errors: InputErrors,
    jacobian: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the outputs, (members, n_out, rows).

    ``x`` is dense (n_in + 1, rows) or sparse (rows, n_in + 1). F is (members, rank, n, rows) for a
    layer of n units. Where x is encoded, ``jacobian`` (rows or 1, n_given, n_in) are its
    derivatives by the inputs that the errors belong to.
    """
    first = layers[0]
    weights = first.mu[..., :-1, :]
    if jacobian is None:
        var_x, factor = _first_factor(errors, weights)
    else:
        var_x, factor = _encoded_factor(errors, jacobian, weights)
    mu_z = product(first.mu, x)
    # Errors of inputs and of weights are independent: E[a^2] S, and what the factor carries
    var_z = product(first.var, squared(x)) + product(first.var[..., :-1, :], var_x)
    var_z = var_z + np.square(factor).sum(axis=-3)
    for layer in layers[1:]:
        mu_a, var_a, jac = activate(activation, mu_z, var_z)
        factor = factor * jac[..., None, :, :]
        rest = np.maximum(var_a - np.square(factor).sum(axis=-3), 0)
        weights, bias = layer.mu[..., :-1, :], layer.mu[..., -1, :, None]
        var_w, var_b = layer.var[..., :-1, :], layer.var[..., -1, :, None]
        factor = transposed(weights)[..., None, :, :] @ factor
        mu_z = product(weights, mu_a) + bias
        var_z = product(var_w, np.square(mu_a) + var_a) + product(np.square(weights), rest) + var_b
        var_z += np.square(factor).sum(axis=-3)
    return mu_z, var_z


def _first_factor(errors: InputErrors, weights: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return variances of the inputs, and F = Sigma_X^(1/2) W, (members, rank, n_out, rows)."""
    values = errors.values
    if sparse.issparse(values):
        columns, entries = _entries(values)  # (rows, rank)
        of_rows = weights[..., columns, :]  # (members, rows, rank, n_out)
        factor = np.sqrt(entries)[..., None] * of_rows
        return values, np.moveaxis(factor, -3, -1)
    if not errors.are_covariances:
        return values.T, weights[..., None] * np.sqrt(values.T)[:, None, :]
    root = _roots(values)  # (rows, rank, n_in)
    factor = root.astype(weights.dtype) @ weights[..., None, :, :]
    return np.einsum("rkk->kr", values), np.moveaxis(factor, -3, -1)


def _encoded_factor(
    errors: InputErrors, jacobian: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``_first_factor`` does, for inputs that are encoded."""
    values = errors.to_dense().values
    if errors.are_covariances:
        root = _roots(values).astype(weights.dtype) @ jacobian  # (rows, rank, n_in)
    else:
        root = np.sqrt(values)[:, :, None] * jacobian
    factor = root @ weights[..., None, :, :]
    return np.square(root).sum(axis=1).T, np.moveaxis(factor, -3, -1)


def _roots(cov: np.ndarray) -> np.ndarray:
    """Return R with R' R = cov for covariances (rows, n, n)."""
    roots, vectors = np.linalg.eigh(cov.astype(np.float64))
    return np.sqrt(np.maximum(roots, 0))[..., None] * transposed(vectors)


def _entries(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return columns and values of the entries of each row of a CSR matrix, filled with zeros."""
    count = np.diff(values.indptr)
    there = np.arange(count.max(initial=0)) < count[:, None]
    columns = np.zeros(there.shape, dtype=values.indices.dtype)
    entries = np.zeros(there.shape, dtype=values.dtype)
    columns[there], entries[there] = values.indices, values.data
    return columns, entries
