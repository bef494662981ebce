"""Rows of a stream: each is predicted, then learned, once.

Errors of predictions teach the noise network what is reported of the noise of later rows. Means are
learned with constant noise, other than in a fit: where the function changes, errors grow and are no
noise, and rows there would be learned less just when they have to be learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from .class_calibration import class_calibration, learn_slope
from .fast import mean_of_first
from .learning import Learner, Settings
from .mixture import Mixture, reweighted
from .noise import share_left
from .noise_stream import errors_of, with_errors
from .observations import Gaussian
from .posterior import Network
from .predicting import weighted_moments
from .rows import Rows
from .tree import ClassTree

__all__ = ["Seen", "learn_stream"]


@dataclass
class Seen:
    """What ``learn_stream`` saw of rows before they were learned; errors are those of numbers."""

    # (n_outputs, rows): of the mixture's mean; NaN where not observed
    error: np.ndarray | None = None
    # (n_outputs, rows): of that error, as it was predicted, with constant noise
    var: np.ndarray | None = None
    # (2, members, n_outputs, rows): means and variances of each kind
    moments: list[np.ndarray] = field(default_factory=list)

    def join(self, several: Sequence[Seen]) -> None:
        """Take over the errors of several blocks of rows."""
        if several[0].error is not None:
            self.error = np.concatenate([cast(np.ndarray, a.error) for a in several], axis=1)
            self.var = np.concatenate([cast(np.ndarray, a.var) for a in several], axis=1)


def learn_stream(
    net: Network | Mixture, data: Rows, settings: Sequence[Settings], seen: Seen | None = None
) -> np.ndarray:
    """Let all members learn rows that are new, once; returns mean log-likelihoods (members,).

    There are settings for each kind. Of classes, and of unlike members, the log-likelihood is that
    of the mixture as it was predicted, (1,). What is ``seen`` of the rows is written there.

    A calibrated scale of the noise holds for what is left of the noise from before: what new rows
    teach of the noise is not scaled.
    """
    is_scaled = net.noise_is_learned and net.calibration is not None
    unlike = isinstance(net, Mixture)  # of one kind, too, if no other has any weight
    if is_scaled or unlike:
        before = net.noise_var.copy(), net.rows_learned.copy()
    level = mean_of_first(net.reported_noise)  # (n_noise, 1)
    noise = net.noise_net
    n_rows = len(data.weight)
    order = np.empty((net.n_members, n_rows), dtype=int)
    order[:] = np.arange(n_rows)
    has_slope = net.outputs.has_slope
    batch_size = settings[0].batch_size
    records = noise is not None or has_slope or unlike or seen is not None
    learners = [
        Learner(kind, setting, records=records)
        for kind, setting in zip(net.networks, settings, strict=True)
    ]
    scores = [learner.learn(data, order) for learner in learners]
    if seen is not None:
        seen.moments = [cast(np.ndarray, learner.moments) for learner in learners]
    log_lik, moments = scores[0], learners[0].moments
    if isinstance(net, Mixture):
        of_kinds = np.stack([cast(np.ndarray, learner.moments) for learner in learners], axis=1)
        mu, var = of_kinds
        moments = np.stack(weighted_moments(net.weight[:, None], mu, var, net.apart[:, None]))
        if not has_slope:
            log_lik = _log_likelihoods(net, moments, before[0], data)
        if isinstance(net.outputs, Gaussian):
            errors = data.y.T - of_kinds[0].mean(axis=1)  # (kinds, n_outputs, rows)
            net.weight, net.evidence = reweighted(net, errors, data.weight)
    if has_slope and moments is not None:
        weight = data.weight.astype(np.float64)
        mean = learn_slope(net, moments, data.y, weight, batch_size)
        log_lik = np.array([mean])
    elif net.calibration is None and isinstance(net.outputs, ClassTree):
        net.calibration = class_calibration(net)  # of its variance the same share is unknown
    watched = noise is not None or (seen is not None and isinstance(net.outputs, Gaussian))
    if moments is not None and watched:
        var = net.variance_of_mean(*moments, learned=True)
        if data.gap_ratio is not None:
            var = var + level * data.gap_ratio.T
        error = data.y.T - mean_of_first(moments[0])
        if seen is not None:
            seen.error, seen.var = error, var + level
        if noise is not None:
            errors = errors_of(error, var, data, level * np.exp(noise.level))
            net.noise_net = with_errors(noise, errors, settings[0].half_life)
    if is_scaled and net.calibration is not None:
        weight = data.weight[:, None]
        if data.y.ndim == 2:  # what observes each target
            weight = weight * ~np.isnan(data.y)
        totals = np.add.reduceat(weight, np.arange(0, n_rows, batch_size)).T
        scale = 1 + share_left(net, *before, totals, settings[0].memory) * (
            net.calibration.noise_scale - 1
        )
        net.calibration = net.calibration._replace(noise_scale=scale)
    return log_lik


def _log_likelihoods(
    net: Mixture, moments: np.ndarray, noise_var: np.ndarray, data: Rows
) -> np.ndarray:
    """Return mean log-likelihoods (members,) of rows as they were predicted."""
    mu_z, var_z = moments
    weight = data.weight.astype(np.float64)
    log_lik = net.outputs.log_likelihood(mu_z, var_z + noise_var, data.y)
    return (log_lik @ weight).sum(axis=-1) / weight.sum()
