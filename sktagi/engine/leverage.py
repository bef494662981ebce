"""How much of what a network fits is noise: the variance that so many rows leave to its mean.

Held-out errors tell the variance of network and noise together. Where both are much the same for
all rows, they do not tell which is which. Linear regression does: on the p units that enter the
last layer, n rows with the noise variance s leave to the mean a variance whose average over rows is

    s p_eff / n,   p_eff = sum_j l_j n / (l_j n + s)

with l_j the eigenvalues of the units' mean products, each unit in units of its prior. What the
layers below leave open, members and kinds disagree about.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .fast import slices
from .held_out import HeldOut
from .joint import weights_of
from .linearised import encoded, linearise
from .mixture import Mixture
from .posterior import Network

__all__ = ["Leverage", "sum_products", "sum_variances"]

MOST_UNITS = 512  # of more, products of different units are left out: p_eff is then a bound
BLOCK_ELEMENTS = 1 << 20


# Questions to rows held out


def sum_products(held: HeldOut, net: Network) -> np.ndarray:
    """Sum products of the units that enter the last layer, (members, p, p) or (members, p)."""
    scale = np.sqrt(net.layers[-1].var_prior.astype(np.float64))  # (p, 1)
    is_wide = len(scale) > MOST_UNITS
    total = np.zeros((net.n_members, *(len(scale),) * (1 if is_wide else 2)))
    widest = max(layer.mu.shape[-2] for layer in net.layers)
    for part in slices(len(held.weight), max(1, BLOCK_ELEMENTS // (widest * net.n_members))):
        weight = held.weight[part]
        networks = linearise(net, encoded(net, held.x[part]))
        for of_member, network in zip(total, networks, strict=True):
            units: Any = network.layers[-1].mu_a  # (p, rows); sparse: (rows, p)
            if is_wide:
                squares = units.power(2).T if sparse.issparse(units) else np.square(units)
                of_member += np.square(scale[:, 0]) * (squares @ weight)
            else:
                units = scale * (units.toarray().T if sparse.issparse(units) else units)
                of_member += (units * weight) @ units.T
    return total


def sum_variances(held: HeldOut) -> np.ndarray:
    """Sum the variances of the outputs, (temperatures, n_outputs)."""
    return held.var_z @ held.weight


class Leverage(NamedTuple):
    """What tells how sure the networks of a mixture should be."""

    n_rows: np.ndarray  # (n_outputs,): that were learned
    var: np.ndarray  # (temperatures, n_outputs): of the networks' parameters, mean over rows
    rest: np.ndarray  # (n_outputs,): of what is no parameter: kinds apart, errors of the inputs
    values: list[np.ndarray]  # of each kind (members, p): the l_j
    weight: np.ndarray  # (n_kinds, n_outputs or 1)

    @classmethod
    def of(
        cls,
        net: Network | Mixture,
        products: list[np.ndarray],
        var: np.ndarray,
        rest: np.ndarray,
        n_rows: np.ndarray,
    ) -> Leverage:
        """Return it for mean products of the units of each kind."""
        products = [np.where(np.isfinite(a), a, 0) for a in products]
        values = [a if a.ndim == 2 else np.linalg.eigvalsh(a) for a in products]
        values = [np.maximum(a, 0) for a in values]
        return cls(np.maximum(n_rows, 1), var, rest, values, weights_of(net)[..., 0])

    def expected(self, noise: np.ndarray) -> np.ndarray:
        """Return the variance (..., n_outputs) that rows with this noise leave to the mean.

        What else makes a target differ from a network's output is noise to the parameters, too.
        """
        noise = noise + self.rest
        s = noise[..., None, :, None]  # of members and units
        total = np.zeros(noise.shape)
        for values, weight in zip(self.values, self.weight, strict=True):
            fitted = values[:, None] * self.n_rows[:, None]
            p_eff = (fitted / (fitted + s)).sum(axis=-1).mean(axis=-2)
            total += weight * np.minimum(p_eff / self.n_rows, 1)
        return noise * total

    def usual(self, noise: np.ndarray) -> int:
        """Return the number of the temperature at which variances are nearest to the expected.

        ``noise`` (temperatures, n_outputs) is that beside each of them.
        """
        tiny, largest = np.finfo(np.float64).tiny, np.finfo(np.float64).max
        logs = [np.log(np.clip(a, tiny, largest)) for a in (self.var, self.expected(noise))]
        distance = np.abs((logs[0] - logs[1]).mean(axis=-1))
        return int(np.where(np.isnan(distance), np.inf, distance).argmin())
