"""Epochs: shuffling, early stopping, the noise that suits the validation rows, history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .learning import Network, Rows, Settings, bounded_noise, learn_rows, predict_moments

__all__ = ["EarlyStopping", "History", "fit_epochs"]

# Fewer validation rows say too little about the noise: it stays what EM made it.
MIN_ROWS_FOR_NOISE = 10


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
    data = data.with_keys()
    stopping = EarlyStopping(net, n_iter_no_change, tol) if validation is not None else None
    history.posterior = (stopping.best if stopping is not None else net).copy
    everyone = np.arange(len(train))
    current, active = net, everyone  # a member that has stopped leaves the stack
    tapes: dict = {}
    try:
        if stopping is not None and validation is not None and continued:
            stopping.update(0, net, everyone, *_validate(net, data, validation))
        for epoch in range(1, max_iter + 1):
            if on_epoch_begin is not None:
                on_epoch_begin()
            rows = train[active]
            if rngs is not None:
                rows = np.stack([rngs[m].permutation(r) for m, r in zip(active, rows, strict=True)])
            scores = learn_rows(current, data, rows, settings, tapes)
            history.train_scores.append(float(scores.mean()))
            if stopping is not None and validation is not None:
                scores, noise_var = _validate(current, data, [validation[m] for m in active])
                goes_on = stopping.update(epoch, current, active, scores, noise_var)
                history.validation_scores.append(float(stopping.last_score.mean()))
                history.best_iter = stopping.best_iter.copy()
                if not goes_on.all() and goes_on.any():
                    current, tapes = current.members(np.flatnonzero(goes_on)), {}
                active = active[goes_on]
            history.stopped = on_epoch is not None and bool(on_epoch(history))
            if history.stopped or not len(active):
                break
    except KeyboardInterrupt:
        history.interrupted = True
    if stopping is not None and history.validation_scores:
        net.assign(stopping.best, everyone)
        history.best_iter = stopping.best_iter
    return history


class EarlyStopping:
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
    for member, (rows, mu_z, var_z) in enumerate(own_moments(net, data, validation)):
        y, weight = rows.y, rows.weight
        if net.learn_noise and len(weight) >= MIN_ROWS_FOR_NOISE:
            noise_var[member] = best_noise(net.outputs, mu_z, var_z, y, weight, noise_var[member])
        log_lik = net.outputs.log_likelihood(mu_z, var_z + noise_var[member], y)
        scores[member] = weight @ log_lik.sum(axis=-1) / weight.sum()
    return scores, noise_var


def own_moments(net: Network, data: Rows, validation: list[np.ndarray]) -> Iterator:
    """The rows of each member, with the means and variances that it predicts for them."""
    for member, numbers in enumerate(validation):
        rows = data.take(numbers)
        mu_z, var_z = predict_moments(net.members(slice(member, member + 1)), rows.x, rows.var_x)
        yield rows, mu_z[0], var_z[0]


def best_noise(outputs, mu_z, var_z, y, weight, noise_var) -> np.ndarray:
    """The noise variance (1, n_outputs or 1) that maximises the likelihood of some rows."""
    mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)

    def score(noise):
        return np.einsum("n,gno->go", weight, outputs.log_likelihood(mu_z, var_z + noise, y))

    return search_noise(score, noise_var, reach=8.0)[0]


def search_noise(score, noise_var, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """The noise variance (..., 1, n) with the best score, and its score (..., n).

    A grid over standard deviations up to ``reach`` times the current one or below, refined twice:
    ``score`` takes variances (..., grid, 1, n) and gives (..., grid, n).
    """
    center = 0.5 * np.log(noise_var)
    width = np.log(reach)
    for _ in range(3):
        grid = center[..., None, :, :] + np.linspace(-width, width, 17)[:, None, None]
        scores = score(bounded_noise(np.exp(2 * grid)))
        top = scores.argmax(axis=-2)[..., None, :]
        center = np.take_along_axis(grid[..., 0, :], top, axis=-2)
        width /= 8
    best = bounded_noise(np.exp(2 * center))
    return best, np.take_along_axis(scores, top, axis=-2)[..., 0, :]
