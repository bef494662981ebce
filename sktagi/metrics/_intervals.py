"""Scores of intervals: coverage and interval score."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc

from .._input import check_coverage
from ._predictions import Distribution, Gaussian, average, check_arrays, predictions

__all__ = ["Ends", "ends_of", "interval_coverage", "interval_score"]

# Evidence that what was given as mean and std are the ends of an interval, in nats
REFUSED = np.log(100)
DOUBTFUL = np.log(4)
NEARER = 0.6  # share of targets nearer to the middle than to the mean, if that is somewhat wrong
TYPICAL_ERROR = 0.67  # median of |y - mean| / std for a Gaussian


class Ends(NamedTuple):
    """Targets beside the ends of their intervals, all of shape (n, n_targets); weights (n,)."""

    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray


def interval_coverage(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None = None,
    std: ArrayLike | None = None,
    *,
    dist: Distribution | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    coverage: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the share of targets inside their central interval.

    If the model is calibrated, the share is about ``coverage``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape, default=None
        Predictive means and standard deviations. A distribution may stand in the place of ``mean``.

    dist : distribution, default=None
        Predictive distributions of the same shape in the place of ``mean`` and ``std``, as one
        object with the methods of SciPy's frozen distributions.

    lower, upper : array-like, same shape, default=None
        Ends of the intervals in the place of ``mean`` and ``std``, only by name. Given by position,
        they would be taken for mean and std: what looks like it is refused, or warned of if there
        are only a few rows.

    coverage : float, default=0.9
        Nominal coverage: the probability that the interval should contain the target. Given ends
        are what they are, whatever their coverage.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the share.

    Returns
    -------
    share : float
        Share of the observed rows of each target, averaged over the targets; between 0 and 1. A
        target that was never observed is left out.

    Examples
    --------
    >>> from sktagi.metrics import interval_coverage
    >>> interval_coverage([0.0, 1.0, 2.0, 9.0], [0.0] * 4, [1.5] * 4, coverage=0.9)
    0.75

    Ends of intervals, as ``predict_interval`` returns them:

    >>> interval_coverage([100.0, 130.0], lower=[80.0, 90.0], upper=[120.0, 125.0])
    0.5

    A distribution:

    >>> from scipy.stats import t
    >>> interval_coverage([0.0, 1.0, 2.0, 9.0], t(3, [0.0] * 4, 1.0), coverage=0.9)
    0.75
    """
    ends = ends_of(y_true, mean, std, dist, lower, upper, coverage, sample_weight)
    inside = (ends.lower <= ends.y) & (ends.y <= ends.upper)
    return average(inside, ends.y, ends.weight)


def interval_score(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None = None,
    std: ArrayLike | None = None,
    *,
    dist: Distribution | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    coverage: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the mean interval score (Winkler score) of central intervals.

    Smaller is better. The score is the width of the interval, plus ``2 / (1 - coverage)`` times the
    distance by which the target lies outside. It rewards narrow intervals that contain the target.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape, default=None
        Predictive means and standard deviations. A distribution may stand in the place of ``mean``.

    dist : distribution, default=None
        Predictive distributions of the same shape in the place of ``mean`` and ``std``, as one
        object with the methods of SciPy's frozen distributions.

    lower, upper : array-like, same shape, default=None
        Ends of the intervals in the place of ``mean`` and ``std``, only by name. Given by position,
        they would be taken for mean and std: what looks like it is refused, or warned of if there
        are only a few rows.

    coverage : float, default=0.9
        Nominal coverage: the probability that the interval should contain the target.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    score : float
        Mean over the observed rows of each target, then over the targets, in the targets' unit. A
        target that was never observed is left out.

    References
    ----------
    T. Gneiting, A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation",
    Journal of the American Statistical Association 102, 2007, section 6.2.

    Examples
    --------
    >>> from sktagi.metrics import interval_score
    >>> round(interval_score([0.0, 3.0], [0.0, 0.0], [1.0, 1.0], coverage=0.9), 4)
    16.8412
    >>> interval_score([100.0, 130.0], lower=[80.0, 90.0], upper=[120.0, 125.0], coverage=0.5)
    47.5
    """
    ends = ends_of(y_true, mean, std, dist, lower, upper, coverage, sample_weight)
    outside = np.maximum(np.maximum(ends.lower - ends.y, ends.y - ends.upper), 0)
    score = ends.upper - ends.lower + 2 / (1 - coverage) * outside
    return average(score, ends.y, ends.weight)


def ends_of(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None,
    std: ArrayLike | None,
    dist: Distribution | None,
    lower: ArrayLike | None,
    upper: ArrayLike | None,
    coverage: float,
    sample_weight: ArrayLike | None,
) -> Ends:
    """Return targets beside given ends, or the ends of the central intervals of a distribution."""
    coverage = check_coverage(coverage)
    if lower is None and upper is None:
        given = predictions(y_true, mean, std, dist, sample_weight)
        if std is not None and isinstance(given.dist, Gaussian):
            _refuse_ends(given.y, given.dist.mean(), given.dist.std())
        return Ends(given.y, *given.interval(coverage), given.weight)
    if lower is None or upper is None:
        raise ValueError("Give both ends of the intervals: lower and upper.")
    if not mean is std is dist is None:
        raise ValueError("Give either lower and upper or mean and std or a distribution.")
    y, low, high, weight = check_arrays(y_true, lower, upper, ("lower", "upper"), sample_weight)
    if (low > high).any():
        row = np.argwhere(low > high)[0, 0]
        raise ValueError(f"lower must not exceed upper; it does in row {row}.")
    return Ends(y, low, high, weight)


def _refuse_ends(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    """Refuse ends of intervals that were given by position, where mean and std are expected.

    A few rows can be either: a warning says so.
    """
    evidence = _evidence_of_ends(y, mean, std)
    if evidence <= DOUBTFUL:
        return
    message = (
        "The arrays given as mean and std look like the ends of intervals: the targets lie around "
        "the middle between the two. Write lower=..., upper=... for ends of intervals, and "
        "scipy.stats.norm(mean, std) in the place of both if they are mean and std."
    )
    if evidence > REFUSED:
        raise ValueError(message)
    warnings.warn(message, UserWarning, stacklevel=4)


def _evidence_of_ends(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """Return the evidence that these are the ends of intervals and not mean and std, in nats.

    There is none if some std is smaller than its mean, nor if targets are outside of the intervals
    and errors exceed the std: then neither reading is a good one. Otherwise, most targets are
    nearer to the middle of an interval than to its lower end, but no more than half are nearer to
    the middle between mean and std than to the mean, unless the mean is wrong by a large part of
    the std. Many rows are told apart by this share alone, a few by how near their targets are,
    under Cauchy densities: intervals may be too small.
    """
    if (std < mean).any():
        return -np.inf
    seen = ~np.isnan(y)
    y, mean, std = y[seen], mean[seen], std[seen]
    inside = np.mean((mean <= y) & (y <= std))
    if inside <= 0.5 and np.median(np.abs(y - mean) / std) > TYPICAL_ERROR:
        return -np.inf
    middle = (mean + std) / 2
    nearer = np.count_nonzero(np.abs(y - middle) < np.abs(y - mean))
    if nearer <= len(y) / 2:
        return -np.inf
    # The bound keeps a target that equals mean and std from deciding alone.
    half_width = np.maximum((std - mean) / 2, 0.05 * std)
    scale = np.maximum(std, half_width)  # a std that is too small is no evidence
    by_distance = np.sum(_log_cauchy(y, middle, half_width / 2) - _log_cauchy(y, mean, scale / 2))
    with np.errstate(divide="ignore"):
        by_share = -np.log(bdtrc(nearer - 1, len(y), NEARER))
    return float(max(by_distance, by_share))


def _log_cauchy(y: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return log densities of Cauchy distributions, up to a constant."""
    return -np.log(scale) - np.log1p(np.square((y - centre) / scale))
