"""The observation noise sigma_v: learned by expectation maximisation, or searched on other rows.

Training rows understate the noise once the network fits them too well: where rows are held out,
the noise is the one that maximises their likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .messages import Message
from .posterior import Network, Reported

__all__ = [
    "NOISE_FACTORS", "OUTLIER_NOISE", "best_on_grid", "bounded_noise", "learn_noise", "memory_of",
    "noise_moment", "scores_on_grid", "search_noise", "share_left",
    "trust", "trusted_noise",
]  # fmt: skip

# Learned noise never falls below 1e-6 of the target's spread, and its square fits into float32.
NOISE_VAR_RANGE = (np.array(1e-12), np.array(1e18))
MEMORY = 2.0  # half-lives of a stream, whose rows the noise remembers
# An outlier says as much of the noise as an error of three standard deviations: a single one does
# little, but where they come again and again, the noise grows until they are none.
OUTLIER_NOISE = 9.0
# So many held-out rows say as much about the noise as expectation maximisation does.
ROWS_FOR_NOISE = 10.0
# How far from the present standard deviation held-out rows may move it in one epoch: a factor.
REACH = 8.0
# Standard deviations over the present one, for a search in one exchange, as far as that of steps
NOISE_FACTORS = np.exp(np.linspace(-1, 1, 73) * (1 + 1 / 8 + 1 / 64) * np.log(REACH))


def bounded_noise(noise_var: np.ndarray) -> np.ndarray:
    """Return noise variances that stay in their range."""
    low, high = NOISE_VAR_RANGE
    return np.minimum(np.maximum(noise_var, low), high)  # quicker than clip for a few numbers


# Expectation maximisation


def noise_moment(
    message: Message, noise: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return E[weight v^2 | y] of each row and output: the statistic of the EM step.

    Its sum over rows divided by the sum of weights is the next noise variance; a row of weight k
    contributes as k copies of it.
    """
    moment = np.multiply(noise, message.nu, dtype=np.float64)  # squares of large targets
    moment *= moment
    if weight is not None:
        moment /= np.where(weight > 0, weight, 1)
    moment += np.multiply(noise, message.leverage, dtype=np.float64)
    return moment


def learn_noise(
    net: Network,
    moment: np.ndarray,
    weight: np.ndarray | None,
    observed_weight: np.ndarray | None,
    memory: float = np.inf,
) -> None:
    """Take one step of online EM: noise_var follows the mean of E[v^2 | y], the newest rows most.

    It is that of rows of weight ``memory`` at most.

    ``moment`` is (..., n_outputs, rows), ``weight`` (..., 1, rows) of the rows, and
    ``observed_weight`` (..., n_outputs or 1, rows) of what they observe; None: all are 1.
    """
    n_outputs, n_rows = moment.shape[-2:]
    together = net.outputs.n_noise < n_outputs  # one noise for all outputs
    axes = (-2, -1) if together else -1
    mean = np.add.reduce(moment, axis=axes, keepdims=True)
    total: Any = n_rows if weight is None else _total(weight, -1)
    if observed_weight is None:
        mean /= n_rows * n_outputs if together else n_rows
    else:
        observed = _total(observed_weight, axes)
        if together:
            observed *= n_outputs // observed_weight.shape[-2]  # one weight for all outputs
        else:
            total = observed
        mean /= np.where(observed > 0, observed, 1)
    net.rows_learned += total
    step = pace(total, np.minimum(net.rows_learned, memory))
    mean -= net.noise_var
    mean *= step
    mean += net.noise_var
    net.noise_var[...] = bounded_noise(mean)


def _total(weight: np.ndarray, axes: Any) -> np.ndarray:
    return weight.sum(axis=axes, keepdims=True, dtype=np.float64)


def pace(total: Any, rows_learned: np.ndarray) -> np.ndarray:
    """Return the step for rows of weight ``total``, after ``rows_learned`` with them.

    A step of n^-0.6 forgets the poor noise of the first batches, and still averages.
    """
    return (total / np.maximum(np.maximum(rows_learned, total), 1)) ** 0.6


def memory_of(half_life: float | None, rows_learned: np.ndarray, streamed: float) -> float:
    """Return the weight of the rows that learned noise remembers after ``streamed`` rows.

    That is some half-lives; a longer past fades once as many rows were streamed.
    """
    if half_life is None:
        return np.inf
    left = 2.0 ** -max(streamed / half_life - MEMORY, 0)
    return MEMORY * half_life + left * float(rows_learned.max())


def share_left(
    net: Reported,
    noise_before: np.ndarray,
    rows_before: np.ndarray,
    totals: np.ndarray,
    memory: float = np.inf,
) -> np.ndarray:
    """Return the share of the noise (n_noise, 1) that was there before some batches.

    ``noise_before`` and ``rows_before`` are ``noise_var`` and ``rows_learned`` of then, ``totals``
    (n_noise, batches) the weights in each batch that observe a target.
    """
    rows = rows_before + np.cumsum(totals, axis=-1, dtype=np.float64)
    steps = pace(totals, np.minimum(rows, memory))
    kept = (1 - steps).prod(axis=-1, keepdims=True)  # (members, n_noise, 1)
    left = (kept * noise_before).mean(axis=0) / net.noise_var.mean(axis=0)
    return np.minimum(left, 1)


# Search for the noise that maximises a likelihood


def search_noise(
    score: Callable[[np.ndarray], np.ndarray], noise_var: np.ndarray, reach: float = REACH
) -> tuple[np.ndarray, np.ndarray]:
    """Return the noise variance (..., n_noise, 1) with the best score, and its score (..., n).

    A grid over standard deviations up to ``reach`` times the current one or below, refined twice:
    ``score`` takes variances (..., grid, n_noise, 1) and gives (..., grid, n).
    """
    center = 0.5 * np.log(noise_var)
    width = np.log(reach)
    for _ in range(3):
        grid = center[..., None, :, :] + np.linspace(-width, width, 17)[:, None, None]
        scores = score(bounded_noise(np.exp(2 * grid)))
        top = scores.argmax(axis=-2)[..., None, :]
        center = np.take_along_axis(grid[..., 0], top, axis=-2).swapaxes(-1, -2)
        width /= 8
    best = bounded_noise(np.exp(2 * center))
    return best, np.take_along_axis(scores, top, axis=-2)[..., 0, :]


def trust(n_rows: np.ndarray) -> np.ndarray:
    """Return how far the noise that ``n_rows`` held-out rows speak for is trusted, from 0 to 1."""
    share = np.square(n_rows / ROWS_FOR_NOISE)
    return share / (1 + share)


def trusted_noise(found: np.ndarray, learned: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return the noise (..., n_noise, 1) that ``n_rows`` (..., n_noise) held-out rows ``found``.

    Of few rows little is trusted, and the noise stays near what was ``learned``.
    """
    share = trust(n_rows)[..., None]
    return np.exp(share * np.log(found) + (1 - share) * np.log(learned))


def best_on_grid(scores: np.ndarray, noise_var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``search_noise`` would, from scores (..., factors, n) of ``NOISE_FACTORS``.

    For rows that are elsewhere, and are asked only once: the top of the parabola through the best
    point of the grid and its neighbours.
    """
    place = np.clip(scores.argmax(axis=-2)[..., None, :], 1, scores.shape[-2] - 2)
    below, here, above = (np.take_along_axis(scores, place + k, axis=-2) for k in (-1, 0, 1))
    curvature = np.minimum(below - 2 * here + above, -np.finfo(np.float64).tiny)
    offset = np.clip(0.5 * (below - above) / curvature, -1, 1)
    step = np.log(NOISE_FACTORS[1] / NOISE_FACTORS[0])
    factor = np.square(NOISE_FACTORS[place] * np.exp(step * offset))
    top = here - 0.25 * (below - above) * offset
    return bounded_noise(noise_var * factor.swapaxes(-1, -2)), top[..., 0, :]


def scores_on_grid(scores: np.ndarray, noise_ratio: np.ndarray) -> np.ndarray:
    """Return scores (..., n) of a noise variance: those (..., factors, n) of the grid in between.

    ``noise_ratio`` (..., n) is the variance over the one that the factors belong to.
    """
    step = np.log(NOISE_FACTORS[1] / NOISE_FACTORS[0])
    place = 0.5 * np.log(noise_ratio) / step + len(NOISE_FACTORS) // 2
    place = np.clip(place, 0, len(NOISE_FACTORS) - 1)[..., None, :]
    below = np.minimum(place.astype(int), len(NOISE_FACTORS) - 2)
    low, high = (np.take_along_axis(scores, below + k, axis=-2) for k in (0, 1))
    return (low + (place - below) * (high - low))[..., 0, :]
