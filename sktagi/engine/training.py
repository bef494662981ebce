"""Epochs: early stopping, the noise that suits the validation rows, history.

One loop serves rows in memory and rows on a cluster: a ``Source`` knows where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from .keys import join_keys, row_keys
from .learning import Learner, Settings
from .noise import search_noise, trusted_noise
from .noise_network import NoiseNetwork
from .observations import ObservationModel
from .posterior import Network
from .predicting import held_out_moments
from .rows import Rows, n_observed

__all__ = [
    "TRUST",
    "EarlyStopping",
    "Epoch",
    "Finish",
    "History",
    "InMemory",
    "Plan",
    "Source",
    "best_noise",
    "fit_epochs",
    "train",
]  # fmt: skip

# If the noise may vary in later epochs: the share of those with constant noise at most, and the
# patience of both over that of a fit with constant noise.
CONSTANT_SHARE = 0.7
CONSTANT_PATIENCE = 0.75
VARYING_PATIENCE = 0.5
TRUST = 0.75  # in the noise of a row beside others, when means are learned


class Plan(NamedTuple):
    """When training ends."""

    max_iter: int
    n_iter_no_change: int = 1
    tol: float = 0.0

    def before_noise(self) -> Plan:
        """Return the plan of epochs with constant noise, if the noise may vary in later ones."""
        n_iter = math.ceil(CONSTANT_SHARE * self.max_iter)
        return self._replace(max_iter=n_iter, n_iter_no_change=self._patience(CONSTANT_PATIENCE))

    def after_noise(self, history: History) -> Plan:
        """Return the plan of the epochs that are kept for noise that may vary."""
        n_iter = self.max_iter - max(history.n_iter, math.ceil(CONSTANT_SHARE * self.max_iter))
        return self._replace(max_iter=n_iter, n_iter_no_change=self._patience(VARYING_PATIENCE))

    def _patience(self, share: float) -> int:
        return max(1, math.ceil(share * self.n_iter_no_change))


@dataclass
class History:
    """What happened, epoch by epoch; scores are mean log-likelihoods."""

    train_scores: list[float] = field(default_factory=list)
    validation_scores: list[float] = field(default_factory=list)
    best_iter: np.ndarray | None = None
    interrupted: bool = False
    stopped: bool = False  # by on_epoch
    comparable_from: int = 0  # scores of earlier epochs are those of other noise
    # While training goes on: returns a copy of the posterior that it would give if it ended now
    posterior: Callable[[], Network] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether nobody has stopped training."""
        return self.n_iter > 0 and not (self.interrupted or self.stopped)

    @property
    def n_iter(self) -> int:
        """Number of epochs."""
        return len(self.train_scores)


# Calibrates a network, in place, after epochs.
Finish = Callable[[Network, History], None]


class Epoch(Protocol):
    """What a source does in one epoch, with the posterior that it was given."""

    def validated(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scores (members,) of that posterior on the rows held out, and the best noise."""

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        """Let the members that go on learn; returns their posterior and training scores."""


class Source(Protocol):
    """Where rows are, and how they are learned there."""

    holds_out: bool  # whether there are rows to validate with

    def epoch(self, net: Network, active: np.ndarray, *, validate: bool, learn: bool) -> Epoch:
        """Begin an epoch: validate ``net``, the posterior of the active members, then learn."""

    def cancel(self) -> None:
        """Give up an epoch that was interrupted."""

    def vary_noise(self, noise: NoiseNetwork) -> None:
        """Let rows have noise of their own from now on."""


def fit_epochs(
    net: Network,
    source: Source,
    plan: Plan,
    finish: Finish,
    *,
    varies: bool = False,
    continued: bool = False,
    on_epoch: Callable[[History], bool | None] | None = None,
    on_epoch_begin: Callable[[], None] | None = None,
) -> History:
    """Train and ``finish``: calibrate by the rows held out.

    If the noise may vary, finishing tells how it does. If it does, means learn on, for the epochs
    that were kept for that, with rows that count as their noise says.
    """
    first = plan.before_noise() if varies else plan
    history = train(
        net, source, first, continued=continued, on_epoch=on_epoch, on_epoch_begin=on_epoch_begin
    )
    if history.n_iter:
        _finish(net, finish, history)
    noise, calibration = net.noise_net, net.calibration
    left = plan.after_noise(history)
    if varies and history.goes_on and noise is not None and left.max_iter > 0:
        if noise.varies:
            history.comparable_from = history.n_iter
            source.vary_noise(noise)
        elif history.n_iter < first.max_iter:  # constant noise, and no gain
            return history
        net.calibration = net.noise_net = None  # of predictions, not of learning
        train(
            net, source, left, continued=True, history=history,
            on_epoch=on_epoch, on_epoch_begin=on_epoch_begin,
        )  # fmt: skip
        net.noise_net, net.calibration = noise, calibration
        _finish(net, finish, history)
    return history


def _finish(net: Network, finish: Finish, history: History) -> None:
    """Finish; an interrupt from the keyboard leaves the network as it was before that."""
    before = net.noise_var.copy(), net.noise_net, net.calibration
    try:
        finish(net, history)
    except KeyboardInterrupt:
        history.interrupted = True
        net.noise_var[...], net.noise_net, net.calibration = before


def train(
    net: Network,
    source: Source,
    plan: Plan,
    *,
    continued: bool = False,
    history: History | None = None,
    on_epoch: Callable[[History], bool | None] | None = None,
    on_epoch_begin: Callable[[], None] | None = None,
) -> History:
    """Learn the rows of a source up to ``max_iter`` times, in place.

    If the source holds out rows, each member ends with the posterior of its best epoch, which may
    be the one that it starts with (epoch 0) if that is ``continued`` from earlier training. An
    interrupt from the keyboard ends training as if by ``max_iter``; so does ``on_epoch``, called
    after each epoch, if it returns True. A ``history`` is that of epochs before, which goes on.
    """
    history = History() if history is None else history
    before = history.n_iter
    stopping = EarlyStopping(net, plan, history.best_iter) if source.holds_out else None
    history.posterior = (stopping.best if stopping is not None else net).copy
    everyone = np.arange(net.n_members)
    current, active = net, everyone  # a member that has stopped leaves the stack
    # An epoch is validated at the beginning of the next, in one exchange with a cluster.
    n_rounds = plan.max_iter + (stopping is not None and plan.max_iter > 0)
    try:
        for number in range(1, n_rounds + 1):
            learn, goes_on = number <= plan.max_iter, np.ones(len(active), dtype=bool)
            validate = stopping is not None and (continued or number > 1)
            epoch = source.epoch(current, active, validate=validate, learn=learn)
            if stopping is not None and validate:
                done = before + number - 1 if number > 1 else None
                gains = stopping.update(done, current, active, *epoch.validated())
                if number > 1:  # where training starts is only something to beat
                    goes_on = gains
                    history.validation_scores.append(float(stopping.last_score.mean()))
                    history.best_iter = stopping.best_iter.copy()
                    history.stopped = on_epoch is not None and bool(on_epoch(history))
            if history.stopped or not (learn and goes_on.any()):
                break
            if on_epoch_begin is not None:
                on_epoch_begin()
            current, scores = epoch.learned(goes_on)
            active = active[goes_on]
            history.train_scores.append(float(scores.mean()))
            if stopping is None:
                if current is not net:
                    net.assign(current, everyone)
                history.stopped = on_epoch is not None and bool(on_epoch(history))
                if history.stopped:
                    break
    except KeyboardInterrupt:
        source.cancel()
        history.interrupted = True
    if stopping is not None and history.validation_scores:
        net.assign(stopping.best, everyone)
        history.best_iter = stopping.best_iter
    return history


class EarlyStopping:
    """The best posterior of each member, and which members still gain."""

    def __init__(self, net: Network, plan: Plan, best_iter: np.ndarray | None = None):
        self.n_iter_no_change, self.tol = plan.n_iter_no_change, plan.tol
        self.best = net.copy()
        zeros = np.zeros(net.n_members, dtype=int)
        self.best_iter = zeros if best_iter is None else best_iter.copy()
        self.last_score = np.full(net.n_members, -np.inf)
        self._top_score = np.full(net.n_members, -np.inf)
        self._to_beat = np.full(net.n_members, -np.inf)  # the last score that was a gain of tol
        self._waited = np.zeros(net.n_members, dtype=int)

    def update(
        self,
        epoch: int | None,
        net: Network,
        active: np.ndarray,
        scores: np.ndarray,
        noise_var: np.ndarray,
    ) -> np.ndarray:
        """Take note of the scores of the active members; returns which of them go on.

        They are those after an ``epoch``; None: where training starts.
        """
        self.last_score[active] = scores
        better = ~(scores <= self._top_score[active])  # NaN too: it must not go unnoticed
        chosen = active[better]
        self.best.assign(net, chosen, np.flatnonzero(better))
        self.best.noise_var[chosen] = noise_var[better]
        if epoch is not None:
            self.best_iter[chosen] = epoch
        self._top_score[chosen] = scores[better]
        gained = scores > self._to_beat[active] + self.tol
        self._to_beat[active[gained]] = scores[gained]
        self._waited[active] = np.where(gained, 0, self._waited[active] + 1)
        return self._waited[active] < self.n_iter_no_change


class InMemory:
    """Rows in memory, learned in place.

    ``order`` (members, n) are the rows that each member learns, ``validation`` those that it holds
    out. ``rngs`` shuffle the rows of each member in each epoch; None keeps their order.
    """

    def __init__(
        self,
        data: Rows,
        order: np.ndarray,
        validation: list[np.ndarray] | None,
        settings: Settings,
        rngs: list[np.random.RandomState] | None,
    ):
        self.data = data.with_keys()
        self.order = order
        self.validation = validation
        self.settings = settings
        self.rngs = rngs
        self.holds_out = validation is not None
        self._learner: Learner | None = None

    def epoch(
        self, net: Network, active: np.ndarray, *, validate: bool, learn: bool
    ) -> _EpochInMemory:
        """Begin an epoch; nothing is done before it is asked for."""
        return _EpochInMemory(self, net, active)

    def cancel(self) -> None:
        """Do nothing: what was interrupted is over."""

    def vary_noise(self, noise: NoiseNetwork) -> None:
        """Let rows have noise of their own from now on."""
        self.data = self.data.with_noise(noise.relative(self.data.x, TRUST))

    def learner(self, net: Network) -> Learner:
        """Return the learner of a network, the same as before if it is the same network."""
        if self._learner is None or self._learner.net is not net:
            self._learner = Learner(net, self.settings)
        return self._learner


class _EpochInMemory(NamedTuple):
    source: InMemory
    net: Network
    active: np.ndarray

    def validated(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.source.validation is not None
        held_out = [self.source.validation[m] for m in self.active]
        return validate(self.net, self.source.data, held_out)

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        source, net, active = self.source, self.net, self.active[goes_on]
        if not goes_on.all():
            net = net.members(np.flatnonzero(goes_on))
        order = source.order[active]
        if source.rngs is not None:
            pairs = zip(active, order, strict=True)
            order = np.stack([source.rngs[m].permutation(rows) for m, rows in pairs])
        return net, source.learner(net).learn(source.data, order)


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
