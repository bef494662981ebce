"""The noise network in a stream: errors of rows judge it, and then it learns them.

Single rows wait until there are some of them, and are judged and learned together: this is quicker,
and the noise that is reported lags behind by a few rows. Units of the inputs may change meanwhile:
the parameters and the rows that wait stay in those of before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .fast import mean_of_first, overflow_allowed
from .learning import Learner, Settings
from .noise_network import (
    EXPONENTS,
    LARGEST_LOG,
    Errors,
    NoiseNetwork,
    as_rows,
    average_output,
    log_density,
    trusted_exponent,
)
from .observations import OUTLYING
from .rows import Rows

__all__ = ["MOST_WAITING", "errors_of", "settled", "with_errors"]

BATCH_SIZE = 64  # of errors
MOST_WAITING = 16  # rows, with the last of which they are learned
ROWS_A_PARAMETER = 10.0  # the half-life of the noise network at most, for each parameter
SCORE_HALF_LIFE = 500.0  # rows after which an error counts half in the choice of the exponent
LEAST_GAIN = 6.0  # in log-likelihood, by which noise that varies must be better


def errors_of(error: np.ndarray, var: np.ndarray, data: Rows, noise: np.ndarray) -> Errors:
    """Return errors of the mixture's mean, in units of a ``noise`` (n_noise, 1).

    One beyond ``OUTLYING`` standard deviations, as constant noise has them, is an outlier, and
    none is larger.
    """
    limit = OUTLYING * np.sqrt(var + noise)
    error = np.minimum(np.maximum(error, -limit), limit) / np.sqrt(noise)
    weight = data.weight.astype(np.float64)
    return Errors(data.x, error, var / noise, weight, np.zeros(len(weight), dtype=int))


def with_errors(noise: NoiseNetwork, errors: Errors, half_life: float | None) -> NoiseNetwork:
    """Return a noise network that has been given errors of new rows; a single one may wait.

    It forgets as fast as the means do, if they forget, or faster.
    """
    if len(errors.weight) == 1 and isinstance(errors.x, np.ndarray):
        noise = noise.with_waiting(errors)
        return noise if len(noise.waiting) < MOST_WAITING else settled(noise, half_life)
    return _learned(settled(noise, half_life), errors, half_life)


def settled(noise: NoiseNetwork, half_life: float | None = None) -> NoiseNetwork:
    """Return a noise network in the present units, for which no row waits any more."""
    if noise.waiting:
        noise = replace(_learned(noise, _together(noise.waiting), half_life), waiting=())
    if noise.change is None:
        return noise
    net = noise.net.copy()
    net.rescale_inputs(noise.change)
    return replace(noise, net=net, change=None)


def _learned(noise: NoiseNetwork, errors: Errors, half_life: float | None) -> NoiseNetwork:
    """Return a noise network that was judged by errors in its units, and then has learned them."""
    net = noise.net.copy()
    n_rows = len(errors.weight)
    if half_life is not None:
        n_parameters = sum(layer.mu[0].size for layer in net.layers)
        half_life = min(half_life, ROWS_A_PARAMETER * n_parameters)
    one_batch = n_rows <= BATCH_SIZE
    learner = Learner(net, Settings(min(BATCH_SIZE, n_rows), True, half_life), records=one_batch)
    order = np.arange(n_rows)[None].repeat(net.n_members, axis=0)
    with overflow_allowed():
        learner.learn(as_rows(errors, net.dtype), order)
    if not net.is_sound():
        return noise
    if learner.moments is not None:  # quicker
        u = mean_of_first(learner.moments[0])
    else:
        u = average_output(noise.net, errors.x)
    log_ratio = np.clip(EXPONENTS[:, None, None] * u, -LARGEST_LOG, LARGEST_LOG)
    log_ratio[0] = -noise.level  # constant noise has its own level
    gains = log_density(errors.error, errors.var + np.exp(log_ratio)) @ errors.weight
    scores = noise.scores * 2 ** (-errors.weight.sum() / SCORE_HALF_LIFE) + gains - gains[0]
    low, high = noise.bounds
    lowest, highest = u.min(axis=1, keepdims=True), u.max(axis=1, keepdims=True)
    bounds = np.stack([np.minimum(low, lowest), np.maximum(high, highest)])
    exponent = trusted_exponent(scores, LEAST_GAIN)
    return replace(noise, net=net, scores=scores, exponent=exponent, bounds=bounds)


def _together(several: Sequence[Errors]) -> Errors:
    """Return rows that came one by one as one array of each kind."""
    x, error, var, weight, fold = zip(*several, strict=True)
    return Errors(
        np.concatenate(x),
        np.concatenate(error, axis=1),
        np.concatenate(var, axis=1),
        np.concatenate(weight),
        np.concatenate(fold),
    )
