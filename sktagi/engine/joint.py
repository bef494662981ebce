"""Rows together: the covariance of a mixture's means, and functions drawn from its posterior.

A function of the posterior is that of one network: a member m, each as likely, and of unlike ones a
kind k with the probability w_k, moved by a draw of its parameters (``linearised``), and by how far
kinds are apart, with xi_l ~ N(0, 1):

    f = mu + sqrt(spread) (mu_m - mu) + sum_l xi_l d_ml + dz_mk,   d_ml = w_l (mu_ml - mu_m)

with mu_m = sum_k w_k mu_mk and mu the mean over the members. So with d_m = sqrt(spread) (mu_m - mu)

    cov(f_i, f_j) = mean_m (d_m d_m' + sum_k w_k K_mk + d_mk d_mk')

and the diagonal is the variance that predictions have (``Reported.variance_of_mean``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .linearised import Linearised, draw_changes, encoded, linearise
from .mixture import Mixture
from .posterior import Network

__all__ = [
    "Draws", "apart_from_mean", "block_of_draws", "covariance", "draw_functions", "functions_at",
    "weights_of",
]  # fmt: skip

BLOCK_ELEMENTS = 1 << 21  # of the widest array of a block of rows


class Draws(NamedTuple):
    """Functions drawn from the posterior of a network or a mixture."""

    member: np.ndarray  # (draws,)
    kind: np.ndarray  # (draws, n_outputs)
    # Changes of the parameters of a kind and member, with the numbers of their draws
    changes: dict[tuple[int, int], tuple[np.ndarray, list[np.ndarray]]]
    xi: np.ndarray  # (draws, n_kinds)


def weights_of(net: Network | Mixture) -> np.ndarray:
    """Return the weights of the kinds, (n_kinds, n_outputs or 1, 1)."""
    return net.weight if isinstance(net, Mixture) else np.ones((1, 1, 1))


def covariance(net: Network | Mixture, x: Any, spread: float) -> np.ndarray:
    """Return the covariance of the outputs of rows x (rows, n_inputs + 1), (n_outputs, rows, rows).

    ``net`` is what predictions report, ``spread`` the factor of the members' disagreement.
    """
    weight, n_rows, n_outputs = weights_of(net), x.shape[0], net.outputs.n_outputs
    share = np.broadcast_to(weight / net.n_members, (len(weight), n_outputs, 1))[..., 0]
    cov = np.zeros((n_outputs, n_rows, n_rows))
    mu_z = []
    for kind, of_kind in zip(net.networks, share, strict=True):
        members = linearise(kind, encoded(kind, x))
        mu_z.append([network.mu_z for network in members])
        for network in members:
            for block in network.features():
                for matrix, part, w in zip(cov, block, of_kind, strict=True):
                    gram = part @ part.T
                    matrix += w * (gram.toarray() if sparse.issparse(gram) else gram)
    _, of_members, of_kinds = apart_from_mean(weight, np.array(mu_z), spread)
    apart = np.concatenate([of_members, *of_kinds])
    return cov + np.einsum("aoi,aoj->oij", apart, apart, optimize=True) / net.n_members


def apart_from_mean(
    weight: np.ndarray, mu_z: np.ndarray, spread: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mu (n_outputs, rows), d_m (members, ...) and d_mk (kinds, members, ...).

    ``mu_z`` (kinds, members, n_outputs, rows) are the means of the networks.
    """
    of_members = (weight[:, None] * mu_z).sum(axis=0)
    mu = of_members.mean(axis=0)
    return mu, np.sqrt(spread) * (of_members - mu), weight[:, None] * (mu_z - of_members)


def draw_functions(net: Network | Mixture, n_draws: int, rng: np.random.RandomState) -> Draws:
    """Draw functions from the posterior that predictions report."""
    weight = weights_of(net)[..., 0]
    weight = np.broadcast_to(weight, (len(weight), net.outputs.n_outputs))
    member = rng.randint(net.n_members, size=n_draws)
    # One number for all outputs: they are of one kind as often as their weights allow.
    level = rng.uniform(size=(n_draws, 1, 1)) * weight.sum(axis=0)[:, None]
    kind = (np.cumsum(weight, axis=0).T[None, :, :-1] <= level).sum(axis=-1)
    changes = {}
    for k, network in enumerate(net.networks):
        for m in range(net.n_members):
            numbers = np.flatnonzero((member == m) & (kind == k).any(axis=1))
            if len(numbers):
                changes[k, m] = numbers, draw_changes(network, m, len(numbers), rng)
    return Draws(member, kind, changes, rng.standard_normal((n_draws, len(weight))))


def functions_at(net: Network | Mixture, draws: Draws, x: Any, spread: float) -> np.ndarray:
    """Return drawn functions at rows x (rows, n_inputs + 1), (draws, n_outputs, rows)."""
    networks = [linearise(kind, encoded(kind, x)) for kind in net.networks]
    mu, of_members, of_kinds = apart_from_mean(weights_of(net), _means(networks), spread)
    functions = np.zeros((len(draws.member), *mu.shape))
    for (k, m), (numbers, changes) in draws.changes.items():
        apart = of_members[m] + np.tensordot(draws.xi[numbers], of_kinds[:, m], 1)
        values = mu + apart + networks[k][m].moved(changes)
        is_kind = (draws.kind[numbers] == k)[:, :, None]
        functions[numbers] = np.where(is_kind, values, functions[numbers])
    return functions


def _means(networks: list[list[Linearised]]) -> np.ndarray:
    return np.array([[network.mu_z for network in members] for members in networks])


def block_of_draws(net: Network | Mixture, draws: Draws) -> int:
    """Return at how many rows drawn functions are evaluated at a time."""
    widest = max(layer.mu.shape[-1] for kind in net.networks for layer in kind.layers)
    beside = max(net.n_members, *(len(numbers) for numbers, _ in draws.changes.values()))
    return max(1, BLOCK_ELEMENTS // (widest * beside * net.outputs.n_outputs))
