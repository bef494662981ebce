"""Full covariances of each layer's parameters and units, Eq. 3-6 and 8-16; layers independent.

A layer's parameters theta are its matrix of weights and biases, row by row, with one covariance
matrix. For two rows r and s that enter a layer as Gaussian units A_r and A_s, with the moment
m_kl = E[A_rk A_sl] and the covariance c_kl = cov(A_rk, A_sl), Eq. 3-5 sum up to

    cov(Z_ro, Z_sp) = sum_kl cov(W_ko, W_lp) m_kl + sum_kl W_ko c_kl W_lp

With r = s this is Sigma_Z of Eq. 10; with all pairs of rows of a batch it is the covariance of all
their outputs, exactly as if the batch were one observation. Backwards, divide the RTS equations
15-16 by the prior covariance of the units, as ``passes`` does, and no inverse is left but that of
Sigma_Y: with H the derivative of the observed outputs by theta,

    mu_theta += Sigma H Sigma_Y^-1 (y - mu_y),   Sigma -= Sigma H Sigma_Y^-1 H' Sigma

Functions work on one network; the members of a stack are taken one by one, for each is large.
Covariances are float64 whatever the means are: differences of them must stay positive definite.
Every row, and every pair of rows, has a matrix of its own: here rows are the first axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import lapack, solve_triangular

from .activations import Activation, activate
from .inputs import InputErrors
from .messages import Message
from .noise import OUTLIER_NOISE, learn_noise, noise_moment
from .observations import ObservationModel
from .posterior import FullLayer, Network
from .rows import Rows
from .sparse import to_dense

__all__ = ["check_size", "learn_full", "predict_full"]

# Parameters of a layer. The matrix of the largest takes 200 MB, and training keeps a few of them.
LARGEST_LAYER = 5000
LARGEST_TOTAL = 4  # GB, of all layers and members; early stopping keeps them twice
# Elements of an array over pairs of rows.
PAIR_ELEMENTS = 1 << 21
# Forgetting takes cubic time in the parameters P of a layer. It waits for P / 8 rows, when it costs
# about as much as learning them, but not for more than a sixteenth of a half-life.
ROWS_A_PARAMETER = 1 / 8
LONGEST_WAIT = 1 / 16


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
    y: np.ndarray  # (rows, n_targets), or (rows,) class numbers
    weight: np.ndarray  # (rows,): positive
    noise_ratio: np.ndarray | None  # (rows, n_noise): of Rows
    cov_x: np.ndarray | None  # (rows or 1, n_in, n_in)

    @classmethod
    def of(cls, rows: Rows) -> FullBatch:
        """Return rows in float64, without those that have no weight."""
        used = np.flatnonzero(rows.weight)
        rows = rows.take(used)
        return cls(
            to_dense(rows.x).astype(np.float64),
            rows.y,
            rows.weight.astype(np.float64),
            rows.noise_ratio,
            None if rows.errors is None else rows.errors.covariances(),
        )

    def take(self, part: slice) -> FullBatch:
        """Return some of the rows."""
        cov_x = self.cov_x
        if cov_x is not None and len(cov_x) > 1:
            cov_x = cov_x[part]
        ratio = None if self.noise_ratio is None else self.noise_ratio[part]
        return FullBatch(self.x[part], self.y[part], self.weight[part], ratio, cov_x)


# Size


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


# Forward pass


def posterior(layers: Sequence[FullLayer], member: int) -> list[Posterior]:
    """Return the layers of one member: copies of the means, views of the covariances."""
    return [Posterior(a.mu[member].astype(np.float64), a.cov[member]) for a in layers]


def _copied(layers: Sequence[Posterior]) -> list[Posterior]:
    return [layer._replace(cov=layer.cov.copy()) for layer in layers]


def forward(
    layers: Sequence[Posterior],
    activation: Activation,
    x: np.ndarray,
    cov_x: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, list[FullUnits]]:
    """Return mean and covariance of each row's outputs, and what enters each layer."""
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
    """Return the covariance of the outputs of pairs of different rows, (pairs, n_out, n_out).

    Errors of inputs are independent between rows: they count within a row only.
    """
    cov: Any = None
    for layer, units in zip(layers, tape, strict=True):
        ours, theirs = _of_rows(units, left), _of_rows(units, right)
        if units.jac is not None:
            cov = _activated(cov, ours, theirs)
        cov = _next_covariance(layer, ours.mu_a, theirs.mu_a, cov)
    return cov


def _next_covariance(
    layer: Posterior, mu_left: np.ndarray, mu_right: np.ndarray, cov: np.ndarray | None
) -> np.ndarray:
    """Return cov(Z_left, Z_right) from the units of a layer and their covariance."""
    moment = mu_left[:, :, None] * mu_right[:, None, :]
    if cov is not None:
        moment[:, :-1, :-1] += cov  # the last unit is the constant of the bias
    cov_z = _sum_over_weights(layer, moment)
    if cov is not None:
        weights = layer.mu[:-1]
        cov_z += weights.T @ (cov @ weights)
    return cov_z


def _sum_over_weights(layer: Posterior, moment: np.ndarray) -> np.ndarray:
    """Return sum_kl cov(W_ko, W_lp) m_kl for each pair of rows."""
    n_in, n_out = layer.mu.shape
    cov_w = layer.cov.reshape(n_in, n_out, n_in, n_out)
    if len(moment) == 1:  # without a copy of cov, which takes longer than one sum over it
        return np.einsum("kolp,kl->op", cov_w, moment[0])[None]
    by_units = cov_w.transpose(0, 2, 1, 3).reshape(n_in * n_in, n_out * n_out)
    return (moment.reshape(len(moment), -1) @ by_units).reshape(-1, n_out, n_out)


def _rounding(layer: Posterior, mu_a: np.ndarray, cov: np.ndarray | None) -> np.ndarray:
    """Return how far a variance may be off where covariances cancel: it must stay positive."""
    square = np.square(mu_a)
    if cov is not None:
        square[:, :-1] += np.einsum("rkk->rk", cov)
    var_w = layer.cov.diagonal().reshape(layer.mu.shape)
    return len(layer.cov) * np.finfo(np.float64).eps * (square @ var_w)


def _activate(activation: Activation, mu_z: np.ndarray, cov_z: np.ndarray) -> FullUnits:
    var_z = np.einsum("rii->ri", cov_z)
    mu_a, var_a, jac = activate(activation, mu_z, var_z)
    mu_a = np.hstack([mu_a, np.ones((len(mu_a), 1))])
    rest = var_a - jac * jac * var_z
    if (rest <= 1e-12 * var_a).all():  # a linearised activation leaves nothing but rounding
        return FullUnits(mu_a, jac)
    return FullUnits(mu_a, jac, np.sqrt(var_z), np.sqrt(np.maximum(rest, 0)))


def _activated(cov_z: np.ndarray, left: FullUnits, right: FullUnits) -> np.ndarray:
    """Return cov(A_left, A_right) = J cov(Z_left, Z_right) J' (Eq. 12).

    Where an activation's exact variance exceeds J^2 var_z, the rest is shared by the square of the
    correlation, the next order of its expansion: a covariance too, and the whole rest for copies.
    """
    cov = left.jac[:, :, None] * cov_z * right.jac[:, None, :]
    if left.extra is not None:
        rho = cov_z / (left.std_z[:, :, None] * right.std_z[:, None, :])
        cov += np.square(rho) * left.extra[:, :, None] * right.extra[:, None, :]
    return cov


def _block(layers: Sequence[Posterior]) -> int:
    """Return how many pairs of rows have their covariances computed at once."""
    return max(1, PAIR_ELEMENTS // max(np.square(layer.mu.shape).sum() for layer in layers))


def _of_rows(units: FullUnits, rows: np.ndarray) -> FullUnits:
    parts = {name: v[rows] for name, v in units._asdict().items() if v is not None}
    return FullUnits(**parts)


# Backward pass


def condition(
    layers: Sequence[Posterior],
    activation: Activation,
    outputs: ObservationModel,
    rows: FullBatch,
    noise_var: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, Message, np.ndarray]:
    """Condition the posterior on rows in place (Eq. 14-16), all of them at once.

    ``noise_var`` is (n_noise, rows or 1). Returns the rows' moments before that, the message, whose
    kappa is not needed here, and the noise of the sites, all (n_out, rows).
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

    targets = outputs.targets(rows.y, np.float64)
    var_z = np.einsum("roo->or", cov_z)
    weight = np.broadcast_to(rows.weight, targets.value.shape)
    if targets.observed is not None:
        weight = weight * targets.observed
    target, noise = outputs.sites(mu_z.T, var_z, targets.value, noise_var, weight)
    nu, leverage = np.zeros((2, *target.shape))
    row, node = np.nonzero(weight.T > 0)  # what is observed
    if not len(row):
        return mu_z.T, var_z, Message(nu, np.empty(0), leverage), noise
    scale = np.sqrt(weight / noise)[node, row]
    # In units of the noise, Sigma_Y = I + K: divided by nothing small, and always invertible.
    cov_y = cov[row[:, None], row, node[:, None], node] * (scale[:, None] * scale)
    root = _whitening(cov_y)
    stretch = root.diagonal().max() / root.diagonal().min()
    residual = scale * (target[node, row] - mu_z[row, node])
    whitened = root @ residual
    nu[node, row] = scale * (root.T @ whitened)
    leverage[node, row] = np.maximum(1 - np.square(root).sum(axis=0), 0)

    place = np.arange(len(row)) - np.searchsorted(row, row)  # among the observations of a row
    gradient = np.zeros((n_rows, n_out, place.max() + 1))  # of what is observed, by the units z
    gradient[row, node, place] = scale
    there: Any = slice(None)
    if len(row) < n_rows * gradient.shape[2]:  # not all rows observe as much
        there = row * gradient.shape[2] + place
    for layer, units in zip(reversed(layers), reversed(tape), strict=True):
        by_theta = units.mu_a.T[:, None, :, None] * gradient.swapaxes(0, 1)[None]
        if units.jac is not None:  # to the layer below, with the weights before the update
            gradient = units.jac[:, :, None] * (layer.mu[:-1] @ gradient)
        gain = layer.cov @ by_theta.reshape(len(layer.cov), -1)[:, there] @ root.T
        layer.mu[...] += (gain @ whitened).reshape(layer.mu.shape)
        _subtract(layer.cov, gain, stretch)
    return mu_z.T, var_z, Message(nu, np.empty(0), leverage), noise


def _whitening(cov: np.ndarray) -> np.ndarray:
    """Return L^-1 for I + cov = L L'."""
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


def forget_full(layer: FullLayer, member: int, half_lives: float, rows: float) -> None:
    """Forget: Sigma^-1 <- (1 - g) Sigma_0^-1 + g Sigma^-1 with g = 2^-half_lives.

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
    forgotten = cov / (scale[:, None] * scale)
    while due > 0:  # by half at most, so that no difference below loses more than a digit
        retained = 2.0 ** -min(due, 1)
        due -= 1
        # g^-1 (A - (1 - g) A (g I + (1 - g) A)^-1 A), for A = Sigma in units of Sigma_0
        inner = (1 - retained) * forgotten
        inner.flat[:: len(cov) + 1] += retained
        chol = np.linalg.cholesky(inner)
        _subtract(
            forgotten, np.sqrt(1 - retained) * solve_triangular(chol, forgotten, lower=True).T
        )
        forgotten /= retained
    cov[...] = forgotten * (scale[:, None] * scale)


# What training and predicting call


def learn_full(
    net: Network,
    member: int,
    rows: Rows,
    joint: bool,
    half_life: float | None,
    memory: float = np.inf,
) -> tuple[float, np.ndarray]:
    """Let a member learn a batch in place; returns its summed log-likelihood before that.

    With it go the moments (2, n_out, rows) of the rows that have a weight, before that. Rows are
    learned jointly, or else one after the other: the sum of what each would do alone has no
    covariance that is sure to be positive definite.
    """
    one = net.members(slice(member, member + 1))
    layers = cast("list[FullLayer]", net.layers)
    batch = FullBatch.of(rows)
    n_rows, total = len(batch.weight), batch.weight.sum()
    if not n_rows:
        return 0.0, np.empty((2, net.outputs.n_outputs, 0))
    if half_life is not None:
        for layer in layers:
            forget_full(layer, member, total / half_life, total)
    log_lik, noise_moments, moments = 0.0, [], []
    for part in [slice(None)] if joint else [slice(i, i + 1) for i in range(n_rows)]:
        given = batch.take(part)
        noise_var = net.noise_var[member]
        if given.noise_ratio is not None:
            noise_var = noise_var * given.noise_ratio.T
        # Means and covariances change together, or not at all if something interrupts.
        changed = _copied(posterior(layers, member))
        outputs = net.outputs.members(member)
        mu_z, var_z, message, noise = condition(changed, net.activation, outputs, given, noise_var)
        for layer, new in zip(layers, changed, strict=True):
            layer.mu[member], layer.cov[member] = new.mu, new.cov
        log_density = outputs.log_likelihood(mu_z, var_z + noise_var, given.y)
        log_lik += given.weight @ log_density.sum(axis=-2)
        moment = noise_moment(message, noise, given.weight)
        if noise is not noise_var:  # an outlier says little of it
            usual = OUTLIER_NOISE * noise_var * given.weight
            if np.isnan(given.y).any():
                usual = usual * ~np.isnan(given.y.T)
            moment = np.where(noise > noise_var, usual, moment)
        ratio = given.noise_ratio
        noise_moments.append(moment if ratio is None else moment / ratio.T)
        moments.append(np.stack([mu_z, var_z]))
    if net.noise_is_learned:
        observed = net.outputs.members(member).targets(batch.y, np.float64).observed
        weight = batch.weight[None]
        observed_weight = weight if observed is None else weight * observed
        learn_noise(
            one, np.hstack(noise_moments)[None], weight[None], observed_weight[None],
            memory,
        )  # fmt: skip
    return log_lik, np.concatenate(moments, axis=-1)


def predict_full(
    net: Network, x: Any, errors: InputErrors | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the outputs, (members, n_out, rows); ``x`` has rows first."""
    x, cov_x = to_dense(x), None if errors is None else errors.covariances()
    mu, var = np.empty((2, net.n_members, net.outputs.n_outputs, len(x)))
    for member in range(net.n_members):
        layers = posterior(cast("list[FullLayer]", net.layers), member)
        block = _block(layers)
        for start in range(0, len(x), block):
            part = slice(start, start + block)
            part_cov = cov_x[part] if cov_x is not None and len(cov_x) > 1 else cov_x
            mu_z, cov_z, _ = forward(layers, net.activation, x[part].astype(np.float64), part_cov)
            mu[member, :, part] = mu_z.T
            var[member, :, part] = np.einsum("roo->or", cov_z)
    return mu, var
