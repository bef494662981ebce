"""Forward pass (Eq. 8-12) and backward pass (Eq. 15-16) of networks with independent parameters.

Every array of units is (..., units, rows), as in the paper's z = W a: a column is a row of data.
Each ``mu_a`` ends with the unit of the bias, which is exactly 1. Squares are elementwise:

    mu_z = W' mu_a,   var_z = S' (mu_a^2 + var_a) + (W^2)' var_a                        (Eq. 8-10)
    nu <- J W nu,   kappa <- J^2 W^2 kappa                                                (Eq. 15)
    W += S (mu_a nu'),   S -= S^2 (mu_a^2 kappa')                                         (Eq. 16)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .activations import Activation
from .fast import EPS, ONE, product_over, transposed
from .posterior import Layer, forget
from .sparse import matmul, product, squared

__all__ = ["Tape", "Units", "backward", "forward"]

# Parameters that are updated at a time: their means, variances and changes stay in cache.
BLOCK_PARAMETERS = 1 << 17


class Units:
    """What enters a layer and what leaves it: written by the forward pass, read by the backward."""

    mu_a: Any  # (..., n_in + 1, rows): means, the last of them 1; sparse in the first layer
    sq_a: Any  # (..., n_in + 1, rows): mu_a squared
    second: np.ndarray  # (..., n_in + 1, rows): E[a^2] = mu_a^2 + var_a
    var_a: Any = None  # (..., n_in, rows): variances; None for exact inputs
    jac: Any = None  # (..., n_in, rows): J = cov(a, z) / var(z) of the units below; None: inputs
    mu_z: np.ndarray  # (..., n_out, rows): means
    var_z: np.ndarray  # (..., n_out, rows): variances
    from_var: np.ndarray  # (..., n_out, rows): the part of var_z that var_a brings
    sq_w: Any = None  # (..., n_in + 1, n_out): W^2; None in the first layer
    nu: np.ndarray  # (..., n_in, rows): message to the layer below
    kappa: np.ndarray  # (..., n_in, rows)
    d_mu: Any = None  # (..., n_in + 1 or fewer, n_out): changes of a block of parameters
    d_var: Any = None

    def __init__(
        self, layer: Layer, sq_w: np.ndarray | None, lead: tuple, n_rows: int, *, learning: bool
    ):
        n_in, n_out, dtype = layer.mu.shape[-2] - 1, layer.mu.shape[-1], layer.mu.dtype
        self.mu_z, self.var_z = np.empty((2, *lead, n_out, n_rows), dtype)
        if sq_w is None:
            return
        self.sq_w = sq_w
        self.from_var = np.empty_like(self.var_z)
        self.var_a, self.jac = np.empty((2, *lead, n_in, n_rows), dtype)
        if learning:
            self.mu_a, self.sq_a, self.second = np.ones((3, *lead, n_in + 1, n_rows), dtype)
            self.nu, self.kappa = np.empty((2, *lead, n_in, n_rows), dtype)
        else:  # nobody reads sq_a after second
            self.mu_a, self.second = np.ones((2, *lead, n_in + 1, n_rows), dtype)
            self.sq_a = self.second


class Tape:
    """The units of all layers for batches of ``n_rows``: arrays to be written again and again.

    ``squares`` are the squared means of the parameters, None for the first layer, which the
    backward pass keeps up to date. Without ``learning`` there is no backward pass.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        lead: tuple[int, ...],
        n_rows: int,
        squares: Sequence[np.ndarray | None] | None = None,
        *,
        learning: bool = True,
    ):
        if squares is None:
            squares = [None, *(np.square(layer.mu) for layer in layers[1:])]
        self.n_rows = n_rows
        self.stacked = layers[0].mu.ndim > 2
        # Parameters of the largest layer; of sparse rows, those of the first batch's features
        self.largest = max(layer.mu.shape[-2] * layer.mu.shape[-1] for layer in layers)
        self.units = [
            Units(layer, sq_w, lead, n_rows, learning=learning)
            for layer, sq_w in zip(layers, squares, strict=True)
        ]


def forward(
    layers: Sequence[Layer],
    activation: Activation,
    x: Any,
    var_x: Any = None,
    tape: Tape | None = None,
) -> tuple[np.ndarray, np.ndarray, Tape]:
    """Return mean and variance of the outputs, and what the backward pass needs.

    ``x`` (..., n_in + 1, rows) ends with ones; it may be sparse. ``var_x`` (..., n_in, rows or 1)
    is the variance of uncertain inputs (Eq. 7). The moments are arrays of the tape: they last
    until it is used again.
    """
    if tape is None:
        lead = np.broadcast_shapes(layers[0].mu.shape[:-2], x.shape[:-2])
        tape = Tape(layers, lead, x.shape[-1])
    dot = product_over(2, tape.stacked)
    u = tape.units[0]
    _enter(layers[0], u, x, var_x, dot)
    mu_z, var_z = u.mu_z, u.var_z
    for layer, u in zip(layers[1:], tape.units[1:], strict=True):
        activation(mu_z, var_z, u.mu_a[..., :-1, :], u.var_a, u.jac)  # Eq. 11-12
        np.square(u.mu_a, out=u.sq_a)
        np.add(u.sq_a[..., :-1, :], u.var_a, out=u.second[..., :-1, :])
        mu_z = dot(transposed(layer.mu), u.mu_a, u.mu_z)  # Eq. 8-9
        var_z = dot(transposed(layer.var), u.second, u.var_z)  # Eq. 10
        var_z += dot(transposed(u.sq_w[..., :-1, :]), u.var_a, u.from_var)
    return mu_z, var_z, tape


def _enter(layer: Layer, u: Units, x: Any, var_x: Any, dot: Any) -> None:
    """Eq. 8-10 for the first layer, whose units are the inputs."""
    u.mu_a, u.sq_a, u.var_a = x, squared(x), var_x
    if isinstance(x, np.ndarray):
        dot(transposed(layer.mu), u.mu_a, u.mu_z)
        dot(transposed(layer.var), u.sq_a, u.var_z)
    else:
        u.mu_z[...] = product(layer.mu, u.mu_a)
        u.var_z[...] = product(layer.var, u.sq_a)
    if var_x is not None:
        u.var_z += product((np.square(layer.mu) + layer.var)[..., :-1, :], var_x)


def backward(
    layers: Sequence[Layer],
    tape: Tape,
    nu: np.ndarray,
    kappa: np.ndarray,
    one_row: bool | np.ndarray | None = None,
    retained_next: np.ndarray | None = None,
) -> None:
    """Update the parameters in place, from the output layer down (Eq. 15-16).

    ``nu`` and ``kappa`` (..., n_outputs, rows) are the output message: what an observation changes
    in the mean and in the variance of an output, divided by its prior variance and by the square
    of it. ``one_row`` tells, for each network (..., 1, 1) or for all, whether a single row is
    observed. With ``retained_next`` the parameters then forget, for the batch to come.
    """
    if one_row is None:
        one_row = tape.n_rows == 1
    over_rows = product_over(tape.n_rows, tape.stacked)
    for layer, u in zip(reversed(layers), reversed(tape.units), strict=True):
        message = nu, kappa
        if u.jac is not None:  # the message to the layer below, before the update
            over_outputs = product_over(nu.shape[-2], tape.stacked)
            nu = over_outputs(layer.mu[..., :-1, :], nu, u.nu)  # Eq. 15
            kappa = over_outputs(u.sq_w[..., :-1, :], kappa, u.kappa)
            nu *= u.jac
            kappa *= u.jac
            kappa *= u.jac
        _update(layer, u, *message, over_rows, one_row, retained_next)


def _update(
    layer: Layer,
    u: Units,
    nu: np.ndarray,
    kappa: np.ndarray,
    over_rows: Any,
    one_row: bool | np.ndarray,
    retained_next: np.ndarray | None,
) -> None:
    """Eq. 16 for the parameters of a layer, a block of rows of the weight matrix at a time."""
    nu, kappa = transposed(nu), transposed(kappa)
    if not isinstance(u.mu_a, np.ndarray):
        d_mu, d_var = matmul(u.mu_a, nu), matmul(u.sq_a, kappa)
        _update_block(layer, u.sq_w, d_mu, d_var, one_row, retained_next)
        return
    n_in, n_out = layer.mu.shape[-2:]
    if u.d_mu is None:
        size = layer.mu.size
        step = n_in if size <= BLOCK_PARAMETERS else max(1, BLOCK_PARAMETERS * n_in // size)
        u.d_mu, u.d_var = np.empty((2, *layer.mu.shape[:-2], step, n_out), layer.mu.dtype)
    step = u.d_mu.shape[-2]
    if step == n_in:  # slices of everything would take 2 % of a small fit
        over_rows(u.mu_a, nu, u.d_mu)
        over_rows(u.sq_a, kappa, u.d_var)
        _update_block(layer, u.sq_w, u.d_mu, u.d_var, one_row, retained_next)
        return
    for start in range(0, n_in, step):
        block = (..., slice(start, start + step), slice(None))
        here = (..., slice(0, min(step, n_in - start)), slice(None))
        over_rows(u.mu_a[block], nu, u.d_mu[here])
        over_rows(u.sq_a[block], kappa, u.d_var[here])
        _update_block(
            Layer(layer.mu[block], layer.var[block], layer.var_prior[block]),
            None if u.sq_w is None else u.sq_w[block],
            u.d_mu[here], u.d_var[here], one_row, retained_next,
        )  # fmt: skip


def _update_block(
    layer: Layer,
    sq_w: np.ndarray | None,
    d_mu: np.ndarray,
    d_var: np.ndarray,
    one_row: bool | np.ndarray,
    retained_next: np.ndarray | None,
) -> None:
    """Add the changes of some parameters; ``d_mu`` and ``d_var`` hold mu_a nu' and sq_a kappa'."""
    mu, var = layer.mu, layer.var
    d_mu *= var
    mu += d_mu
    d_var *= var  # F: the share of its variance that a parameter loses
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
    if retained_next is not None:
        forget(var, layer.var_prior, retained_next, d_var)
    if sq_w is not None:
        np.square(mu, out=sq_w)
