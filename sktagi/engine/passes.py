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
from .sparse import outer, product, squared

__all__ = ["Tape", "Units", "Weights", "backward", "forward"]

# Parameters that are updated at a time: their means, variances and changes stay in cache.
BLOCK_PARAMETERS = 1 << 17
MOST_SPARE = 8
SPARE_PARAMETERS = 1 << 16  # of all members, in the largest layer

# Tapes of small networks that nobody uses: streams would make new ones for every row.
_SPARE: dict[Any, Tape] = {}


class Weights:
    """Views of a layer's parameters as its passes need them, made once."""

    def __init__(self, layer: Layer, *, is_first: bool):
        self.mu_t, self.var_t = transposed(layer.mu), transposed(layer.var)
        self.inner = layer.mu[..., :-1, :]  # without the bias
        self.sq: np.ndarray | None = None  # W^2, kept up to date by the backward pass
        if not is_first:
            self.sq = np.square(layer.mu)
            self.sq_inner = self.sq[..., :-1, :]
            self.sq_inner_t = transposed(self.sq_inner)
        self.over_outputs = product_over(layer.mu.shape[-1], layer.mu.ndim > 2)

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> list[Weights]:
        """Return the views of all layers."""
        return [cls(layer, is_first=number == 0) for number, layer in enumerate(layers)]


class Units:
    """What enters a layer and what leaves it: written by the forward pass, read by the backward."""

    mu_a: Any  # (..., n_in + 1, rows): means, the last of them 1; sparse inputs: (rows, n_in + 1)
    sq_a: Any  # (..., n_in + 1, rows): mu_a squared
    second: np.ndarray  # (..., n_in + 1, rows): E[a^2] = mu_a^2 + var_a
    inner: tuple[np.ndarray, ...]  # (..., n_in, rows): these three without the unit of the bias
    var_a: Any = None  # (..., n_in, rows): variances; None for exact inputs
    jac: Any = None  # (..., n_in, rows): J = cov(a, z) / var(z) of the units below; None: inputs
    mu_z: np.ndarray  # (..., n_out, rows): means
    var_z: np.ndarray  # (..., n_out, rows): variances
    from_var: np.ndarray  # (..., n_out, rows): the part of var_z that var_a brings
    nu: np.ndarray  # (..., n_in, rows): message to the layer below
    kappa: np.ndarray  # (..., n_in, rows)
    d_mu: Any = None  # (..., n_in + 1 or fewer, n_out): changes of a block of parameters
    d_var: Any = None

    def __init__(
        self, layer: Layer, lead: tuple[int, ...], n_rows: int, *, is_first: bool, learning: bool
    ):
        n_in, n_out, dtype = layer.mu.shape[-2] - 1, layer.mu.shape[-1], layer.mu.dtype
        self.mu_z, self.var_z = np.empty((2, *lead, n_out, n_rows), dtype)
        if is_first:
            return
        self.from_var = np.empty_like(self.var_z)
        self.var_a, self.jac = np.empty((2, *lead, n_in, n_rows), dtype)
        if learning:
            self.mu_a, self.sq_a, self.second = np.ones((3, *lead, n_in + 1, n_rows), dtype)
            self.nu, self.kappa = np.empty((2, *lead, n_in, n_rows), dtype)
        else:  # nobody reads sq_a after second
            self.mu_a, self.second = np.ones((2, *lead, n_in + 1, n_rows), dtype)
            self.sq_a = self.second
        three = self.mu_a, self.sq_a, self.second
        self.inner = tuple(values[..., :-1, :] for values in three)


class Tape:
    """The units of all layers for batches of ``n_rows``: arrays to be written again and again.

    Tapes of the same layers may share their ``weights``. Without ``learning`` there is no backward
    pass.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        lead: tuple[int, ...],
        n_rows: int,
        weights: Sequence[Weights] | None = None,
        *,
        learning: bool = True,
    ):
        self.n_rows = n_rows
        self._key: Any = None  # under which it waits for the next row
        self.units = [
            Units(layer, lead, n_rows, is_first=number == 0, learning=learning)
            for number, layer in enumerate(layers)
        ]
        self._set_weights(Weights.of(layers) if weights is None else weights)
        stacked = layers[0].mu.ndim > 2
        self.dot, self.over_rows = product_over(2, stacked), product_over(n_rows, stacked)
        if learning:  # memory for the message to the outputs
            self.message = tuple(np.empty((3, *self.units[-1].mu_z.shape), layers[0].mu.dtype))
        # Parameters of the largest layer; of sparse rows, those of the first batch's features
        self.largest = max(layer.mu.shape[-2] * layer.mu.shape[-1] for layer in layers)

    def _set_weights(self, weights: Sequence[Weights]) -> None:
        self.weights = weights
        self.downwards = list(zip(reversed(weights), reversed(self.units), strict=True))
        self.upwards = self.downwards[-2::-1]  # from the first hidden layer on

    @classmethod
    def for_one_row(
        cls, layers: Sequence[Layer], lead: tuple[int, ...], *, learning: bool = True
    ) -> Tape:
        """Return a tape for a single row, maybe one that was left: who takes it has it alone."""
        key = (learning, lead, layers[0].mu.dtype.char, *(layer.mu.shape for layer in layers))
        tape = _SPARE.pop(key, None)
        if tape is None:
            tape = cls(layers, lead, 1, learning=learning)
            if max(layer.mu.size for layer in layers) <= SPARE_PARAMETERS:
                tape._key = key
        else:
            tape._set_weights(Weights.of(layers))
        return tape

    def leave(self) -> None:
        """Let a tape for a single row wait for the next one, without what is not its own."""
        if self._key is None:
            return
        self.weights, self.downwards, self.upwards = [], [], []
        inputs = self.units[0]
        inputs.mu_a = inputs.var_a = inputs.sq_a = None
        if len(_SPARE) == MOST_SPARE:
            _SPARE.clear()
        _SPARE[self._key] = self


def forward(
    layers: Sequence[Layer],
    activation: Activation,
    x: Any,
    var_x: Any = None,
    tape: Tape | None = None,
) -> tuple[np.ndarray, np.ndarray, Tape]:
    """Return mean and variance of the outputs, and what the backward pass needs.

    ``x`` is (..., n_in + 1, rows) and ends with ones, or sparse (rows, n_in + 1). ``var_x``
    (..., n_in, rows or 1), or sparse too, is the variance of uncertain inputs (Eq. 7). A ``tape``
    belongs to these layers; of sparse rows, the first layer may hold only the features that occur.
    The moments are arrays of the tape: they last until it is used again.
    """
    if tape is None:
        n_rows = x.shape[-1] if isinstance(x, np.ndarray) else x.shape[0]
        tape = Tape(layers, np.broadcast_shapes(layers[0].mu.shape[:-2], x.shape[:-2]), n_rows)
    dot = tape.dot
    mu_z, var_z = _enter(layers[0], tape, x, var_x)
    for w, u in tape.upwards:
        inner_mu, inner_sq, inner_second = u.inner
        activation(mu_z, var_z, inner_mu, u.var_a, u.jac)  # Eq. 11-12
        np.square(u.mu_a, out=u.sq_a)
        np.add(inner_sq, u.var_a, out=inner_second)  # E[a^2]
        mu_z = dot(w.mu_t, u.mu_a, u.mu_z)  # Eq. 8-9
        var_z = dot(w.var_t, u.second, u.var_z)  # Eq. 10: S' E[a^2] + (W^2)' var_a
        var_z += dot(w.sq_inner_t, u.var_a, u.from_var)
    return mu_z, var_z, tape


def _enter(layer: Layer, tape: Tape, x: Any, var_x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Compute Eq. 8-10 for the first layer, whose units are the inputs."""
    u = tape.units[0]
    u.mu_a, u.var_a = x, var_x
    if isinstance(x, np.ndarray):  # the layer may be that of the features that occur
        u.sq_a = np.square(x)
        tape.dot(transposed(layer.mu), u.mu_a, u.mu_z)
        tape.dot(transposed(layer.var), u.sq_a, u.var_z)
    else:
        u.sq_a = squared(x)
        u.mu_z[...] = product(layer.mu, u.mu_a)
        u.var_z[...] = product(layer.var, u.sq_a)
    if var_x is not None:
        u.var_z += product((np.square(layer.mu) + layer.var)[..., :-1, :], var_x)
    return u.mu_z, u.var_z


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
    for layer, (w, u) in zip(reversed(layers), tape.downwards, strict=True):
        message = nu, kappa
        if u.jac is not None:  # the message to the layer below, before the update
            nu = w.over_outputs(w.inner, nu, u.nu)  # Eq. 15
            kappa = w.over_outputs(w.sq_inner, kappa, u.kappa)
            nu *= u.jac
            kappa *= u.jac
            kappa *= u.jac
        _update(layer, w, u, *message, tape.over_rows, one_row, retained_next)


def _update(
    layer: Layer,
    w: Weights,
    u: Units,
    nu: np.ndarray,
    kappa: np.ndarray,
    over_rows: Any,
    one_row: bool | np.ndarray,
    retained_next: np.ndarray | None,
) -> None:
    """Apply Eq. 16 to the parameters of a layer, a block of rows of the weight matrix at a time."""
    if not isinstance(u.mu_a, np.ndarray):
        d_mu, d_var = outer(u.mu_a, nu), outer(u.sq_a, kappa)
        _update_block(layer, w.sq, d_mu, d_var, one_row, retained_next)
        return
    nu, kappa = transposed(nu), transposed(kappa)
    n_in, n_out = layer.mu.shape[-2:]
    if u.d_mu is None:
        size = layer.mu.size
        step = n_in if size <= BLOCK_PARAMETERS else max(1, BLOCK_PARAMETERS * n_in // size)
        u.d_mu, u.d_var = np.empty((2, *layer.mu.shape[:-2], step, n_out), layer.mu.dtype)
    step = u.d_mu.shape[-2]
    if step == n_in:  # slices of everything make a small fit 14 % slower
        over_rows(u.mu_a, nu, u.d_mu)
        over_rows(u.sq_a, kappa, u.d_var)
        _update_block(layer, w.sq, u.d_mu, u.d_var, one_row, retained_next)
        return
    for start in range(0, n_in, step):
        block = (..., slice(start, start + step), slice(None))
        here = (..., slice(0, min(step, n_in - start)), slice(None))
        over_rows(u.mu_a[block], nu, u.d_mu[here])
        over_rows(u.sq_a[block], kappa, u.d_var[here])
        _update_block(
            Layer(layer.mu[block], layer.var[block], layer.var_prior[block]),
            None if w.sq is None else w.sq[block],
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
    mu += d_mu  # Eq. 16
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
