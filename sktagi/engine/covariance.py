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
small share of each row's variance counts as its own: shared with copies of the row, and with no
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .constants import TINY, ZERO
from .network import Layer, Tape, Units, matmul, with_values
from .noise import Own, by_network

__all__ = ["hidden_covariance", "output_covariance", "summed_step"]

OWN_SHARE = 0.01


class Common(NamedTuple):
    """What rows have in common of an average hidden unit before its activation."""

    cov: np.ndarray  # c (..., rows, rows)
    scale: np.ndarray  # 1 / sd (..., rows), which makes rho of it


def hidden_covariance(layers: Sequence[Layer], tape: Tape) -> Common | None:
    """What rows have in common of the last hidden layer; None for a linear model.

    Its arrays are the tape's: they last until the next call. So are those of the functions below.
    """
    if len(layers) == 1:
        return None
    uncertain = tape.units[0].var_a is not None
    cov: Any = None
    scale: Any = None
    for number, (layer, units) in enumerate(zip(layers[:-1], tape.units[:-1], strict=True)):
        mean_var = _mean_of_columns(layer.var)
        direct = _gram(tape, f"hidden {number}", units.mu_a, mean_var)
        if units.var_a is not None:
            sq_w = np.square(layer.mu) if units.sq_w is None else units.sq_w
            moment = _mean_of_columns(sq_w)[..., :-1] + mean_var[..., :-1]
        if cov is not None:
            cov *= _gram(tape, "through hidden", _scaled_std(tape, units, scale), moment)
            direct += cov
        if uncertain:  # the variance is more than what the diagonal of c has
            variance = _weighted_sum(units.sq_a, mean_var) + _weighted_sum(units.var_a, moment)
        else:
            variance = direct.diagonal(0, -2, -1)
        cov, scale = direct, np.reciprocal(np.sqrt(variance))
    return Common(cov, scale)


def _scaled_std(tape: Tape, units: Units, scale: np.ndarray) -> np.ndarray:
    """Standard deviations of hidden units, divided by that of an average unit before them.

    So rho, which is between units before their activation, needs no normalising of its own.
    """
    shape = units.var_a_t.shape
    std_t = np.sqrt(units.var_a_t, out=tape.array(f"scaled std of {shape[-2]}", shape))
    std_t *= scale[..., None, :]
    return std_t.swapaxes(-1, -2)


def summed_step(
    layers: Sequence[Layer], tape: Tape, hidden: Common | None, nu: np.ndarray
) -> np.ndarray:
    """K nu: how far the messages of all rows together move the outputs, to first order.

    Without a matrix of rows x rows for each output: what comes through hidden units has the
    correlation of an average output, and the variances of each. The rest is exact. ``nu`` is zero
    where an output is not observed; ``hidden`` is the ``hidden_covariance``.
    """
    layer, units = layers[-1], tape.units[-1]
    step, std, scaled, through = tape.like_outputs("summed step", 4)
    _by_unit(units.mu_a, layer.var * matmul(units.mu_a_t, nu), step)
    own = None
    if tape.units[0].var_a is not None:  # the errors of a row's inputs are in its variance alone
        own = units.var_z - matmul(units.sq_a, layer.var)
    if hidden is not None:
        var_w = layer.var[..., :-1, :]
        moment = _mean_of_columns(units.sq_w[..., :-1, :] + var_w)
        cov = _gram(tape, "through hidden", _scaled_std(tape, units, hidden.scale), moment)
        cov *= hidden.cov
        variance = _by_unit(units.var_a, var_w, std)
        variance += units.from_var
        variance /= np.maximum(_weighted_sum(units.var_a, moment), TINY[cov.dtype.char])[..., None]
        if own is not None:
            own -= variance * cov.diagonal(0, -2, -1)[..., None]
        np.sqrt(variance, out=std)  # in the same array
        np.multiply(std, nu, out=scaled)
        _by_unit(cov, scaled, through)
        through *= std
        step += through
    if own is not None:
        step += own * nu
    return step


def _by_unit(a, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    """a @ w into an array that lies in memory by unit."""
    if isinstance(a, np.ndarray):
        np.matmul(w.swapaxes(-1, -2), a.swapaxes(-1, -2), out=out.swapaxes(-1, -2))
    else:
        out[...] = matmul(a, w)
    return out


def output_covariance(
    layers: Sequence[Layer], tape: Tape, hidden: Common | None, var_z, outputs=None, copies=None
) -> tuple[np.ndarray, Own]:
    """Covariance between rows of what they observe, in two parts that add up.

    The first (..., observations, rows, rows) comes from the parameters that rows share, the second
    is each row's own, which only copies of it have too: ``copies`` are pairs of them, numbers of
    networks, rows and copies. ``var_z`` (..., rows, observations) are the variances. ``outputs``
    tells which output an observation is of: (..., rows, observations) for each row, or
    (observations,) for all alike; None: all outputs in their order. Rows that observe different
    outputs have no covariance.
    """
    layer, units = layers[-1], tape.units[-1]
    columns: Any = slice(None)
    if outputs is not None and outputs.ndim == 1:
        columns, outputs = outputs, None
    var = layer.var[..., columns]
    var_z = var_z.swapaxes(-1, -2)
    share = 0.0 if hidden is None else OWN_SHARE
    shared = _gram_of_outputs(tape, "shared", units.mu_a, (1 - share) * var, outputs)
    if hidden is not None:
        moment = units.sq_w[..., :-1, columns] + var[..., :-1, :]
        moment *= 1 - share
        std = _scaled_std(tape, units, hidden.scale)
        gram = _gram_of_outputs(tape, "through", std, moment, outputs)
        gram *= hidden.cov[..., None, :, :]
        shared += gram
    if outputs is not None:
        node = outputs.swapaxes(-1, -2)
        shared *= node[..., :, None] == node[..., None, :]
    # What is not shared of a row's variance comes from the share, or from the errors of its inputs.
    own = np.maximum(var_z - shared.diagonal(0, -2, -1), ZERO[shared.dtype.char])
    if copies is None or hidden is None:
        return shared, Own(own)
    network, row, other = copies
    root = by_network(np.sqrt(own), 2)
    together = np.ones((len(row), root.shape[1]), bool)
    if outputs is not None:
        node = by_network(node, 2)
        together = node[network, :, row] == node[network, :, other]
    pair, observation = np.nonzero(together)
    network, row, other = network[pair], row[pair], other[pair]
    cov = root[network, observation, row] * root[network, observation, other]
    return shared, Own(own, (network, observation, row, other), cov)


def _mean_of_columns(values: np.ndarray) -> np.ndarray:
    return values @ _averager(values.shape[-1], values.dtype.char)  # quicker than mean


@cache
def _averager(n: int, dtype: str) -> np.ndarray:
    return np.full(n, 1 / n, dtype)


def _gram(tape: Tape, name: str, a, weights: np.ndarray) -> np.ndarray:
    """sum_k weights_k a_ik a_jk, in the tape's array of that name unless rows are sparse."""
    if isinstance(a, np.ndarray):
        scaled = a * np.sqrt(weights)[..., None, :]
        gram = tape.array(name, (*scaled.shape[:-1], scaled.shape[-2]))
        return np.matmul(scaled, scaled.swapaxes(-1, -2), out=gram)
    if weights.ndim > 1:
        return np.stack([_gram(tape, name, a, part) for part in weights])
    scaled = with_values(a, a.data * np.sqrt(weights)[a.indices])
    return (scaled @ scaled.T).toarray()


def _gram_of_outputs(tape: Tape, name: str, a, weights: np.ndarray, outputs) -> np.ndarray:
    """sum_k weights_ko a_ik a_jk for the output o that row i observes, for each observation.

    Where rows i and j observe different outputs the result means nothing. It is the tape's array
    of that name, unless rows are sparse.
    """
    if not isinstance(a, np.ndarray):
        if weights.ndim == 2:
            return _sparse_gram_of_outputs(a, weights, outputs)
        nodes = [None] * len(weights) if outputs is None else outputs
        grams = [_sparse_gram_of_outputs(a, *part) for part in zip(weights, nodes, strict=True)]
        return np.stack(grams)
    by_output = np.sqrt(weights).swapaxes(-1, -2)  # (..., n_out, n_in)
    *lead, n_out, n_in = by_output.shape
    n_rows = a.shape[-2]
    if outputs is None:
        shape = (*lead, n_out, n_in, n_rows)  # in memory by unit, as they are
        scaled = tape.array(f"units of {name}", shape).swapaxes(-1, -2)
        np.multiply(a[..., None, :, :], by_output[..., :, None, :], out=scaled)
    else:
        first = np.arange(0, by_output[..., 0].size, n_out).reshape(*lead, 1, 1)
        which = (outputs + first).swapaxes(-1, -2)
        scaled = tape.array(f"units of {name}", (*which.shape, n_in))
        by_output.reshape(-1, n_in).take(which, axis=0, out=scaled, mode="clip")
        scaled *= np.ascontiguousarray(a)[..., None, :, :]
    # A matrix times its own transpose: half the work
    gram = tape.array(name, (*scaled.shape[:-1], n_rows))
    return np.matmul(scaled, scaled.swapaxes(-1, -2), out=gram)


def _sparse_gram_of_outputs(a, weights: np.ndarray, outputs) -> np.ndarray:
    columns = np.arange(weights.shape[1]) if outputs is None else outputs.T
    return np.stack([(a.multiply(weights[:, k].T) @ a.T).toarray() for k in columns])


def _weighted_sum(a, weights: np.ndarray) -> np.ndarray:
    """sum_k weights_k a_ik."""
    return matmul(a, weights[..., None])[..., 0]
