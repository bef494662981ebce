"""Epochs of a kind of network: early stopping, and members that learn in parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .posterior import Network
from .sources import Epoch, Source

__all__ = ["EarlyStopping", "Part", "Plan", "Run"]

# If the noise may vary in later epochs: the share of those with constant noise at most, and the
# patience of both over that of a fit with constant noise.
CONSTANT_SHARE = 0.7
CONSTANT_PATIENCE = 0.75
VARYING_PATIENCE = 0.5


class Plan(NamedTuple):
    """When training ends."""

    max_iter: int
    n_iter_no_change: int = 1
    tol: float = 0.0

    def before_noise(self) -> Plan:
        """Return the plan of epochs with constant noise, if the noise may vary in later ones."""
        n_iter = math.ceil(CONSTANT_SHARE * self.max_iter)
        return self._replace(max_iter=n_iter, n_iter_no_change=self._patience(CONSTANT_PATIENCE))

    def after_noise(self, done: int) -> Plan:
        """Return the plan of the epochs that are kept for noise that may vary."""
        n_iter = self.max_iter - max(done, math.ceil(CONSTANT_SHARE * self.max_iter))
        return self._replace(max_iter=n_iter, n_iter_no_change=self._patience(VARYING_PATIENCE))

    def _patience(self, share: float) -> int:
        return max(1, math.ceil(share * self.n_iter_no_change))


class Run:
    """Epochs of one kind of network, whose members learn in some parts."""

    def __init__(
        self,
        net: Network,
        source: Source,
        plan: Plan,
        continued: bool,
        before: int,
    ):
        self.net, self.source = net, source
        source.begin()
        n, size = net.n_members, source.members_together
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
            self.source.take_over(part.source, numbers)
        if self.holds_out:
            self.source.best_iter = self.best_iter()

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
        self._epoch: Epoch | None = None  # that is validated and not yet learned
        self._is_validated = False
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

    @property
    def _learns(self) -> bool:
        return self.n_iter < self.plan.max_iter

    @property
    def _validates(self) -> bool:
        return self.stopping is not None and (self.continued or self.n_iter > 0)

    def begin(self) -> None:
        """Begin an epoch: a cluster works on it while others begin.

        It is asked to validate the last epoch, or the start, and to learn the next in one exchange.
        """
        if self.is_over or self._is_validated or self._epoch is not None:
            return
        self.source.anneal(self.before + self.n_iter)
        self._epoch = self.source.epoch(
            self.current, self.active, validate=self._validates, learn=self._learns
        )

    def validate(self) -> None:
        """Validate the last epoch, or the start, and see who goes on."""
        if self.is_over or self._is_validated:
            return
        self.begin()
        assert self._epoch is not None
        learn, validate = self._learns, self._validates
        self._is_validated = True
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
        if self._epoch is None:  # it was validated in another process
            self.source.anneal(self.before + self.n_iter)
            self._epoch = self.source.epoch(self.current, self.active, validate=False, learn=True)
        self.current, scores = self._epoch.learned(self._goes_on)
        self.active = self.active[self._goes_on]
        self.train_scores.append(scores)
        self._epoch, self._is_validated = None, False
        if self.stopping is None and self.n_iter == self.plan.max_iter:
            self.is_over = True

    def advance(self, n_epochs: int) -> None:
        """Learn some epochs, and validate the last."""
        for _ in range(n_epochs):
            self.validate()
            self.learn()
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
