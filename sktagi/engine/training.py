"""Training: epochs of one kind of network or of several, a race between kinds, history.

One loop serves rows in memory and rows on a cluster: a ``Source`` knows where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from .interrupts import keep_or_raise
from .jobs import Jobs
from .mixture import Mixture
from .posterior import Network
from .runs import Plan, Run
from .sources import Source, Unreachable

__all__ = ["Finish", "History", "fit_epochs", "train"]

# A race between kinds: after so many epochs, those with less weight than this are left behind. In
# the end, a kind with less weight than LIGHTEST is left out.
RACE_EPOCHS = 10
LEAST_IN_RACE = 0.01
LIGHTEST = 0.005
EPOCHS_AT_ONCE = 10  # in other processes
ENDS = (KeyboardInterrupt, Unreachable)  # what ends training without losing it


@dataclass
class History:
    """What happened, epoch by epoch; scores are mean log-likelihoods."""

    train_scores: list[float] = field(default_factory=list)
    validation_scores: list[float] = field(default_factory=list)
    best_iter: np.ndarray | None = None
    interrupted: bool = False
    gives_up: bool = False  # interrupted twice: nothing that takes time is begun any more
    unreachable: Unreachable | None = None  # if that was it
    is_far: bool = False  # rows are in other processes
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

    def end_by(self, cause: BaseException) -> None:
        """Take note of what ended training, or the calibration after it.

        A second interrupt from the keyboard is raised again, unless rows are far away: what was
        learned of them took long, and is given back.
        """
        if isinstance(cause, KeyboardInterrupt) and not self.is_far:
            keep_or_raise(self.interrupted)
        self.gives_up = self.interrupted
        if isinstance(cause, Unreachable) and not self.interrupted:
            self.unreachable = cause
        self.interrupted = True


# Calibrates a network, in place, after epochs.
Finish = Callable[[Network | Mixture, History], None]


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
        net, sources = _weighed(net, sources, history)
        _finish(net, finish, history)
    noise, calibration = net.noise_net, net.calibration
    left = plan.after_noise(history.n_iter)
    if varies and history.goes_on and noise is not None and left.max_iter > 0:
        if noise.varies:
            history.comparable_from = history.n_iter
            for source in sources:
                source.vary_noise(noise)
        elif history.n_iter < first.max_iter:  # constant noise, and no gain
            return net, history
        net.calibration = net.noise_net = None  # of predictions, not of learning
        net, sources, history = train(net, sources, left, continued=True, history=history, **told)
        net, sources = _weighed(net, sources, history)
        net.noise_net, net.calibration = noise, calibration
        _finish(net, finish, history)
    return net, history


def _weighed(
    net: Network | Mixture, sources: Sequence[Source], history: History | None = None
) -> tuple[Network | Mixture, Sequence[Source]]:
    """Return the mixture with the weights that rows held out speak for, and its sources.

    A ``history`` then has the best epochs of the kinds that are kept.
    """
    if isinstance(net, Network) or not sources[0].holds_out:
        return net, sources
    try:
        weight, evidence = sources[0].weights(net.networks)
    except ENDS as cause:
        if history is None:
            raise
        history.end_by(cause)
        return net, sources
    net = replace(net, weight=weight, evidence=evidence)
    kept = net.without(LIGHTEST)
    pairs = zip(net.names, sources, strict=True)
    sources = [source for name, source in pairs if name in kept.names]
    if history is not None:
        history.best_iter = _of_kinds([cast(np.ndarray, a.best_iter) for a in sources])
    return kept, sources


def _finish(net: Network | Mixture, finish: Finish, history: History) -> None:
    """Finish; an interrupt from the keyboard, or lost rows, leave the network as it was before."""
    if history.gives_up:
        return
    before = [a.noise_var.copy() for a in net.networks], net.noise_net, net.calibration
    try:
        finish(net, history)
    except ENDS as cause:
        history.end_by(cause)
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
    be the one that it starts with (epoch 0) if that is ``continued`` from earlier training. A first
    interrupt from the keyboard ends training as if by ``max_iter``, and so do rows that cannot be
    reached any more, and ``on_epoch``, called after each epoch, if it returns True. A ``history``
    is that of epochs before, which goes on.

    Kinds that have no weight after the first epochs are left out of what is returned. With
    ``n_jobs``, kinds and members learn in as many processes, some epochs at a time.
    """
    history = History() if history is None else history
    history.is_far = sources[0].is_far
    before = history.n_iter
    kinds = zip(net.networks, sources, strict=True)
    runs = [Run(kind, source, plan, continued, before) for kind, source in kinds]
    history.posterior = lambda: _posterior(net, runs)
    has_race = isinstance(net, Mixture) and runs[0].holds_out and not before
    until_race = RACE_EPOCHS if has_race else 0
    with Jobs(n_jobs) as jobs:
        try:
            while not (history.stopped or all(run.is_over for run in runs)):
                parts = [part for run in runs for part in run.parts]
                if n_jobs > 1:
                    jobs.advance(parts, until_race or EPOCHS_AT_ONCE)
                else:
                    for part in parts:
                        part.begin()
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
        except ENDS as cause:
            for source in sources:
                source.cancel()
            history.end_by(cause)
    for run in runs:
        run.end()
    if history.n_iter and runs[0].holds_out:
        # What was validated when an interrupt came is no epoch of all.
        history.best_iter = np.minimum(_best_epochs(runs), history.n_iter)
    return net, [run.source for run in runs], history


def _posterior(net: Network | Mixture, runs: Sequence[Run]) -> Network | Mixture:
    """Return a copy of what training would give if it ended now."""
    best = [run.best() for run in runs]
    if isinstance(net, Network):
        return best[0]
    names = [net.names[_place(net, run.net)] for run in runs]
    mixture = replace(net, networks=best, names=names)
    return _weighed(mixture, [run.source for run in runs])[0]


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
            best = max(runs, key=lambda run: _or_worst(run.validation_score(number)))
            history.validation_scores.append(best.validation_score(number))
            history.best_iter = _best_epochs(runs)
        history.train_scores.append(best.train_score(number))
        if on_epoch is not None and on_epoch(history):
            return True
    return False


def _or_worst(score: float) -> float:
    """Return a score that can be compared: that of numbers that overflowed is NaN."""
    return score if np.isfinite(score) else -np.inf


def _best_epochs(runs: Sequence[Run]) -> np.ndarray:
    """Return the best epochs of the members (members,); of several kinds (kinds, members)."""
    return _of_kinds([run.best_iter() for run in runs])


def _of_kinds(best: Sequence[np.ndarray]) -> np.ndarray:
    return best[0] if len(best) == 1 else np.stack(best)
