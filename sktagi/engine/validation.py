"""Scores of members on the rows that they hold out, with the noise that suits these rows best."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from .fast import are_finite
from .keys import join_keys, row_keys
from .noise import search_noise, trusted_noise
from .observations import Gaussian, ObservationModel
from .passes import Tape, forward
from .posterior import Layer, Network
from .predicting import held_out_moments
from .rows import Rows, n_observed

__all__ = ["HeldOutStack", "best_noise", "stacked", "validate", "validate_stacked"]

MOST_ELEMENTS = 1 << 22  # of the inputs of all members' rows, to be kept side by side


def validate(
    net: Network, data: Rows, validation: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Score each member on its own rows; returns the noise that maximises it, if it is learned."""
    scores = np.empty(len(validation))
    noise_var = net.noise_var.copy()
    for member, (rows, mu_z, var_z) in enumerate(held_out_moments(net, data, validation)):
        outputs = net.outputs.members(member)
        if net.noise_is_learned:
            best = best_noise(outputs, rows, mu_z, var_z, noise_var[member])
            noise_var[member] = trusted_noise(best, noise_var[member], _n_distinct(rows))
        log_lik = outputs.log_likelihood(mu_z, var_z + rows.noise(noise_var[member]), rows.y)
        scores[member] = rows.weight @ log_lik.sum(axis=-2) / rows.weight.sum()
    return scores, noise_var


def _n_distinct(rows: Rows) -> np.ndarray:
    """Count the rows that observe each target, copies once: they are a row of more weight."""
    keys = row_keys(rows.x) if rows.keys is None else rows.keys
    for column in np.atleast_2d(rows.y.T):
        keys = join_keys(keys, column)
    return n_observed(rows.y[np.unique(keys, return_index=True)[1]])


def best_noise(
    outputs: ObservationModel,
    rows: Rows,
    mu_z: np.ndarray,
    var_z: np.ndarray,
    noise_var: np.ndarray,
) -> np.ndarray:
    """Return the noise variance (n_noise, 1) that maximises the likelihood of some rows."""
    mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)

    def score(noise: np.ndarray) -> np.ndarray:
        log_lik = outputs.log_likelihood(mu_z, var_z + rows.noise(noise), rows.y)
        return np.einsum("n,gon->go", rows.weight, log_lik)

    return search_noise(score, noise_var)[0]


# All members at once: quicker for few rows, which are kept as the first layer sees them


class HeldOutStack(NamedTuple):
    """Rows that members hold out, side by side; fewer ones are filled up with weight zero."""

    x: np.ndarray  # (members, n_encoded + 1, rows)
    y: np.ndarray  # (members, rows, n_targets)
    weight: np.ndarray  # (members, rows): float64
    noise_ratio: np.ndarray | None  # (members, n_noise, rows)
    n_distinct: np.ndarray  # (members, n_noise)

    def members(self, numbers: np.ndarray) -> HeldOutStack:
        """Return the rows of some members."""
        return HeldOutStack(*(None if a is None else a[numbers] for a in self))  # type: ignore[arg-type]


def stacked(net: Network, data: Rows, validation: list[np.ndarray]) -> HeldOutStack | None:
    """Return rows side by side; None if they cannot be, or are many."""
    n_encoded = net.layers[0].mu.shape[-2]
    longest = max(map(len, validation))
    plain = isinstance(net.outputs, Gaussian) and isinstance(data.x, np.ndarray)
    size = len(validation) * longest * n_encoded
    if net.is_full or not plain or data.errors is not None or size > MOST_ELEMENTS:
        return None
    rows = [data.take(numbers) for numbers in validation]
    n_distinct = np.stack([_n_distinct(some) for some in rows])
    order = np.stack([np.resize(numbers, longest) for numbers in validation])
    every = data.take(order)
    inside = np.arange(longest) < np.array([len(numbers) for numbers in validation])[:, None]
    x = every.x if net.encoding is None else net.encoding(every.x)
    ratio = every.noise_ratio
    return HeldOutStack(
        np.ascontiguousarray(x.swapaxes(-1, -2)),
        every.y,
        np.where(inside, every.weight, 0).astype(np.float64),
        None if ratio is None else ratio.swapaxes(-1, -2),
        n_distinct,
    )


def validate_stacked(net: Network, held: HeldOutStack) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``validate`` does, of all members at once."""
    moments = _moments(net, held.x)
    if net.dtype != np.float64 and not are_finite(*moments):
        moments = _moments(net.astype(np.float64), held.x.astype(np.float64))
    mu_z, var_z = (a.astype(np.float64)[:, None] for a in moments)
    y, ratio = held.y[:, None], 1.0 if held.noise_ratio is None else held.noise_ratio[:, None]

    def score(noise_var: np.ndarray) -> np.ndarray:
        log_lik = net.outputs.log_likelihood(mu_z, var_z + noise_var * ratio, y)
        return np.einsum("mn,mgon->mgo", held.weight, log_lik)

    noise_var = net.noise_var.copy()
    if net.noise_is_learned:
        best = search_noise(score, noise_var)[0]
        noise_var = trusted_noise(best, noise_var, held.n_distinct)
    scores = score(noise_var[:, None])[:, 0].sum(axis=-1)
    return scores / held.weight.sum(axis=-1), noise_var


def _moments(net: Network, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    layers = cast("list[Layer]", net.layers)
    tape = Tape(layers, (net.n_members,), x.shape[-1], learning=False)
    return forward(layers, net.activation, x, tape=tape)[:2]
