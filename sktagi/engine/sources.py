"""Where rows are, and how they are learned and validated there.

One training loop serves rows in memory and rows on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .learning import Learner, Settings
from .mixture import Evidence, best_weights, predict_kinds
from .noise_network import NoiseNetwork
from .posterior import Network
from .rows import Rows
from .validation import HeldOutStack, stacked, validate, validate_stacked

__all__ = ["TRUST", "Epoch", "InMemory", "Source", "Unreachable"]

TRUST = 0.75  # in the noise of a row beside others, when means are learned


class Unreachable(Exception):
    """Rows cannot be reached any more: training ends with what was learned, as by an interrupt."""

    def __init__(self, reason: BaseException):
        super().__init__(str(reason))
        self.reason = reason  # what is raised if nothing was learned


class Epoch(Protocol):
    """What a source does in one epoch, with the posterior that it was given."""

    def validated(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scores (members,) of that posterior on the rows held out, and the best noise."""

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        """Let the members that go on learn; returns their posterior and training scores."""


class Source(Protocol):
    """Where rows are, and how they are learned there."""

    holds_out: bool  # whether there are rows to validate with
    is_far: bool  # whether the rows are in other processes
    best_iter: np.ndarray | None  # (members,): the best epoch of earlier training
    members_together: int  # that learn side by side; the same for any number of processes

    def begin(self) -> None:
        """Begin training: others may have written to the network since the last time."""

    def epoch(self, net: Network, active: np.ndarray, *, validate: bool, learn: bool) -> Epoch:
        """Begin an epoch: validate ``net``, the posterior of the active members, then learn.

        Kinds begin one after the other before any of them is asked what it has learned.
        """

    def cancel(self) -> None:
        """Give up an epoch that was interrupted."""

    def vary_noise(self, noise: NoiseNetwork) -> None:
        """Let rows have noise of their own from now on."""

    def anneal(self, done: int) -> None:
        """Forget in the next epoch as it is planned after ``done`` epochs."""

    def members(self, numbers: np.ndarray) -> Source:
        """Return the source of some members."""

    def take_over(self, part: Source, numbers: np.ndarray) -> None:
        """Go on where the source of some members has ended."""

    def weights(self, networks: Sequence[Network]) -> tuple[np.ndarray, Evidence | None]:
        """Return the weights of kinds, by the rows held out, and what speaks for them."""


class InMemory:
    """Rows in memory, learned in place.

    ``order`` (members, n) are the rows that each member learns, ``validation`` those that it holds
    out. ``rngs`` shuffle the rows of each member in each epoch; None keeps their order.
    """

    members_together = 5

    is_far = False

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
        # Rows held out by the members that were active at last, and who they are
        self._held: tuple[HeldOutStack | None, np.ndarray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_learner": None, "_held": None}  # made again where it is needed

    def begin(self) -> None:
        """Begin training: a learner of earlier epochs does not know of the best posterior."""
        self._learner = self._held = None

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

    def held_out(self, net: Network, active: np.ndarray) -> HeldOutStack | None:
        """Return the rows that some members hold out, side by side; None if they cannot be."""
        if self._held is None:
            assert self.validation is not None
            everyone = np.arange(len(self.validation))
            self._held = stacked(net, self.data, self.validation), everyone
        held, numbers = self._held
        if held is not None and len(numbers) > len(active):
            held = held.members(np.flatnonzero(np.isin(numbers, active)))
            self._held = held, active
        return held

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

    def take_over(self, part: Source, numbers: np.ndarray) -> None:
        """Go on where the source of some members has ended: their generators have moved on."""
        if self.rngs is not None and isinstance(part, InMemory) and part.rngs is not None:
            for number, rng in zip(numbers, part.rngs, strict=True):
                self.rngs[number] = rng

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
        source = self.source
        assert source.validation is not None
        held = source.held_out(self.net, self.active)
        if held is not None:
            return validate_stacked(self.net, held)
        return validate(self.net, source.data, [source.validation[m] for m in self.active])

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        source, net, active = self.source, self.net, self.active[goes_on]
        if not goes_on.all():
            net = net.members(np.flatnonzero(goes_on))
        order = source.order[active]
        if source.rngs is not None:
            pairs = zip(active, order, strict=True)
            order = np.stack([source.rngs[m].permutation(rows) for m, rows in pairs])
        return net, source.learner(net).learn(source.data, order)
