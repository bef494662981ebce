"""Prior, forward pass (Eq. 8-12) and backward pass (Eq. 15-16) of a feedforward network.

A layer's parameters are one Gaussian matrix with independent entries; its last row is the bias,
the weight of a unit whose value is exactly 1. So the equations for weights serve biases too, and
every ``mu_a`` below carries a last column of ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Layer", "Units", "backward", "copy_layers", "draw_prior", "forget", "forward"]


class Layer(NamedTuple):
    """Parameters of a layer, shape (..., n_in + 1, n_out); the last row is the bias."""

    mu: np.ndarray
    var: np.ndarray
    var_prior: np.ndarray  # (n_in + 1, 1): S_0 of the forgetting rule


class Units(NamedTuple):
    """What enters a layer, kept by the forward pass for the backward pass."""

    mu_a: Any  # (..., rows, n_in + 1)
    sq_a: Any  # mu_a squared
    var_a: Any  # (..., rows, n_in), None for exact inputs
    jac: np.ndarray | None  # None in the first layer
    sq_w: np.ndarray | None  # squared weight means, where var_a made them necessary


def draw_prior(
    sizes: Sequence[int],
    rngs: Iterable,
    *,
    weight_gain: float = 1.0,
    bias_variance: float = 0.01,
    dtype=np.float64,
) -> list[Layer]:
    """Xavier prior with sampled means (paper, section 4): one network for each of ``rngs``.

    ``weight_gain`` multiplies the Xavier variance 2 / (n_in + n_out).
    """
    rngs = list(rngs)
    layers = []
    for n_in, n_out in pairwise(sizes):
        var_prior = np.full((n_in + 1, 1), weight_gain * 2.0 / (n_in + n_out))
        var_prior[-1] = bias_variance
        draws = np.stack([rng.standard_normal((n_in + 1, n_out)) for rng in rngs])
        mu = (draws * np.sqrt(var_prior)).astype(dtype)
        var = np.broadcast_to(var_prior, mu.shape).astype(dtype, order="C")  # as a copy has
        layers.append(Layer(mu, var, var_prior.astype(dtype)))
    return layers


def copy_layers(layers: Sequence[Layer]) -> list[Layer]:
    return [Layer(layer.mu.copy(), layer.var.copy(), layer.var_prior) for layer in layers]


def forward(
    layers: Sequence[Layer], activation: Callable, x, var_x=None
) -> tuple[np.ndarray, np.ndarray, list[Units]]:
    """Moments of the output layer, and what the backward pass needs.

    ``x`` has shape (..., rows, n_in + 1) with a last column of ones, or is a sparse matrix, or a
    sequence of sparse matrices, one for each network. ``var_x`` (..., rows, n_in) is the variance
    of uncertain inputs (Eq. 7).
    """
    mu_a, var_a, jac = x, var_x, None
    mu_z = var_z = np.empty(0)
    tape: list[Units] = []
    for layer in layers:
        if tape:
            mu_a, var_a, jac = activation(mu_z, var_z)
            mu_a = _with_unit(mu_a)
        sq_a = _square(mu_a)
        # Eq. 8-10: mu_z = mu_a W + b;  var_z = (mu_a^2 + var_a) S_W + var_a W^2 + S_b
        mu_z = _matmul(mu_a, layer.mu)
        var_z = _matmul(sq_a, layer.var)
        sq_w = None
        if var_a is not None:
            sq_w = np.square(layer.mu[..., :-1, :])
            var_z = var_z + _matmul(var_a, sq_w + layer.var[..., :-1, :])
        tape.append(Units(mu_a, sq_a, var_a, jac, sq_w))
    return mu_z, var_z, tape


def backward(layers: Sequence[Layer], tape: Sequence[Units], nu, kappa, one_row=None) -> None:
    """Update the parameters in place, from the output layer down (Eq. 15-16).

    ``nu`` and ``kappa`` are the output message: what an observation changes in the mean and in the
    variance of an output unit, divided by its prior variance and by the square of it. ``one_row``
    tells, for each network (..., 1, 1) or for all, whether a single row is observed.
    """
    if one_row is None:
        one_row = nu.shape[-2] == 1
    for layer, units in zip(reversed(layers), reversed(tape), strict=True):
        d_mu = _matmul_transposed(units.mu_a, nu)
        d_var = _matmul_transposed(units.sq_a, kappa)
        if units.jac is not None:  # the message to the layer below, before the update
            weights = layer.mu[..., :-1, :]
            nu = units.jac * (nu @ weights.swapaxes(-1, -2))
            kappa = np.square(units.jac) * (kappa @ units.sq_w.swapaxes(-1, -2))
        d_mu *= layer.var
        d_var *= layer.var  # F: the fraction of its variance that a parameter loses
        np.add(layer.mu, d_mu, out=layer.mu)
        # One row, exact: S (1 - F). F < 1, but may round to 1, when 1 - F is below epsilon.
        # Several: S / (1 + F), the same to first order, which stays positive for any F.
        if np.any(one_row):
            exact = np.maximum(1 - d_var, np.finfo(d_var.dtype).eps)
            d_var = exact if np.all(one_row) else np.where(one_row, exact, 1 / (1 + d_var))
            np.multiply(layer.var, d_var, out=layer.var)
        else:
            d_var += 1
            np.divide(layer.var, d_var, out=layer.var)


def forget(layers: Sequence[Layer], keep) -> None:
    """Let evidence fade, in place: 1/S <- (1 - keep) / S_0 + keep / S."""
    for layer in layers:
        shrink = layer.var * ((1 - keep) / layer.var_prior)
        shrink += keep
        np.divide(layer.var, shrink, out=layer.var)


def _with_unit(mu_a: np.ndarray) -> np.ndarray:
    out = np.empty((*mu_a.shape[:-1], mu_a.shape[-1] + 1), dtype=mu_a.dtype)
    out[..., :-1] = mu_a
    out[..., -1] = 1
    return out


def _square(a):
    if isinstance(a, np.ndarray):
        return np.square(a)
    if sparse.issparse(a):
        return a.multiply(a).tocsr()
    return [_square(part) for part in a]


def _matmul(a, w: np.ndarray) -> np.ndarray:
    """a @ w, where ``a`` may be sparse: shared by all networks, or a list with one for each."""
    if isinstance(a, np.ndarray):
        return a @ w
    if sparse.issparse(a):
        if w.ndim == 2:
            return a @ w
        a = [a] * len(w)
    return np.stack([part @ part_w for part, part_w in zip(a, w, strict=True)])


def _matmul_transposed(a, message: np.ndarray) -> np.ndarray:
    """a' @ message, with the same kinds of ``a``."""
    if isinstance(a, np.ndarray):
        return a.swapaxes(-1, -2) @ message
    if sparse.issparse(a):
        if message.ndim == 2:
            return a.T @ message
        a = [a] * len(message)
    return np.stack([part.T @ part_m for part, part_m in zip(a, message, strict=True)])
