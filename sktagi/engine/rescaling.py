"""Change the units of inputs and outputs without changing the function that a network has learnt.

Standardised inputs x = (X - m) / s and targets y = (Y - m) / s get other units when the running
statistics m and s do. The first and the last layer absorb the change: to rounding, the mean
function of X stays the same. Variances are those of the evidence in the new units, beside a prior
that stays as it was: precision 1/S = 1/S_0 + E, and a weight that is multiplied by r has E / r^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .constants import ONE, ZERO
from .full import FullLayer
from .network import Layer

__all__ = ["Change", "rescale_inputs", "rescale_outputs"]


class Change(NamedTuple):
    """Old units in terms of new ones: x_old = ratio * x_new + shift, for each column."""

    ratio: np.ndarray
    shift: np.ndarray

    @property
    def is_none(self) -> bool:
        return bool((self.ratio == 1).all() and (self.shift == 0).all())


def rescale_inputs(layer: Layer | FullLayer, change: Change) -> None:
    """In place, for inputs in new units: W x_old + b = (W ratio) x_new + (b + W shift)."""
    if isinstance(layer, FullLayer):
        matrix = np.diag(np.append(change.ratio, 1.0))
        matrix[-1, :-1] = change.shift
        _transform_full(layer, matrix, np.ones(layer.mu.shape[-1]))
        return
    weights, var_w = layer.mu[:, :-1], layer.var[:, :-1]
    layer.mu[:, -1] += change.shift @ weights
    # W and b become correlated, which independent entries cannot say: b keeps its own variance.
    layer.var[:, -1] += np.square(change.shift) @ var_w
    ratio = change.ratio[:, None]
    np.multiply(weights, ratio, out=weights, casting="same_kind")
    _evidence_in_new_units(var_w, layer.var_prior[:-1], ratio)


def rescale_outputs(layer: Layer | FullLayer, change: Change) -> None:
    """In place, for targets in new units: y_new = (y_old - shift) / ratio."""
    if isinstance(layer, FullLayer):
        layer.mu[:, -1] -= change.shift
        _transform_full(layer, np.eye(layer.mu.shape[-2]), 1 / change.ratio)
        return
    bias = layer.mu[:, -1] - change.shift
    np.divide(layer.mu, change.ratio, out=layer.mu, casting="same_kind")
    layer.mu[:, -1] = bias / change.ratio
    _evidence_in_new_units(layer.var, layer.var_prior, 1 / change.ratio)


def _transform_full(layer: FullLayer, matrix: np.ndarray, scale: np.ndarray) -> None:
    """theta <- matrix theta scale, in place, with its covariance: exact, the prior's part too."""
    n_members, n_in, n_out = layer.mu.shape
    layer.mu[...] = matrix @ layer.mu.astype(np.float64) * scale
    for member in range(n_members):
        # Rows and columns of the covariance are parameters: of unit k to output o, k first.
        cov = layer.cov[member].reshape(n_in, -1)
        cov = (matrix @ cov).reshape(n_in, n_out, n_in, n_out)
        cov = np.einsum("kl,aolp->aokp", matrix, cov) * scale[:, None, None] * scale
        cov = cov.reshape(layer.cov[member].shape)
        layer.cov[member] = (cov + cov.T) / 2


def _evidence_in_new_units(var, var_prior, ratio) -> None:
    """Variances of weights that are multiplied by ``ratio``, in place.

    1/S + E (1/r^2 - 1) with E = 1/S - 1/S_0, none of which is below zero; without evidence, S_0.
    """
    growth = np.multiply(var, -1 / var_prior.astype(np.float64))
    growth += ONE["d"]
    np.maximum(growth, ZERO["d"], out=growth)  # E as a share of 1/S
    growth *= 1 / np.square(ratio) - 1
    growth += ONE["d"]
    np.divide(var, growth, out=var, casting="same_kind")
