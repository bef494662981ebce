"""Predictions: moments of the outputs, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .fast import are_finite, slices
from .full import predict_full
from .inputs import InputErrors, forward_uncertain
from .passes import Tape, Weights, forward
from .posterior import Layer, Network

if TYPE_CHECKING:
    from .mixture import Mixture
from .rows import Rows
from .sparse import by_input, to_dense, width

__all__ = ["block_rows", "held_out_moments", "predict_moments", "weighted_moments"]

# Elements of the widest array of a block: its arrays stay in cache.
BLOCK_ELEMENTS = 1 << 16

# Turns a block of rows as given, and their errors, into inputs of the network.
Prepare = Callable[[Any, InputErrors | None], tuple[Any, InputErrors | None]]


def _as_they_are(x: Any, errors: InputErrors | None) -> tuple[Any, InputErrors | None]:
    return x, errors


def predict_moments(
    net: Network | Mixture,
    x: Any,
    errors: InputErrors | None = None,
    prepare: Prepare = _as_they_are,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the outputs, (members, n_outputs, rows).

    ``x`` has rows first, dense or sparse.
    """
    if isinstance(net, Network):
        return _moments_of_network(net, x, errors, prepare)
    if x.shape[0] == 1:  # once for all kinds
        x, errors = prepare(x, errors)
        prepare = _as_they_are
    moments = [_moments_of_network(kind, x, errors, prepare) for kind in net.networks]
    mu, var = (np.stack(parts) for parts in zip(*moments, strict=True))
    return weighted_moments(net.weight[:, None], mu, var, net.apart[:, None])


def weighted_moments(
    weight: np.ndarray, mu: np.ndarray, var: np.ndarray, apart: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of a mixture of kinds, which are the first axis.

    ``apart`` are the weights of what kinds are apart from the mean; None: as in a mixture.
    """
    weight = weight.astype(mu.dtype)
    mean = (weight * mu).sum(axis=0)
    if apart is None:
        return mean, (weight * (var + np.square(mu - mean))).sum(axis=0)
    apart = apart.astype(mu.dtype)
    return mean, (weight * var + apart * np.square(mu - mean)).sum(axis=0)


def _moments_of_network(
    net: Network, x: Any, errors: InputErrors | None, prepare: Prepare
) -> tuple[np.ndarray, np.ndarray]:
    n_rows = x.shape[0]
    mu, var = np.empty((2, net.n_members, net.outputs.n_outputs, n_rows), net.dtype)
    tape = None
    rank = 1 if errors is None else errors.rank
    entries = width(x) if net.encoding is None else net.encoding.n_encoded
    for part in slices(n_rows, block_rows(net, BLOCK_ELEMENTS // rank, entries)):
        block, block_errors = prepare(x[part], None if errors is None else errors.take(part))
        here = (..., part)
        if net.is_full:
            mu[here], var[here] = predict_full(net, block, block_errors)
            continue
        layers, n_block = cast("list[Layer]", net.layers), block.shape[0]
        jacobian = None
        if net.encoding is not None:
            block = to_dense(block)
            jacobian = None if block_errors is None else net.encoding.jacobian(block)
            block = net.encoding(block)
        block = by_input(block)
        if block_errors is not None:
            mu[here], var[here] = forward_uncertain(
                layers, net.activation, block, block_errors, jacobian
            )
            continue
        if n_rows == 1:
            tape = Tape.for_one_row(layers, (net.n_members,), learning=False)
        elif tape is None or tape.n_rows != n_block:  # the last block may be shorter
            weights = Weights.of(layers) if tape is None else tape.weights
            tape = Tape(layers, (net.n_members,), n_block, weights, learning=False)
        mu[here], var[here] = forward(layers, net.activation, block, tape=tape)[:2]
    if n_rows == 1 and tape is not None:
        tape.leave()
    return mu, var


def held_out_moments(
    net: Network | Mixture, data: Rows, validation: list[np.ndarray]
) -> Iterator[tuple[Rows, np.ndarray, np.ndarray]]:
    """Yield the rows that each member holds out, with the moments that it predicts for them.

    They are in double precision for rows that are beyond single precision.
    """
    for member, numbers in enumerate(validation):
        rows, one = data.take(numbers), net.members(slice(member, member + 1))
        mu_z, var_z = predict_moments(one, rows.x, rows.errors)
        if net.dtype != np.float64 and not are_finite(mu_z, var_z):
            x = rows.x.astype(np.float64)
            mu_z, var_z = predict_moments(one.astype(np.float64), x, rows.errors)
        yield rows, mu_z[0], var_z[0]


def block_rows(net: Network, elements: int, entries: int) -> int:
    """Return how many rows with ``entries`` each make arrays of at most so many elements."""
    widest = max(entries, *(layer.mu.shape[-1] for layer in net.layers))
    return max(1, elements // (widest * net.n_members))
