"""Scores of Gaussian predictions: functions of targets, means and standard deviations.

With several targets, the log-likelihood of a row is the sum over its targets. The other scores are
means over the targets, in the targets' units.

NaN in some of several targets means "not observed". Each target is then scored by the rows in which
it was observed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, ndtr, ndtri
from sklearn.utils import check_array, check_consistent_length

from .._input import check_coverage, check_targets, check_weight
from ..engine.observations import log_density_of_std

__all__ = [
    "calibration_error",
    "check_predictions",
    "gaussian_crps",
    "gaussian_log_likelihood",
    "interval_coverage",
    "interval_score",
    "needed_coverage",
    "probability_integral_transform",
]


def gaussian_log_likelihood(
    y_true: ArrayLike, mean: ArrayLike, std: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the mean log density of targets under Gaussian predictions.

    Greater is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    log_likelihood : float
        Mean over the rows; the log density of a row is the sum over its observed targets.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.metrics import gaussian_log_likelihood
    >>> round(gaussian_log_likelihood([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]), 4)
    -0.8224

    Two targets, the second of which was not observed in the first row:

    >>> y = [[0.0, np.nan], [1.0, 2.0]]
    >>> round(gaussian_log_likelihood(y, np.zeros((2, 2)), np.ones((2, 2))), 4)
    -2.6284
    """
    y, mu, sigma, weight = check_predictions(y_true, mean, std, sample_weight)
    log_lik = np.where(np.isnan(y), 0, log_density_of_std(y, mu, sigma))
    return float(np.average(log_lik.sum(axis=1), weights=weight))


def gaussian_crps(
    y_true: ArrayLike, mean: ArrayLike, std: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the mean continuous ranked probability score (CRPS) of Gaussian predictions.

    Smaller is better. The score is the integral over t of ``(P(y < t) - [y_true < t])**2``, in
    closed form. It has the unit of the target, and tends to the absolute error as the standard
    deviation tends to zero. Outliers weigh less in it than in the log-likelihood.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    crps : float
        Mean over the observed rows of each target, then over the targets. A target that was never
        observed is left out.

    References
    ----------
    T. Gneiting, A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation",
    Journal of the American Statistical Association 102, 2007.

    Examples
    --------
    >>> from sktagi.metrics import gaussian_crps
    >>> round(gaussian_crps([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]), 4)
    0.2675
    """
    y, mu, sigma, weight = check_predictions(y_true, mean, std, sample_weight)
    z = (y - mu) / sigma
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    crps = sigma * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))
    return _average(crps, y, weight)


def interval_coverage(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    coverage: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the share of targets inside their central interval.

    If the model is calibrated, the share is about ``coverage``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    coverage : float, default=0.9
        Nominal coverage: the probability that the interval should contain the target.

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
    """
    coverage = check_coverage(coverage)
    y, mu, sigma, weight = check_predictions(y_true, mean, std, sample_weight)
    inside = np.abs(y - mu) <= ndtri((1 + coverage) / 2) * sigma
    return _average(inside, y, weight)


def interval_score(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
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

    mean, std : array-like, same shape
        Predictive means and standard deviations.

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
    """
    coverage = check_coverage(coverage)
    y, mu, sigma, weight = check_predictions(y_true, mean, std, sample_weight)
    half_width = ndtri((1 + coverage) / 2) * sigma
    outside = np.maximum(np.abs(y - mu) - half_width, 0)
    score = 2 * half_width + 2 / (1 - coverage) * outside
    return _average(score, y, weight)


def probability_integral_transform(
    y_true: ArrayLike, mean: ArrayLike, std: ArrayLike
) -> np.ndarray:
    """Compute the cumulative probability of each target under its prediction (PIT).

    If the model is calibrated, the values are uniform between 0 and 1. Their histogram shows what
    is wrong otherwise: a peak in the middle means that the std is too large, peaks at both ends
    that it is too small, a slope that the mean is biased.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    Returns
    -------
    pit : ndarray, same shape as mean
        ``P(y <= y_true)``, and NaN where the target was not observed.

    Examples
    --------
    >>> from sktagi.metrics import probability_integral_transform
    >>> probability_integral_transform([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]).round(4)
    array([0.5   , 0.8413])
    """
    shape = np.shape(mean)
    y, mu, sigma, _ = check_predictions(y_true, mean, std)
    return ndtr((y - mu) / sigma).reshape(shape)


def calibration_error(
    y_true: ArrayLike, mean: ArrayLike, std: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the mean difference between observed and nominal coverage of central intervals.

    The error is the integral, over nominal coverages from 0 to 1, of the absolute difference
    between observed and nominal coverage: the area between the two lines of
    :class:`sktagi.plotting.IntervalCalibrationDisplay`. It is 0 for perfect calibration and 0.5 at
    worst. A calibrated model has an error of about ``0.31 / sqrt(n_samples)`` by chance.

    The error does not tell how sharp the predictions are: use it together with a proper score such
    as the CRPS.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the observed coverage.

    Returns
    -------
    error : float
        Mean over the targets of the error of each, so that an overconfident target does not cancel
        an underconfident one. A target that was never observed is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.metrics import calibration_error
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> zero, one = np.zeros(1000), np.ones(1000)
    >>> [round(calibration_error(y, zero, std), 2) for std in (one, one / 2, one * 2)]
    [0.01, 0.2, 0.21]
    """
    y, mu, sigma, weight = check_predictions(y_true, mean, std, sample_weight)
    needed = needed_coverage(y, mu, sigma)
    each = [_area_to_diagonal(needed[rows, k], weight[rows]) for k, rows in _observed(y, weight)]
    return float(np.mean(each))


def needed_coverage(y_true: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return the coverage of the narrowest central interval that contains each target."""
    return erf(np.abs(y_true - mean) / (np.sqrt(2) * std))


def _area_to_diagonal(needed: np.ndarray, weight: np.ndarray) -> float:
    """Integrate |F(p) - p| over p from 0 to 1; F is the weighted distribution of ``needed``."""
    order = np.argsort(needed)
    observed = np.append(0, np.cumsum(weight[order]) / weight.sum())  # constant between edges
    edges = np.concatenate([[0], needed[order], [1]])
    end, start = edges[1:] - observed, edges[:-1] - observed
    return float((end * np.abs(end) - start * np.abs(start)).sum() / 2)


def _average(score: np.ndarray, y_true: np.ndarray, weight: np.ndarray) -> float:
    """Average a score over the observed rows of each target, then over the targets."""
    if not np.isnan(y_true).any():
        # The order of the two means does not matter here, and this one makes no copies.
        return float(np.average(score.mean(axis=1), weights=weight))
    each = [
        np.average(score[rows, k], weights=weight[rows]) for k, rows in _observed(y_true, weight)
    ]
    return float(np.mean(each))


def _observed(y_true: np.ndarray, weight: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """List the targets that were observed with a positive weight, and the rows of each."""
    rows_of_targets = enumerate(~np.isnan(y_true).T)
    return [(k, rows) for k, rows in rows_of_targets if weight[rows].any()]


def check_predictions(
    y_true: ArrayLike, mean: ArrayLike, std: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return targets, means and stds of shape (n, n_targets), and weights of shape (n,).

    All are finite, but for targets that were not observed: these are NaN.
    """
    mu, sigma = (
        check_array(_at_least_1d(values), ensure_2d=False, dtype=np.float64, input_name=name)
        for name, values in (("mean", mean), ("std", std))
    )
    check_consistent_length(_at_least_1d(y_true), mu, sigma)
    weight = check_weight(sample_weight, len(mu))
    y = check_targets(y_true, "y_true", weight)
    if mu.shape != sigma.shape or y.size != mu.size:
        raise ValueError(
            "y_true, mean and std must have the same shape; "
            f"got {y.shape}, {mu.shape} and {sigma.shape}."
        )
    if (sigma <= 0).any():
        raise ValueError(f"std must be positive; the smallest given is {sigma.min():g}.")
    columns = (len(mu), -1)
    return y.reshape(columns), mu.reshape(columns), sigma.reshape(columns), weight


def _at_least_1d(values: ArrayLike) -> ArrayLike:
    """Return a number as an array, and anything else as it is.

    scikit-learn reads missing values of a frame (``pandas.NA``); NumPy does not.
    """
    return values if np.ndim(values) else np.atleast_1d(values)
