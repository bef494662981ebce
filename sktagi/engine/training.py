"""Epochs: early stopping, the noise that suits the validation rows, history.

One loop serves rows in memory and rows on a cluster: a ``Source`` knows where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from .jobs import Jobs
from .keys import join_keys, row_keys
from .learning import Learner, Settings
from .mixture import Evidence, Mixture, best_weights, predict_kinds
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
# A race between kinds: after so many epochs, those with less weight than this are left behind. In
# the end, a kind with less weight than LIGHTEST is left out.
RACE_EPOCHS = 10
LEAST_IN_RACE = 0.01
LIGHTEST = 0.005
EPOCHS_AT_ONCE = 10  # in other processes
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
    posterior: Callable[[], Network | Mixture] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether nobody has stopped training."""
        return self.n_iter > 0 and not (self.interrupted or self.stopped)

    @property
    def n_iter(self) -> int:
        """Number of epochs."""
        return len(self.train_scores)


# Calibrates a network, in place, after epochs.
Finish = Callable[[Network | Mixture, History], None]


class Epoch(Protocol):
    """What a source does in one epoch, with the posterior that it was given."""

    def validated(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scores (members,) of that posterior on the rows held out, and the best noise."""

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        """Let the members that go on learn; returns their posterior and training scores."""


class Source(Protocol):
    """Where rows are, and how they are learned there."""

    holds_out: bool  # whether there are rows to validate with
    best_iter: np.ndarray | None  # (members,): the best epoch of earlier training

    def epoch(self, net: Network, active: np.ndarray, *, validate: bool, learn: bool) -> Epoch:
        """Begin an epoch: validate ``net``, the posterior of the active members, then learn."""

    def cancel(self) -> None:
        """Give up an epoch that was interrupted."""

    def vary_noise(self, noise: NoiseNetwork) -> None:
        """Let rows have noise of their own from now on."""

    def anneal(self, done: int) -> None:
        """Forget in the next epoch as it is planned after ``done`` epochs."""

    def members(self, numbers: np.ndarray) -> Source:
        """Return the source of some members."""

    def end(self, parts: Sequence[Any]) -> None:
        """Go on, if training does, where the sources of all members have ended."""

    def weights(self, networks: Sequence[Network]) -> tuple[np.ndarray, Evidence | None]:
        """Return the weights of kinds, by the rows held out, and what speaks for them."""


def fit_epochs(
    net: Network | Mixture,
    sources: Sequence[Source],
    plan: Plan,
    finish: Finish,
    *,
    varies: bool = False,
    continued: bool = False,
    on_epoch: Callable[[History], bool | None] | None = None,
    on_epoch_begin: Callable[[], None] | None = None,
    n_jobs: int = 1,
) -> tuple[Network | Mixture, History]:
    """Train in place, weigh the kinds if there are several, and ``finish``: calibrate.

    There is a source for each kind. If the noise may vary, finishing tells how it does. If it does,
    means learn on, for the epochs that were kept for that, with rows that count as their noise
    says. Returns what was trained, without the kinds that have no weight.
    """
    told: dict[str, Any] = {
        "on_epoch": on_epoch, "on_epoch_begin": on_epoch_begin, "n_jobs": n_jobs
    }  # fmt: skip
    first = plan.before_noise() if varies else plan
    net, sources, history = train(net, sources, first, continued=continued, **told)
    if history.n_iter:
        net, sources = _weighed(net, sources, LIGHTEST, history)
        _finish(net, finish, history)
    noise, calibration = net.noise_net, net.calibration
    left = plan.after_noise(history)
    if varies and history.goes_on and noise is not None and left.max_iter > 0:
        if noise.varies:
            history.comparable_from = history.n_iter
            for source in sources:
                source.vary_noise(noise)
        elif history.n_iter < first.max_iter:  # constant noise, and no gain
            return net, history
        net.calibration = net.noise_net = None  # of predictions, not of learning
        net, sources, history = train(net, sources, left, continued=True, history=history, **told)
        net, sources = _weighed(net, sources, LIGHTEST, history)
        net.noise_net, net.calibration = noise, calibration
        _finish(net, finish, history)
    return net, history


def _weighed(
    net: Network | Mixture,
    sources: Sequence[Source],
    lightest: float,
    history: History | None = None,
) -> tuple[Network | Mixture, Sequence[Source]]:
    """Return the mixture with the weights that rows held out speak for, and its sources.

    A ``history`` then has the best epochs of the kinds that are kept.
    """
    if isinstance(net, Network):
        return net, sources
    weight, evidence = sources[0].weights(net.networks)
    net = replace(net, weight=weight, evidence=evidence)
    kept = net.without(lightest)
    pairs = zip(net.names, sources, strict=True)
    sources = [source for name, source in pairs if name in kept.names]
    if history is not None:
        history.best_iter = _of_kinds([cast(np.ndarray, a.best_iter) for a in sources])
    return kept, sources


def _finish(net: Network | Mixture, finish: Finish, history: History) -> None:
    """Finish; an interrupt from the keyboard leaves the network as it was before that."""
    before = [a.noise_var.copy() for a in net.networks], net.noise_net, net.calibration
    try:
        finish(net, history)
    except KeyboardInterrupt:
        history.interrupted = True
        noise, net.noise_net, net.calibration = before
        for network, noise_var in zip(net.networks, noise, strict=True):
            network.noise_var[...] = noise_var


def train(
    net: Network | Mixture,
    sources: Sequence[Source],
    plan: Plan,
    *,
    continued: bool = False,
    history: History | None = None,
    on_epoch: Callable[[History], bool | None] | None = None,
    on_epoch_begin: Callable[[], None] | None = None,
    n_jobs: int = 1,
) -> tuple[Network | Mixture, Sequence[Source], History]:
    """Learn the rows of the sources, one for each kind, up to ``max_iter`` times, in place.

    If a source holds out rows, each member ends with the posterior of its best epoch, which may
    be the one that it starts with (epoch 0) if that is ``continued`` from earlier training. An
    interrupt from the keyboard ends training as if by ``max_iter``; so does ``on_epoch``, called
    after each epoch, if it returns True. A ``history`` is that of epochs before, which goes on.

    Kinds that have no weight after the first epochs are left out of what is returned. With
    ``n_jobs``, kinds and members learn in as many processes, some epochs at a time.
    """
    history = History() if history is None else history
    before = history.n_iter
    n_parts = -(-n_jobs // len(sources))
    kinds = zip(net.networks, sources, strict=True)
    runs = [Run(kind, source, plan, n_parts, continued, before) for kind, source in kinds]
    history.posterior = lambda: _posterior(net, runs)
    until_race = RACE_EPOCHS if isinstance(net, Mixture) and not before else 0
    with Jobs(n_jobs) as jobs:
        try:
            while not (history.stopped or all(run.is_over for run in runs)):
                parts = [part for run in runs for part in run.parts]
                if n_jobs > 1:
                    jobs.advance(parts, min(EPOCHS_AT_ONCE, until_race or EPOCHS_AT_ONCE))
                else:
                    for part in parts:
                        part.validate()
                history.stopped = _record(history, runs, before, on_epoch)
                if until_race and history.n_iter >= until_race:
                    until_race = 0
                    net, runs = _after_race(net, runs)
                if n_jobs == 1 and not (history.stopped or all(run.is_over for run in runs)):
                    if on_epoch_begin is not None:
                        on_epoch_begin()
                    for part in [part for run in runs for part in run.parts]:
                        part.learn()
                    if not runs[0].holds_out:
                        history.stopped = _record(history, runs, before, on_epoch)
        except KeyboardInterrupt:
            for source in sources:
                source.cancel()
            history.interrupted = True
    for run in runs:
        run.end()
    if history.n_iter and runs[0].holds_out:
        history.best_iter = _best_epochs(runs)
    return net, [run.source for run in runs], history


def _posterior(net: Network | Mixture, runs: Sequence[Run]) -> Network | Mixture:
    """Return a copy of what training would give if it ended now."""
    best = [run.best() for run in runs]
    if isinstance(net, Network):
        return best[0]
    names = [net.names[_place(net, run.net)] for run in runs]
    mixture = replace(net, networks=best, names=names)
    return _weighed(mixture, [run.source for run in runs], LIGHTEST)[0]


def _after_race(net: Network | Mixture, runs: Sequence[Run]) -> tuple[Network | Mixture, list[Run]]:
    """Return the kinds that have weight after the first epochs."""
    assert isinstance(net, Mixture)
    weight, _ = runs[0].source.weights([run.best() for run in runs])
    kept = replace(net, weight=weight).without(LEAST_IN_RACE)
    return kept, [run for run in runs if any(run.net is kind for kind in kept.networks)]


def _place(net: Mixture, kind: Network) -> int:
    return next(k for k, network in enumerate(net.networks) if network is kind)


def _record(
    history: History,
    runs: Sequence[Run],
    before: int,
    on_epoch: Callable[[History], bool | None] | None,
) -> bool:
    """Take note of the epochs that are over; tells whether somebody stops training.

    Scores of several kinds are those of the one that is best on the rows held out.
    """
    while any(run.n_scored > history.n_iter - before for run in runs):
        number = history.n_iter - before
        best = runs[0]
        if best.holds_out:
            best = max(runs, key=lambda run: run.validation_score(number))
            history.validation_scores.append(best.validation_score(number))
            history.best_iter = _best_epochs(runs)
        history.train_scores.append(best.train_score(number))
        if on_epoch is not None and on_epoch(history):
            return True
    return False


def _best_epochs(runs: Sequence[Run]) -> np.ndarray:
    """Return the best epochs of the members (members,); of several kinds (kinds, members)."""
    return _of_kinds([run.best_iter() for run in runs])


def _of_kinds(best: Sequence[np.ndarray]) -> np.ndarray:
    return best[0] if len(best) == 1 else np.stack(best)


class Run:
    """Epochs of one kind of network, whose members learn in some parts."""

    def __init__(
        self,
        net: Network,
        source: Source,
        plan: Plan,
        n_parts: int,
        continued: bool,
        before: int,
    ):
        self.net, self.source = net, source
        n = net.n_members
        size = -(-n // n_parts)
        self.numbers = [np.arange(k, min(k + size, n)) for k in range(0, n, size)]
        if len(self.numbers) == 1:
            self.parts = [Part(net, source, plan, continued, before)]
        else:
            self.parts = [
                Part(
                    net.members(slice(a[0], a[-1] + 1)), source.members(a), plan, continued, before
                )
                for a in self.numbers
            ]

    @property
    def holds_out(self) -> bool:
        """Whether there are rows to validate with."""
        return self.source.holds_out

    @property
    def is_over(self) -> bool:
        """Whether no member goes on."""
        return all(part.is_over for part in self.parts)

    @property
    def n_scored(self) -> int:
        """Number of epochs whose scores are known."""
        return max(part.n_scored for part in self.parts)

    def best(self) -> Network:
        """Return a copy of the network with the best posterior of each member so far."""
        net = self.net.copy()
        for numbers, part in zip(self.numbers, self.parts, strict=True):
            net.assign(part.best, numbers, np.arange(len(numbers)))
        return net

    def best_iter(self) -> np.ndarray:
        """Return the best epoch of each member so far."""
        return np.concatenate([part.best_iter for part in self.parts])

    def end(self) -> None:
        """Leave the best posterior in the network."""
        for numbers, part in zip(self.numbers, self.parts, strict=True):
            if part.best is not self.net:
                self.net.assign(part.best, numbers, np.arange(len(numbers)))
        if self.holds_out:
            self.source.best_iter = self.best_iter()
        self.source.end([part.source for part in self.parts])

    def train_score(self, number: int) -> float:
        """Return the mean score of the members that learned in an epoch, or the last one."""
        last = min(number, max(len(part.train_scores) for part in self.parts) - 1)
        learned = [part for part in self.parts if len(part.train_scores) > last]
        return _mean_of(part.train_scores[last] for part in learned)

    def validation_score(self, number: int) -> float:
        """Return the mean score of all members after an epoch, or the last one."""
        scores = [part.validation_scores for part in self.parts]
        return _mean_of(a[min(number, len(a) - 1)] for a in scores)


def _mean_of(scores: Iterable[np.ndarray]) -> float:
    return float(np.concatenate(list(scores)).mean())


class Part:
    """Epochs of some members: which of them still learn, and the best posteriors so far."""

    def __init__(self, net: Network, source: Source, plan: Plan, continued: bool, before: int):
        self.source, self.plan, self.continued, self.before = source, plan, continued, before
        self.stopping = EarlyStopping(net, plan, source.best_iter) if source.holds_out else None
        self.current = net  # a member that has stopped leaves the stack
        self.active = np.arange(net.n_members)
        self.train_scores: list[np.ndarray] = []  # of the members that learn, each epoch
        self.validation_scores: list[np.ndarray] = []  # of all members
        self.is_over = plan.max_iter == 0
        self._epoch: Epoch | None = None
        self._goes_on = np.ones(net.n_members, dtype=bool)

    @property
    def n_iter(self) -> int:
        """Epochs that were learned."""
        return len(self.train_scores)

    @property
    def n_scored(self) -> int:
        """Number of epochs whose scores are known."""
        return self.n_iter if self.stopping is None else len(self.validation_scores)

    @property
    def best(self) -> Network:
        """The best posterior of each member so far; without rows held out, the last."""
        if self.stopping is None or not self.validation_scores:
            return self.current
        return self.stopping.best

    @property
    def best_iter(self) -> np.ndarray:
        """The best epoch of each member so far."""
        assert self.stopping is not None
        return self.stopping.best_iter.copy()

    def validate(self) -> None:
        """Validate the last epoch, or the start, and see who goes on.

        A cluster is asked for that and for the next epoch in one exchange.
        """
        if self.is_over:
            return
        learn = self.n_iter < self.plan.max_iter
        validate = self.stopping is not None and (self.continued or self.n_iter > 0)
        self.source.anneal(self.before + self.n_iter)
        self._epoch = self.source.epoch(self.current, self.active, validate=validate, learn=learn)
        self._goes_on = np.ones(len(self.active), dtype=bool)
        if self.stopping is not None and validate:
            done = self.before + self.n_iter if self.n_iter else None
            gains = self.stopping.update(done, self.current, self.active, *self._epoch.validated())
            if self.n_iter:  # where training starts is only something to beat
                self._goes_on = gains
                self.validation_scores.append(self.stopping.last_score.copy())
        # Without rows held out there is nothing to ask a cluster after the last epoch.
        self.is_over = not (learn and self._goes_on.any())

    def learn(self) -> None:
        """Learn an epoch."""
        if self.is_over:
            return
        assert self._epoch is not None
        self.current, scores = self._epoch.learned(self._goes_on)
        self.active = self.active[self._goes_on]
        self.train_scores.append(scores)
        self._epoch = None
        if self.stopping is None and self.n_iter == self.plan.max_iter:
            self.is_over = True

    def advance(self, n_epochs: int) -> None:
        """Learn some epochs."""
        for _ in range(n_epochs):
            self.validate()
            self.learn()
        if self.n_iter == self.plan.max_iter:
            self.validate()


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
        self.best_iter: np.ndarray | None = None
        self._left = 1.0  # of forgetting, if it is annealed
        self._learner: Learner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_learner": None}  # its arrays are made again

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

    def anneal(self, done: int) -> None:
        """Forget in the next epoch as it is planned after ``done`` epochs."""
        self._left = self.settings.forgetting_left(done)

    def members(self, numbers: np.ndarray) -> InMemory:
        """Return the rows of some members."""
        validation = None if self.validation is None else [self.validation[m] for m in numbers]
        rngs = None if self.rngs is None else [self.rngs[m] for m in numbers]
        part = InMemory(self.data, self.order[numbers], validation, self.settings, rngs)
        part.best_iter = None if self.best_iter is None else self.best_iter[numbers]
        return part

    def end(self, parts: Sequence[InMemory]) -> None:
        """Go on with the generators of the parts; the network is written to by others now."""
        self._learner = None
        if self.rngs is not None:
            self.rngs = [rng for part in parts for rng in part.rngs or ()]

    def weights(self, networks: Sequence[Network]) -> tuple[np.ndarray, Evidence | None]:
        """Return the weights of kinds, by the rows held out, and what speaks for them."""
        assert self.validation is not None
        return best_weights(list(predict_kinds(networks, self.data, self.validation)))

    def learner(self, net: Network) -> Learner:
        """Return the learner of a network, the same as before if it is the same network."""
        if self._learner is None or self._learner.net is not net:
            self._learner = Learner(net, self.settings)
        self._learner.settings = self.settings.annealed(self._left)
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
