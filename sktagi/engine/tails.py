"""The tails of the errors: quantiles that are not those of a Gaussian.

A predictive distribution is known by its mean and standard deviation, and by the shares of errors
that lie outside central intervals: ``tails``, one for each of ``TAILS``, the shares that a Gaussian
of the same standard deviation has outside. They are symmetric and the same for all rows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

__all__ = ["TAILS", "blend_tails", "gaussian_tails", "standard_quantiles", "sum_outside"]

# Half widths of the intervals, in standard deviations: a step is at most 8 % of a Gaussian, and in
# the tails about a third of what is left outside.
WIDTHS = np.linspace(0, 4, 41)
TAILS = np.append(0, 2 * ndtr(-WIDTHS[::-1]))  # ascending, from an infinite interval to none
# Rows of a Gaussian that count beside those seen: few rows change little.
PRIOR_ROWS = 20.0


def gaussian_tails(n_outputs: int) -> np.ndarray:
    """Return the tails of Gaussian errors, (levels, n_outputs)."""
    return np.repeat(TAILS[:, None], n_outputs, axis=1)


def sum_outside(z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum the weight of standardised errors z (n_outputs, rows) outside each interval.

    Returns (levels, n_outputs), in the order of ``TAILS``. NaN is an error that is not known.
    """
    # An interval of no width leaves everything outside, an error of zero too.
    place = np.maximum(np.searchsorted(WIDTHS, np.abs(z)), 1)
    sums = np.zeros((len(TAILS), len(z)))
    for total, where, known in zip(sums.T, place, ~np.isnan(z), strict=True):
        counts = np.bincount(where[known], weight[known], len(TAILS))
        total[1:] = np.cumsum(counts[:0:-1])
    return sums


def blend_tails(outside: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return shares outside (levels, n_outputs), of ``n_rows`` (n_outputs,) and of the prior.

    They are strictly increasing.
    """
    shares = outside / np.where(outside[-1] > 0, outside[-1], 1)
    return (n_rows * shares + PRIOR_ROWS * TAILS[:, None]) / (n_rows + PRIOR_ROWS)


def standard_quantiles(tails: np.ndarray | None, quantiles: np.ndarray) -> np.ndarray:
    """Return quantiles (n_outputs, n) in standard deviations; of a Gaussian (1, n)."""
    if tails is None:
        return ndtri(quantiles)[None]
    outside = 2 * np.minimum(quantiles, 1 - quantiles)
    nominal = np.stack([np.interp(outside, seen, TAILS) for seen in tails.T])
    nominal = np.maximum(nominal, np.finfo(np.float64).tiny)
    return np.sign(quantiles - 0.5) * -ndtri(nominal / 2)
