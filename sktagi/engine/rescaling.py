"""Change the units of inputs and outputs, not the function that a network has learned.

Standardised inputs x = (X - m) / s and targets y = (Y - m) / s get other units when the running
statistics m and s do. The first and the last layer absorb the change: to rounding, the mean
function of X stays the same. Variances are those of the evidence in the new units, beside a prior
that stays as it was: precision 1/S = 1/S_0 + E, and a weight that is multiplied by r has E / r^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .fast import ONE, ZERO

__all__ = ["Change", "rescale_inputs", "rescale_outputs", "transform_full"]


class Change(NamedTuple):
    """Old units in terms of new ones: x_old = ratio * x_new + shift, for each column."""

    ratio: np.ndarray
    shift: np.ndarray

    @property
    def is_none(self) -> bool:
        """Whether the units stay what they are."""
        # Quicker than all and any.
        return not (np.count_nonzero(self.ratio != 1) or np.count_nonzero(self.shift))

    def then(self, other: Change) -> Change:
        """Return both changes, one after the other, as one."""
        return Change(self.ratio * other.ratio, self.ratio * other.shift + self.shift)

    def old_inputs(self, x: np.ndarray) -> np.ndarray:
        """Return inputs (rows, n_in + 1) in the old units; they end with a column of ones."""
        old = x.astype(np.float64)
        old[:, :-1] *= self.ratio
        old[:, :-1] += self.shift
        return old

    def applied(self, weights: np.ndarray) -> np.ndarray:
        """Return weights (..., n_in + 1, n_out) that say the same of inputs in new units."""
        new = weights.astype(np.float64)
        new[..., -1, :] += self.shift @ new[..., :-1, :]
        new[..., :-1, :] *= self.ratio[:, None]
        return new.astype(weights.dtype)


def rescale_inputs(mu: np.ndarray, var: np.ndarray, var_prior: np.ndarray, change: Change) -> None:
    """Change a layer in place, for inputs in new units.

    W x_old + b = (W ratio) x_new + (b + W shift).
    """
    weights, var_w = mu[:, :-1], var[:, :-1]
    mu[:, -1] += change.shift @ weights
    # W and b become correlated, which independent entries cannot say: b keeps its own variance.
    var[:, -1] += np.square(change.shift) @ var_w
    ratio = change.ratio[:, None]
    weights *= ratio
    _evidence_in_new_units(var_w, var_prior[:-1], ratio)


def rescale_outputs(mu: np.ndarray, var: np.ndarray, var_prior: np.ndarray, change: Change) -> None:
    """Change a layer in place, for targets in new units: y_new = (y_old - shift) / ratio."""
    bias = mu[:, -1] - change.shift
    mu /= change.ratio
    mu[:, -1] = bias / change.ratio
    _evidence_in_new_units(var, var_prior, ONE["d"] / change.ratio)


def transform_full(mu: np.ndarray, cov: np.ndarray, matrix: np.ndarray, scale: np.ndarray) -> None:
    """Set theta <- matrix theta scale, in place, with its covariance.

    This is exact, and the prior's part changes too.
    """
    n_members, n_in, n_out = mu.shape
    mu[...] = matrix @ mu.astype(np.float64) * scale
    for member in range(n_members):
        # Rows and columns of the covariance are parameters: of unit k to output o, k first.
        new = (matrix @ cov[member].reshape(n_in, -1)).reshape(n_in, n_out, n_in, n_out)
        new = np.einsum("kl,aolp->aokp", matrix, new) * scale[:, None, None] * scale
        new = new.reshape(cov[member].shape)
        cov[member] = (new + new.T) / 2


def _evidence_in_new_units(var: np.ndarray, var_prior: np.ndarray, ratio: np.ndarray) -> None:
    """Change variances of weights that are multiplied by ``ratio``, in place.

    1/S + E (1/r^2 - 1) with E = 1/S - 1/S_0, none of which is below zero; without evidence, S_0.
    """
    growth = np.multiply(var, -1 / var_prior.astype(np.float64))
    growth += ONE["d"]
    np.maximum(growth, ZERO["d"], out=growth)  # E as a share of 1/S
    growth *= ONE["d"] / np.square(ratio) - ONE["d"]
    growth += ONE["d"]
    var /= growth
