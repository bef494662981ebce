"""Scores of Gaussian predictions: functions of targets, means and standard deviations.

With several targets, the log-likelihood of a row is that of all its targets together (a sum); the
other scores are means over the targets, in the targets' units.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf, ndtr, ndtri
from sklearn.utils import check_array, check_consistent_length

from .._validation import check_coverage, check_weight
from ..engine.gaussian import log_density_of_std

__all__ = [
    "calibration_error",
    "gaussian_crps",
    "gaussian_log_likelihood",
    "interval_coverage",
    "interval_score",
    "probability_integral_transform",
]


def gaussian_log_likelihood(y_true, mean, std, *, sample_weight=None) -> float:
    """Mean log density of targets under Gaussian predictions; greater is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    log_likelihood : float
        The mean over the rows; a row's density is that of all its targets.

    Examples
    --------
    >>> from sktagi.metrics import gaussian_log_likelihood
    >>> round(gaussian_log_likelihood([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]), 4)
    -0.8224
    """
    y_true, mean, std, weight = check_predictions(y_true, mean, std, sample_weight)
    log_lik = log_density_of_std(y_true, mean, std)
    return float(np.average(log_lik.sum(axis=1), weights=weight))


def gaussian_crps(y_true, mean, std, *, sample_weight=None) -> float:
    """Mean continuous ranked probability score of Gaussian predictions; smaller is better.

    It is the integral over t of ``(P(y < t) - [y_true < t])**2``, in closed form. Its unit is that
    of the target: for a prediction without spread it is the absolute error. Far-off targets weigh
    less in it than in the log-likelihood.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    crps : float
        The mean over rows and targets.

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
    y_true, mean, std, weight = check_predictions(y_true, mean, std, sample_weight)
    z = (y_true - mean) / std
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    crps = std * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))
    return float(np.average(crps.mean(axis=1), weights=weight))


def interval_coverage(y_true, mean, std, *, coverage=0.9, sample_weight=None) -> float:
    """Share of targets inside their central interval; calibrated is ``coverage``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    coverage : float, default=0.9
        Nominal coverage: the probability that the interval is said to hold.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the share.

    Returns
    -------
    share : float
        Between 0 and 1; the mean over the targets.

    Examples
    --------
    >>> from sktagi.metrics import interval_coverage
    >>> interval_coverage([0.0, 1.0, 2.0, 9.0], [0.0] * 4, [1.5] * 4, coverage=0.9)
    0.75
    """
    coverage = check_coverage(coverage)
    y_true, mean, std, weight = check_predictions(y_true, mean, std, sample_weight)
    inside = np.abs(y_true - mean) <= ndtri((1 + coverage) / 2) * std
    return float(np.average(inside.mean(axis=1), weights=weight))


def interval_score(y_true, mean, std, *, coverage=0.9, sample_weight=None) -> float:
    """Mean interval score (Winkler score) of central intervals; smaller is better.

    The width of the interval, plus ``2 / (1 - coverage)`` times the distance by which the target
    lies outside. It rewards intervals that are narrow and yet hold what they promise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    coverage : float, default=0.9
        Nominal coverage: the probability that the interval is said to hold.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    score : float
        The mean over rows and targets, in the targets' unit.

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
    y_true, mean, std, weight = check_predictions(y_true, mean, std, sample_weight)
    half_width = ndtri((1 + coverage) / 2) * std
    outside = np.maximum(np.abs(y_true - mean) - half_width, 0)
    score = 2 * half_width + 2 / (1 - coverage) * outside
    return float(np.average(score.mean(axis=1), weights=weight))


def probability_integral_transform(y_true, mean, std) -> np.ndarray:
    """Cumulative probability of each target under its prediction (PIT).

    Of a calibrated model they are uniform between 0 and 1; a histogram shows more: a heap in the
    middle means that the std is too large, heaps at both ends that it is too small, a slope that
    the mean is biased.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    Returns
    -------
    pit : ndarray, same shape as mean
        ``P(y <= y_true)``.

    Examples
    --------
    >>> from sktagi.metrics import probability_integral_transform
    >>> probability_integral_transform([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]).round(4)
    array([0.5   , 0.8413])
    """
    shape = np.shape(mean)
    y_true, mean, std, _ = check_predictions(y_true, mean, std)
    return ndtr((y_true - mean) / std).reshape(shape)


def calibration_error(y_true, mean, std, *, sample_weight=None) -> float:
    """Mean difference between observed and nominal coverage of central intervals.

    The integral, over nominal coverages from 0 to 1, of the absolute difference between the
    coverage observed and the nominal one: the area between the two lines of
    :class:`sktagi.plotting.IntervalCalibrationDisplay`. 0 is calibrated, 0.5 is the worst. Of a
    calibrated model it is about ``0.31 / sqrt(n_samples)``, by chance. It does not see how sharp
    predictions are: read it beside a proper score such as the CRPS.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the observed coverage.

    Returns
    -------
    error : float
        The mean over the targets, each with an error of its own: one that is too sure does not
        make up for one that is not sure enough.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.metrics import calibration_error
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> zero, one = np.zeros(1000), np.ones(1000)
    >>> [round(calibration_error(y, zero, std), 2) for std in (one, one / 2, one * 2)]
    [0.01, 0.2, 0.21]
    """
    y_true, mean, std, weight = check_predictions(y_true, mean, std, sample_weight)
    needed = needed_coverage(y_true, mean, std)
    return float(np.mean([_area_to_diagonal(column, weight) for column in needed.T]))


def needed_coverage(y_true, mean, std) -> np.ndarray:
    """Coverage of the narrowest central interval that holds each target."""
    return erf(np.abs(y_true - mean) / (np.sqrt(2) * std))


def _area_to_diagonal(needed: np.ndarray, weight: np.ndarray) -> float:
    """Integral over p from 0 to 1 of |F(p) - p|, F the weighted distribution of ``needed``."""
    order = np.argsort(needed)
    observed = np.append(0, np.cumsum(weight[order]) / weight.sum())  # constant between edges
    edges = np.concatenate([[0], needed[order], [1]])
    end, start = edges[1:] - observed, edges[:-1] - observed
    return float((end * np.abs(end) - start * np.abs(start)).sum() / 2)


def check_predictions(y_true, mean, std, sample_weight=None):
    """Finite arrays (n, n_targets) and weights (n,)."""
    y_true, mean, std = (
        check_array(np.atleast_1d(values), ensure_2d=False, dtype=np.float64, input_name=name)
        for name, values in (("y_true", y_true), ("mean", mean), ("std", std))
    )
    check_consistent_length(y_true, mean, std)
    if mean.shape != std.shape or y_true.size != mean.size:
        raise ValueError(
            "y_true, mean and std must have the same shape; "
            f"got {y_true.shape}, {mean.shape} and {std.shape}."
        )
    if (std <= 0).any():
        raise ValueError(f"std must be positive; the smallest given is {std.min():g}.")
    columns = (len(mean), -1)
    weight = check_weight(sample_weight, len(mean))
    return y_true.reshape(columns), mean.reshape(columns), std.reshape(columns), weight
