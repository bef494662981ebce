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

from .constants import EPS, ONE

__all__ = [
    "Layer", "Tape", "Units", "backward", "draw_prior", "forget", "forward", "matmul", "with_values"
]  # fmt: skip

# Parameters that are updated at a time: their means, variances and changes stay in cache.
BLOCK_PARAMETERS = 1 << 17


class Layer(NamedTuple):
    """Parameters of a layer, shape (..., n_in + 1, n_out); the last row is the bias."""

    mu: np.ndarray
    var: np.ndarray
    var_prior: np.ndarray  # (n_in + 1, 1): S_0 of the forgetting rule


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
        mu = np.empty((len(rngs), n_in + 1, n_out), dtype)
        std = np.sqrt(var_prior)
        for rng, member in zip(rngs, mu, strict=True):
            np.multiply(rng.standard_normal(member.shape), std, out=member, casting="same_kind")
        var = np.broadcast_to(var_prior, mu.shape).astype(dtype, order="C")  # row by row
        layers.append(Layer(mu, var, var_prior.astype(dtype)))
    return layers


class Units:
    """What enters a layer and what leaves it: written by the forward pass, read by the backward.

    Arrays whose names end in ``_t`` have a row for each unit, (..., units, rows). So they lie in
    memory: the units without that of the bias are one piece, and BLAS is quicker. The others are
    views of them, (..., rows, units).
    """

    mu_a: Any  # (..., rows, n_in + 1), last column ones
    sq_a: Any  # mu_a squared
    var_a: Any = None  # (..., rows, n_in), None for exact inputs
    mu_z: np.ndarray  # (..., rows, n_out)
    var_z: np.ndarray
    from_var: np.ndarray  # the part of var_z that var_a and W bring; not in the first layer
    sq_w: Any = None  # squared means of the parameters, (..., n_in + 1, n_out); not in the first
    mu_a_t: Any
    sq_a_t: Any
    second_t: np.ndarray  # mu_a^2 + var_a
    var_a_t: np.ndarray
    jac_t: Any = None  # None in the first layer
    mu_z_t: np.ndarray
    var_z_t: np.ndarray
    from_var_t: np.ndarray
    nu: np.ndarray  # the message to the layer below, (..., rows, n_in)
    kappa: np.ndarray
    nu_t: np.ndarray
    kappa_t: np.ndarray
    inner_mu_t: np.ndarray  # without the unit of the bias
    inner_sq_t: np.ndarray
    inner_second_t: np.ndarray
    # Of the parameters: without the bias, and transposed
    weights: np.ndarray
    inner_sq_w: np.ndarray
    inner_sq_w_t: np.ndarray
    mu_t: np.ndarray
    var_t: np.ndarray
    over_outputs: Callable  # the product of parameters with a message
    d_mu: Any = None  # changes of a block of parameters
    d_var: Any = None


class Tape:
    """The units of some layers for batches of some number of rows: arrays to be used again.

    ``squares`` are the squared means of the parameters, kept up to date by the backward pass;
    tapes for the same layers share them.
    """

    def __init__(self, layers: Sequence[Layer], lead: tuple, n_rows: int, squares=None):
        dtype = layers[0].mu.dtype
        if squares is None:
            squares = [None, *(np.square(layer.mu) for layer in layers[1:])]
        self.squares = squares
        self.n_rows = n_rows
        # Parameters of the largest layer; of sparse rows, those of the first batch's features.
        self.largest = max(layer.mu.shape[-2] * layer.mu.shape[-1] for layer in layers)
        # The quickest functions for small matrices. Only matmul takes stacks of them, and is slow
        # where a column is multiplied by a row: where there is one row, or one output.
        stacked = layers[0].mu.ndim > 2
        self.product: Callable = np.matmul if stacked else np.ndarray.dot
        self.over_rows: Callable = np.multiply if stacked and n_rows == 1 else self.product
        self.units: list[Units] = []
        for layer, sq_w in zip(layers, squares, strict=True):
            n_in, n_out = layer.mu.shape[-2] - 1, layer.mu.shape[-1]
            units = Units()
            leaving = np.empty((2, *lead, n_out, n_rows), dtype)
            units.mu_z_t, units.var_z_t = leaving
            units.mu_z, units.var_z = leaving.swapaxes(-1, -2)
            units.mu_t, units.var_t = layer.mu.swapaxes(-1, -2), layer.var.swapaxes(-1, -2)
            if sq_w is not None:
                entering = np.ones((3, *lead, n_in + 1, n_rows), dtype)
                units.mu_a_t, units.sq_a_t, units.second_t = entering
                units.mu_a, units.sq_a, _ = entering.swapaxes(-1, -2)
                inner = entering[..., :-1, :]
                units.inner_mu_t, units.inner_sq_t, units.inner_second_t = inner
                units.var_a_t, units.jac_t = np.empty((2, *lead, n_in, n_rows), dtype)
                units.var_a = units.var_a_t.swapaxes(-1, -2)
                message = np.empty((2, *lead, n_in, n_rows), dtype)
                units.nu_t, units.kappa_t = message
                units.nu, units.kappa = message.swapaxes(-1, -2)
                units.from_var_t = np.empty_like(units.var_z_t)
                units.from_var = units.from_var_t.swapaxes(-1, -2)
                units.sq_w = sq_w
                units.inner_sq_w = sq_w[..., :-1, :]
                units.inner_sq_w_t = units.inner_sq_w.swapaxes(-1, -2)
                units.weights = layer.mu[..., :-1, :]
                units.over_outputs = np.multiply if stacked and n_out == 1 else self.product
            self.units.append(units)
        self._arrays: dict[str, np.ndarray] = {}
        self.message = tuple(self.like_outputs("message", 3))

    def array(self, name: str, shape: tuple) -> np.ndarray:
        """An array for some purpose, of the parameters' type, whose values are to be written.

        The same each time as long as its shape is: a new one takes longer to get than to fill.
        """
        kept = self._arrays.get(name)
        if kept is None or kept.shape != shape:
            kept = self._arrays[name] = np.empty(shape, self.units[0].mu_z_t.dtype)
        return kept

    def like_outputs(self, name: str, n_arrays: int) -> np.ndarray:
        """Some arrays at once like ``mu_z`` of the outputs, in memory by unit."""
        return self.array(name, (n_arrays, *self.units[-1].mu_z_t.shape)).swapaxes(-1, -2)


def forward(
    layers: Sequence[Layer], activation: Callable, x, var_x=None, tape: Tape | None = None
) -> tuple[np.ndarray, np.ndarray, Tape]:
    """Moments of the output layer, and what the backward pass needs.

    ``x`` has shape (..., rows, n_in + 1) with a last column of ones, or is a sparse matrix.
    ``var_x`` (..., rows, n_in) is the variance of uncertain inputs (Eq. 7). The moments are part
    of the tape: they last until it is used again.
    """
    if tape is None:
        lead = np.broadcast_shapes(layers[0].mu.shape[:-2], x.shape[:-2])
        tape = Tape(layers, lead, x.shape[-2])
    product = tape.product
    # Eq. 8-10: mu_z = mu_a W + b;  var_z = (mu_a^2 + var_a) S_W + var_a W^2 + S_b
    units = tape.units[0]
    units.mu_a, units.var_a = x, var_x
    if isinstance(x, np.ndarray):
        units.sq_a = np.square(x)
        units.mu_a_t, units.sq_a_t = x.swapaxes(-1, -2), units.sq_a.swapaxes(-1, -2)
        product(units.mu_t, units.mu_a_t, units.mu_z_t)
        product(units.var_t, units.sq_a_t, units.var_z_t)
    else:
        units.sq_a = with_values(x, np.square(x.data))
        units.mu_a_t, units.sq_a_t = x.T, units.sq_a.T
        units.mu_z[...] = matmul(x, layers[0].mu)
        units.var_z[...] = matmul(units.sq_a, layers[0].var)
    if var_x is not None:
        second = (np.square(layers[0].mu) + layers[0].var)[..., :-1, :]
        units.var_z += matmul(var_x, second)
    mu_z_t, var_z_t = units.mu_z_t, units.var_z_t
    for units in tape.units[1:]:
        activation(mu_z_t, var_z_t, units.inner_mu_t, units.var_a_t, units.jac_t)
        np.square(units.mu_a_t, out=units.sq_a_t)
        np.add(units.inner_sq_t, units.var_a_t, out=units.inner_second_t)
        mu_z_t = product(units.mu_t, units.mu_a_t, units.mu_z_t)
        var_z_t = product(units.var_t, units.second_t, units.var_z_t)
        var_z_t += product(units.inner_sq_w_t, units.var_a_t, units.from_var_t)
    return units.mu_z, units.var_z, tape


def backward(layers: Sequence[Layer], tape: Tape, nu, kappa, one_row=None, keep_next=None) -> None:
    """Update the parameters in place, from the output layer down (Eq. 15-16).

    ``nu`` and ``kappa`` are the output message: what an observation changes in the mean and in the
    variance of an output unit, divided by its prior variance and by the square of it. ``one_row``
    tells, for each network (..., 1, 1) or for all, whether a single row is observed. With
    ``keep_next`` the parameters then forget, for the batch to come.
    """
    if one_row is None:
        one_row = tape.n_rows == 1
    nu_t, kappa_t = nu.swapaxes(-1, -2), kappa.swapaxes(-1, -2)
    for layer, units in zip(reversed(layers), reversed(tape.units), strict=True):
        message = nu, kappa
        jac_t = units.jac_t
        if jac_t is not None:  # the message to the layer below, before the update
            nu_t = units.over_outputs(units.weights, nu_t, units.nu_t)
            kappa_t = units.over_outputs(units.inner_sq_w, kappa_t, units.kappa_t)
            nu_t *= jac_t
            kappa_t *= jac_t
            kappa_t *= jac_t
            nu, kappa = units.nu, units.kappa
        _update(layer, units, tape.over_rows, *message, one_row, keep_next)


def _update(layer: Layer, units: Units, product, nu, kappa, one_row, keep_next) -> None:
    """Eq. 16 for the parameters of a layer, a block of rows of the weight matrix at a time."""
    mu, var, var_prior = layer
    sq_w = units.sq_w
    mu_a, sq_a = units.mu_a_t, units.sq_a_t
    if not isinstance(mu_a, np.ndarray):
        d_mu, d_var = matmul(mu_a, nu), matmul(sq_a, kappa)
        _update_block(mu, var, var_prior, sq_w, d_mu, d_var, one_row, keep_next)
        return
    n_in = mu.shape[-2]
    if units.d_mu is None:
        step = n_in if mu.size <= BLOCK_PARAMETERS else max(1, BLOCK_PARAMETERS * n_in // mu.size)
        units.d_mu, units.d_var = np.empty((2, *mu.shape[:-2], step, mu.shape[-1]), mu.dtype)
    d_mu, d_var = units.d_mu, units.d_var
    step = d_mu.shape[-2]
    if step == n_in:
        product(mu_a, nu, d_mu)
        product(sq_a, kappa, d_var)
        _update_block(mu, var, var_prior, sq_w, d_mu, d_var, one_row, keep_next)
        return
    for start in range(0, n_in, step):
        rows = (..., slice(start, start + step), slice(None))
        here = (..., slice(0, min(step, n_in - start)), slice(None))
        product(mu_a[rows], nu, d_mu[here])
        product(sq_a[rows], kappa, d_var[here])
        _update_block(
            mu[rows], var[rows], var_prior[rows], None if sq_w is None else sq_w[rows],
            d_mu[here], d_var[here], one_row, keep_next,
        )  # fmt: skip


def _update_block(mu, var, var_prior, sq_w, d_mu, d_var, one_row, keep_next) -> None:
    d_mu *= var
    mu += d_mu
    d_var *= var  # F: the fraction of its variance that a parameter loses
    # One row, exact: S (1 - F). F < 1, but may round to 1, when 1 - F is below epsilon.
    # Several: S / (1 + F), the same to first order, which stays positive for any F.
    if one_row is False:
        d_var += ONE[d_var.dtype.char]
        var /= d_var
    else:
        several = 1 / (1 + d_var) if one_row is not True else None
        np.subtract(ONE[d_var.dtype.char], d_var, out=d_var)
        np.maximum(d_var, EPS[d_var.dtype.char], out=d_var)
        var *= d_var if several is None else np.where(one_row, d_var, several)
    if keep_next is not None:
        _forget(var, var_prior, keep_next, d_var)
    if sq_w is not None:
        np.square(mu, out=sq_w)


def forget(layers: Sequence[Layer], keep) -> None:
    """Let evidence fade, in place: 1/S <- (1 - keep) / S_0 + keep / S."""
    for layer in layers:
        _forget(layer.var, layer.var_prior, keep)


def _forget(var, var_prior, keep, work=None) -> None:
    shrink = np.multiply(var, (1 - keep) / var_prior, out=work)
    shrink += keep
    var /= shrink


def with_values(a, values: np.ndarray):
    """A sparse matrix with other values in the places of ``a``."""
    return sparse.csr_array((values, a.indices, a.indptr), shape=a.shape)


def matmul(a, w: np.ndarray) -> np.ndarray:
    """a @ w; a sparse ``a`` is shared by all networks."""
    if isinstance(a, np.ndarray) or w.ndim == 2:
        return a @ w
    return np.stack([a @ part for part in w])
