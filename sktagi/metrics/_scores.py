"""Proper scores of whole distributions: log score, CRPS and pinball loss."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from .._input import check_probabilities
from ._predictions import (
    Distribution,
    Gaussian,
    Predictions,
    average,
    check_predictions,
    check_quantiles,
    is_distribution,
    predictions,
)

__all__ = ["crps", "gaussian_crps", "gaussian_log_likelihood", "log_score", "pinball_loss"]

# The squared difference of two distribution functions is integrated between these quantiles and the
# target. It is smooth in between, and what lies beyond is of the order of 1e-10.
TAIL = np.array([1e-5, 1e-3, 0.01, 0.05, 0.15, 0.3])
LEVELS = np.concatenate([TAIL, [0.5], 1 - TAIL[::-1]])
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(6)


def log_score(
    y_true: ArrayLike, dist: Distribution, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the mean log density of targets under predictive distributions.

    Greater is better. A target that its distribution excludes makes the score minus infinity.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    dist : distribution
        Predictive distributions of the same shape, as one object with the methods of SciPy's frozen
        distributions: ``predict_dist``, ``scipy.stats.norm(mean, std)`` and others.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    score : float
        Mean over the rows; the log density of a row is the sum over its observed targets.

    Examples
    --------
    >>> from scipy.stats import norm, t
    >>> from sktagi.metrics import log_score
    >>> y = [0.0, 1.0, 9.0]
    >>> round(log_score(y, norm([0.0, 0.5, 2.0], 1.0)), 2)
    -9.13
    >>> round(log_score(y, t(3, [0.0, 0.5, 2.0], 1.0)), 2)
    -2.96
    """
    return _log_score(predictions(y_true, None, None, _distribution(dist), sample_weight))


def crps(
    y_true: ArrayLike,
    dist: Distribution | ArrayLike,
    *,
    quantiles: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the mean continuous ranked probability score (CRPS) of predictive distributions.

    Smaller is better. The score is the integral over t of ``(P(y < t) - [y_true < t])**2``. It has
    the unit of the target, and is the absolute error of a prediction without spread. Outliers weigh
    less in it than in the log score.

    It is integrated numerically, with a relative error below 1e-6 for most smooth distributions and
    about 1e-3 for narrow peaks far from each other; ``scipy.stats.norm`` has a closed form.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    dist : distribution, or array-like of predicted quantiles
        Predictive distributions of the same shape, as one object with the methods of SciPy's frozen
        distributions. With ``quantiles``: what ``predict_quantiles`` returns, of shape
        ``(n_samples, n_quantiles)`` or ``(n_samples, n_targets, n_quantiles)``.

    quantiles : array-like of shape (n_quantiles,), default=None
        Probabilities of predicted quantiles. The score is then twice their mean
        :func:`pinball_loss`, which tends to the CRPS of the distribution if they are many and
        evenly spaced.

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
    >>> import numpy as np
    >>> from scipy.stats import gamma
    >>> from sktagi.metrics import crps
    >>> y = [1.0, 2.0, 7.0]
    >>> dist = gamma([2.0, 3.0, 4.0])
    >>> round(crps(y, dist), 3)
    1.034

    Quantiles of the same predictions, as ``predict_quantiles`` gives them:

    >>> levels = np.arange(0.05, 1, 0.1)
    >>> round(crps(y, dist.ppf(levels[:, None]).T, quantiles=levels), 3)
    1.041
    """
    if quantiles is not None:
        if is_distribution(dist):
            raise ValueError("quantiles are given with predicted quantiles, not a distribution.")
        return 2 * pinball_loss(y_true, dist, quantiles, sample_weight=sample_weight)
    given = predictions(y_true, None, None, _distribution(dist), sample_weight)
    return average(_crps(given), given.y, given.weight)


def pinball_loss(
    y_true: ArrayLike,
    predicted_quantiles: ArrayLike | Distribution,
    quantiles: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the mean pinball loss of predicted quantiles.

    Smaller is better. The loss of the quantile of probability q is ``q * (y - quantile)`` if the
    target y lies above it, and ``(1 - q) * (quantile - y)`` otherwise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    predicted_quantiles : array-like, or distribution
        What ``predict_quantiles`` returns, of shape ``(n_samples, n_quantiles)`` or
        ``(n_samples, n_targets, n_quantiles)``; or predictive distributions of the shape of
        ``y_true``, as one object with the methods of SciPy's frozen distributions.

    quantiles : float or array-like of shape (n_quantiles,)
        Probabilities of the quantiles.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        Mean over the quantiles, over the observed rows of each target and over the targets. A
        target that was never observed is left out.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from sktagi.metrics import pinball_loss
    >>> pinball_loss([1.0, 5.0], [[0.0, 2.0], [2.0, 4.0]], [0.25, 0.75])
    0.5
    >>> round(pinball_loss([1.0, 5.0], norm([1.0, 3.0], 1.5), [0.05, 0.95]), 4)
    0.1234
    """
    if is_distribution(predicted_quantiles):
        given = predictions(y_true, predicted_quantiles, None, None, sample_weight)
        levels = check_probabilities(quantiles, "quantiles")
        loss = np.zeros(given.y.shape)
        for level in levels:
            loss += _pinball(given.y, given.give("ppf", level), level) / len(levels)
        return average(loss, given.y, given.weight)
    y, values, levels, weight = check_quantiles(
        y_true,
        predicted_quantiles,  # type: ignore[arg-type]
        quantiles,
        sample_weight,
    )
    return average(_pinball(y[..., None], values, levels).mean(axis=-1), y, weight)


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
    return _log_score(predictions(y_true, mean, std, None, sample_weight))


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
    return average(_crps_of_gaussian(y, mu, sigma), y, weight)


def _distribution(dist: object) -> Distribution:
    """Return a distribution; refuse anything else."""
    if not is_distribution(dist):
        raise ValueError(
            "dist must be a distribution with SciPy's methods mean, std, logpdf, cdf, ppf and "
            f"interval; got {type(dist).__name__}. Means and standard deviations make one: "
            "scipy.stats.norm(mean, std)."
        )
    return dist


def _log_score(given: Predictions) -> float:
    """Average the log densities of the rows, each of which is a sum over observed targets."""
    log_density = np.where(np.isnan(given.y), 0, given.at_targets("logpdf"))
    return float(np.average(log_density.sum(axis=1), weights=given.weight))


def _crps(given: Predictions) -> np.ndarray:
    """Return the CRPS of each target, (n, n_targets); finite where it was not observed, too.

    It takes one node after the other, for all rows: memory does not grow with the nodes.
    """
    y = given.filled()
    if isinstance(given.dist, Gaussian):
        return _crps_of_gaussian(y, given.give("mean"), given.give("std"))
    edges = np.sort([*(given.give("ppf", level) for level in LEVELS), y], axis=0)
    total = np.zeros(y.shape)
    for low, high in pairwise(edges):
        middle, half = (low + high) / 2, (high - low) / 2
        for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
            t = middle + node * half
            total += weight * half * np.square(given.at("cdf", t) - (t > y))
    return total


def _crps_of_gaussian(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    z = (y - mean) / std
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    return std * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))


def _pinball(y: np.ndarray, quantile: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the pinball loss of each quantile; NaN where the target was not observed."""
    return np.maximum(level * (y - quantile), (level - 1) * (y - quantile))
