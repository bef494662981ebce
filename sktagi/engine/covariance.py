"""The covariance between the outputs of a batch's rows, which share their parameters.

The exact covariance J S J' needs a Jacobian for each row. Here the correlation of hidden units is
averaged over the units of a layer, which leaves a recursion of (rows, rows) matrices: with
s = std(a), and bars for averages over the output units of a layer,

    c_ij = sum_k S_k a_ki a_kj + rho_ij sum_k (W^2 + S)_k s_ki s_kj,   rho_ij = c_ij / sd_i sd_j

where the bias is the unit k with a = 1 and s = 0. The last layer is not averaged: c is then the
covariance K of each output. Errors of uncertain inputs are independent from row to row: they count
in the variances sd^2, not in c.

Through hidden layers the average is only nearly the truth. Its null space is not that of the exact
covariance, and with little noise conditioning would blow up whatever falls into it. So there a
small share of each row's variance is the row's own: shared with copies of the row, and with no
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .fast import TINY, ZERO, Buffer, mean_of_columns, transposed
from .passes import Tape, Units
from .posterior import Layer
from .rows import Copies
from .sparse import outer, product, weighted_gram

__all__ = [
    "HiddenCovariance", "RowVariance", "Workspace", "by_network", "hidden_covariance",
    "output_covariance", "summed_step",
]  # fmt: skip

# The share of a row's variance that is its own, where hidden layers make the covariance inexact.
OWN_SHARE = 0.01


class HiddenCovariance(NamedTuple):
    """Covariance between rows of an average unit of the last hidden layer, not yet activated."""

    cov: np.ndarray  # (..., rows, rows): c
    scale: np.ndarray  # (..., rows): 1 / sd, which makes rho of it


class RowVariance(NamedTuple):
    """Prior variance that a row shares only with exact copies of itself."""

    var: np.ndarray  # (..., n_observed, rows)
    # Four arrays (pairs,): networks, observations, rows and their copies, in both orders
    pairs: tuple[np.ndarray, ...] | None = None
    cov: Any = None  # (pairs,): covariance of each pair

    def times(self, root: np.ndarray) -> RowVariance:
        """Return the variance of rows that are multiplied by ``root`` (..., n_observed, rows)."""
        var = self.var * np.square(root)
        if self.pairs is None:
            return RowVariance(var)
        network, observation, row, other = self.pairs
        root = by_network(root, 2)
        factor = root[network, observation, row] * root[network, observation, other]
        return RowVariance(var, self.pairs, self.cov * factor)

    def add_pairs_to(self, cov: np.ndarray) -> None:
        """Add what is not on the diagonal to covariances (..., n_observed, rows, rows)."""
        if self.pairs is not None:
            by_network(cov, 3)[self.pairs] += self.cov

    def diagonal_of_product(self, root: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the diagonal of this covariance times root @ root', which has ``precision``."""
        result = self.var * precision
        if self.pairs is not None:
            network, observation, row, other = self.pairs
            if len(row) > precision.size:  # many pairs: cheaper to take them from all
                entries = by_network(root @ transposed(root), 3)[self.pairs]
            else:
                roots = by_network(root, 3)
                of_rows, of_others = (roots[network, observation, k] for k in (row, other))
                entries = np.einsum("pk,pk->p", of_rows, of_others)
            entries *= self.cov
            places: Any = network, observation, row  # a row may have several copies
            np.add.at(by_network(result, 2), places, entries)
        return result


class Workspace:
    """Memory of the functions below and of ``messages``; what they return lies in it."""

    def __init__(self, n_layers: int, dtype: np.dtype[Any]):
        self.hidden = [Buffer(dtype) for _ in range(n_layers - 1)]  # c of each hidden layer
        self.through_hidden = Buffer(dtype)  # what one layer passes on to the next
        self.std = Buffer(dtype)  # scaled standard deviations of a layer's units
        self.shared = Buffer(dtype)  # K of each observation, and what makes it
        self.shared_units = Buffer(dtype)
        self.through = Buffer(dtype)
        self.through_units = Buffer(dtype)
        self.factors = Buffer(dtype)
        self.step = Buffer(dtype)  # K nu, and what makes it


def hidden_covariance(
    layers: Sequence[Layer], tape: Tape, work: Workspace
) -> HiddenCovariance | None:
    """Return what rows have in common of the last hidden layer; None for a linear model."""
    if len(layers) == 1:
        return None
    uncertain = tape.units[0].var_a is not None
    cov: Any = None
    scale: Any = None
    parts = zip(layers[:-1], tape.weights[:-1], tape.units[:-1], work.hidden, strict=True)
    for layer, w, u, memory in parts:
        mean_var = mean_of_columns(layer.var)
        direct = _gram(u.mu_a, mean_var, memory)
        if u.var_a is not None:
            sq_w = np.square(layer.mu) if w.sq is None else w.sq
            moment = mean_of_columns(sq_w)[..., :-1] + mean_var[..., :-1]
        if cov is not None:
            cov *= _gram(_scaled_std(u, scale, work), moment, work.through_hidden)
            direct += cov
        if uncertain:  # the variance is more than what the diagonal of c has
            variance = _weighted_sum(u.sq_a, mean_var) + _weighted_sum(u.var_a, moment)
        else:
            variance = direct.diagonal(0, -2, -1)
        cov, scale = direct, np.reciprocal(np.sqrt(variance))
    return HiddenCovariance(cov, scale)


def _scaled_std(u: Units, scale: np.ndarray, work: Workspace) -> np.ndarray:
    """Return standard deviations of hidden units over that of an average unit before them.

    So rho, which is between units before their activation, needs no normalising of its own.
    """
    std = np.sqrt(u.var_a, out=work.std.shaped(*u.var_a.shape))
    std *= scale[..., None, :]
    return std


def summed_step(
    layers: Sequence[Layer],
    tape: Tape,
    hidden: HiddenCovariance | None,
    nu: np.ndarray,
    work: Workspace,
) -> np.ndarray:
    """Return K nu: how far the messages of all rows together move the outputs, to first order.

    No matrix of rows x rows for each output: what comes through hidden units has the correlation
    of an average output, and the variances of each. The rest is exact. ``nu`` (..., n_outputs,
    rows) is zero where an output is not observed.
    """
    layer, w, u = layers[-1], tape.weights[-1], tape.units[-1]
    step, std, scaled, through = work.step.shaped(4, *u.mu_z.shape)
    _into(layer.var * outer(u.mu_a, nu), u.mu_a, step)
    own = None
    if tape.units[0].var_a is not None:  # the errors of a row's inputs are in its variance alone
        own = u.var_z - product(layer.var, u.sq_a)
    if hidden is not None:
        var_w = layer.var[..., :-1, :]
        moment = mean_of_columns(w.sq_inner + var_w)
        cov = _gram(_scaled_std(u, hidden.scale, work), moment, work.through_hidden)
        cov *= hidden.cov
        variance = _into(var_w, u.var_a, std)
        variance += u.from_var
        average = _weighted_sum(u.var_a, moment)
        variance /= np.maximum(average, TINY[cov.dtype.char])[..., None, :]
        if own is not None:
            own -= variance * cov.diagonal(0, -2, -1)[..., None, :]
        np.sqrt(variance, out=std)  # in the same array
        np.multiply(std, nu, out=scaled)
        np.matmul(scaled, cov, out=through)
        through *= std
        step += through
    if own is not None:
        step += own * nu
    return step


def output_covariance(
    layers: Sequence[Layer],
    tape: Tape,
    hidden: HiddenCovariance | None,
    var_z: np.ndarray,
    work: Workspace,
    outputs: np.ndarray | None = None,
    copies: Copies | None = None,
    *,
    average: bool = False,
) -> tuple[np.ndarray, RowVariance]:
    """Return the covariance between rows of what they observe, in two parts that add up.

    The first (..., n_observed, rows, rows) comes from the parameters that rows share, the second
    is each row's own. ``var_z`` (..., n_observed, rows) are the variances. ``outputs`` tells which
    output an observation is of: (..., n_observed, rows) for each row, or (n_observed,) for all
    alike; None: all outputs in their order. Rows that observe different outputs have no covariance.
    With ``average`` there is one covariance, that of an average output, and n_observed is 1.
    """
    layer, w, u = layers[-1], tape.weights[-1], tape.units[-1]
    columns: Any = slice(None)
    if outputs is not None and outputs.ndim == 1:
        columns, outputs = outputs, None
    var = mean_of_columns(layer.var)[..., None] if average else layer.var[..., columns]
    share = 0.0 if hidden is None else OWN_SHARE
    shared = _gram_of_outputs(u.mu_a, (1 - share) * var, outputs, work.shared, work.shared_units)
    if hidden is not None:
        sq_w = mean_of_columns(w.sq_inner)[..., None] if average else w.sq_inner[..., columns]
        moment = sq_w + var[..., :-1, :]
        moment *= 1 - share
        std = _scaled_std(u, hidden.scale, work)
        gram = _gram_of_outputs(std, moment, outputs, work.through, work.through_units)
        gram *= hidden.cov[..., None, :, :]
        shared += gram
    if outputs is not None:
        shared *= outputs[..., :, None] == outputs[..., None, :]
    # What is not shared of a row's variance comes from the share, or from the errors of its inputs.
    own = np.maximum(var_z - shared.diagonal(0, -2, -1), ZERO[shared.dtype.char])
    if copies is None or hidden is None:
        return shared, RowVariance(own)
    network, row, other = copies
    root = by_network(np.sqrt(own), 2)
    together = np.ones((len(row), root.shape[1]), bool)
    if outputs is not None:
        node = by_network(outputs, 2)
        together = node[network, :, row] == node[network, :, other]
    pair, observation = np.nonzero(together)
    network, row, other = network[pair], row[pair], other[pair]
    cov = root[network, observation, row] * root[network, observation, other]
    return shared, RowVariance(own, (network, observation, row, other), cov)


def by_network(values: np.ndarray, n_axes: int) -> np.ndarray:
    """Return a view with one axis for networks before the last ``n_axes``."""
    return values.reshape(-1, *values.shape[-n_axes:])


# Sums over units


def _gram(a: Any, weights: np.ndarray, memory: Buffer) -> np.ndarray:
    """Return sum_k weights_k a_ki a_kj."""
    if not isinstance(a, np.ndarray):
        return weighted_gram(a, weights)
    scaled = a * np.sqrt(weights)[..., :, None]
    n_rows = scaled.shape[-1]
    gram = memory.shaped(*scaled.shape[:-2], n_rows, n_rows)
    return np.matmul(transposed(scaled), scaled, out=gram)  # by its own transpose: half the work


def _gram_of_outputs(
    a: Any, weights: np.ndarray, outputs: np.ndarray | None, memory: Buffer, unit_memory: Buffer
) -> np.ndarray:
    """Return sum_k weights_ko a_ki a_kj for the output o that row i observes, by observation.

    Where rows i and j observe different outputs the result means nothing.
    """
    if not isinstance(a, np.ndarray):
        if weights.ndim == 2:
            return _sparse_gram_of_outputs(a, weights, outputs)
        nodes = [None] * len(weights) if outputs is None else outputs
        grams = [_sparse_gram_of_outputs(a, *part) for part in zip(weights, nodes, strict=True)]
        return np.stack(grams)
    by_output = transposed(np.sqrt(weights))  # (..., n_out, n_in)
    *lead, n_out, n_in = by_output.shape
    n_rows = a.shape[-1]
    if outputs is None:
        scaled = unit_memory.shaped(*lead, n_out, n_in, n_rows)
        np.multiply(a[..., None, :, :], by_output[..., :, :, None], out=scaled)
        scaled = transposed(scaled)
    else:  # each row has weights of its own
        first = np.arange(0, by_output[..., 0].size, n_out).reshape(*lead, 1, 1)
        which = outputs + first
        scaled = unit_memory.shaped(*which.shape, n_in)
        by_output.reshape(-1, n_in).take(which, axis=0, out=scaled, mode="clip")
        scaled *= np.ascontiguousarray(transposed(a))[..., None, :, :]
    gram = memory.shaped(*scaled.shape[:-1], n_rows)
    return np.matmul(scaled, transposed(scaled), out=gram)


def _sparse_gram_of_outputs(a: Any, weights: np.ndarray, outputs: np.ndarray | None) -> np.ndarray:
    columns = np.arange(weights.shape[1]) if outputs is None else outputs
    return np.stack([(a.multiply(weights[:, k].T) @ a.T).toarray() for k in columns])


def _into(w: np.ndarray, a: Any, out: np.ndarray) -> np.ndarray:
    """Write w' a into ``out``."""
    if isinstance(a, np.ndarray):
        return np.matmul(transposed(w), a, out=out)
    out[...] = product(w, a)
    return out


def _weighted_sum(a: Any, weights: np.ndarray) -> np.ndarray:
    """Return sum_k weights_k a_ki."""
    return product(weights[..., None], a)[..., 0, :]
