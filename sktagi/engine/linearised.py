"""A network linearised in its parameters: what they do to the outputs of rows, and to all at once.

The forward pass knows the variance of each output, but not how outputs of different rows go
together. They share the parameters theta = W + delta, delta ~ N(0, S). To first order these move
an output o of a row with the units mu_a by

    dz_o = sum over layers of mu_a' delta g_o,   g_o = e_o above the last layer, g_o <- J (W~ g_o)

where W~ = sign(W) sqrt(W^2 + S): a product with an uncertain weight has the second moment W^2 + S
(Eq. 3-6). So the covariance of two rows is that of Eq. 10 for pairs of rows. Through one hidden
layer its diagonal is var_z exactly. Through more, where Eq. 10 leaves out that hidden units go
together, each row is scaled by sqrt(var_z / var dz): the variance is what is predicted, and the
correlation that of the linearised network.

All is float64, whatever the network is, and of one member at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from . import full
from .activations import Activation
from .passes import forward
from .posterior import FullLayer, Layer, Network
from .sparse import by_input, product, squared, to_dense

__all__ = ["LinearLayer", "Linearised", "draw_changes", "encoded", "linearise", "root_of"]

BLOCK_ELEMENTS = 1 << 22  # of the features of a block of parameters


class LinearLayer(NamedTuple):
    """What enters a layer at some rows, and the uncertainty of its parameters."""

    mu_a: Any  # (n_in + 1, rows), the last of them ones; sparse inputs: (rows, n_in + 1)
    jac: np.ndarray | None  # (n_in, rows): J of the units that enter; None: inputs
    mu: np.ndarray  # (n_in + 1, n_out): means W
    var: np.ndarray  # (n_in + 1, n_out): variances S
    cov: np.ndarray | None = None  # (P, P): Sigma; None: independent parameters

    @property
    def weights(self) -> np.ndarray:
        """W~, (n_in, n_out)."""
        mu, var = self.mu[:-1], self.var[:-1]
        return np.copysign(np.sqrt(np.square(mu) + var), mu)

    def variance(self, g: np.ndarray) -> np.ndarray:
        """Return var(mu_a' delta g), (n_outputs, rows), for g (n_outputs, n_out, rows)."""
        if self.cov is not None:
            directions = self._directions(g)
            return np.einsum("orP,orP->or", directions @ self.cov, directions)
        return np.einsum("opr,opr,pr->or", g, g, product(self.var, squared(self.mu_a)))

    def variance_of_sum(self, a_dot: np.ndarray, g: np.ndarray, g_dot: np.ndarray) -> np.ndarray:
        """Return var(a_dot' delta g + mu_a' delta g_dot), (directions, n_outputs, rows).

        That is the variance of a derivative: a dot is one along a direction (directions, ...).
        """
        if self.cov is not None:
            by_theta = np.einsum("tkr,opr->torkp", a_dot, g)
            by_theta += np.einsum("kr,topr->torkp", self.mu_a, g_dot)
            by_theta = by_theta.reshape(*by_theta.shape[:3], -1)
            return np.einsum("torP,torP->tor", by_theta @ self.cov, by_theta)
        both = 2 * np.einsum("opr,topr,tpr->tor", g, g_dot, product(self.var, self.mu_a * a_dot))
        of_a = np.einsum("opr,tpr->tor", np.square(g), product(self.var, np.square(a_dot)))
        of_g = np.einsum("topr,pr->tor", np.square(g_dot), product(self.var, squared(self.mu_a)))
        return np.maximum(of_a + both + of_g, 0)

    def features(self, g: np.ndarray) -> Iterator[list[Any]]:
        """Yield F of each output, (rows, parameters) for blocks of these: cov(dz) = sum F F'.

        They are dense, or CSR if the inputs are sparse.
        """
        if self.cov is not None:
            yield list(self._directions(g) @ root_of(self.cov))
            return
        std = np.sqrt(self.var)
        if not isinstance(self.mu_a, np.ndarray):
            for p, of_unit in enumerate(g.swapaxes(0, 1)):
                scaled = self.mu_a.multiply(std[:, p]).tocsr()
                yield [sparse.csr_array(scaled.multiply(of_row[:, None])) for of_row in of_unit]
            return
        n_outputs, n_out, n_rows = g.shape
        step = max(1, BLOCK_ELEMENTS // (n_outputs * n_rows * len(std)))
        for start in range(0, n_out, step):
            part = slice(start, start + step)
            block = np.einsum("kr,kp,opr->orpk", self.mu_a, std[:, part], g[:, part])
            yield list(block.reshape(n_outputs, n_rows, -1))

    def _directions(self, g: np.ndarray) -> np.ndarray:
        """Return derivatives of outputs by the parameters, (n_outputs, rows, P)."""
        by_theta = np.einsum("kr,opr->orkp", self.mu_a, g)
        return by_theta.reshape(*by_theta.shape[:2], -1)


class Linearised(NamedTuple):
    """A network of one member, linearised at some rows."""

    mu_z: np.ndarray  # (n_outputs, rows)
    var_z: np.ndarray  # (n_outputs, rows)
    layers: list[LinearLayer]

    def gradients(self) -> list[np.ndarray]:
        """Return g of each layer, (n_outputs, n_out, rows): derivatives of outputs by its units."""
        n_outputs, n_rows = self.mu_z.shape
        g = np.broadcast_to(np.eye(n_outputs)[:, :, None], (n_outputs, n_outputs, n_rows))
        found = []
        for layer in reversed(self.layers):
            found.append(g)
            if layer.jac is not None:
                g = layer.jac * (layer.weights @ g)
        return found[::-1]

    def scale(self, gradients: Sequence[np.ndarray]) -> np.ndarray:
        """Return sqrt(var_z / var dz), (n_outputs, rows)."""
        pairs = zip(self.layers, gradients, strict=True)
        var = np.add.reduce([layer.variance(g) for layer, g in pairs])
        known = np.isfinite(var) & (var > 0)
        return np.sqrt(np.where(known, self.var_z / np.where(known, var, 1), 0))

    def features(self) -> Iterator[list[Any]]:
        """Yield F of each output, (rows, parameters), for blocks of these: the sum of F F' is K."""
        gradients = self.gradients()
        scale = self.scale(gradients)
        for layer, g in zip(self.layers, gradients, strict=True):
            yield from layer.features(g * scale[:, None])

    def moved(self, changes: Sequence[np.ndarray]) -> np.ndarray:
        """Return dz (draws, n_outputs, rows) for changes delta (draws, n_in + 1, n_out)."""
        dz: Any = None
        for layer, delta in zip(self.layers, changes, strict=True):
            new = product(delta, layer.mu_a)
            if layer.jac is not None:
                new += layer.weights.T @ (layer.jac * dz)
            dz = new
        return dz * self.scale(self.gradients())


def linearise(net: Network, x: Any) -> list[Linearised]:
    """Linearise each member at encoded rows x (rows, n_in + 1), dense or sparse."""
    x = x.astype(np.float64)
    if net.is_full:
        layers = cast("list[FullLayer]", net.layers)
        return [_full(layers, m, net.activation, x) for m in range(net.n_members)]
    some = [layer.astype(np.float64) for layer in cast("list[Layer]", net.layers)]
    mu_z, var_z, tape = forward(some, net.activation, by_input(x))
    found = []
    for m in range(net.n_members):
        layers_of_member = [
            LinearLayer(
                u.mu_a if u.jac is None else u.mu_a[m],
                None if u.jac is None else u.jac[m],
                layer.mu[m],
                layer.var[m],
            )
            for layer, u in zip(some, tape.units, strict=True)
        ]
        found.append(Linearised(mu_z[m], var_z[m], layers_of_member))
    return found


def encoded(net: Network, x: Any) -> Any:
    """Return what the first layer sees of rows x (rows, n_inputs + 1), dense or sparse."""
    return x if net.encoding is None else net.encoding(to_dense(x))


def _full(layers: Sequence[FullLayer], member: int, activation: Activation, x: Any) -> Linearised:
    posterior = full.posterior(layers, member)
    x = to_dense(x)
    mu_z, cov_z, tape = full.forward(posterior, activation, x)
    found = [
        LinearLayer(
            units.mu_a.T, None if units.jac is None else units.jac.T, layer.mu,
            layer.cov.diagonal().reshape(layer.mu.shape), layer.cov,
        )
        for layer, units in zip(posterior, tape, strict=True)
    ]  # fmt: skip
    return Linearised(mu_z.T, np.einsum("roo->or", cov_z), found)


def root_of(cov: np.ndarray) -> np.ndarray:
    """Return R with R R' = cov, which may be singular to rounding."""
    rounding = 0.0
    while True:
        try:
            return np.linalg.cholesky(cov + rounding * np.diag(cov.diagonal()))
        except np.linalg.LinAlgError:
            rounding = max(10 * rounding, len(cov) * np.finfo(cov.dtype).eps)


def draw_changes(
    net: Network, member: int, n_draws: int, rng: np.random.RandomState
) -> list[np.ndarray]:
    """Draw changes delta of a member's parameters, (n_draws, n_in + 1, n_out) for each layer."""
    changes = []
    for layer in net.layers:
        normal = rng.standard_normal((n_draws, *layer.mu.shape[1:]))
        if isinstance(layer, FullLayer):
            by_theta = normal.reshape(n_draws, -1) @ root_of(layer.cov[member]).T
            changes.append(by_theta.reshape(normal.shape))
        else:
            changes.append(normal * np.sqrt(layer.var[member].astype(np.float64)))
    return changes
