"""Epochs of minibatches: forget, forward, observe, backward; early stopping; history.

The posterior of one batch is the prior of the next (paper, section 2.3). Several networks, the
members, learn side by side along the first axis of every array, each from rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .batch import output_covariance
from .network import Layer, backward, copy_layers, forget, forward
from .noise import Message, independent_message, joint_message, noise_moment

__all__ = [
    "History",
    "Network",
    "Rows",
    "Settings",
    "batches",
    "fit_epochs",
    "learn_rows",
    "predict_moments",
]

# Learned noise never falls below 1e-6 of the target's spread, and its square fits into float32.
NOISE_VAR_RANGE = (1e-12, 1e18)
# Fewer validation rows say too little about the noise: it stays what EM made it.
MIN_ROWS_FOR_NOISE = 10
# Elements of the widest array that a block of predicted rows may need.
BLOCK_ELEMENTS = 1 << 18


class Rows(NamedTuple):
    """Training or validation rows."""

    x: Any  # (n, n_in + 1), last column ones; dense or CSR
    y: np.ndarray  # (n, n_outputs), or (n,) class numbers
    weight: np.ndarray  # (n,)
    var_x: Any = None  # (n, n_in), or (1, n_in) for all rows alike

    def take(self, rows: np.ndarray) -> Rows:
        """Rows by number, (members, batch), for each member its own."""
        var_x = self.var_x
        if var_x is not None and var_x.shape[0] > 1:
            var_x = _take(var_x, rows)
        return Rows(_take(self.x, rows), self.y[rows], self.weight[rows], var_x)


def _take(values, rows: np.ndarray):
    if sparse.issparse(values):
        return [values[r] for r in rows]
    return values[rows]


@dataclass
class Network:
    """A posterior: parameters and observation noise of the members."""

    layers: list[Layer]
    activation: Callable
    outputs: Any  # GaussianOutputs or ClassTree
    noise_var: np.ndarray  # (members, 1, n_outputs or 1), float64
    learn_noise: bool = False
    # (members, 1, 1), sets the pace of learning noise
    rows_learned: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self):
        if not self.rows_learned.size:
            self.rows_learned = np.zeros((len(self.noise_var), 1, 1))

    def copy(self) -> Network:
        return Network(
            copy_layers(self.layers), self.activation, self.outputs, self.noise_var.copy(),
            self.learn_noise, self.rows_learned.copy(),
        )  # fmt: skip

    def members(self, numbers) -> Network:
        """Some of the members: views for a slice, copies for an array of numbers."""
        layers = [Layer(a.mu[numbers], a.var[numbers], a.var_prior) for a in self.layers]
        return Network(
            layers, self.activation, self.outputs, self.noise_var[numbers], self.learn_noise,
            self.rows_learned[numbers],
        )  # fmt: skip

    def assign(self, other: Network, members: np.ndarray, theirs: np.ndarray | None = None):
        """Take over the posterior of some members; ``theirs`` are their numbers in ``other``."""
        theirs = members if theirs is None else theirs
        for mine, new in zip(self.layers, other.layers, strict=True):
            mine.mu[members] = new.mu[theirs]
            mine.var[members] = new.var[theirs]
        self.noise_var[members] = other.noise_var[theirs]
        self.rows_learned[members] = other.rows_learned[theirs]


class Settings(NamedTuple):
    """How rows are learnt."""

    batch_size: int
    joint: bool = True
    half_life: float | None = None


def learn_batch(net: Network, batch: Rows, settings: Settings) -> np.ndarray:
    """Learn one batch in place; returns its summed log-likelihood before that, for each member."""
    layers = net.layers
    dtype = layers[0].mu.dtype
    noise_var = net.noise_var.astype(dtype)
    weight = batch.weight[..., None]
    total = weight.sum(axis=-2, keepdims=True)
    if settings.half_life is not None:
        forget(layers, np.exp2(-total / settings.half_life).astype(dtype))
    mu_z, var_z, tape = forward(layers, net.activation, batch.x, batch.var_x)
    log_lik = (net.outputs.log_likelihood(mu_z, var_z + noise_var, batch.y) * weight).sum((-1, -2))
    y, outputs = net.outputs.targets(batch.y)
    observed = _Observed(mu_z, var_z, y.astype(dtype, copy=False), noise_var, weight, outputs)
    if outputs is not None:
        observed = observed._replace(
            mu_z=np.take_along_axis(mu_z, outputs, axis=-1),
            var_z=np.take_along_axis(var_z, outputs, axis=-1),
        )
    message = _message(layers, tape, observed, settings.joint)
    if net.learn_noise:
        _learn_noise(net, noise_moment(message, noise_var, weight), weight, total)
    nu, kappa = message.nu, message.kappa
    if outputs is not None:
        nu, kappa = _scatter(nu, outputs, mu_z), _scatter(kappa, outputs, mu_z)
    backward(layers, tape, nu, kappa, _is_one_row(weight, total))
    return log_lik


def _is_one_row(weight: np.ndarray, total: np.ndarray):
    """Whether a network has a single row; one that weighs more stands for several copies."""
    if weight.shape[-2] > 1 and weight.all():
        return False
    return (np.count_nonzero(weight, axis=-2, keepdims=True) == 1) & (total <= 1)


class _Observed(NamedTuple):
    """Moments and targets of what the rows of a batch observe, (..., rows, observations)."""

    mu_z: np.ndarray
    var_z: np.ndarray
    y: np.ndarray
    noise_var: np.ndarray
    weight: np.ndarray
    outputs: np.ndarray | None  # which output is observed; None: all, in their order


def _scatter(values: np.ndarray, outputs: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Messages of all outputs: zero where an output is not observed."""
    out = np.zeros_like(like)
    np.put_along_axis(out, outputs, values, axis=-1)
    return out


def _message(layers, tape, observed: _Observed, joint: bool) -> Message:
    mu_z, var_z, y, noise_var, weight, outputs = observed
    if mu_z.shape[-2] == 1:
        return independent_message(mu_z, var_z, y, noise_var, weight)
    if joint:
        shared, own = output_covariance(layers, tape, var_z, outputs)
        return joint_message(mu_z, shared, own, y, noise_var, weight)
    alone = independent_message(mu_z, var_z, y, noise_var, weight)
    # The sum of what each row would do alone overshoots where rows say the same thing. To first
    # order it moves the outputs by K nu; that can only make the batch's own error grow if the
    # leverages sum to more than 2. Where it would, learn from the rows jointly.
    if alone.leverage.sum(axis=-2).max() <= 2:
        return alone
    shared, own = output_covariance(layers, tape, var_z, outputs)
    step = (shared + own) @ alone.nu.swapaxes(-1, -2)[..., None]
    root = np.sqrt(alone.kappa)
    before = root * (y - mu_z)
    after = before - root * step[..., 0].swapaxes(-1, -2)
    size = np.maximum(np.abs(before).max(axis=-2, keepdims=True), np.finfo(before.dtype).tiny)
    with np.errstate(over="ignore"):
        error_before = np.square(before / size).sum(axis=-2, keepdims=True)
        error_after = np.square(after / size).sum(axis=-2, keepdims=True)
    worse = ~(error_after <= error_before)  # an overflow is worse too
    if not worse.any():
        return alone
    together = joint_message(mu_z, shared, own, y, noise_var, weight)
    return Message(*(np.where(worse, *pair) for pair in zip(together, alone, strict=True)))


def _learn_noise(net: Network, moment, weight, total) -> None:
    """One step of online EM: noise_var follows the mean of E[v^2 | y], the newest rows most."""
    axes = (-2, -1) if net.outputs.shared_noise else -2
    weight = np.broadcast_to(weight, moment.shape)
    count = weight.sum(axis=axes, keepdims=True)
    target = moment.sum(axis=axes, keepdims=True) / np.where(count > 0, count, 1)
    net.rows_learned += total
    # A step of n^-0.6 forgets the poor noise of the first batches, and still averages.
    step = (total / np.maximum(net.rows_learned, 1)) ** 0.6 * (count > 0)
    new = net.noise_var + step * (target - net.noise_var)
    net.noise_var[...] = np.clip(new, *NOISE_VAR_RANGE)


def batches(n_rows: int, batch_size: int) -> Iterator[slice]:
    for start in range(0, n_rows, batch_size):
        yield slice(start, start + batch_size)


def learn_rows(net: Network, data: Rows, rows: np.ndarray, settings: Settings) -> np.ndarray:
    """One pass over ``rows`` (members, n), in their order; returns mean log-likelihoods."""
    # The number -1 is padding: it takes the last row along, without weight.
    padded = rows < 0
    log_lik = np.zeros(len(rows))
    total = np.zeros(len(rows))
    for part in batches(rows.shape[1], settings.batch_size):
        batch = data.take(rows[:, part])
        if padded[:, part].any():
            batch = batch._replace(weight=np.where(padded[:, part], 0, batch.weight))
        log_lik += learn_batch(net, batch, settings)
        total += batch.weight.sum(axis=-1)
    return log_lik / np.maximum(total, np.finfo(float).tiny)


def predict_moments(
    net: Network, x, var_x=None, prepare: Callable = lambda x, var_x: (x, var_x)
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the outputs, (members, n, n_outputs), in blocks of bounded memory.

    ``prepare`` turns a block of given rows into inputs of the network.
    """
    n_rows = x.shape[0]
    mu = np.empty((len(net.noise_var), n_rows, net.outputs.n_outputs), net.layers[0].mu.dtype)
    var = np.empty_like(mu)
    for part in batches(n_rows, block_rows(net)):
        block_var = var_x if var_x is None or var_x.shape[0] == 1 else var_x[part]
        inputs = prepare(x[part], block_var)
        mu[:, part], var[:, part], _ = forward(net.layers, net.activation, *inputs)
    return mu, var


def block_rows(net: Network) -> int:
    widest = max(max(layer.mu.shape[-2:]) for layer in net.layers)
    return max(1, BLOCK_ELEMENTS // (widest * len(net.noise_var)))


@dataclass
class History:
    """What happened, epoch by epoch; scores are mean log-likelihoods."""

    train_scores: list[float] = field(default_factory=list)
    validation_scores: list[float] = field(default_factory=list)
    best_iter: np.ndarray | None = None
    interrupted: bool = False
    stopped: bool = False  # by on_epoch
    # While training goes on: a copy of the posterior that it would give if it ended now.
    posterior: Callable[[], Network] | None = None

    @property
    def n_iter(self) -> int:
        return len(self.train_scores)


def fit_epochs(
    net: Network,
    data: Rows,
    train: np.ndarray,
    validation: list[np.ndarray] | None,
    settings: Settings,
    *,
    max_iter: int,
    n_iter_no_change: int,
    tol: float,
    rngs: list | None,
    continued: bool = False,
    on_epoch: Callable[[History], bool] | None = None,
    on_epoch_begin: Callable[[], None] | None = None,
) -> History:
    """Learn ``train`` (members, n) up to ``max_iter`` times, in place.

    With ``validation`` (row numbers for each member), each member ends with the posterior of its
    best epoch, which may be the one that it starts with (epoch 0) if that is ``continued`` from
    earlier training. ``rngs`` shuffle the rows of each member in each epoch; None keeps their
    order. An interrupt from the keyboard ends training as if by ``max_iter``; so does ``on_epoch``,
    called after each epoch, if it returns True.
    """
    history = History()
    n_members = len(train)
    stopping = _EarlyStopping(net, n_iter_no_change, tol) if validation is not None else None
    history.posterior = (stopping.best if stopping is not None else net).copy
    current, active = net, np.arange(n_members)  # a member that has stopped leaves the stack
    try:
        if stopping is not None and validation is not None and continued:
            stopping.update(0, net, active, *_validate(net, data, validation))
        for epoch in range(1, max_iter + 1):
            if on_epoch_begin is not None:
                on_epoch_begin()
            rows = train[active]
            if rngs is not None:
                rows = np.stack([rngs[m].permutation(r) for m, r in zip(active, rows, strict=True)])
            scores = learn_rows(current, data, rows, settings)
            history.train_scores.append(float(scores.mean()))
            if stopping is not None and validation is not None:
                scores, noise_var = _validate(current, data, [validation[m] for m in active])
                goes_on = stopping.update(epoch, current, active, scores, noise_var)
                history.validation_scores.append(float(stopping.last_score.mean()))
                history.best_iter = stopping.best_iter.copy()
                if not goes_on.all() and goes_on.any():
                    current = current.members(np.flatnonzero(goes_on))
                active = active[goes_on]
            history.stopped = on_epoch is not None and bool(on_epoch(history))
            if history.stopped or not len(active):
                break
    except KeyboardInterrupt:
        history.interrupted = True
    if stopping is not None and history.validation_scores:
        net.assign(stopping.best, np.arange(n_members))
        history.best_iter = stopping.best_iter
    return history


class _EarlyStopping:
    """The best posterior of each member, and which members still gain."""

    def __init__(self, net: Network, n_iter_no_change: int, tol: float):
        n_members = len(net.noise_var)
        self.n_iter_no_change, self.tol = n_iter_no_change, tol
        self.best = net.copy()
        self.best_iter = np.zeros(n_members, dtype=int)
        self.last_score = np.full(n_members, -np.inf)
        self._top_score = np.full(n_members, -np.inf)
        self._to_beat = np.full(n_members, -np.inf)  # the last score that was a gain of tol
        self._waited = np.zeros(n_members, dtype=int)

    def update(self, epoch: int, net: Network, active, scores, noise_var) -> np.ndarray:
        """Take note of the scores of the active members; which of them go on."""
        self.last_score[active] = scores
        better = ~(scores <= self._top_score[active])  # NaN too: it must not go unnoticed
        chosen = active[better]
        self.best.assign(net, chosen, np.flatnonzero(better))
        self.best.noise_var[chosen] = noise_var[better]
        self.best_iter[chosen] = epoch
        self._top_score[chosen] = scores[better]
        gained = scores > self._to_beat[active] + self.tol
        self._to_beat[active[gained]] = scores[gained]
        self._waited[active] = np.where(gained, 0, self._waited[active] + 1)
        return self._waited[active] < self.n_iter_no_change


def _validate(net: Network, data: Rows, validation: list[np.ndarray]):
    """Each member's score on its own rows, and the noise that maximises it if noise is learnt."""
    scores = np.empty(len(validation))
    noise_var = net.noise_var.copy()
    for member, rows in enumerate(validation):
        one = net.members(slice(member, member + 1))
        var_x = data.var_x
        if var_x is not None and var_x.shape[0] > 1:
            var_x = var_x[rows]
        mu_z, var_z = predict_moments(one, data.x[rows], var_x)
        y, weight = data.y[rows], data.weight[rows]
        if net.learn_noise and len(rows) >= MIN_ROWS_FOR_NOISE:
            noise_var[member] = best_noise(
                net.outputs, mu_z[0], var_z[0], y, weight, noise_var[member]
            )
        log_lik = net.outputs.log_likelihood(mu_z[0], var_z[0] + noise_var[member], y)
        scores[member] = weight @ log_lik.sum(axis=-1) / weight.sum()
    return scores, noise_var


def best_noise(outputs, mu_z, var_z, y, weight, noise_var) -> np.ndarray:
    """The noise variance (1, n_outputs or 1) that maximises the likelihood of some rows.

    A grid over standard deviations from 1/8 to 8 times the current one, refined twice.
    """
    mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)
    center = 0.5 * np.log(noise_var)
    width = np.log(8.0)
    for _ in range(3):
        grid = center + np.linspace(-width, width, 17)[:, None, None]
        noise = np.clip(np.exp(2 * grid), *NOISE_VAR_RANGE)
        log_lik = outputs.log_likelihood(mu_z, var_z + noise, y)
        score = np.einsum("n,gno->go", weight, log_lik)
        center = np.take_along_axis(grid[:, 0], score.argmax(axis=0)[None], axis=0)
        width /= 8
    return np.clip(np.exp(2 * center), *NOISE_VAR_RANGE)
