"""Forgetting by surprise: how fast a stream should forget, told by what it meets.

The first member is compared with itself some time ago (``engine/surprise``): sums of the gains s
and of their squares, in which the older ones fade, make a score

    z = sum(s) / sqrt(sum(s^2))

in standard errors. It is above zero while the old network gets worse, and the half-life is
shortened by the factor exp(-PACE z) with each row; it is below zero where nothing changes, and the
half-life grows. The old network is replaced when it is two half-lives old, or 500 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._scaling import Scaling
from .engine.inputs import InputErrors
from .engine.mixture import Mixture
from .engine.posterior import Network
from .engine.predicting import predict_moments
from .engine.surprise import Predicted, gains

__all__ = ["BLOCK_ROWS", "Drift", "Waiting"]

RECENT = 50.0  # rows after which a gain counts half
PACE = 0.02
JUMPED = 5.0  # the score where targets have jumped
AGE, MOST_ROWS = 2.0, 500.0  # half-lives, and rows at most, after which the old one is replaced
MOST_WAITING = 16  # rows that come one by one are looked at together: this is quicker
BLOCK_ROWS = 64  # of a call: then the half-life is looked at


class Waiting(NamedTuple):
    """Rows that were learned, and have not been looked at; targets are in units of their own."""

    x: Any  # (rows, n_inputs), without gaps, not standardised
    y: np.ndarray  # NaN where not observed
    weight: np.ndarray
    mu_z: np.ndarray  # (n_outputs, rows)
    var_z: np.ndarray
    noise_var: np.ndarray  # (n_noise, 1)
    mean: np.ndarray  # (n_targets, 1): of the targets, when the rows were learned
    scale: np.ndarray  # (n_targets, 1)


class Drift(NamedTuple):
    """What a stream has shown of its drift."""

    half_life: float = np.inf
    gain: float = 0.0  # the sum of s
    squares: float = 0.0  # the sum of s^2
    age: float = 0.0  # rows since the old network was the present one
    kind: int = 0  # of unlike members: the one that is followed
    old: Network | None = None  # the first member, some time ago
    scaling: Scaling | None = None  # its units
    waiting: Sequence[Waiting] = ()

    @property
    def score(self) -> float:
        """Return z, or NaN if nothing is known."""
        return self.gain / float(np.sqrt(self.squares)) if self.squares > 0 else np.nan

    def within(self, shortest: float, longest: float) -> Drift:
        """Return what is known, with a half-life between two bounds."""
        half_life = min(max(self.half_life, shortest), longest)
        return self if half_life == self.half_life else self._replace(half_life=half_life)

    def after_jump(self) -> Drift:
        """Return what is known when targets have jumped: that the old network is worse."""
        return self._replace(gain=JUMPED**2, squares=JUMPED**2)

    def old_from(self, net: Network | Mixture, scaling: Scaling) -> Drift | None:
        """Return what is known with another old network, as it is now, if it is time for one."""
        if self.old is None:
            is_due = self.age >= MOST_WAITING
        else:
            is_due = self.age >= min(AGE * self.half_life, MOST_ROWS) and not self.waiting
        if not is_due:
            return None
        kind = 0
        if isinstance(net, Mixture):
            kind = int(np.argmax(net.weight.mean(axis=(1, 2))))
        old = net.networks[kind].members(slice(0, 1)).copy()
        old.calibration = old.noise_net = None
        return Drift(kind=kind, old=old, scaling=scaling)

    def with_rows(
        self,
        net: Network | Mixture,
        rows: Waiting,
        errors: InputErrors | None,
        following: Drift | None,
    ) -> Drift:
        """Return what is known after ``net`` has learned some rows.

        If an old network is ``following``, rows from these on are compared with it.
        """
        drift, waiting = self, self.waiting
        if drift.old is not None:
            if errors is None and len(rows.weight) == 1 and isinstance(rows.x, np.ndarray):
                waiting = [*waiting, rows]
                if len(waiting) == MOST_WAITING:
                    drift, waiting = drift._look(net, waiting, None), ()
            else:
                drift, waiting = drift._look(net, waiting, None), ()
                drift = drift._look(net, [rows], errors)
        if following is not None:
            drift = drift._replace(
                age=0.0, kind=following.kind, old=following.old, scaling=following.scaling
            )
        return drift._replace(age=drift.age + float(rows.weight.sum()), waiting=waiting)

    def _look(
        self,
        net: Network | Mixture,
        several: Sequence[Waiting],
        errors: InputErrors | None,
    ) -> Drift:
        """Return what is known after a look at some rows."""
        if not several:
            return self
        assert self.old is not None
        assert self.scaling is not None
        rows = several[0] if len(several) == 1 else _together(several)
        x, errors = self.scaling.inputs(rows.x, errors, self.old.dtype)
        mu_z, var_z = (a[0] for a in predict_moments(self.old, x, errors))
        if self.scaling.y is not None:
            mu_z = (self.scaling.original(mu_z, var_z)[0] - rows.mean) / rows.scale
        predicted = Predicted(rows.y, rows.mu_z, rows.var_z, rows.noise_var)
        outputs = net.networks[self.kind].outputs.members(slice(0, 1))
        s, weight = gains(outputs, predicted, mu_z), rows.weight.astype(np.float64)
        n_rows = float(weight.sum())
        retained = 2 ** (-n_rows / RECENT)
        gain = retained * self.gain + float(weight @ s)
        squares = retained * self.squares + float(weight @ np.square(s))
        z = gain / np.sqrt(squares) if squares > 0 else 0.0
        # A factor beyond any bounds is as good as one that overflows.
        log_ratio = float(np.clip(-PACE * n_rows * z, -100, 100))
        half_life = self.half_life * float(np.exp(log_ratio))
        return self._replace(gain=gain, squares=squares, half_life=half_life)

    @staticmethod
    def joined(several: Sequence[Drift]) -> Drift:
        """Return what shards know together: means, as they have seen different rows.

        The merged network is a new one: it is compared with itself from here on.
        """
        half_life = np.exp(np.mean([np.log(drift.half_life) for drift in several]))
        gain = np.mean([drift.gain for drift in several])
        squares = np.mean([drift.squares for drift in several])
        return Drift(float(half_life), float(gain), float(squares))

    def without_network(self) -> Drift:
        """Return what is known for a network of another size."""
        return Drift(self.half_life, self.gain, self.squares)


def _together(several: Sequence[Waiting]) -> Waiting:
    """Return rows of several calls as one array of each kind."""
    by_row = [np.concatenate([getattr(w, a) for w in several]) for a in ("x", "y", "weight")]
    by_column = [
        np.concatenate([getattr(w, name) for w in several], axis=1) for name in Waiting._fields[3:]
    ]
    return Waiting(*by_row, *by_column)
