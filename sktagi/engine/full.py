"""Full covariances of each layer's parameters and units, Eq. 3-6 and 8-16; layers independent.

A layer's parameters theta are its matrix of weights and biases, row by row, with one covariance
matrix. For two rows r and s that enter a layer as Gaussian units A_r and A_s, with the moment
m_kl = E[A_rk A_sl] and the covariance c_kl = cov(A_rk, A_sl), Eq. 3-5 sum up to

    cov(Z_ro, Z_sp) = sum_kl cov(W_ko, W_lp) m_kl + sum_kl W_ko c_kl W_lp

With r = s this is Sigma_Z of Eq. 10; with all pairs of rows of a batch it is the covariance of all
their outputs, exactly as if the batch were one observation. Backwards, divide the RTS equations
15-16 by the prior covariance of the units, as ``network`` does, and no inverse is left but that of
Sigma_Y: with H the derivative of the observed outputs by theta,

    mu_theta += Sigma H Sigma_Y^-1 (y - mu_y),   Sigma -= Sigma H Sigma_Y^-1 H' Sigma

Functions work on one network; the members of a stack are taken one by one, for each is large.
Covariances are float64 whatever the means are: differences of them must stay positive definite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from .activations import activate
from .network import Layer
from .noise import Message, noise_moment

__all__ = ["FullLayer", "check_size", "full_prior", "learn_full", "predict_full"]

# Parameters of a layer. The matrix of the largest takes 200 MB, and training keeps a few of them.
LARGEST_LAYER = 5000
LARGEST_TOTAL = 4  # GB, of all layers and members; early stopping keeps them twice
# Elements of an array over pairs of rows.
PAIR_ELEMENTS = 1 << 21
# Fading takes cubic time in the parameters P of a layer. It waits for P / 8 rows, when it costs
# about as much as learning them, but not for more than a sixteenth of a half-life.
ROWS_A_PARAMETER = 1 / 8
LONGEST_WAIT = 1 / 16


class FullLayer(NamedTuple):
    """Parameters of a layer; as ``Layer``, with a covariance in the place of variances."""

    mu: np.ndarray  # (members, n_in + 1, n_out)
    cov: np.ndarray  # (members, P, P) for the P parameters in the order of mu.ravel()
    var_prior: np.ndarray  # (n_in + 1, 1)
    fading: np.ndarray  # (members,): half-lives that have passed and are not yet in cov

    @property
    def var(self) -> np.ndarray:
        """Variances, in the shape and precision of the means."""
        return np.einsum("mii->mi", self.cov).reshape(self.mu.shape).astype(self.mu.dtype)


class Posterior(NamedTuple):
    """A layer of one network."""

    mu: np.ndarray  # (n_in + 1, n_out)
    cov: np.ndarray  # (P, P)


class FullUnits(NamedTuple):
    """What enters a layer: moments of each row."""

    mu_a: np.ndarray  # (rows, n_in + 1), last column ones
    jac: Any = None  # (rows, n_in); None in the first layer
    # What an exact activation adds to a linearised one; None for those:
    std_z: Any = None
    extra: Any = None  # sqrt(var_a - jac^2 var_z)


class FullBatch(NamedTuple):
    """Rows for one network."""

    x: np.ndarray  # (rows, n_in + 1)
    y: np.ndarray
    weight: np.ndarray  # (rows,), positive
    cov_x: np.ndarray | None  # (rows or 1, n_in, n_in)

    def take(self, part) -> FullBatch:
        cov_x = self.cov_x
        if cov_x is not None and len(cov_x) > 1:
            cov_x = cov_x[part]
        return FullBatch(self.x[part], self.y[part], self.weight[part], cov_x)


# Prior


def check_size(sizes: Sequence[int], n_members: int) -> None:
    """Refuse a network whose covariances would not fit into memory."""
    n_params = [(n_in + 1) * n_out for n_in, n_out in pairwise(sizes)]
    gigabytes = 8e-9 * n_members * sum(n**2 for n in n_params)
    if max(n_params) > LARGEST_LAYER or gigabytes > LARGEST_TOTAL:
        raise ValueError(
            f"covariance_type='full' takes {gigabytes:,.1f} GB for the covariances of layers of "
            f"{', '.join(f'{n:,}' for n in n_params)} parameters, times n_members={n_members}. At "
            f"most {LARGEST_LAYER:,} parameters of a layer and {LARGEST_TOTAL} GB in all are "
            "accepted: use fewer units or members, or covariance_type='diag'."
        )


def full_prior(layers: Sequence[Layer]) -> list[FullLayer]:
    """The same prior with covariance matrices, which are still diagonal."""
    full = []
    for layer in layers:
        n_members = len(layer.mu)
        n_params = layer.mu[0].size
        cov = np.zeros((n_members, n_params, n_params))
        np.einsum("mii->mi", cov)[...] = layer.var.reshape(n_members, n_params)
        full.append(FullLayer(layer.mu, cov, layer.var_prior, np.zeros(n_members)))
    return full


# Forward pass


def posterior(layers: Sequence[FullLayer], member: int) -> list[Posterior]:
    """The layers of one member: copies of the means, views of the covariances."""
    return [Posterior(a.mu[member].astype(np.float64), a.cov[member]) for a in layers]


def _copied(layers: Sequence[Posterior]) -> list[Posterior]:
    return [layer._replace(cov=layer.cov.copy()) for layer in layers]


def forward(
    layers: Sequence[Posterior], activation: Callable, x: np.ndarray, cov_x=None
) -> tuple[np.ndarray, np.ndarray, list[FullUnits]]:
    """Mean and covariance of each row's outputs, and what enters each layer."""
    cov = None if cov_x is None else np.broadcast_to(cov_x, (len(x), *cov_x.shape[1:]))
    units = FullUnits(x)
    mu_z = cov_z = np.empty(0)
    tape: list[FullUnits] = []
    for layer in layers:
        if tape:
            units = _activate(activation, mu_z, cov_z)
            cov = _activated(cov_z, units, units)
        mu_z = units.mu_a @ layer.mu
        cov_z = _next_covariance(layer, units.mu_a, units.mu_a, cov)
        np.einsum("roo->ro", cov_z)[...] += _rounding(layer, units.mu_a, cov)
        tape.append(units)
    return mu_z, cov_z, tape


def cross_covariance(
    layers: Sequence[Posterior], tape: Sequence[FullUnits], left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Covariance of the outputs of pairs of different rows, (pairs, n_out, n_out).

    Errors of inputs are independent between rows: they count within a row only.
    """
    cov: Any = None
    for layer, units in zip(layers, tape, strict=True):
        ours, theirs = _of_rows(units, left), _of_rows(units, right)
        if units.jac is not None:
            cov = _activated(cov, ours, theirs)
        cov = _next_covariance(layer, ours.mu_a, theirs.mu_a, cov)
    return cov


def _next_covariance(layer: Posterior, mu_left, mu_right, cov) -> np.ndarray:
    """cov(Z_left, Z_right) from the units of a layer and their covariance (module docstring)."""
    moment = mu_left[:, :, None] * mu_right[:, None, :]
    if cov is not None:
        moment[:, :-1, :-1] += cov  # the last unit is the constant of the bias
    cov_z = _sum_over_weights(layer, moment)
    if cov is not None:
        weights = layer.mu[:-1]
        cov_z += weights.T @ (cov @ weights)
    return cov_z


def _sum_over_weights(layer: Posterior, moment: np.ndarray) -> np.ndarray:
    """sum_kl cov(W_ko, W_lp) m_kl for each pair of rows."""
    n_in, n_out = layer.mu.shape
    cov_w = layer.cov.reshape(n_in, n_out, n_in, n_out)
    if len(moment) == 1:  # without a copy of cov, which takes longer than one sum over it
        return np.einsum("kolp,kl->op", cov_w, moment[0])[None]
    by_units = cov_w.transpose(0, 2, 1, 3).reshape(n_in * n_in, n_out * n_out)
    return (moment.reshape(len(moment), -1) @ by_units).reshape(-1, n_out, n_out)


def _rounding(layer: Posterior, mu_a: np.ndarray, cov) -> np.ndarray:
    """How far a variance may be off where covariances cancel: it must stay positive."""
    square = np.square(mu_a)
    if cov is not None:
        square[:, :-1] += np.einsum("rkk->rk", cov)
    var_w = layer.cov.diagonal().reshape(layer.mu.shape)
    return len(layer.cov) * np.finfo(np.float64).eps * (square @ var_w)


def _activate(activation: Callable, mu_z: np.ndarray, cov_z: np.ndarray) -> FullUnits:
    var_z = np.einsum("rii->ri", cov_z)
    mu_a, var_a, jac = activate(activation, mu_z, var_z)
    mu_a = np.hstack([mu_a, np.ones((len(mu_a), 1))])
    rest = var_a - jac * jac * var_z
    if (rest <= 1e-12 * var_a).all():  # a linearised activation leaves nothing but rounding
        return FullUnits(mu_a, jac)
    return FullUnits(mu_a, jac, np.sqrt(var_z), np.sqrt(np.maximum(rest, 0)))


def _activated(cov_z: np.ndarray, left: FullUnits, right: FullUnits) -> np.ndarray:
    """cov(A_left, A_right) = J cov(Z_left, Z_right) J' (Eq. 12).

    Where an activation's exact variance exceeds J^2 var_z, the rest is shared by the square of the
    correlation, the next order of its expansion: a covariance too, and the whole rest for copies.
    """
    cov = left.jac[:, :, None] * cov_z * right.jac[:, None, :]
    if left.extra is not None:
        rho = cov_z / (left.std_z[:, :, None] * right.std_z[:, None, :])
        cov += np.square(rho) * left.extra[:, :, None] * right.extra[:, None, :]
    return cov


def _block(layers: Sequence[Posterior]) -> int:
    """Pairs of rows whose covariances are computed at once."""
    return max(1, PAIR_ELEMENTS // max(np.square(layer.mu.shape).sum() for layer in layers))


def _of_rows(units: FullUnits, rows: np.ndarray) -> FullUnits:
    parts = {name: v[rows] for name, v in units._asdict().items() if v is not None}
    return FullUnits(**parts)


# Backward pass


def condition(
    layers: Sequence[Posterior], activation: Callable, outputs, rows: FullBatch, noise_var
):
    """Condition the posterior on rows in place (Eq. 14-16), all of them at once.

    Returns the rows' moments before that, (rows, n_out), and the message.
    """
    mu_z, cov_z, tape = forward(layers, activation, rows.x, rows.cov_x)
    n_rows, n_out = mu_z.shape
    cov = np.zeros((n_rows, n_rows, n_out, n_out))
    left, right = np.triu_indices(n_rows, 1)
    block = _block(layers)
    for start in range(0, len(left), block):
        pair = left[start : start + block], right[start : start + block]
        cov[pair] = cross_covariance(layers, tape, *pair)
    cov[right, left] = cov[left, right].swapaxes(-1, -2)
    np.einsum("rrop->rop", cov)[...] = cov_z

    y, observed = outputs.targets(rows.y)
    if observed is None:
        observed = np.broadcast_to(np.arange(n_out), (n_rows, n_out))
    row, level = (index.ravel() for index in np.indices(observed.shape))
    node = observed.ravel()
    scale = np.sqrt(rows.weight[row] / np.broadcast_to(noise_var, n_out)[node])
    # In units of the noise, Sigma_Y = I + K: divided by nothing small, and always invertible.
    cov_y = cov[row[:, None], row, node[:, None], node] * (scale[:, None] * scale)
    root = _whitening(cov_y)
    stretch = root.diagonal().max() / root.diagonal().min()
    residual = scale * (y.ravel() - mu_z[row, node])
    whitened = root @ residual
    nu = (scale * (root.T @ whitened)).reshape(observed.shape)
    leverage = np.maximum(1 - np.square(root).sum(axis=0), 0).reshape(observed.shape)

    gradient = np.zeros((n_rows, n_out, observed.shape[1]))  # of what is observed, by the units z
    gradient[row, node, level] = scale
    for layer, units in zip(reversed(layers), reversed(tape), strict=True):
        by_theta = units.mu_a.T[:, None, :, None] * gradient.swapaxes(0, 1)[None]
        if units.jac is not None:  # to the layer below, with the weights before the update
            gradient = units.jac[:, :, None] * (layer.mu[:-1] @ gradient)
        gain = layer.cov @ by_theta.reshape(len(layer.cov), -1) @ root.T
        layer.mu[...] += (gain @ whitened).reshape(layer.mu.shape)
        _subtract(layer.cov, gain, stretch)
    return mu_z, np.einsum("roo->ro", cov_z), Message(nu, np.empty(0), leverage)


def _whitening(cov: np.ndarray) -> np.ndarray:
    """L^-1 for I + cov = L L'."""
    rounding = np.finfo(cov.dtype).eps * np.trace(cov)
    while True:
        cov_y = cov.copy()
        cov_y.flat[:: len(cov) + 1] += 1 + rounding
        chol, failed = lapack.dpotrf(cov_y, lower=True, overwrite_a=True, clean=True)
        if not failed:
            break
        if not np.isfinite(rounding):
            return np.full_like(cov, np.nan)
        rounding *= 10
    return lapack.dtrtri(chol, lower=True, overwrite_c=True)[0]


def _subtract(cov: np.ndarray, gain: np.ndarray, stretch: float = 1.0) -> None:
    """Sigma -= gain gain', in place.

    The difference is known to rounding of the variances before, which the root of Sigma_Y may have
    stretched: as much is left on the diagonal, so that it stays positive definite where next to
    nothing is left of a variance.
    """
    rounding = len(cov) * stretch * np.finfo(cov.dtype).eps * cov.diagonal()
    cov -= gain @ gain.T
    cov.flat[:: len(cov) + 1] += rounding


# Forgetting


def fade(layer: FullLayer, member: int, half_lives: float, rows: float) -> None:
    """Let evidence fade: Sigma^-1 <- (1 - g) Sigma_0^-1 + g Sigma^-1 with g = 2^-half_lives.

    ``half_lives`` pass with ``rows``; cov may follow some rows later.
    """
    layer.fading[member] += half_lives
    due, cov = layer.fading[member], layer.cov[member]
    wait = min(LONGEST_WAIT, ROWS_A_PARAMETER * len(cov) * half_lives / rows)
    if due < wait or not np.isfinite(cov).all():
        return
    layer.fading[member] = 0
    prior = np.broadcast_to(layer.var_prior, layer.mu.shape[-2:]).ravel().astype(np.float64)
    if due > 60:  # nothing of the evidence is left
        cov[...] = np.diag(prior)
        return
    scale = np.sqrt(prior)
    faded = cov / (scale[:, None] * scale)
    while due > 0:  # by half at most, so that no difference below loses more than a digit
        keep = 2.0 ** -min(due, 1)
        due -= 1
        # g^-1 (A - (1 - g) A (g I + (1 - g) A)^-1 A), for A = Sigma in units of Sigma_0
        inner = (1 - keep) * faded
        inner.flat[:: len(cov) + 1] += keep
        chol = np.linalg.cholesky(inner)
        _subtract(faded, np.sqrt(1 - keep) * solve_triangular(chol, faded, lower=True).T)
        faded /= keep
    cov[...] = faded * (scale[:, None] * scale)


# What training and predicting call


def learn_full(net, batch, joint: bool, half_life) -> tuple[np.ndarray, np.ndarray]:
    """Learn a batch in place: log-likelihoods before that, and the statistic of the noise.

    Rows are learnt jointly, or else one after the other: the sum of what each would do alone has
    no covariance that is sure to be positive definite.
    """
    n_members, n_rows = batch.weight.shape
    log_lik, moments = np.zeros(n_members), None
    for member in range(n_members):
        noise_var = net.noise_var[member, 0]
        rows, used = _rows_of_member(batch, member)
        total = rows.weight.sum()
        if half_life is not None and total > 0:
            for layer in net.layers:
                fade(layer, member, total / half_life, total)
        parts = [slice(None)] if joint else [slice(i, i + 1) for i in range(len(used))]
        for part in parts if len(used) else []:
            given = rows.take(part)
            # Means and covariances change together, or not at all if something interrupts.
            layers = _copied(posterior(net.layers, member))
            mu_z, var_z, message = condition(layers, net.activation, net.outputs, given, noise_var)
            for layer, new in zip(net.layers, layers, strict=True):
                layer.mu[member], layer.cov[member] = new.mu, new.cov
            log_density = net.outputs.log_likelihood(mu_z, var_z + noise_var, given.y)
            log_lik[member] += given.weight @ log_density.sum(axis=-1)
            moment = noise_moment(message, noise_var, given.weight[:, None])
            if moments is None:
                moments = np.zeros((n_members, n_rows, moment.shape[1]))
            moments[member, used[part]] = moment
    return log_lik, np.zeros((n_members, n_rows, 1)) if moments is None else moments


def predict_full(net, x, var_x=None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the outputs, (members, rows, n_out)."""
    x, cov_x = _dense(x), _covariances(var_x)
    means, variances = [], []
    for member in range(len(net.noise_var)):
        layers = posterior(net.layers, member)
        block = _block(layers)
        for start in range(0, len(x), block):
            part = slice(start, start + block)
            part_cov = cov_x[part] if cov_x is not None and len(cov_x) > 1 else cov_x
            mu_z, cov_z, _ = forward(layers, net.activation, x[part].astype(np.float64), part_cov)
            means.append(mu_z)
            variances.append(np.einsum("roo->ro", cov_z))
    shape = (len(net.noise_var), len(x), -1)
    return np.concatenate(means).reshape(shape), np.concatenate(variances).reshape(shape)


def _rows_of_member(batch, member: int) -> tuple[FullBatch, np.ndarray]:
    """The rows of a member that have a weight, and their numbers."""
    used = np.flatnonzero(batch.weight[member])
    var_x = batch.var_x
    if isinstance(var_x, list) or np.ndim(var_x) > 2:  # otherwise (1, n_in), for all rows alike
        var_x = var_x[member]
    rows = FullBatch(
        _dense(batch.x[member]).astype(np.float64),
        batch.y[member],
        batch.weight[member].astype(np.float64),
        _covariances(var_x),
    )
    return rows.take(used), used


def _dense(values: Any) -> np.ndarray:
    return values.toarray() if sparse.issparse(values) else values


def _covariances(var_x) -> np.ndarray | None:
    """Covariance matrices of the inputs: given as such, or as variances."""
    if var_x is None:
        return None
    var_x = _dense(var_x).astype(np.float64)
    return var_x if var_x.ndim == 3 else var_x[:, :, None] * np.eye(var_x.shape[1])
